//! Facts in, findings out. Pure.

use brisk_vm::qemu::Capabilities;
use serde::Serialize;

use super::command::Line;
use super::domain;
use super::facts::{Facts, Kvm};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something cannot be done at all.
    Impossible,
    /// Guests may fail through no fault of their own.
    Faulty,
    /// Boots take longer than they must.
    Slow,
    /// Numbers may be worse or less steady than they could be, or the fence lower.
    Note,
}

impl Severity {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::Faulty => "faulty",
            Self::Slow => "slow",
            Self::Note => "note",
        }
    }
}

/// Something that is not as it could be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub what: String,
    /// What it does.
    pub effect: String,
    /// What to do.
    pub fix: String,
}

fn finding(
    severity: Severity,
    what: impl Into<String>,
    effect: impl Into<String>,
    fix: impl Into<String>,
) -> Finding {
    Finding {
        severity,
        what: what.into(),
        effect: effect.into(),
        fix: fix.into(),
    }
}

/// Judges, the worst first.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    list.extend(kvm(facts));
    list.extend(qemu(facts));
    list.extend(kernels(facts));
    list.extend(programs(facts));
    list.extend(noise(facts));
    if let Some(line) = &facts.line {
        list.extend(command_line(line, facts));
    }
    if let Some(definition) = &facts.domain {
        list.extend(domain::findings(definition, facts));
    }
    list.sort_by_key(|finding| finding.severity);
    list
}

fn kvm(facts: &Facts) -> Option<Finding> {
    let slow = "guests are emulated (TCG), which takes five to twenty times as long";
    let nested = "have the machine below give nested virtualisation: CPU model host, and \
                  kvm_intel.nested=1 or kvm_amd.nested=1 there";
    Some(match &facts.kvm {
        Kvm::Works => return None,
        Kvm::Absent if facts.vmx => finding(
            Severity::Slow,
            "there is no /dev/kvm, though the processor has virtualisation",
            slow,
            "modprobe kvm_intel or kvm_amd",
        ),
        Kvm::Absent if facts.virtualised => finding(
            Severity::Slow,
            "there is no KVM in this virtual machine: it is not given virtualisation",
            slow,
            nested,
        ),
        Kvm::Absent => finding(
            Severity::Slow,
            "there is no KVM: the processor shows no virtualisation",
            slow,
            "switch it on in the firmware's set-up (VT-x, AMD-V, SVM)",
        ),
        Kvm::Forbidden => finding(
            Severity::Slow,
            "/dev/kvm may not be opened",
            slow,
            "usermod -aG kvm USER, and log in anew",
        ),
        Kvm::Useless(why) if facts.virtualised => finding(
            Severity::Slow,
            format!("KVM does not work in this virtual machine ({why})"),
            slow,
            nested,
        ),
        Kvm::Useless(why) => finding(
            Severity::Slow,
            format!("KVM does not work ({why})"),
            slow,
            "look for kvm in the kernel's log (dmesg)",
        ),
        Kvm::Untried(why) => finding(
            Severity::Note,
            format!("KVM could not be tried: {why}"),
            "it is not known whether guests are fast",
            "mend that first",
        ),
    })
}

/// How to get one that can do all.
const NEWER: &str = "on Debian 12, setup/newer-qemu in brisk's sources (lib/brisk/newer-qemu where \
                     brisk is installed) unpacks Debian's newer QEMU beside it";

/// What a QEMU cannot do because it is old, and which of several is used.
fn age(capabilities: &Capabilities, facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    let package = &capabilities.package;
    if let Some((path, older)) = &facts.beside {
        list.push(finding(
            Severity::Note,
            format!(
                "QEMU {package} in {} is used, because {older}",
                path.display()
            ),
            "machines and guests run in it; the system's QEMU is as it was",
            "nothing is to be done; --qemu or BRISK_QEMU names another one",
        ));
    }
    for path in &facts.untrusted {
        list.push(finding(
            Severity::Note,
            format!(
                "{} is not used: others than root and you can change it, or a directory above it",
                path.display()
            ),
            "an older QEMU is used",
            "chmod go-w, or remove it and run setup/newer-qemu again",
        ));
    }
    let lacks = match capabilities.version {
        version if version < (8, 2) => "no machine can be suspended, and --warm keeps no guest",
        version if version < (10, 0) => "a machine is resumed with all of its memory loaded first",
        _ => return list,
    };
    let what = format!("QEMU {package} is older than 10.0");
    list.push(finding(Severity::Note, what, lacks, NEWER));
    list
}

