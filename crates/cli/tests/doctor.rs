//! brisk doctor looks at the host and at guests.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use brisk_testkit::{brisk_of, tool};
use serde_json::Value;

#[test]
fn a_command_line_is_looked_at_and_not_run() {
    let words = [
        "--",
        "qemu-system-x86_64",
        "-M",
        "q35",
        "-nodefaults",
        "-kernel",
        "/nowhere",
    ];
    let run = brisk_of!["doctor", "--format", "json"]
        .args(words)
        .args(["-append", "console=ttyS0"])
        .exits(0);
    let value: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(value["schema"], "brisk.doctor/1");
    let found: Vec<_> = value["findings"].as_array().unwrap().iter().collect();
    let has = |text: &str| {
        found
            .iter()
            .any(|f| f["what"].as_str().unwrap().contains(text))
    };
    assert!(has("does not have") && has("PS/2"), "{found:?}");
    let ps2 = found.iter().find(|f| f["rule"] == "ps2-probe").unwrap();
    assert_eq!(ps2["where"]["words"]["start"], 1);
    assert_eq!(ps2["fix"], "-M q35,i8042=off");
    assert!(found.iter().all(|f| !f["fix"].as_str().unwrap().is_empty()));
}

#[test]
fn without_qemu_nothing_boots_and_the_status_says_so() {
    let run = brisk_of!["doctor", "--qemu", "/does/not/exist"].exits(1);
    let text = run.text();
    assert!(text.contains("impossible: QEMU cannot be used"), "{text}");
    assert!(text.contains("fix: apt install qemu-system-x86"), "{text}");
}

/// What libvirt says of an old domain.
const DOMAIN: &str = "<domain type='qemu'><name>old</name><memory>524288</memory>\
                      <os><type arch='x86_64' machine='pc'>hvm</type></os><devices>\
                      <interface type='user'><model type='e1000'/></interface></devices></domain>";

#[test]
fn a_domain_is_looked_at_by_its_xml() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("domain.xml");
    std::fs::write(&file, DOMAIN).unwrap();
    let text = brisk_of!["doctor", file].output().text();
    assert!(text.contains("emulated hardware (e1000)"), "{text}");
    assert!(text.contains("virt-xml old --edit all --network"), "{text}");
}

/// A QEMU whose guest does not begin to run.
struct Paused(Child);

impl Paused {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(tool("qemu-system-x86_64"))
            .args(["-S", "-nodefaults", "-display", "none", "-qmp", "stdio"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // When it greets, it is QEMU and no script that starts one.
        let mut greeting = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut greeting).unwrap();
        assert!(greeting.contains("QMP"), "{greeting}");
        child.stdout = Some(output.into_inner());
        Self(child)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_qemu_that_runs_is_looked_at() {
    let qemu = Paused::start(&[
        "-M",
        "q35",
        "-device",
        "qemu-xhci",
        "-device",
        r#"{"driver":"usb-tablet","id":"t"}"#,
    ]);
    let text = brisk_of!["doctor", "--pid", qemu.0.id().to_string()]
        .output()
        .text();
    assert!(
        text.contains("there is a USB tablet or keyboard [usb-input]"),
        "{text}"
    );
    assert!(text.contains("fix: without usb-tablet"), "{text}");
    assert!(!text.contains("[devices-default]"), "{text}");
}

#[test]
fn what_is_no_qemu_is_named() {
    brisk_of!["doctor", "--pid", std::process::id().to_string()]
        .exits(125)
        .explains(&["not a QEMU", "pgrep -a qemu"]);
}

#[test]
fn findings_of_spreadsheets_have_their_rule_last() {
    let run = brisk_of![
        "doctor",
        "--format",
        "csv",
        "--",
        "q",
        "-nodefaults",
        "-device",
        "AC97"
    ];
    let text = run.output().text();
    assert!(
        text.starts_with("severity,what,effect,fix,rule\n"),
        "{text}"
    );
    assert!(text.contains(",\"without AC97\",sound\n"), "{text}");
}
