//! Guests are looked at and changed: files, command lines and processes.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use brisk_testkit::{Brisk, Refusal, apart, brisk_of, capture, refuse, tool, trial, trials};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn main() {
    let here: [(_, fn()); 12] = [
        (
            "a_script_is_not_replaced_by_its_command",
            a_script_is_not_replaced_by_its_command,
        ),
        (
            "a_file_keeps_its_mode_and_the_links_to_it",
            a_file_keeps_its_mode_and_the_links_to_it,
        ),
        (
            "one_file_that_is_none_leaves_the_others",
            one_file_that_is_none_leaves_the_others,
        ),
        (
            "a_terminal_gets_no_control_sequences_of_a_command_line",
            a_terminal_gets_no_control_sequences_of_a_command_line,
        ),
        (
            "files_are_looked_at_in_each_form",
            files_are_looked_at_in_each_form,
        ),
        (
            "sarif_names_files_of_any_name_and_no_others",
            sarif_names_files_of_any_name_and_no_others,
        ),
        (
            "the_status_depends_on_the_worst_finding",
            the_status_depends_on_the_worst_finding,
        ),
        (
            "only_what_is_wrong_in_a_file_changes",
            only_what_is_wrong_in_a_file_changes,
        ),
        (
            "a_changed_command_line_is_one_that_qemu_takes",
            a_changed_command_line_is_one_that_qemu_takes,
        ),
        (
            "guests_that_run_are_looked_at",
            guests_that_run_are_looked_at,
        ),
        ("what_is_no_guest_is_named", what_is_no_guest_is_named),
        ("many_guests_have_a_summary_and_a_baseline", many_guests),
    ];
    let mut all = trials(None, here);
    let validator = tool("virt-xml-validate").is_file() && tool("xmllint").is_file();
    let without = (!validator).then_some("without virt-xml-validate or xmllint (libxml2-utils)");
    all.push(trial(
        "a_windows_guest_gets_what_its_enlightenments_need",
        without,
        a_windows_guest_gets_what_its_enlightenments_need,
    ));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn brisk() -> Brisk {
    brisk_of!("idle")
}

fn many_guests() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let start = "qemu-system-x86_64 -accel kvm -nodefaults -name debug-threads=on -M pc";
    let uhci = "-device piix3-usb-uhci,id=u -device usb-tablet,bus=u.0";
    for (name, more) in [("a.sh", ""), ("b.sh", uhci), ("c.sh", ",hpet=off")] {
        let separator = if more.starts_with('-') { " " } else { "" };
        fs::write(path(name), format!("{start}{separator}{more}\n")).unwrap();
    }
    let files = ["a.sh", "b.sh", "c.sh"].map(path);
    let lint = |more: &[&str]| brisk().arg("lint").args(&files).args(more);
    let text = lint(&[]).exits(1).text();
    let summary = "2 of 3 guests have findings:\n  \
        high    hpet: 2 guests, 2 changed by brisk idle fix\n  \
        high    usb-uhci: 1 guest, 1 changed by brisk idle fix\n\n";
    assert!(text.starts_with(summary), "{text}");
    let one = brisk().args(["lint", &files[0]]).exits(1).text();
    assert!(!one.contains("guests have findings"), "{one}");

    let json = brisk()
        .arg("lint")
        .args(&files[..2])
        .args(["--format", "json", "--rule", "hpet"]);
    let json = json.exits(1).text();
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["guests"][0]["kind"], "command-line");
    assert_eq!(found["guests"][0]["findings"][0]["fixable"], true);
    fs::write(path("baseline"), json).unwrap();
    let left = lint(&["--baseline", &path("baseline")]).exits(1).text();
    assert!(
        !left.contains("[hpet]") && left.contains("[usb-uhci]"),
        "{left}"
    );
    assert!(left.contains("The baseline accepts 2 more."), "{left}");
    let none = brisk().args(["lint", &files[0], "--baseline", &path("baseline")]);
    let none = none.exits(0).text();
    assert_eq!(
        none,
        "No problems found beside 1 that the baseline accepts.\n"
    );
    let other = brisk().args(["lint", &files[0], "--baseline", &files[1]]);
    let _ = other
        .exits(125)
        .explains(&["as a baseline", "--format json writes"]);
}

const WEB: &str = include_str!("fixtures/web.xml");

fn web(dir: &TempDir) -> String {
    let path = dir.path().join("web.xml");
    fs::write(&path, WEB).unwrap();
    path.to_str().unwrap().to_owned()
}

