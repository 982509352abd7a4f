//! QEMU's options: which take an argument, how it is written, and what a repeated one means.
//!
//! From `qemu-options.hx` and `system/vl.c` of QEMU 10.0, with the options that older versions had.
//! A test asks the installed QEMU about each.

/// How the argument of an option is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// There is no argument.
    Flag,
    /// One text, such as a file.
    Text,
    /// `key=value` pairs. The first pair may leave out its key, which is then this one; empty if
    /// the first pair must have a key.
    Pairs(&'static str),
    /// As [`Syntax::Pairs`], or a JSON object.
    PairsOrJson(&'static str),
    /// A CPU model and features: `host,+x,-y,z=on`.
    Cpu,
}

/// What QEMU makes of an option that stands on the command line more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Each adds one more of its kind.
    Adds,
    /// The last one counts.
    Replaces,
    /// Their pairs are merged; of equal keys the last one counts.
    Merges,
}

/// An option of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Name without dashes; the longest of several spellings.
    pub name: &'static str,
    /// How its argument is written.
    pub syntax: Syntax,
    /// What repetition means.
    pub repeat: Repeat,
}

/// Spellings of one option.
const ALIASES: &[(&str, &str)] = &[("M", "machine"), ("h", "help")];

/// Options without an argument.
const FLAGS: &[&str] = &[
    "S",
    "alt-grab",
    "async-teardown",
    "audio-help",
    "ctrl-grab",
    "curses",
    "daemonize",
    "enable-fips",
    "enable-kvm",
    "enable-sync-profile",
    "full-screen",
    "help",
    "jitdump",
    "mem-prealloc",
    "no-acpi",
    "no-fd-bootchk",
    "no-frame",
    "no-hpet",
    "no-kvm",
    "no-kvm-irqchip",
    "no-kvm-pit",
    "no-kvm-pit-reinjection",
    "no-quit",
    "no-reboot",
    "no-shutdown",
    "no-user-config",
    "nodefaults",
    "nodefconfig",
    "nographic",
    "old-param",
    "only-migratable",
    "perfmap",
    "portrait",
    "preconfig",
    "s",
    "sdl",
    "semihosting",
    "show-cursor",
    "singlestep",
    "snapshot",
    "usb",
    "version",
    "win2k-hack",
    "xen-attach",
    "xen-create",
    "xen-domid-restrict",
];

/// Options with a text, of which the last one counts.
const TEXTS: &[&str] = &[
    "D",
    "append",
    "balloon",
    "bios",
    "chroot",
    "clock",
    "d",
    "dfilter",
    "dtb",
    "dump-vmstate",
    "echr",
    "g",
    // Of Proxmox VE.
    "id",
    "incoming",
    "initrd",
    "k",
    "kernel",
    "loadvm",
    "mem-path",
    "pidfile",
    "qtest",
    "qtest-log",
    "realtime",
    "rotate",
    "runas",
    "seed",
    "shim",
    "tb-size",
    "uuid",
    "vga",
    "watchdog",
    "watchdog-action",
    "writeconfig",
    "xen-domid",
];

/// Options with a text, each of which adds something.
const MORE_TEXTS: &[&str] = &[
    "L",
    "bt",
    "cdrom",
    "debugcon",
    "fda",
    "fdb",
    "gdb",
    "global",
    "hda",
    "hdb",
    "hdc",
    "hdd",
    "monitor",
    "mtdblock",
    "parallel",
    "pflash",
    "prom-env",
    "qmp",
    "qmp-pretty",
    "readconfig",
    "sd",
    "serial",
    "set",
    "soundhw",
    "usbdevice",
];

/// Options with pairs whose repetitions are merged.
const MERGED: &[(&str, &str)] = &[
    ("action", ""),
    ("boot", "order"),
    ("icount", "shift"),
    ("m", "size"),
    ("machine", "type"),
    ("msg", ""),
    ("name", "guest"),
    ("overcommit", ""),
    ("rtc", ""),
    ("run-with", ""),
    ("smp", "cpus"),
];

/// Options with pairs, each of which adds something.
const PAIRS: &[(&str, &str)] = &[
    ("accel", "accel"),
    ("acpitable", "sig"),
    ("add-fd", ""),
    ("audio", "driver"),
    ("chardev", "backend"),
    ("drive", ""),
    ("fsdev", "fsdriver"),
    ("fw_cfg", "name"),
    ("iscsi", ""),
    ("mon", "chardev"),
    ("net", "type"),
    ("nic", "type"),
    ("numa", "type"),
    ("option-rom", "romfile"),
    ("plugin", "file"),
    ("sandbox", "enable"),
    ("semihosting-config", "enable"),
    ("smbios", ""),
    ("spice", ""),
    ("tpmdev", "type"),
    ("trace", "enable"),
    ("virtfs", "fsdriver"),
    ("vnc", "vnc"),
];

/// Options with pairs or a JSON object, each of which adds something.
const PAIRS_OR_JSON: &[(&str, &str)] = &[
    ("audiodev", "driver"),
    ("blockdev", "driver"),
    ("compat", ""),
    ("device", "driver"),
    ("display", "type"),
    ("netdev", "type"),
    ("object", "qom-type"),
];

/// The option of a name without dashes.
#[must_use]
pub fn spec(name: &str) -> Option<Spec> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    all().find(|spec| spec.name == name)
}

/// All options, each once.
pub fn all() -> impl Iterator<Item = Spec> {
    let plain = |names: &'static [&'static str], syntax, repeat| {
        names.iter().map(move |name| Spec {
            name,
            syntax,
            repeat,
        })
    };
    type OfKey = fn(&'static str) -> Syntax;
    let keyed = |pairs: &'static [(&'static str, &'static str)], of: OfKey, repeat| {
        pairs.iter().map(move |(name, key)| Spec {
            name,
            syntax: of(key),
            repeat,
        })
    };
    plain(FLAGS, Syntax::Flag, Repeat::Replaces)
        .chain(plain(TEXTS, Syntax::Text, Repeat::Replaces))
        .chain(plain(MORE_TEXTS, Syntax::Text, Repeat::Adds))
        .chain(plain(&["cpu"], Syntax::Cpu, Repeat::Replaces))
        .chain(keyed(MERGED, Syntax::Pairs, Repeat::Merges))
        .chain(keyed(PAIRS, Syntax::Pairs, Repeat::Adds))
        .chain(keyed(PAIRS_OR_JSON, Syntax::PairsOrJson, Repeat::Adds))
}
