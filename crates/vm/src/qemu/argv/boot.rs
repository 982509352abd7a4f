//! What the VM boots, or goes on from.

use super::part::Parts;
use crate::pretranslation::EVENT;
use crate::qemu::cmdline::escape;
use crate::qemu::config::VmConfig;
use crate::qemu::machine::Fds;

pub(super) fn add(parts: &mut Parts, plan: &VmConfig) {
    if plan.state.is_some() {
        parts.add(
            ["-incoming", "defer"],
            "the guest goes on from where it was, instead of booting",
        );
    }
    if plan.processors.pretranslates {
        parts.add(
            ["-boot", "menu=on"],
            "for the second processor, which asks the machine for it, to work",
        );
    }
    let kernel = plan.boot.kernel.to_string_lossy();
    let why = "the kernel, decompressed once on the host instead of at every boot in the guest";
    if let Some(pretranslator) = &plan.processors.pretranslator {
        // Memory that is there already has it.
        if plan.state.is_none() {
            let device = format!("loader,file={}", escape(&kernel));
            parts.add(["-device", &device], why);
        }
        parts.add(
            ["-kernel", &pretranslator.to_string_lossy()],
            "what is to be translated ahead: sets the second processor to work, and jumps to \
                 the kernel",
        );
    } else {
        parts.add(["-kernel", &kernel], why);
    }
    if plan.processors.traced {
        parts.add(
            ["-trace", EVENT, "-D", &Fds::path(Fds::TRACE)],
            "which code of the kernel is executed when, for the next run to have it \
                 translated ahead",
        );
    }
    parts.add(
        ["-initrd", &plan.boot.initramfs.to_string_lossy()],
        "our init and the modules it needs, uncompressed",
    );
    let line: Vec<_> = plan
        .boot
        .parameters
        .iter()
        .map(|parameter| &*parameter.text)
        .collect();
    let why: Vec<_> = plan
        .boot
        .parameters
        .iter()
        .map(|parameter| format!("{}: {}", parameter.text, parameter.why))
        .collect();
    parts.add(["-append", &line.join(" ")], &why.join("\n"));
}