fn files_are_looked_at_in_each_form() {
    let dir = tempdir().unwrap();
    let file = web(&dir);
    let script = dir.path().join("start.sh");
    fs::write(
        &script,
        "#!/bin/sh\nexec qemu-system-x86_64 -nodefaults \\\n  -append nohz=off\n",
    )
    .unwrap();
    let script = script.to_str().unwrap();
    let table = brisk().args(["lint", &file, script]).exits(1).text();
    for line in [
        format!("{file}:8:5: high: the kernel ticks when it is idle (nohz=off) [nohz]"),
        format!("{file}:14:5: low: QEMU asks for statistics of memory every 2 s [balloon-stats]"),
        format!("{script}: -append nohz=off: high: the kernel ticks"),
    ] {
        assert!(table.contains(&line), "{line}\n{table}");
    }
    let json = brisk()
        .args(["lint", "--format=json", "--rule=nohz", &file])
        .exits(1)
        .text();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "brisk.idle.lint/1");
    let finding = &json["guests"][0]["findings"][0];
    assert_eq!(
        (&finding["rule"], &finding["severity"]),
        (&"nohz".into(), &"high".into())
    );
    let place = &finding["where"]["element"];
    let bytes = |end: &str| usize::try_from(place["bytes"][end].as_u64().unwrap()).unwrap();
    assert!(WEB[bytes("start")..bytes("end")].starts_with("<cmdline>"));
    let sarif = brisk()
        .args(["lint", "--format=sarif", &file, script])
        .exits(1)
        .text();
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(sarif["version"], "2.1.0");
    let results = run["results"].as_array().unwrap();
    let nohz = results
        .iter()
        .find(|result| result["ruleId"] == "nohz")
        .unwrap();
    assert_eq!(nohz["level"], "error");
    let location = &nohz["locations"][0]["physicalLocation"];
    assert_eq!(location["region"]["startLine"], 8);
    assert_eq!(
        location["artifactLocation"]["uri"],
        format!("file://{file}")
    );
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(
            run["tool"]["driver"]["rules"][index]["id"],
            result["ruleId"]
        );
    }
}

fn sarif_names_files_of_any_name_and_no_others() {
    let dir = tempdir().unwrap();
    let name = OsStr::from_bytes(b"\xff 50%.xml");
    fs::write(dir.path().join(name), WEB).unwrap();
    // A guest that is no file may have the name of one.
    fs::write(dir.path().join("command line"), WEB).unwrap();
    let location = |words: &[&OsStr]| {
        let lint = brisk()
            .current_dir(dir.path())
            .args(["lint", "--format=sarif"]);
        let sarif: Value = serde_json::from_str(&lint.args(words).exits(1).text()).unwrap();
        sarif["runs"][0]["results"][0]["locations"][0].clone()
    };
    let file = location(&[name]);
    let artifact = &file["physicalLocation"]["artifactLocation"];
    assert_eq!(artifact["uri"], "%FF%2050%25.xml");
    let words = ["--", "qemu-system-x86_64", "-append", "nohz=off"].map(OsStr::new);
    let line = location(&words);
    let logical = &line["logicalLocations"][0]["fullyQualifiedName"];
    assert_eq!(logical, "command line");
    assert!(line["physicalLocation"].is_null(), "{line}");
}

fn the_status_depends_on_the_worst_finding() {
    let dir = tempdir().unwrap();
    let file = web(&dir);
    let lint = |fail_on: &str, rule: &str, status: i32| {
        let words = ["lint", "--fail-on", fail_on, "--rule", rule, &file];
        brisk().args(words).exits(status);
    };
    lint("high", "nohz", 1);
    lint("never", "nohz", 0);
    lint("medium", "balloon-stats", 0);
    lint("low", "balloon-stats", 1);
    let none = brisk()
        .args(["lint", "--rule", "idle-poll", &file])
        .exits(0);
    assert_eq!(none.text(), "No problems found.\n");
}

