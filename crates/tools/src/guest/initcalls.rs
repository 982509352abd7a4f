//! Initcalls that a guest can do without.

use super::optimisations::INITCALL;

/// An initcall that is left out, and what is lost with it.
pub(super) struct Dispensable {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    pub(super) when: When,
}

/// Where an initcall can be done without.
#[derive(PartialEq)]
pub(super) enum When {
    Always,
    /// The machine type has no such hardware, or hides it.
    Bare,
    /// Modules are loaded without signatures anyway.
    Unsigned,
    /// Nothing in the guest has a policy for IMA, and nobody asks for it.
    Unmeasured,
}

const fn dispensable(name: &'static str, when: When, why: &'static str) -> Dispensable {
    Dispensable { name, why, when }
}

/// Initcalls that a guest can do without. None of these is a mitigation or a source of `/dev/random`.
pub(super) const DISPENSABLE: [Dispensable; 17] = [
    dispensable(
        "jent_mod_init",
        When::Always,
        "self-test of a noise source that only the crypto API's own generator would add",
    ),
    dispensable(
        "crypto_kdf108_init",
        When::Always,
        "self-test of a key derivation",
    ),
    dispensable("blake2s_mod_init", When::Always, "self-test of a hash"),
    dispensable(
        "init_encrypted",
        When::Always,
        "keys of type encrypted, for eCryptfs and sealed keys",
    ),
    dispensable(
        "snapshot_device_init",
        When::Always,
        "/dev/snapshot, for hibernation",
    ),
    dispensable(
        "slab_sysfs_init",
        When::Always,
        "/sys/kernel/slab, for debugging the allocator",
    ),
    dispensable(
        "vga_arb_device_init",
        When::Bare,
        "no graphics cards to arbitrate",
    ),
    dispensable(
        "trace_eval_init",
        When::Always,
        "names instead of numbers in the format files of trace events",
    ),
    dispensable(
        "ftrace_check_for_weak_functions",
        When::Always,
        "tidies the list of traceable functions; without it unused weak ones stay listed",
    ),
    dispensable(
        "bpf_tcp_ca_kfunc_init",
        When::Always,
        "kernel functions for TCP congestion control written in BPF",
    ),
    dispensable("bpf_dummy_struct_ops_init", When::Always, "a BPF self-test"),
    dispensable("i8042_init", When::Bare, "no keyboard or mouse to look for"),
    dispensable("hpet_init", When::Bare, "no HPET to offer as /dev/hpet"),
    dispensable(
        "cmos_init",
        When::Bare,
        "/dev/rtc; the kernel has read the time before",
    ),
    dispensable("add_rtc_cmos", When::Bare, "the same"),
    dispensable(
        "load_system_certificate_list",
        When::Unsigned,
        "keys for signatures of modules, which are left out as well; modules count as unsigned",
    ),
    dispensable(
        "init_ima",
        When::Unmeasured,
        "measurements of files (IMA), which nothing asks for without a policy",
    ),
];

/// Names of the initcalls that can be left out.
pub(crate) fn dispensable_initcalls() -> impl Iterator<Item = String> {
    DISPENSABLE
        .iter()
        .map(|call| format!("{INITCALL}{}", call.name))
}