fn qemu(facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    match &facts.qemu {
        Err(why) => list.push(finding(
            Severity::Impossible,
            format!("QEMU cannot be used: {why}"),
            "nothing boots",
            "apt install qemu-system-x86",
        )),
        Ok(capabilities) => {
            list.extend(age(capabilities, facts));
            if capabilities.cmpxchg16b_is_wrong() && facts.kvm != Kvm::Works {
                let package = &capabilities.package;
                list.push(finding(
                    Severity::Faulty,
                    format!("QEMU {package} gets the flags of cmpxchg16b wrong"),
                    "emulated guests with newer kernels (6.12 is one) crash or hang sooner or \
                     later; brisk tells the kernels that it boots to do without",
                    "use QEMU 8.0 or newer (Debian 12 has 10.0 in backports); else clearcpuid=cx16 \
                     on the kernel's command line, or -cpu MODEL,-cx16",
                ));
            }
            if capabilities.qboot.is_none() {
                list.push(finding(
                    Severity::Slow,
                    "there is no qboot.rom",
                    "microvm cannot be used, and guests with KVM or several processors start \
                     through SeaBIOS",
                    "apt install qemu-system-data",
                ));
            }
            if !capabilities.machines.contains("microvm") {
                list.push(finding(
                    Severity::Slow,
                    format!("QEMU {} has no machine type microvm", capabilities.package),
                    "guests probe devices that nobody uses",
                    "use a QEMU of 4.2 or later with microvm",
                ));
            }
        }
    }
    list
}

fn kernels(facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    match &facts.kernel {
        Err(why) => list.push(finding(
            Severity::Impossible,
            format!("no kernel can be booted: {why}"),
            "nothing boots",
            "apt install linux-image-cloud-amd64, or name one with --kernel",
        )),
        Ok((version, false)) => list.push(finding(
            Severity::Slow,
            format!("kernel {version} has no PVH entry (CONFIG_PVH)"),
            "it is decompressed in the guest at every boot",
            "use a distribution's kernel, or build with CONFIG_PVH=y",
        )),
        Ok(_) => {}
    }
    for version in &facts.without_modules {
        list.push(finding(
            Severity::Note,
            format!("kernel {version} has no /lib/modules/{version}"),
            "guests of it have only what is built in: perhaps no disks, no shared directories",
            "install its modules, or give them with --modules",
        ));
    }
    if let Some(newest) = facts
        .kernels
        .first()
        .filter(|newest| **newest != facts.running)
    {
        if facts.kernels.contains(&facts.running) {
            list.push(finding(
                Severity::Note,
                format!(
                    "the running kernel {} is older than {newest}",
                    facts.running
                ),
                "guests boot the running one unless told otherwise",
                format!("reboot, or use --kernel {newest}"),
            ));
        }
    }
    list
}

fn programs(facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    if !facts.virtiofsd {
        list.push(finding(
            Severity::Slow,
            "there is no virtiofsd",
            "directories are shared by 9p, which is slower, or not at all where the kernel has no \
             9p (Debian's cloud kernels)",
            "apt install virtiofsd (Debian 13), or cargo install virtiofsd",
        ));
    }
    if !facts.busybox {
        list.push(finding(
            Severity::Impossible,
            "there is no static busybox",
            "--root none has no program to run",
            "apt install busybox-static",
        ));
    }
    let small = matches!(facts.shmem_huge.as_deref(), Some("never" | "deny"));
    if !facts.privileged && small {
        list.push(finding(
            Severity::Slow,
            "shared memory comes in small pages",
            "guests with shared directories take a tenth of a second longer",
            "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, as root",
        ));
    }
    if let Some(reason) = &facts.one_user {
        list.push(finding(
            Severity::Note,
            format!("QEMUs that root starts have no users of their own: {reason}"),
            "a guest that breaks out of its QEMU reaches those of other guests",
            "see Security model in the book",
        ));
    }
    list
}

