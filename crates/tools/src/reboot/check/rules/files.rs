//! The kernel, the initial RAM disks and the command line.

use std::cmp::Ordering;
use std::path::Path;

use brisk_host::kernel::compare;
use brisk_vm::initramfs::Verified;

use super::rule::{Findings, Rule, advice, command, values};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::images::{Defect, RESERVED, Unsupported, option};
use crate::reboot::check::preflight::Preflight;
use brisk_lint::{Applies, Fix};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "kernel-missing",
        applies: Applies::Host,
        why: "there is nothing to start",
        source: "brisk: the file is opened",
        check: kernel_missing,
    },
    Rule {
        id: "kernel-unusable",
        applies: Applies::Host,
        why: "the machine hangs in it: kexec looks at the header of a kernel alone, which may be right",
        source: "Linux: bzImage64_probe in arch/x86/kernel/kexec-bzimage64.c looks at the header alone",
        check: kernel_unusable,
    },
    Rule {
        id: "kernel-fixed",
        applies: Applies::Host,
        why: "kexec_file_load puts the kernel anywhere in memory",
        source: "Linux: XLF_CAN_BE_LOADED_ABOVE_4G, Documentation/arch/x86/boot.rst",
        check: kernel_fixed,
    },
    Rule {
        id: "kernel-older",
        applies: Applies::Host,
        why: "a kernel before the running one may lack fixes, or what configuration asks for",
        source: "brisk: releases are compared as package managers do",
        check: kernel_older,
    },
    Rule {
        id: "initrd-missing",
        applies: Applies::Host,
        why: "the kernel would not find its root",
        source: "brisk: the file is opened",
        check: initrd_missing,
    },
    Rule {
        id: "initrd-unusable",
        applies: Applies::Host,
        why: "the kernel does not look at it before it is too late, and stops without a root",
        source: "Linux: unpack_to_rootfs in init/initramfs.c",
        check: initrd_unusable,
    },
    Rule {
        id: "initrd-compression",
        applies: Applies::Host,
        why: "the kernel cannot unpack it, and stops without a root",
        source: "Linux: usr/Kconfig, RD_GZIP and others",
        check: initrd_compression,
    },
    Rule {
        id: "initrd-none",
        applies: Applies::Host,
        why: "the kernel itself finds a root by device or PARTUUID, but by no UUID, label or mapping",
        source: "Linux: block/early-lookup.c",
        check: initrd_none,
    },
    Rule {
        id: "command-line-long",
        applies: Applies::Host,
        why: "the kernel refuses to load it",
        source: "Linux: COMMAND_LINE_SIZE; bzImage64_load in arch/x86/kernel/kexec-bzimage64.c, \
                 which keeps 30 bytes free",
        check: long,
    },
    Rule {
        id: "command-line-root",
        applies: Applies::Host,
        why: "the kernel does not find its root, or takes another",
        source: "Linux: Documentation/admin-guide/kernel-parameters.txt, root=",
        check: root,
    },
    Rule {
        id: "memory",
        applies: Applies::Host,
        why: "loading reads the files and copies them, and the new kernel unpacks the initial RAM disk",
        source: "Linux: kimage_file_prepare_segments in kernel/kexec_file.c; \
                 sanity_check_segment_list in kernel/kexec_core.c",
        check: memory,
    },
];

/// How a file is installed anew.
fn reinstall(on: &Preflight) -> Fix {
    match &*on.target.release {
        "" => advice("install the kernel again, or name another with --kernel"),
        release => advice(format!(
            "install the kernel {release} again; was the disk full?"
        )),
    }
}

fn kernel_missing(on: &Preflight, findings: &mut Findings) {
    let path = on.target.kernel.display();
    let what = match &on.images.kernel {
        Err(Defect::Missing) => format!("there is no {path}"),
        Err(Defect::Forbidden) => format!("{path} may not be read"),
        _ => return,
    };
    let fix = match &on.images.kernel {
        Err(Defect::Forbidden) => command("sudo brisk reboot check"),
        _ => command("brisk kernel list shows those installed; name one with --kernel"),
    };
    findings.add(Consequence::Refuse, what, fix);
}

fn kernel_unusable(on: &Preflight, findings: &mut Findings) {
    let (reason, fix) = match &on.images.kernel {
        Err(Defect::Unusable(reason) | Defect::Unreadable(reason)) => (reason, reinstall(on)),
        Err(Defect::Unsupported(Unsupported { reason, remedy })) => (reason, advice(*remedy)),
        _ => return,
    };
    let path = on.target.kernel.display();
    let what = format!("{path} cannot be used as a kernel: {reason}");
    findings.add(Consequence::Refuse, what, fix);
}

