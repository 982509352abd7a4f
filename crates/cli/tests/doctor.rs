//! brisk doctor looks at this machine and at command lines.

use brisk_testkit::brisk_of;
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
    brisk_of!["doctor", "/dev/null"]
        .exits(125)
        .said(&["/dev/null", "not XML"]);
}
