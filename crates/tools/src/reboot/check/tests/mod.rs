//! Rules on trees, written as small texts after those of real machines.

mod cases;
mod files;
mod hardware;
mod initrds;
mod report;
mod scene;
mod system;

use std::collections::BTreeSet;

use super::{Consequence, Trial, Verdict, descriptions};
use brisk_lint::Finding;
use cases::{CASES, Case};
use scene::Scene;

/// All cases.
fn cases() -> impl Iterator<Item = &'static Case> {
    let all = [
        CASES,
        files::CASES,
        initrds::CASES,
        hardware::CASES,
        system::CASES,
    ];
    all.into_iter().flatten()
}

fn of<'a>(rule: &str, findings: &'a [Finding<Consequence>]) -> Vec<&'a Finding<Consequence>> {
    let of = findings.iter().filter(|finding| finding.rule == rule);
    of.collect()
}

#[test]
fn a_good_machine_passes_all_rules() {
    let scene = Scene::new();
    let preflight = scene.read();
    assert_eq!(preflight.findings(), []);
    assert_eq!(preflight.machine.unread, [""; 0]);
    assert_eq!(Verdict::of(&preflight.findings()), Verdict::Warm);
}

#[test]
fn each_rule_finds_what_it_is_for_and_not_what_is_near_it() {
    let mut wrong = Vec::new();
    for case in cases() {
        let findings = |change: fn(&mut Scene)| {
            let mut scene = Scene::new();
            change(&mut scene);
            scene.read().findings()
        };
        let (bad, near) = (findings(case.bad), findings(case.near));
        let is_it = |finding: &&Finding<Consequence>| {
            finding.severity == case.consequence
                && finding.what.contains(case.words)
                && !finding.fix.to_string().is_empty()
        };
        if !of(case.rule, &bad)
            .into_iter()
            .any(|finding| is_it(&finding))
        {
            wrong.push(format!(
                "{}, {}: not found in {bad:#?}",
                case.rule, case.words
            ));
        }
        let near = of(case.rule, &near);
        if !near.is_empty() {
            wrong.push(format!(
                "{}, {}: found without it: {near:#?}",
                case.rule, case.words
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_has_cases() {
    let rules: BTreeSet<_> = descriptions().iter().map(|rule| rule.id).collect();
    assert_eq!(rules.len(), descriptions().len(), "a name is there twice");
    let tried: BTreeSet<_> = cases().map(|case| case.rule).collect();
    assert_eq!(rules, tried);
}

#[test]
fn each_entry_of_the_data_file_has_a_case() {
    // Sources are in what is found.
    let mut found = String::new();
    for case in hardware::CASES {
        let mut scene = Scene::new();
        (case.bad)(&mut scene);
        for finding in scene.read().findings() {
            found.push_str(&finding.what);
            found.push('\n');
        }
    }
    for known in super::hardware::all() {
        let start = known.start();
        assert!(found.contains(start), "{start}");
    }
}

#[test]
fn the_worst_finding_decides() {
    let of = |bad: &[fn(&mut Scene)]| {
        let mut scene = Scene::new();
        bad.iter().for_each(|bad| bad(&mut scene));
        Verdict::of(&scene.read().findings())
    };
    let warn = |scene: &mut Scene| scene.file("sys/class/graphics/fb0/name", "amdgpudrmfb\n");
    let cold = |scene: &mut Scene| scene.variable("BootNext", scene::GLOBAL, &[1, 0]);
    let refuse = |scene: &mut Scene| scene.file("proc/sys/kernel/kexec_load_disabled", "1\n");
    assert_eq!(of(&[warn]), Verdict::Warm);
    assert_eq!(of(&[warn, cold]), Verdict::Cold);
    assert_eq!(of(&[cold, refuse]), Verdict::Refused);
    assert_eq!(of(&[refuse, warn]), Verdict::Refused);
}

#[test]
fn a_trial_load_is_left_out_where_it_would_harm_or_be_pointless() {
    let obstacle = |bad: fn(&mut Scene)| {
        let mut scene = Scene::new();
        scene.trial = Trial::NotYet;
        bad(&mut scene);
        scene.read().obstacle()
    };
    assert_eq!(obstacle(|_| {}), None);
    let limited = obstacle(|scene| scene.file("proc/sys/kernel/kexec_load_limit_reboot", "5\n"));
    assert!(limited.unwrap().contains("permits 5 more calls"));
    let limited = obstacle(|scene| scene.file("proc/sys/kernel/kexec_load_limit_reboot", "6\n"));
    assert_eq!(limited, None);
    let full = obstacle(|scene| scene.memory(1 << 20, 32 << 10));
    assert!(full.unwrap().contains("32 MiB are available"));
    let unknown = obstacle(|scene| scene.remove("proc/meminfo"));
    assert!(unknown.unwrap().starts_with("/proc/meminfo"));
    let refused = obstacle(|scene| scene.remove("boot/initrd.img-6.1.0-9-amd64"));
    assert!(refused.unwrap().contains("decides without it"));
    let warned = obstacle(|scene| scene.file("sys/class/graphics/fb0/name", "amdgpudrmfb\n"));
    assert_eq!(warned, None);
}

#[test]
fn the_older_call_is_used_only_where_it_is_no_way_around() {
    let is_used = |change: fn(&mut Scene)| {
        let mut scene = Scene::new();
        change(&mut scene);
        scene.read().may_use_older_call()
    };
    assert!(is_used(|_| {}));
    let locked = |scene: &mut Scene| {
        scene.file("sys/kernel/security/lockdown", "none [integrity]\n");
    };
    assert!(!is_used(locked));
    let secure = |scene: &mut Scene| scene.variable("SecureBoot", scene::GLOBAL, &[1]);
    assert!(!is_used(secure));
    assert!(!is_used(|scene| scene.file("sys/hypervisor/type", "xen\n")));
    let erratum = |scene: &mut Scene| {
        scene.file("proc/cpuinfo", "bugs\t: spectre_v1 tdx_pw_mce\n");
    };
    assert!(!is_used(erratum));
    let forced = |scene: &mut Scene| {
        scene.file("boot/config-6.1.0-9-amd64", "CONFIG_KEXEC_SIG_FORCE=y\n");
    };
    assert!(!is_used(forced));
    for option in ["memmap=1G!4G", "memmap=64K$0x1000", "mem=4G"] {
        let scene = Scene::new();
        scene.file("proc/cmdline", &format!("quiet {option}\n"));
        assert!(!scene.read().may_use_older_call(), "{option}");
    }
}

#[test]
fn trees_that_are_anything_are_no_harm() {
    let scene = Scene::new();
    let long = "x".repeat(70_000);
    for path in [
        "proc/cmdline",
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/modules",
        "proc/mounts",
        "proc/self/status",
        "proc/sys/kernel/osrelease",
        "etc/crypttab",
        "etc/systemd/system.conf",
        "run/systemd/inhibit/1",
        "dev/kmsg",
        "boot/vmlinuz-6.1.0-9-amd64",
        "boot/initrd.img-6.1.0-9-amd64",
    ] {
        for content in [&b"\xff\0=\n\n:,"[..], b"", long.as_bytes(), b"= [ : \0 -"] {
            scene.bytes(path, content);
            let preflight = scene.read();
            let findings = preflight.findings();
            let text = super::text(&preflight, &findings);
            assert!(!text.contains('\0') && !text.contains('\u{1b}'), "{path}");
        }
    }
}

#[test]
fn what_is_not_known_is_no_refusal() {
    let scene = Scene::new();
    for path in [
        "proc/sys/kernel/osrelease",
        "proc/sys/kernel/kexec_load_disabled",
        "sys/kernel/kexec_loaded",
    ] {
        scene.remove(path);
    }
    let preflight = scene.read();
    assert_eq!(preflight.findings(), []);
    let unread = &preflight.machine.unread;
    assert!(
        unread[0].starts_with("whether the kernel has kexec"),
        "{unread:?}"
    );
}

#[test]
fn many_long_files_are_not_kept() {
    let mut scene = Scene::new();
    let long = format!(
        "[Manager]\n#{}\nKExecWatchdogSec=5min\n",
        "x".repeat(300 << 10)
    );
    scene.file("etc/systemd/system.conf.d/10.conf", &long);
    let long = format!(
        "WHAT=shutdown\nMODE=block\nWHO=Backup\nWHY={}\n",
        "x".repeat(300 << 10)
    );
    scene.file("run/systemd/inhibit/1", &long);
    scene.cmdline("root=UUID=5f3c");
    let machine = scene.read().machine;
    assert_eq!(machine.watchdog.kexec, None);
    assert!(machine.activity.inhibitors[0].why.len() <= 16 << 10);
}

#[test]
fn modules_that_all_use_each_other_come_to_an_end() {
    let scene = Scene::new();
    let names: Vec<_> = (0..400).map(|number| format!("m{number}")).collect();
    let users = names.join(",");
    let mut text = format!("nvidia 1 1 {users}, Live 0x0\n");
    for name in &names {
        text.push_str(&format!("{name} 1 1 {users}, Live 0x0\n"));
    }
    scene.file("proc/modules", &text);
    let machine = scene.read().machine;
    assert_eq!(machine.devices.unloading("nvidia").len(), 401);
    assert_eq!(machine.devices.unloading("nvidia")[400].name, "nvidia");
}