fn only_what_is_wrong_in_a_file_changes() {
    let dir = tempdir().unwrap();
    let file = web(&dir);
    let shown = brisk().args(["fix", &file]).exits(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), WEB);
    let changed: Vec<_> = shown.text().lines().map(str::to_owned).collect();
    let changed: Vec<_> = changed
        .iter()
        .filter(|line| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        })
        .collect();
    let expected = [
        "-    <cmdline>root=/dev/vda   nohz=off quiet</cmdline>",
        "+    <cmdline>root=/dev/vda quiet</cmdline>",
        "+    <timer name=\"hpet\" present=\"no\"/>",
        "-    <memballoon model='virtio'><stats period='2'/></memballoon>",
        "+    <memballoon model='virtio'><stats period='10'/></memballoon>",
    ];
    assert_eq!(changed, expected);
    let piped = brisk().args(["fix", "--output=-", &file]).exits(0).text();
    brisk().args(["fix", "--output", &file, &file]).exits(0);
    let fixed = fs::read_to_string(&file).unwrap();
    assert_eq!(piped, fixed);
    assert!(fixed.starts_with("<?xml version='1.0'?>\n<!-- Ours: ask"));
    let again = brisk().args(["fix", &file]).exits(0);
    assert_eq!(again.text(), "");
    assert!(
        again.stderr.contains("nothing to change"),
        "{}",
        again.stderr
    );
    // Only what is asked for.
    let file = web(&dir);
    let one = brisk()
        .args(["fix", "--rule=nohz", "--output=-", &file])
        .exits(0)
        .text();
    assert_eq!(one, WEB.replace("   nohz=off", ""));
}

