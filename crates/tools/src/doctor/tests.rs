//! Findings of good machines and of others.

use std::collections::BTreeSet;

use brisk_vm::hardware::GuestHardware;
use brisk_vm::qemu::cmdline::CommandLine;

use super::facts::Others;
use super::*;
use crate::crypto::Machine;
use brisk_lint::{Kvm, Severity};

fn good() -> Facts {
    Facts {
        kvm: Kvm::Works,
        vmx: true,
        virtualised: false,
        qemu: Err("not asked".into()),
        others: Others::default(),
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
        crypto: None,
        guest: None,
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
    let found = findings(facts);
    let of_kvm = found
        .iter()
        .find(|finding| finding.rule.starts_with("kvm-"));
    of_kvm.expect("a finding").fix.to_string()
}

#[test]
fn an_old_qemu_is_faulty_where_it_emulates() {
    let with = |version: (u32, u32), kvm| {
        let capabilities = serde_json::json!({
            "version": version, "package": "X", "machines": ["microvm"], "devices": [],
            "aliases": {}, "qboot": "/qboot.rom", "identities": [],
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
    let with = |text: &str| {
        let words: Vec<_> = text.split(' ').collect();
        let line = CommandLine::with_program(&words);
        Facts {
            guest: Some(GuestHardware::of_arguments(&line)),
            ..good()
        }
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
        "q -M microvm -nodefaults -serial stdio -kernel vmlinux -accel kvm -cpu host",
    ));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn rules_have_names_of_their_own() {
    let rules = rules();
    let names: BTreeSet<_> = rules.iter().map(|rule| rule.id).collect();
    assert_eq!(names.len(), rules.len());
    for rule in rules {
        let is_kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(rule.id.chars().all(is_kebab), "{}", rule.id);
        assert!(
            !rule.why.is_empty() && !rule.source.is_empty(),
            "{}",
            rule.id
        );
    }
}

#[test]
fn a_device_for_cryptography_that_nothing_drives_is_noted() {
    let root = tempfile::tempdir().unwrap();
    let modules = "lib/modules/6.12.9-amd64";
    for (path, text) in [
        ("proc/version", "Linux version 6.12.9-amd64 (x) (gcc)\n"),
        ("proc/crypto", ""),
        (
            "sys/bus/virtio/devices/virtio1/modalias",
            "virtio:d00000014v00001AF4\n",
        ),
        (
            &format!("{modules}/modules.dep"),
            "kernel/drivers/crypto/virtio/virtio_crypto.ko:\n",
        ),
        (
            &format!("{modules}/modules.alias"),
            "alias virtio:d00000014v* virtio_crypto\n",
        ),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let facts = Facts {
        crypto: Some(Machine::at(root.path(), None)),
        ..good()
    };
    let found = findings(&facts);
    let unused = found
        .iter()
        .find(|finding| finding.rule == "crypto-offload-unused")
        .unwrap();
    assert_eq!(unused.severity, Severity::Note);
    assert_eq!(
        unused.what,
        "The module virtio_crypto for the virtio crypto device is not loaded"
    );
    assert_eq!(unused.fix.to_string(), "modprobe virtio_crypto");
}