fn kernel_fixed(on: &Preflight, findings: &mut Findings) {
    if on
        .images
        .kernel
        .as_ref()
        .is_ok_and(|kernel| !kernel.is_relocatable)
    {
        let path = on.target.kernel.display();
        findings.add(
            Consequence::Cold,
            format!("{path} cannot be loaded above 4 GiB"),
            advice("restart it through its firmware, or build it with CONFIG_RELOCATABLE"),
        );
    }
}

fn kernel_older(on: &Preflight, findings: &mut Findings) {
    let (new, running) = (&on.target.release, &on.machine.platform.release);
    if !new.is_empty() && !running.is_empty() && compare(new, running) == Ordering::Less {
        findings.add(
            Consequence::Note,
            format!("{new} is older than the running kernel {running}"),
            advice("name another with --kernel, if that is not meant"),
        );
    }
}

/// Name of an initial RAM disk for people.
fn initrd_name(on: &Preflight, path: &Path) -> String {
    match path == on.target.kernel {
        true => format!("the initial RAM disk in {}", path.display()),
        false => format!("the initial RAM disk {}", path.display()),
    }
}

/// How an initial RAM disk is made again.
fn remake(on: &Preflight) -> Fix {
    match &*on.target.release {
        "" => advice("make it again: update-initramfs, dracut or mkinitcpio"),
        release => command(format!(
            "update-initramfs -u -k {release}, dracut --force --kver {release}, or mkinitcpio -P"
        )),
    }
}

fn initrd_missing(on: &Preflight, findings: &mut Findings) {
    for initrd in &on.images.initrds {
        let name = initrd_name(on, &initrd.path);
        match &initrd.content {
            Err(Defect::Missing) => {
                let what = format!("{name} is missing");
                findings.add(Consequence::Refuse, what, remake(on));
            }
            Err(Defect::Forbidden) => {
                let fix = command("sudo brisk reboot check");
                findings.add(Consequence::Refuse, format!("{name} may not be read"), fix);
            }
            _ => {}
        }
    }
}

fn initrd_unusable(on: &Preflight, findings: &mut Findings) {
    for initrd in &on.images.initrds {
        if let Err(Defect::Unusable(reason) | Defect::Unreadable(reason)) = &initrd.content {
            let what = format!("{} is bad: {reason}", initrd_name(on, &initrd.path));
            findings.add(Consequence::Refuse, what, remake(on));
        }
        if let Err(Defect::Unsupported(Unsupported { reason, remedy })) = &initrd.content {
            let what = format!("{} is bad: {reason}", initrd_name(on, &initrd.path));
            findings.add(Consequence::Refuse, what, advice(*remedy));
        }
        if let Ok(Verified {
            junk: Some(start), ..
        }) = &initrd.content
        {
            findings.add(
                Consequence::Warn,
                format!(
                    "{} has bytes behind its archives, from byte {start} on, which the kernel complains \
                     about and leaves out",
                    initrd_name(on, &initrd.path)
                ),
                advice("none needed if nothing is missing in lsinitramfs or lsinitrd; else make it again"),
            );
        }
        if let Err(Defect::Unverified(reason)) = &initrd.content {
            let name = initrd_name(on, &initrd.path);
            // It is the only one that is known and not unpacked.
            if has_config(on).is_some_and(|config| !is_set(config, "CONFIG_RD_LZO")) {
                let what =
                    format!("{name}: {reason}, and the kernel is built without CONFIG_RD_LZO");
                findings.add(Consequence::Refuse, what, advice(RECOMPRESS));
                continue;
            }
            findings.add(
                Consequence::Warn,
                format!("{name} was not looked at to its end: {reason}"),
                advice(
                    "make it with another compression, or look at it by lsinitramfs or lsinitrd",
                ),
            );
        }
    }
}

/// How another compression is chosen.
const RECOMPRESS: &str = "set COMPRESS in /etc/initramfs-tools/initramfs.conf, compress in dracut.conf, \
                          or COMPRESSION in mkinitcpio.conf, and make it again";

/// The configuration of the kernel, if it says how initial RAM disks may be compressed. A file that was
/// cut off, as on a disk that is full, says nothing of a kernel.
fn has_config(on: &Preflight) -> Option<&str> {
    let config = on.images.config.as_deref();
    config.filter(|config| config.contains("CONFIG_RD_"))
}

/// Whether an option is built in.
fn is_set(config: &str, option: &str) -> bool {
    config
        .lines()
        .any(|line| line.strip_prefix(option) == Some("=y"))
}