/// A QEMU that starts with these words and is told to end.
fn starts(words: &[String]) -> bool {
    let mut child = Command::new(tool(&words[0]))
        .args(&words[1..])
        .args(["-display", "none", "-S", "-monitor", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may have ended by itself.
    let _ = std::io::Write::write_all(&mut input, b"quit\n");
    drop(input);
    child.wait().unwrap().success()
}

fn a_changed_command_line_is_one_that_qemu_takes() {
    for line in [
        "-M pc -usb -device usb-tablet,bus=usb-bus.0,port=1 -device usb-kbd",
        "-M pc,usb=on -device usb-tablet",
        "-M pc -usbdevice tablet",
        "-device piix3-usb-uhci,id=uhci,addr=0x4.2 -device usb-tablet,bus=uhci.0,port=1",
        "-M q35 -name win11 -cpu qemu64 -overcommit cpu-pm=on",
        "-object iothread,id=a,poll-max-ns=900000 -device virtio-balloon-pci",
    ] {
        let words = ["qemu-system-x86_64", "-accel", "tcg"]
            .into_iter()
            .chain(line.split(' '));
        let words: Vec<_> = words.map(str::to_owned).collect();
        assert!(starts(&words), "{line}");
        let fixed = brisk()
            .args(["fix", "--output=-", "--"])
            .args(&words)
            .exits(0);
        let fixed = fixed.explains(&["makes the machine and the devices of the changed"]);
        let text = fixed.text().replace("\\\n", " ");
        let changed = shlex::split(&text).unwrap();
        assert_ne!(changed, words);
        assert!(starts(&changed), "{text}");
        let left = brisk()
            .args(["lint", "--fail-on=high", "--"])
            .args(&changed)
            .exits(0);
        assert!(!left.text().contains("usb-uhci"), "{}", left.text());
    }
}

fn guests_that_run_are_looked_at() {
    let mut qemu = Command::new(tool("qemu-system-x86_64"))
        .args([
            "-accel",
            "tcg",
            "-S",
            "-display",
            "none",
            "-nodefaults",
            "-M",
            "pc",
        ])
        .args(["-overcommit", "cpu-pm=on", "-monitor", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The monitor's greeting: it runs.
    let mut greeting = [0];
    std::io::Read::read_exact(qemu.stdout.as_mut().unwrap(), &mut greeting).unwrap();
    let pid = qemu.id().to_string();
    let one = brisk().args(["lint", "--pid", &pid]).exits(1).text();
    let all = brisk().args(["lint", "--all"]).exits(1).text();
    qemu.kill().unwrap();
    qemu.wait().unwrap();
    let expected = format!("process {pid}: -overcommit cpu-pm=on: high: the guest puts CPUs");
    for text in [one, all] {
        assert!(text.contains(&expected), "{text}");
    }
}

fn a_script_is_not_replaced_by_its_command() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("start.sh");
    let script =
        "MEM=1G\nqemu-system-x86_64 -m 1G -usb -device usb-tablet 2>&1 | tee log; echo x\n";
    fs::write(&path, script).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (file, link) = (path.to_str().unwrap(), link.to_str().unwrap());
    for output in [file, link] {
        let refused = brisk().args(["fix", file, "--output", output]).exits(125);
        assert!(refused.stderr.contains("is a script"), "{}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), script);
    let command = brisk().args(["fix", file, "--output=-"]).exits(0).text();
    let words = shlex::split(&command.replace("\\\n", " ")).unwrap();
    assert!(
        !words.iter().any(|word| word == "2>&1" || word == "tee"),
        "{words:?}"
    );
    fs::write(&path, "qemu-system-x86_64 -m $MEM\n").unwrap();
    let refused = brisk().args(["lint", file]).exits(125);
    assert!(
        refused.stderr.contains("which a shell replaces"),
        "{}",
        refused.stderr
    );
}

fn a_file_keeps_its_mode_and_the_links_to_it() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempdir().unwrap();
    let file = web(&dir);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = dir.path().join("link.xml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let link = link.to_str().unwrap();
    // Only root gives files away. By the name of a file somebody else's could be given.
    let owner = std::os::unix::fs::chown(&file, Some(12345), Some(54321));
    let owner = owner.map_or_else(|_| rustix::process::getuid().as_raw(), |()| 12345);
    apart(|| {
        refuse(&[Refusal::OwnersByName]);
        brisk().args(["fix", link, "--output", link]).exits(0);
    });
    assert_eq!(fs::metadata(&file).unwrap().uid(), owner);
    assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o640);
    assert!(!fs::read_to_string(&file).unwrap().contains("nohz=off"));
    let new = dir.path().join("new.xml");
    let new = new.to_str().unwrap();
    brisk()
        .args(["fix", &file, "--rule=cdrom", "--output", new])
        .exits(0);
    // There may be passwords in it.
    assert_eq!(mode(new), 0o600);
}

fn one_file_that_is_none_leaves_the_others() {
    let dir = tempdir().unwrap();
    let file = web(&dir);
    let named = dir.path().join("a\x1b[31m\nb.xml");
    fs::write(&named, WEB).unwrap();
    let words = [
        "lint",
        "/nonexistent.xml",
        &file,
        "/dev/zero",
        named.to_str().unwrap(),
    ];
    let ended = brisk().args(words).exits(125);
    assert!(ended.stderr.contains("/nonexistent.xml") && ended.stderr.contains("regular"));
    assert!(ended.text().contains(&format!("{file}:8:5: high")));
    // Nothing of a name is for the terminal.
    assert!(ended.text().contains("a\\u{1b}[31m\\nb.xml:") && !ended.text().contains('\x1b'));
}

fn a_terminal_gets_no_control_sequences_of_a_command_line() {
    let words = ["fix", "--", "kvm", "-name", "a\x1b[31m"];
    let piped = brisk().args(words).exits(0);
    assert!(piped.text().contains("-name 'a\x1b[31m"));
    let (run, _window) = brisk().args(words).on_terminal(24, 80);
    let shown = run.wait().exited(0).text();
    assert!(
        shown.contains("a\\u{1b}[31m") && !shown.contains("\x1b[31m"),
        "{shown}"
    );
}

/// A definition as guides to idle Windows guests have it: a synthetic timer without what it needs.
fn a_windows_guest_gets_what_its_enlightenments_need() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("win10.xml");
    fs::write(&file, include_str!("fixtures/win10.xml")).unwrap();
    let file = file.to_str().unwrap();
    let found = brisk().args(["lint", file]).exits(1).text();
    for text in [
        "hv-synic needs hv-vpindex [hv-deps]",
        "hv-stimer needs hv-time [hv-deps]",
        "no reference time (hv-time, hypervclock) [hv-time]",
    ] {
        assert!(found.contains(text), "{text}: {found}");
    }
    brisk().args(["fix", file, "--output", file]).exits(0);
    let fixed = fs::read_to_string(file).unwrap();
    assert!(fixed.contains("<vpindex state='on'/>") && fixed.contains("'hypervclock'"));
    let left = brisk().args(["lint", file, "--fail-on", "note"]).exits(0);
    assert_eq!(left.text(), "No problems found.\n");
    let validator = tool("virt-xml-validate");
    let _ = capture(&validator, &[file, "domain"]);
    // It would say so.
    fs::write(file, fixed.replace("<vpindex", "<vpindices")).unwrap();
    let status = Command::new(validator).args([file, "domain"]).output();
    assert!(!status.unwrap().status.success());
}

fn what_is_no_guest_is_named() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("net.xml");
    fs::write(&file, "<network/>").unwrap();
    let file = file.to_str().unwrap();
    for (words, says) in [
        (vec!["lint"], "no guest was named"),
        (vec!["fix", "a.xml", "b.xml"], "cannot read a.xml"),
        (vec!["lint", file], "<network>"),
        (vec!["lint", "--explain", "x"], "--rules lists them"),
        (vec!["lint", "--pid", "1"], "not a QEMU"),
        (vec!["lint", "--vm", "nobody"], "nobody"),
        (vec!["fix", "--rule", "x", file], "there is no rule x"),
        (vec!["fix", "--apply", file], "--output"),
    ] {
        let ended = brisk().args(&words).exits(125);
        assert!(ended.stderr.contains(says), "{words:?}: {}", ended.stderr);
    }
}