fn noise(facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    let unsteady = "times vary from boot to boot";
    if let Some(governor) = facts
        .governor
        .as_deref()
        .filter(|name| *name != "performance")
    {
        list.push(finding(
            Severity::Note,
            format!("the frequency governor is {governor}"),
            unsteady,
            "cpupower frequency-set -g performance, while measuring",
        ));
    }
    if let Some(source) = facts.clocksource.as_deref() {
        if !matches!(source, "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page") {
            list.push(finding(
                Severity::Slow,
                format!("the kernel's clock source is {source}"),
                "every reading of the time is slow, and QEMU reads it all the time",
                "find out from the kernel's log why the TSC is not trusted; tsc=reliable if it is \
                 constant",
            ));
        }
    }
    if let Some((load, processors)) = facts.load.filter(|(load, n)| *load > *n as f64 * 0.5) {
        list.push(finding(
            Severity::Note,
            format!("the load is {load:.2} on {processors} processors"),
            unsteady,
            "measure when the machine is idle, or with --clock instructions",
        ));
    }
    list
}

fn command_line(line: &Line, facts: &Facts) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut slow = |what: &str, effect: &str, fix: &str| {
        list.push(finding(Severity::Slow, what, effect, fix));
    };
    let kind = line.machine_type();
    let seabios = line.firmware.is_none() && kind != "microvm";
    let qboot = facts.qemu.as_ref().is_ok_and(|c| c.qboot.is_some());
    if line.kernel.is_some() && seabios && qboot {
        slow(
            "the kernel starts through SeaBIOS",
            "SeaBIOS looks for disks, keyboards and option ROMs first",
            "-M microvm, or -bios qboot.rom with virtio devices that use MSI",
        );
    }
    if line
        .kernel
        .as_deref()
        .is_some_and(|kernel| kernel.contains("vmlinuz"))
    {
        slow(
            "the kernel is compressed",
            "it is decompressed in the guest at every boot: 0.7 s when emulated",
            "brisk kernel extract writes a vmlinux that QEMU starts through PVH",
        );
    }
    if line.has("console=ttyS0") && !line.serial {
        slow(
            "the console is a serial port that the machine does not have",
            "every character waits for a transmitter that never answers: up to 15 s",
            "-serial stdio, or without console=ttyS0",
        );
    }
    if line.has("console=ttyS") && !line.has("quiet") {
        slow(
            "the kernel prints all its messages to a serial port",
            "each character is an exit to QEMU",
            "quiet, or a virtio console (console=hvc0)",
        );
    }
    let keyboard = kind != "microvm" && !line.machine.contains("i8042=off");
    if line.kernel.is_some() && keyboard && !line.has("i8042.") {
        slow(
            "the kernel probes for a PS/2 keyboard and mouse",
            "up to half a second of waiting for answers",
            &format!("-M {kind},i8042=off"),
        );
    }
    if line.defaults {
        slow(
            "QEMU adds its default devices",
            "a graphics card, a network card with a boot ROM, a floppy and a CD-ROM are set up \
             and probed",
            "-nodefaults, and the devices you want",
        );
    }
    if line.preallocated {
        slow(
            "guest memory is allocated before the start",
            "all of it is cleared first: about a second for 4 GiB",
            "without prealloc, where memory need not be locked",
        );
    }
    if !line.kvm && facts.kvm == Kvm::Works {
        slow(
            "the command line does not ask for KVM, which works here",
            "the guest is emulated",
            "-accel kvm",
        );
    }
    list
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    pub(in crate::doctor) fn good() -> Facts {
        Facts {
            kvm: Kvm::Works,
            vmx: true,
            virtualised: false,
            qemu: Err("not asked".into()),
            beside: None,
            untrusted: Vec::new(),
            running: "6.12".into(),
            kernels: vec!["6.12".into()],
            without_modules: BTreeSet::new(),
            kernel: Ok(("6.12".into(), true)),
            virtiofsd: true,
            busybox: true,
            privileged: false,
            one_user: None,
            shmem_huge: Some("advise".into()),
            governor: Some("performance".into()),
            clocksource: Some("tsc".into()),
            load: Some((0.1, 2)),
            line: None,
            domain: None,
        }
    }

    fn texts(facts: &Facts) -> Vec<String> {
        findings(facts).into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn a_good_machine_has_no_findings_but_the_missing_qemu() {
        assert_eq!(texts(&good()), ["QEMU cannot be used: not asked"]);
    }

    #[test]
    fn each_state_of_kvm_has_its_own_fix() {
        let fix = |kvm, vmx, virtualised| {
            let facts = Facts {
                kvm,
                vmx,
                virtualised,
                ..good()
            };
            kvm_fix(&facts)
        };
        assert!(fix(Kvm::Absent, true, false).contains("modprobe"));
        assert!(fix(Kvm::Absent, false, false).contains("firmware"));
        assert!(fix(Kvm::Absent, false, true).contains("nested"));
        assert!(fix(Kvm::Forbidden, true, false).contains("usermod"));
        assert!(fix(Kvm::Useless("slow".into()), true, true).contains("nested"));
        assert!(fix(Kvm::Useless("slow".into()), true, false).contains("dmesg"));
    }

    fn kvm_fix(facts: &Facts) -> String {
        kvm(facts).expect("a finding").fix
    }

    #[test]
    fn an_old_qemu_is_faulty_where_it_emulates() {
        let with = |version: (u32, u32), kvm| {
            let capabilities = serde_json::json!({
                "version": version, "package": "X", "machines": ["microvm"], "devices": [],
                "qboot": "/qboot.rom", "identities": [],
            });
            texts(&Facts {
                qemu: Ok(serde_json::from_value(capabilities).unwrap()),
                kvm,
                ..good()
            })
        };
        let faulty = ["QEMU X gets the flags of cmpxchg16b wrong"];
        let old = "QEMU X is older than 10.0";
        let slow = || Kvm::Useless("slow".into());
        assert_eq!(with((7, 2), slow())[..1], faulty);
        assert_eq!(with((7, 2), Kvm::Works), [old]);
        let found = with((8, 0), slow());
        assert!(
            found.len() == 2 && found.contains(&old.to_owned()),
            "{found:?}"
        );
        assert_eq!(with((10, 0), Kvm::Works), [""; 0]);
    }

    #[test]
    fn what_is_impossible_comes_first() {
        let facts = Facts {
            busybox: false,
            governor: Some("powersave".into()),
            virtiofsd: false,
            ..good()
        };
        let order: Vec<_> = findings(&facts).into_iter().map(|f| f.severity).collect();
        assert!(order.is_sorted());
        assert_eq!(order[0], Severity::Impossible);
    }

    #[test]
    fn a_console_without_a_port_is_found() {
        let words =
            |text: &str| -> Vec<std::ffi::OsString> { text.split(' ').map(Into::into).collect() };
        let with = |text: &str| Facts {
            line: Some(Line::parse(&words(text))),
            ..good()
        };
        let found = texts(&with(
            "q -M q35 -nodefaults -kernel vmlinuz -append console=ttyS0",
        ));
        assert!(
            found.iter().any(|t| t.contains("does not have")),
            "{found:?}"
        );
        assert!(found.iter().any(|t| t.contains("PS/2")), "{found:?}");
        assert!(found.iter().any(|t| t.contains("compressed")), "{found:?}");
        let found = texts(&with(
            "q -M microvm -nodefaults -serial stdio -kernel vmlinux -accel kvm",
        ));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
