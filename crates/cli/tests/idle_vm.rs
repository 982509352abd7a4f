//! Definitions of brisk's own VMs are looked at, changed, restored and proven.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use brisk_testkit::{Brisk, Machines, Signal, brisk_of, until};
use serde_json::Value;

const DEFINITION: &str = "# Of the shop.\nmemory = \"128M\"   # enough\nappend = [ 'quiet', \
                          \"nohz=off highres=on\" ] # for a test\r\ncpus=1\n";
const FIXED: &str = "# Of the shop.\nmemory = \"128M\"   # enough\nappend = [ 'quiet', \
                     \"highres=on\" ] # for a test\r\ncpus=1\n";

/// A VM `a` whose kernel ticks.
fn machines() -> Machines {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(all.definition("a").parent().unwrap()).unwrap();
    fs::write(all.definition("a"), DEFINITION).unwrap();
    all
}

fn idle(all: &Machines, words: &[&str]) -> Brisk {
    all.with(brisk_of!["idle"]).args(words)
}

fn definition(all: &Machines) -> String {
    fs::read_to_string(all.definition("a")).unwrap()
}

#[test]
fn a_definition_is_changed_byte_by_byte_and_restored() {
    let all = machines();
    let shown = idle(&all, &["fix", "--vm", "a"]).exits(0).text();
    let lines: Vec<_> = shown.lines().skip(3).collect();
    assert_eq!(
        lines,
        [
            " # Of the shop.",
            " memory = \"128M\"   # enough",
            "-append = [ 'quiet', \"nohz=off highres=on\" ] # for a test",
            "+append = [ 'quiet', \"highres=on\" ] # for a test",
            " cpus=1",
        ]
    );
    let json = idle(&all, &["fix", "--vm", "a", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.exits(0).text()).unwrap();
    assert_eq!(json["result"], FIXED);
    assert_eq!(definition(&all), DEFINITION);
    let applied = idle(&all, &["fix", "--vm", "a", "--apply"]).exits(0);
    assert_eq!(applied.text(), shown);
    let _ = applied.explains(&["changes of the rules nohz", "at the next start"]);
    assert_eq!(definition(&all), FIXED);
    // Twice is as once, and leaves no backup of its own.
    let again = idle(&all, &["fix", "--vm", "a", "--apply"]).exits(0);
    assert_eq!(again.text(), "");
    let undone = idle(&all, &["undo", "--vm", "a"]).exits(0);
    let _ = undone.explains(&["VM a is defined as it was before"]);
    assert_eq!(definition(&all), DEFINITION);
    let none = idle(&all, &["undo", "--vm", "a"]).exits(125);
    let _ = none.explains(&["no backup of VM a"]);
}

#[test]
fn all_definitions_are_changed_and_restored_together() {
    let all = machines();
    fs::write(all.definition("b"), DEFINITION).unwrap();
    fs::write(all.definition("idle"), "memory = \"128M\"\n").unwrap();
    let of_b = || fs::read_to_string(all.definition("b")).unwrap();
    let shown = idle(&all, &["fix", "--all"]).exits(0);
    let _ = shown.explains(&["of 3 guests: nohz 2; "]);
    assert_eq!(
        (definition(&all), of_b()),
        (DEFINITION.into(), DEFINITION.into())
    );
    let fix = ["fix", "--all", "--rule", "nohz", "--apply"];
    let applied = idle(&all, &fix).exits(0);
    let _ = applied.explains(&["changed by rule, of 3 guests: nohz 2"]);
    assert_eq!((definition(&all), of_b()), (FIXED.into(), FIXED.into()));
    // Another change of one covers that of both.
    fs::write(all.definition("b"), DEFINITION).unwrap();
    let _ = idle(&all, &["fix", "--vm", "b", "--apply"]).exits(0);
    let undone = idle(&all, &["undo", "--all"]).exits(125);
    let _ = undone.explains(&["VM a is defined as it was", "b was changed once more"]);
    assert_eq!(
        (definition(&all), of_b()),
        (DEFINITION.into(), FIXED.into())
    );
    let _ = idle(&all, &["undo", "--vm", "b"]).exits(0);
    fs::write(all.definition("b"), FIXED).unwrap();
    let undone = idle(&all, &["undo", "--all"]).exits(0);
    let _ = undone.explains(&["VM b is defined as it was"]);
    assert_eq!(of_b(), DEFINITION);
    let _ = idle(&all, &["undo", "--all"]).exits(125);
}

const FIX: [&str; 5] = ["fix", "--all", "--rule", "nohz", "--apply"];

fn write(all: &Machines, name: &str, text: &str) {
    fs::write(all.definition(name), text).unwrap();
}

fn text(all: &Machines, name: &str) -> String {
    fs::read_to_string(all.definition(name)).unwrap()
}

#[test]
fn a_vm_that_is_gone_does_not_keep_the_changes_before_from_being_undone() {
    let all = machines();
    write(&all, "b", DEFINITION);
    let _ = idle(&all, &FIX).exits(0);
    write(&all, "z", DEFINITION);
    let _ = idle(&all, &FIX).exits(0);
    // What covers that of all is out of reach, too.
    write(&all, "z", DEFINITION);
    let _ = idle(&all, &["fix", "--vm", "z", "--apply"]).exits(0);
    let _ = all.does(&["rm", "z"]);
    let kept = all.dir().join("state/idle/vm-z/1.gone-1");
    let aside = idle(&all, &["undo", "--all"]).exits(125);
    let _ = aside.explains(&["there is no VM z any more", kept.to_str().unwrap()]);
    assert!(fs::read_to_string(kept).unwrap().contains("Of the shop."));
    assert_eq!(text(&all, "a"), FIXED);
    let undone = idle(&all, &["undo", "--all"]).exits(0);
    let _ = undone.explains(&["VM a is defined", "VM b is defined"]);
    assert_eq!([text(&all, "a"), text(&all, "b")], [DEFINITION; 2]);
}

#[test]
fn a_damaged_backup_leaves_the_others() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let all = machines();
    let _ = idle(&all, &FIX).exits(0);
    let backups = all.dir().join("state/idle");
    for key in ["yyy", "zzz"] {
        fs::create_dir(backups.join(key)).unwrap();
    }
    fs::write(backups.join("zzz/1.json"), "{}").unwrap();
    mknodat(
        CWD,
        backups.join("yyy/1.json"),
        FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    let undone = idle(&all, &["undo", "--all"]).exits(125);
    let _ = undone.explains(&["yyy/1.json", "zzz/1.json", "VM a is defined as it was"]);
    assert_eq!(definition(&all), DEFINITION);
}

#[test]
fn backups_that_others_can_change_are_not_restored() {
    let all = machines();
    let _ = idle(&all, &FIX).exits(0);
    let backups = all.dir().join("state/idle");
    let set_mode = |mode| fs::set_permissions(&backups, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    for words in [&["undo", "--all"][..], &["undo", "--vm", "a"], &FIX] {
        let _ = idle(&all, words)
            .exits(125)
            .explains(&["writable for all users", "chmod go-w"]);
    }
    assert_eq!(definition(&all), FIXED);
    set_mode(0o700);
    let _ = idle(&all, &["undo", "--all"]).exits(0);
}

#[test]
fn what_could_not_be_changed_is_counted() {
    let all = machines();
    write(&all, "b", DEFINITION);
    let backups = all.dir().join("state/idle");
    fs::create_dir_all(&backups).unwrap();
    // As on a full disk, no backup can be kept.
    let full = |name: &str| backups.join(format!("vm-{name}"));
    fs::write(full("a"), "").unwrap();
    fs::write(full("b"), "").unwrap();
    let none = idle(&all, &FIX).exits(125);
    let _ = none.explains(&["a stays as it is", "none of 2 guests could be changed"]);
    write(&all, "c", "memory = \"128M\"\n");
    let none = idle(&all, &FIX).exits(125);
    let _ = none.explains(&["2 of 3 guests could not be changed, and there is nothing"]);
    fs::remove_file(full("b")).unwrap();
    let some = idle(&all, &FIX).exits(125);
    let _ = some.explains(&["of 3 guests: nohz 1; 1 could not be changed"]);
    assert_eq!([text(&all, "a"), text(&all, "b")], [DEFINITION, FIXED]);
}

const UUID: &str = "uuid = \"1b5d1d25-6c6a-4b39-8e6f-1f2b3c4d5e6f\"\n";

#[test]
fn vms_of_one_uuid_have_backups_of_their_own() {
    let all = machines();
    let before = |name: &str| format!("# {name}\n{UUID}{DEFINITION}");
    for name in ["a", "b"] {
        write(&all, name, &before(name));
    }
    let _ = idle(&all, &FIX).exits(0);
    let undone = idle(&all, &["undo", "--all"]).exits(0);
    let _ = undone.explains(&["VM a is defined as it was", "VM b is defined as it was"]);
    let now = || ["a", "b"].map(|name| text(&all, name));
    assert_eq!(now(), ["a", "b"].map(before));
    let _ = idle(&all, &FIX).exits(0);
    let _ = idle(&all, &["undo", "--vm", "a"]).exits(0);
    assert_ne!(now()[1], before("b"));
    let _ = idle(&all, &["undo", "--vm", "a"]).exits(125);
    let _ = idle(&all, &["undo", "--vm", "b"]).exits(0);
    assert_eq!(now(), ["a", "b"].map(before));
}

#[test]
fn a_vm_that_was_renamed_by_hand_is_restored() {
    let all = machines();
    let before = format!("{UUID}{DEFINITION}");
    for undo in [&["undo", "--all"][..], &["undo", "--vm", "new"]] {
        write(&all, "a", &before);
        let _ = idle(&all, &FIX).exits(0);
        fs::rename(all.definition("a"), all.definition("new")).unwrap();
        let _ = idle(&all, undo).exits(0).explains(&["VM new is defined"]);
        assert_eq!(text(&all, "new"), before);
        fs::remove_file(all.definition("new")).unwrap();
    }
}

#[test]
fn a_definition_that_cannot_be_read_is_restored_by_force() {
    for uuid in ["", UUID] {
        let all = machines();
        let before = format!("{uuid}{DEFINITION}");
        for force in [&["--vm", "a"][..], &["--all"]] {
            write(&all, "a", &before);
            let _ = idle(&all, &FIX).exits(0);
            for broken in [&b"memory = \n"[..], b"\xff"] {
                fs::write(all.definition("a"), broken).unwrap();
                let refused = idle(&all, &[&["undo"], force].concat()).exits(125);
                let _ = refused.explains(&["VM a cannot be read", "--force"]);
                assert_eq!(fs::read(all.definition("a")).unwrap(), broken);
            }
            let _ = idle(&all, &[&["undo", "--force"], force].concat()).exits(0);
            assert_eq!(definition(&all), before);
        }
    }
}

#[test]
fn a_definition_keeps_its_mode_and_the_links_to_it() {
    let all = machines();
    let file = all.dir().join("kept.toml");
    fs::rename(all.definition("a"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, all.definition("a")).unwrap();
    for (words, text) in [
        (&["fix", "--vm", "a", "--apply"][..], FIXED),
        (&["undo", "--vm", "a"], DEFINITION),
    ] {
        let _ = idle(&all, words).exits(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert_eq!(fs::read_link(all.definition("a")).unwrap(), file);
    }
}

#[test]
fn what_somebody_changed_since_stays() {
    let all = machines();
    let _ = idle(&all, &["fix", "--vm", "a", "--apply"]).exits(0);
    let _ = all.does(&["set", "a", "--memory", "256M"]);
    let now = definition(&all);
    let refused = idle(&all, &["undo", "--vm", "a"]).exits(125);
    let _ = refused.explains(&["was changed by somebody", "--force"]);
    assert_eq!(definition(&all), now);
    let _ = idle(&all, &["undo", "--vm", "a", "--force"]).exits(0);
    assert_eq!(definition(&all), DEFINITION);
}

#[test]
fn a_vm_that_runs_is_looked_at_as_it_runs_and_changed_for_its_next_start() {
    let all = machines();
    let rules = ["lint", "--vm", "a", "--rule", "nohz", "--format", "json"];
    let found = |status| {
        let json: Value = serde_json::from_str(&idle(&all, &rules).exits(status).text()).unwrap();
        json["guests"][0]["findings"].as_array().unwrap().len()
    };
    assert_eq!(found(1), 1);
    let _ = all.does(&["start", "a"]);
    let _ = idle(&all, &["fix", "--vm", "a", "--apply"]).exits(0);
    assert_eq!(definition(&all), FIXED);
    assert_eq!(found(1), 1, "it runs with the old command line");
    let proof = idle(&all, &["prove", "--vm", "a", "--rule", "nohz"]).exits(125);
    let _ = proof.explains(&["brisk vm stop a"]);
    let _ = all.does(&["stop", "a"]);
    assert_eq!(found(0), 0);
}

#[test]
fn a_proof_starts_a_vm_and_leaves_it_as_it_was() {
    let all = machines();
    let report = all.dir().join("report.json");
    let settings = "prove --rounds=1 --boot=1s --settle=9s --time=6s --vm a --output".split(' ');
    let settings: Vec<_> = settings.chain(report.to_str()).collect();
    let _ = idle(&all, &settings).exits(0);
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let vcpus = |side: &str| {
        let series = report["series"].as_array().unwrap();
        let name = format!("{side}: vCPUs");
        let series = series.iter().find(|series| series["name"] == *name);
        series.unwrap()["samples"][0]["value"].as_f64().unwrap()
    };
    let factor = vcpus("before").min(vcpus("before again")) / vcpus("fixed");
    assert!(factor >= 15.0, "{factor}: {report:#}");
    assert_eq!(definition(&all), DEFINITION);
    assert_eq!(all.doing("a"), "off");
    assert_eq!(all.count(), 0);
}

#[test]
fn an_interrupted_proof_leaves_no_vm_running() {
    let all = machines();
    let proof = idle(&all, &["prove", "--vm", "a", "--rule", "nohz"]);
    let running = proof.spawn();
    until("its VM runs", || (all.count() > 0).then_some(()));
    running.signal(Signal::INT);
    let _ = running.wait().exited(130).explains(&["interrupted"]);
    assert_eq!(all.count(), 0);
    assert_eq!(all.doing("a"), "off");
    assert_eq!(definition(&all), DEFINITION);
}

#[test]
fn a_vm_that_somebody_starts_meanwhile_is_not_ended_by_a_proof() {
    let all = machines();
    let proof = idle(
        &all,
        &[
            "prove",
            "--vm",
            "a",
            "--rule=nohz",
            "--boot=30s",
            "--settle=0",
            "--time=1s",
            "--rounds=1",
        ],
    );
    let running = proof.spawn();
    until("its VM runs, and can be ended", || {
        running.signal(Signal::STOP);
        let killed = all.vm(&["kill", "a"]).output();
        let is_killed = killed.status.success();
        if !is_killed {
            running.signal(Signal::CONT);
        }
        is_killed.then_some(())
    });
    let _ = all.does(&["start", "a"]);
    running.signal(Signal::CONT);
    let _ = running.wait().exited(125);
    assert_eq!(all.count(), 1);
    assert_eq!(all.doing("a"), "running");
    let _ = all.does(&["kill", "a"]);
}
