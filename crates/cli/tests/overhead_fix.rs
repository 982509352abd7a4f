//! Descriptions of guests are changed so that the guests lose less, and restored.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;

use brisk_testkit::{Brisk, Libvirt, Machines, brisk_of, changed_ratio, trials};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 3] = [
        (
            "what_a_change_of_a_definition_is_worth_is_measured",
            what_a_change_of_a_definition_is_worth_is_measured,
        ),
        (
            "a_command_line_is_shown_with_its_changes",
            a_command_line_is_shown_with_its_changes,
        ),
        (
            "a_definition_is_given_huge_pages_and_restored",
            a_definition_is_given_huge_pages_and_restored,
        ),
    ];
    let of_domains: [(_, fn()); 1] = [(
        "a_domain_is_changed_and_restored",
        a_domain_is_changed_and_restored,
    )];
    let mut all = trials(None, plain);
    all.extend(trials(Libvirt::forbidden(), of_domains));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn fix() -> Brisk {
    brisk_of!["overhead", "fix"]
}

fn a_command_line_is_shown_with_its_changes() {
    let words = [
        "--",
        "qemu-system-x86_64",
        "-accel",
        "kvm",
        "-m",
        "64M",
        "-drive",
    ];
    let shown = || fix().args(words).arg("file=a,cache=unsafe").exits(0);
    let text = shown().text();
    for line in [
        "+-cpu host",
        "--drive file=a,cache=unsafe",
        "+-drive file=a,cache=writeback",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let _ = shown().explains(&[
        "changes of the rules guest-unsafe-cache, guest-cpu-model",
        "left to decide: its memory is in pages",
        "sysctl vm.nr_hugepages=32 sets them aside",
    ]);
    let json = fix()
        .args(["--format", "json"])
        .args(words)
        .arg("file=a")
        .exits(0);
    let json: Value = serde_json::from_str(&json.text()).unwrap();
    assert_eq!(json["schema"], "brisk.overhead.fix/1");
    assert_eq!(json["applied"][0]["rule"], "guest-cpu-model");
    let refused = fix()
        .args(["--rule", "nohz", "--", "qemu-system-x86_64"])
        .exits(125);
    let _ = refused.explains(&["there is no rule nohz", "guest-cpu-model"]);
}

fn a_definition_is_given_huge_pages_and_restored() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let before = "# Of the shop.\nmemory = \"128M\"\nhuge-pages = false # for once\n";
    fs::create_dir_all(all.definition("a").parent().unwrap()).unwrap();
    fs::write(all.definition("a"), before).unwrap();
    let on = |words: &[&str]| all.with(brisk_of!["overhead"]).args(words).exits(0);
    let text = || fs::read_to_string(all.definition("a")).unwrap();
    let applied = on(&["fix", "--vm", "a", "--apply"]);
    let _ = applied.explains(&["brisk overhead undo --vm=a restores"]);
    assert_eq!(text(), before.replace("false", "true"));
    let _ = on(&["undo", "--vm", "a"]);
    assert_eq!(text(), before);
}

/// A VM whose definition forbids huge pages is started in turn as it is and with them.
fn what_a_change_of_a_definition_is_worth_is_measured() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let before = "memory = \"128M\"\nhuge-pages = false\n";
    fs::create_dir_all(all.definition("a").parent().unwrap()).unwrap();
    fs::write(all.definition("a"), before).unwrap();
    let words = [
        "fix",
        "--vm",
        "a",
        "--try",
        "--keep-disturbed",
        "--rounds=1",
        "--command",
    ];
    let count = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done";
    let tried = all
        .with(brisk_of!["overhead"])
        .args(words)
        .arg(count)
        .exits(0);
    let text = tried.text();
    let ratio = changed_ratio(&text, "guest");
    assert!((0.05..20.0).contains(&ratio), "{text}");
    assert!(!text.contains("failed"), "{text}");
    // Its definition is what it was, and it is off.
    assert_eq!(fs::read_to_string(all.definition("a")).unwrap(), before);
    assert!(all.processes("qemu").is_empty());
}

const DOMAIN: &str = "<domain type='qemu'>\
    <name>slow</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
    <os><type arch='x86_64' machine='pc'>hvm</type></os>\
    <devices><disk type='file' device='disk'><driver name='qemu' type='raw' cache='unsafe'/>\
    <source file='/nowhere'/><target dev='vda' bus='virtio'/></disk></devices></domain>";

fn a_domain_is_changed_and_restored() {
    let libvirt = Libvirt::start();
    libvirt.define(DOMAIN);
    let state = tempdir().unwrap();
    let uri = libvirt.uri();
    let on = |words: &[&str]| {
        brisk_of!["overhead"]
            .args(words)
            .args(["--domain", "slow", "--connect", &uri])
            .env("BRISK_STATE_DIR", state.path())
            .exits(0)
    };
    let xml = || libvirt.virsh(&["dumpxml", "--inactive", "slow"]);
    let before = xml();
    let rules = ["--rule=guest-unsafe-cache", "--rule=guest-pinning"];
    let _ = on(&[&["fix", "--apply"], &rules[..]].concat());
    let after = xml();
    assert!(after.contains("cache='writeback'"), "{after}");
    assert!(after.contains("<vcpupin vcpu='0' cpuset='"), "{after}");
    let _ = on(&["undo"]);
    assert_eq!(xml(), before);
}