fn initrd_compression(on: &Preflight, findings: &mut Findings) {
    let Some(config) = has_config(on) else {
        return;
    };
    for initrd in &on.images.initrds {
        let Ok(content) = &initrd.content else {
            continue;
        };
        let name = initrd_name(on, &initrd.path);
        let missing = |option: &&str| !is_set(config, option);
        for compression in &content.compressions {
            if let Some(option) = Some(option(*compression)).filter(missing) {
                let what = format!(
                    "{name} is compressed by {compression}, and the kernel is built without {option}"
                );
                findings.add(Consequence::Refuse, what, advice(RECOMPRESS));
            }
        }
        for option in content.options.iter().copied().filter(missing) {
            let what = format!(
                "{name} is compressed by xz with a filter for programs, and the kernel is built without \
                 {option}"
            );
            let fix = advice("make it with xz --check=crc32, without other options");
            findings.add(Consequence::Refuse, what, fix);
        }
    }
}

fn initrd_none(on: &Preflight, findings: &mut Findings) {
    if !on.images.initrds.is_empty() {
        return;
    }
    if on
        .images
        .kernel
        .as_ref()
        .is_ok_and(|kernel| kernel.has_initrd)
    {
        findings.add(
            Consequence::Note,
            "there is no initial RAM disk but the one that is built into the kernel",
            advice("none needed: the kernel starts it"),
        );
        return;
    }
    let root = values(&on.target.cmdline, "root")
        .last()
        .unwrap_or_default();
    let needs = [
        "UUID=",
        "LABEL=",
        "/dev/mapper/",
        "/dev/disk/",
        "ZFS=",
        "zfs:",
    ];
    if needs.iter().any(|start| root.starts_with(start)) {
        findings.add(
            Consequence::Refuse,
            format!("there is no initial RAM disk, and the root is {root}"),
            advice("name it with --initrd"),
        );
    } else if on.machine.platform.had_initrd {
        findings.add(
            Consequence::Warn,
            "there is no initial RAM disk, and the running kernel was started with one",
            advice("name it with --initrd, unless drivers of the root are built into the kernel"),
        );
    }
}

fn long(on: &Preflight, findings: &mut Findings) {
    let Ok(kernel) = &on.images.kernel else {
        return;
    };
    // With its NUL, and what is kept free.
    let most = kernel.cmdline_size.saturating_sub(1 + RESERVED);
    let length = on.target.cmdline.len();
    if length > most {
        findings.add(
            Consequence::Refuse,
            format!("the command line has {length} bytes, and kexec takes {most} for this kernel"),
            advice("shorten it in the boot loader's configuration, or with --cmdline"),
        );
    }
}

fn root(on: &Preflight, findings: &mut Findings) {
    let last = |cmdline| values(cmdline, "root").last();
    let Some(running) = last(&on.machine.platform.cmdline) else {
        return;
    };
    match last(&on.target.cmdline) {
        // Such an image may find its root by the type of its partition
        // (systemd-gpt-auto-generator(8)).
        None if on.target.is_uki => findings.add(
            Consequence::Warn,
            format!(
                "the image's command line has no root=, and the running kernel's has root={running}"
            ),
            advice(format!(
                "nothing, if its initial RAM disk finds the root; else give a command line with \
                 root={running} by --cmdline"
            )),
        ),
        None => findings.add(
            Consequence::Refuse,
            format!("the command line has no root=, and the running kernel's has root={running}"),
            advice(format!("add root={running} to it")),
        ),
        Some(root) if root != running => findings.add(
            Consequence::Warn,
            format!("the root is {root}, and {running} of the running kernel"),
            advice("compare the two: findmnt /, blkid"),
        ),
        Some(_) => {}
    }
}

fn memory(on: &Preflight, findings: &mut Findings) {
    let platform = &on.machine.platform;
    if platform.memory == 0 {
        return;
    }
    let mib = |bytes: u64| bytes >> 20;
    let (need, unpacked) = (on.images.memory(), on.images.unpacked());
    let all = mib(platform.memory);
    let smaller = || advice("make the initial RAM disk smaller: MODULES=dep, hostonly=yes");
    if on.images.placed() > platform.memory / 2 {
        let what = format!(
            "the new kernel and its initial RAM disk take {} MiB, and kexec allows half of the \
             machine's {all} MiB",
            mib(on.images.placed())
        );
        findings.add(Consequence::Refuse, what, smaller());
    } else if unpacked > platform.memory {
        let what = format!(
            "the initial RAM disk and what it unpacks to are {} MiB, and the machine has {all} MiB",
            mib(unpacked)
        );
        findings.add(Consequence::Refuse, what, smaller());
    } else if need > platform.memory {
        let what = format!(
            "loading takes {} MiB, and the machine has {all} MiB",
            mib(need)
        );
        findings.add(Consequence::Refuse, what, smaller());
    } else if need > platform.available {
        let what = format!(
            "loading takes up to {} MiB, and {} MiB are available",
            mib(need),
            mib(platform.available)
        );
        let fix = advice("it may succeed when services have stopped; stop some, and check again");
        findings.add(Consequence::Warn, what, fix);
    }
}
