//! Domains of libvirt are changed, and restored.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use brisk_testkit::{Brisk, Libvirt, brisk_of, tool, trials, until};
use libtest_mimic::Arguments;
use tempfile::tempdir;

fn main() {
    let of_domains: [(_, fn()); 9] = [
        (
            "a_domain_is_changed_and_restored_with_its_password",
            a_domain_is_changed_and_restored_with_its_password,
        ),
        (
            "a_domain_that_somebody_changed_is_not_restored",
            a_domain_that_somebody_changed_is_not_restored,
        ),
        (
            "a_process_cannot_hide_behind_a_domain",
            a_process_cannot_hide_behind_a_domain,
        ),
        (
            "a_domain_with_a_saved_state_is_left_alone",
            a_domain_with_a_saved_state_is_left_alone,
        ),
        (
            "all_domains_are_changed_and_restored_together",
            all_domains_are_changed_and_restored_together,
        ),
        (
            "a_domain_that_was_renamed_is_restored",
            a_domain_that_was_renamed_is_restored,
        ),
        (
            "a_change_that_was_cut_off_is_undone",
            a_change_that_was_cut_off_is_undone,
        ),
        (
            "a_domain_that_is_gone_does_not_keep_the_others",
            a_domain_that_is_gone_does_not_keep_the_others,
        ),
        (
            "a_libvirt_that_does_not_answer_is_a_missing_part",
            a_libvirt_that_does_not_answer_is_a_missing_part,
        ),
    ];
    let all = trials(Libvirt::forbidden(), of_domains);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

/// Whether the HPET is changed unasked depends on the version of libvirt's QEMU.
const FIX: [&str; 4] = ["fix", "--rule=hpet", "--rule=nohz", "--rule=balloon-stats"];

const WEB: &str = include_str!("fixtures/web.xml");

/// A libvirt with a domain that has a password.
fn with_domain() -> Libvirt {
    with(WEB)
}

fn with(xml: &str) -> Libvirt {
    let libvirt = Libvirt::start();
    let xml = xml.replace("type='kvm'", "type='qemu'").replace(
        "<devices>",
        "<devices><graphics type='vnc' passwd='hu&lt;sh'><listen type='none'/></graphics>",
    );
    libvirt.define(&xml[xml.find("<!--").unwrap()..]);
    libvirt
}

fn on(libvirt: &Libvirt, words: &[&str], state: &Path) -> Brisk {
    let uri = libvirt.uri();
    brisk_of!("idle")
        .args(words)
        .args(["--domain", "web", "--connect", &uri])
        .env("BRISK_STATE_DIR", state)
}

fn secret(libvirt: &Libvirt) -> String {
    libvirt.virsh(&["dumpxml", "--inactive", "--security-info", "web"])
}

/// All that is in the files of a directory.
fn content(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        text += &match path.is_dir() {
            true => content(&path),
            false => fs::read_to_string(&path).unwrap(),
        };
    }
    text
}

fn a_domain_is_changed_and_restored_with_its_password() {
    let libvirt = with_domain();
    let state = tempdir().unwrap();
    let before = secret(&libvirt);
    assert!(before.contains("passwd='hu&lt;sh'"));
    let shown = on(&libvirt, &FIX, state.path()).exits(0);
    assert_eq!(secret(&libvirt), before);
    let applied = on(&libvirt, &[&FIX[..], &["--apply"]].concat(), state.path()).exits(0);
    assert_eq!(applied.text(), shown.text());
    assert!(
        applied.stderr.contains("at the next start"),
        "{}",
        applied.stderr
    );
    let after = secret(&libvirt);
    let had: Vec<_> = before.lines().collect();
    let new: Vec<_> = after
        .lines()
        .filter(|line| !had.contains(line))
        .map(str::trim)
        .collect();
    assert_eq!(
        new,
        [
            "<cmdline>root=/dev/vda quiet</cmdline>",
            "<timer name='hpet' present='no'/>",
            "<stats period='10'/>"
        ]
    );
    let kept = content(state.path());
    assert!(kept.contains("nohz=off") && !kept.contains("sh'") && !kept.contains("passwd"));
    assert!(!applied.stderr.contains("hu&lt;sh") && !applied.text().contains("passwd"));
    // Twice is as once.
    let again = on(&libvirt, &[&FIX[..], &["--apply"]].concat(), state.path()).exits(0);
    assert_eq!(again.text(), "");
    let undone = on(&libvirt, &["undo"], state.path()).exits(0);
    assert!(
        undone.stderr.contains("as it was before"),
        "{}",
        undone.stderr
    );
    assert_eq!(secret(&libvirt), before);
    let none = on(&libvirt, &["undo"], state.path()).exits(125);
    assert!(
        none.stderr.contains("no backup of domain web"),
        "{}",
        none.stderr
    );
}

fn a_domain_that_somebody_changed_is_not_restored() {
    let libvirt = with_domain();
    let state = tempdir().unwrap();
    let before = secret(&libvirt);
    on(&libvirt, &["fix", "--apply"], state.path()).exits(0);
    libvirt.virsh(&["desc", "web", "--config", "--title", "shop"]);
    let changed = secret(&libvirt);
    let refused = on(&libvirt, &["undo"], state.path()).exits(125);
    assert!(
        refused.stderr.contains("was changed by somebody"),
        "{}",
        refused.stderr
    );
    assert_eq!(secret(&libvirt), changed);
    on(&libvirt, &["undo", "--force"], state.path()).exits(0);
    assert_eq!(secret(&libvirt), before);
}

fn a_process_cannot_hide_behind_a_domain() {
    // QEMU takes no command line of a kernel without a kernel.
    let line = "    <cmdline>root=/dev/vda   nohz=off quiet</cmdline>\n";
    let libvirt = with(&WEB.replace(line, ""));
    let state = tempdir().unwrap();
    libvirt.virsh(&["start", "web", "--paused"]);
    let real = libvirt.process("web").pid;
    let uuid = libvirt.virsh(&["domuuid", "web"]);
    let mut other = Command::new(tool("qemu-system-x86_64"))
        .args(["-M", "none", "-S", "-nodefaults", "-display", "none"])
        .args(["-uuid", uuid.trim(), "-monitor", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = other.id();
    let words = format!("/proc/{pid}/cmdline");
    until("it has its words", || {
        let line = fs::read_to_string(&words).unwrap();
        line.contains("-uuid").then_some(())
    });
    let measured = on(&libvirt, &["measure", "--time=1s"], state.path()).exits(125);
    assert!(
        measured.stderr.contains(&pid.to_string()),
        "{}",
        measured.stderr
    );
    let uri = libvirt.uri();
    let all = brisk_of!("idle").args(["lint", "--all", "--fail-on=never", "--format=json"]);
    let all = all.args(["--connect", &uri]).exits(0).text();
    for name in [
        "web".to_owned(),
        format!("process {pid}"),
        format!("process {real}"),
    ] {
        assert!(all.contains(&format!("\"guest\": \"{name}\"")), "{name}");
    }
    other.kill().unwrap();
    other.wait().unwrap();
    let alone = brisk_of!("idle").args(["lint", "--all", "--fail-on=never", "--format=json"]);
    let alone = alone.args(["--connect", &uri]).exits(0).text();
    assert!(!alone.contains(&format!("process {real}")));
}

fn a_domain_with_a_saved_state_is_left_alone() {
    // QEMU takes no command line of a kernel without a kernel.
    let line = "    <cmdline>root=/dev/vda   nohz=off quiet</cmdline>\n";
    let libvirt = with(&WEB.replace(line, ""));
    let state = tempdir().unwrap();
    libvirt.virsh(&["start", "web", "--paused"]);
    // While it runs, the next start is what changes.
    let applied = on(&libvirt, &["fix", "--rule=hpet", "--apply"], state.path()).exits(0);
    assert!(
        applied.stderr.contains("shut down and started again"),
        "{}",
        applied.stderr
    );
    on(&libvirt, &["undo"], state.path()).exits(0);
    libvirt.virsh(&["managedsave", "web"]);
    let before = secret(&libvirt);
    let refused = on(&libvirt, &["fix", "--apply"], state.path()).exits(125);
    assert!(
        refused.stderr.contains("managedsave-remove web"),
        "{}",
        refused.stderr
    );
    assert_eq!(secret(&libvirt), before);
    // Nothing is left of the attempt.
    assert_eq!(content(state.path()), "");
}

fn all_domains_are_changed_and_restored_together() {
    // QEMU takes no command line of a kernel without a kernel.
    let line = "    <cmdline>root=/dev/vda   nohz=off quiet</cmdline>\n";
    let libvirt = with(&WEB.replace(line, ""));
    let definition = |name: &str| {
        let (start, end) = (WEB.find("<!--").unwrap(), WEB.len());
        let xml = WEB[start..end].replace("type='kvm'", "type='qemu'");
        xml.replace(line, "")
            .replace("<name>web<", &format!("<name>{name}<"))
    };
    for name in ["db", "saved"] {
        libvirt.define(&definition(name));
    }
    libvirt.virsh(&["start", "saved", "--paused"]);
    libvirt.virsh(&["managedsave", "saved"]);
    let state = tempdir().unwrap();
    let uri = libvirt.uri();
    let idle = |words: &[&str]| {
        let words = brisk_of!("idle").args(words);
        words.env("BRISK_STATE_DIR", state.path())
    };
    let all = |more: &[&str]| {
        let words = ["fix", "--all", "--rule=hpet", "--connect", &uri];
        idle(&[&words[..], more].concat())
    };
    let xml = |name: &str| libvirt.virsh(&["dumpxml", "--inactive", "--security-info", name]);
    let names = ["web", "db", "saved"];
    let before = names.map(xml);
    let shown = all(&[]).exits(0).explains(&["of 3 guests: hpet 3; "]);
    for name in names {
        let header = format!("--- a/{name}\n");
        assert_eq!(shown.text().matches(&header).count(), 1, "{}", shown.text());
    }
    let unnamed = idle(&["fix", "--all", "--apply", "--connect", &uri]).exits(125);
    let _ = unnamed.explains(&["name the rules with --rule"]);
    assert_eq!(names.map(xml), before);

    let applied = all(&["--apply"]).exits(125);
    let _ = applied.explains(&[
        "saved stays as it is",
        "managedsave-remove saved",
        "of 3 guests: hpet 2; ",
        "undo --all",
    ]);
    let after = names.map(xml);
    assert_eq!(after[2], before[2]);
    for (before, after) in before.iter().zip(&after).take(2) {
        assert_ne!(before, after);
        assert!(
            after.contains("<timer name='hpet' present='no'/>"),
            "{after}"
        );
    }
    let json = all(&["--format=json"]).exits(0).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let applied = json["guests"].as_array().unwrap().iter();
    let applied: Vec<_> = applied
        .map(|guest| guest["applied"].as_array().unwrap().len())
        .collect();
    assert_eq!(applied.iter().sum::<usize>(), 1, "{json}");

    // One that somebody changed since is left, and the others are restored.
    libvirt.virsh(&["desc", "db", "--config", "--title", "shop"]);
    let undone = idle(&["undo", "--all"]).exits(125);
    let _ = undone.explains(&[
        "domain web is defined as it was before",
        "domain db stays as it is",
        "was changed by somebody",
    ]);
    assert_eq!(xml("web"), before[0]);
    let forced = idle(&["undo", "--all", "--force"]).exits(0);
    let _ = forced.explains(&["domain db is defined as it was before"]);
    assert_eq!(names.map(xml), before);
    let none = idle(&["undo", "--all"]).exits(125);
    let _ = none.explains(&["nothing to undo"]);
}

fn a_domain_that_was_renamed_is_restored() {
    let libvirt = with_domain();
    let state = tempdir().unwrap();
    let before = secret(&libvirt);
    let uri = libvirt.uri();
    for force in [&[][..], &["--force"]] {
        on(&libvirt, &[&FIX[..], &["--apply"]].concat(), state.path()).exits(0);
        libvirt.virsh(&["domrename", "web", "shop"]);
        if !force.is_empty() {
            libvirt.virsh(&["desc", "shop", "--config", "--title", "shop"]);
        }
        let words = ["undo", "--domain", "shop", "--connect", &uri];
        let undo = brisk_of!("idle").args([&words[..], force].concat());
        let undone = undo.env("BRISK_STATE_DIR", state.path()).exits(0);
        let _ = undone.explains(&["domain shop is defined as it was before"]);
        libvirt.virsh(&["domrename", "shop", "web"]);
        assert_eq!(secret(&libvirt), before);
    }
}

/// The file of the domain's only backup.
fn backup(libvirt: &Libvirt, state: &Path) -> std::path::PathBuf {
    let uuid = libvirt.virsh(&["domuuid", "web"]);
    state.join("idle").join(uuid.trim()).join("1.json")
}

/// As when brisk is killed after libvirt defined it, and before it said so in the backup.
fn a_change_that_was_cut_off_is_undone() {
    let libvirt = with_domain();
    let state = tempdir().unwrap();
    let before = secret(&libvirt);
    let planned = on(
        &libvirt,
        &[&FIX[..], &["--output=-"]].concat(),
        state.path(),
    );
    let planned = planned.exits(0).text();
    let cut_off = |planned: &str| {
        on(&libvirt, &[&FIX[..], &["--apply"]].concat(), state.path()).exits(0);
        assert_ne!(secret(&libvirt), before);
        let path = backup(&libvirt, state.path());
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(json.get("planned"), None);
        json["after"] = "".into();
        json["planned"] = planned.into();
        fs::write(&path, json.to_string()).unwrap();
    };
    cut_off(&planned);
    on(&libvirt, &["undo"], state.path()).exits(0);
    assert_eq!(secret(&libvirt), before);
    cut_off("<domain/>");
    let refused = on(&libvirt, &["undo"], state.path()).exits(125);
    let _ = refused.explains(&["brisk was ended while it changed domain web", "--force"]);
    on(&libvirt, &["undo", "--force"], state.path()).exits(0);
    assert_eq!(secret(&libvirt), before);
}

fn a_domain_that_is_gone_does_not_keep_the_others() {
    // QEMU takes no command line of a kernel without a kernel.
    let line = "    <cmdline>root=/dev/vda   nohz=off quiet</cmdline>\n";
    let libvirt = with(&WEB.replace(line, ""));
    let state = tempdir().unwrap();
    let uri = libvirt.uri();
    let idle = |words: &[&str]| {
        let words = brisk_of!("idle").args(words);
        words.env("BRISK_STATE_DIR", state.path())
    };
    let fix = ["fix", "--all", "--rule=hpet", "--apply", "--connect", &uri];
    let before = secret(&libvirt);
    idle(&fix).exits(0);
    let xml = WEB.replace(line, "").replace("type='kvm'", "type='qemu'");
    libvirt.define(&xml[xml.find("<!--").unwrap()..].replace("<name>web<", "<name>z<"));
    let _ = idle(&fix).exits(0).explains(&["of 2 guests: hpet 1"]);
    libvirt.virsh(&["undefine", "z"]);
    let aside = idle(&["undo", "--all"]).exits(125);
    let _ = aside.explains(&["there is no domain z any more", "1.gone-1"]);
    assert_ne!(secret(&libvirt), before);
    idle(&["undo", "--all"]).exits(0);
    assert_eq!(secret(&libvirt), before);
}

/// One that is not there has no domains; one that does not answer may have some.
fn a_libvirt_that_does_not_answer_is_a_missing_part() {
    let dir = tempdir().unwrap();
    let socket = dir.path().join("socket");
    let all = || {
        let uri = format!("qemu+unix:///system?socket={}", socket.display());
        let words = brisk_of!("idle").args(["lint", "--all", "--fail-on", "never"]);
        words.env("LIBVIRT_DEFAULT_URI", uri)
    };
    let absent = all().exits(0);
    let _ = absent.explains(&["domains of libvirt are left out"]);
    drop(UnixListener::bind(&socket).unwrap());
    let silent = all().exits(125);
    let _ = silent.explains(&["domains of libvirt are left out", "Connection refused"]);
}
