//! Suspended VMs and updates of QEMU.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Brisk, Finished, Machines, brisk_of, qemu_is_before, script, system_qemu_before, tool, trials,
};
use libtest_mimic::Arguments;
use tempfile::TempDir;

const NAME: &str = "qemu-system-x86_64";

fn main() {
    let old = qemu_is_before(8, 2);
    let mut all = trials(
        old.clone(),
        [
            (
                "an_update_of_qemu_strands_no_suspended_machine",
                update as fn(),
            ),
            ("a_qemu_that_says_nothing_is_not_waited_for", silent),
            (
                "another_release_of_qemu_is_tried_on_request_alone",
                other_release,
            ),
        ],
    );
    let reason = old.or(system_qemu_before(8, 2).err());
    all.extend(trials(
        reason,
        [(
            "a_qemu_that_cannot_continue_is_refused",
            old_release as fn(),
        )],
    ));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

/// VMs whose QEMU is a script that starts what it is told to.
struct Updated {
    all: Machines,
    /// Reachable for the users that QEMU runs as, with the script in `bin`.
    dir: TempDir,
}

impl Updated {
    /// The script starts what a file names, so that an update changes neither it nor its program.
    fn new() -> Self {
        let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .unwrap();
        let updated = Self { all, dir };
        fs::create_dir(updated.path("bin")).unwrap();
        let started = updated.path("started");
        let text = format!("#!/bin/sh\n. {}\n", started.display());
        script(&updated.path("bin").join(NAME), &text);
        updated.installs(&format!("exec {} \"$@\"", tool(NAME).display()));
        updated
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the script does from now on.
    fn installs(&self, text: &str) {
        fs::write(self.path("started"), text).unwrap();
    }

    fn vm(&self, words: &[&str]) -> Brisk {
        self.with(self.all.vm(words))
    }

    fn with(&self, brisk: Brisk) -> Brisk {
        let path = std::env::var("PATH").unwrap();
        let bin = self.path("bin");
        brisk.env("PATH", format!("{}:{path}", bin.display()))
    }

    fn does(&self, words: &[&str]) -> Finished {
        self.vm(words).exits(0)
    }

    fn refuses(&self, words: &[&str], texts: &[&str]) {
        let _ = self.vm(words).exits(125).explains(texts);
    }

    fn output(&self, script: &str) -> String {
        self.does(&["exec", "a", "--", "sh", "-c", script]).text()
    }

    /// A VM `a`, suspended with something in its memory.
    fn suspended(&self) {
        let _ = self.does(&["create", "a", "--memory", "128M", "--autoboot"]);
        let _ = self.does(&["start", "a"]);
        let _ = self.output("echo mine > /run/file");
        let _ = self.does(&["suspend", "a"]);
    }

    fn is_well(&self) {
        assert_eq!(self.output("cat /run/file"), "mine\n");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.all.state_dir("a").join("log")).unwrap()
    }

    /// A copy of the QEMU of `a`, which runs, whose package has another name; what starts it, and that
    /// name.
    fn another_package(&self) -> (String, String) {
        let pid = self.all.processes("qemu")[0].pid;
        let real = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let plan = fs::read_to_string(self.all.runtime_dir("a").join("plan.json")).unwrap();
        let (_, rest) = plan.split_once("\"qemu\":\"").unwrap();
        let full = rest.split('"').next().unwrap();
        let (_, package) = full.split_once(' ').unwrap();
        let other = package.replace("deb", "DEB");
        assert_ne!(other, package);
        let mut bytes = fs::read(&real).unwrap();
        let places: Vec<_> = bytes
            .windows(package.len())
            .enumerate()
            .filter(|(_, window)| *window == package.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + other.len()].copy_from_slice(other.as_bytes());
        }
        let copy = self.path("another");
        fs::write(&copy, bytes).unwrap();
        fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        (started(&real, &copy), full.replace(package, &other))
    }
}

/// What starts a copy of a QEMU as it is started itself.
fn started(real: &Path, copy: &Path) -> String {
    let installed = tool(NAME);
    match fs::read_to_string(&installed) {
        // A script of set-up, which says where the rest of it is.
        Ok(text) => {
            let (before, after) = text.split_once("exec \"").unwrap();
            let (_, after) = after.split_once('"').unwrap();
            format!("{before}\nexec \"{}\"{after}", copy.display())
        }
        Err(_) => {
            assert_eq!(fs::canonicalize(installed).unwrap(), real);
            let data = "-L /usr/share/qemu -L /usr/share/seabios -L /usr/lib/ipxe/qemu";
            format!("exec {} {data} \"$@\"", copy.display())
        }
    }
}

/// As a security update of the distribution: the same release, in a package with another version.
fn update() {
    let updated = Updated::new();
    updated.suspended();
    let _ = updated.does(&["resume", "a"]);
    let (another, name) = updated.another_package();
    let usual = fs::read_to_string(updated.path("started")).unwrap();
    for (now, resume) in [
        (&another, &["resume", "a"][..]),
        (&usual, &["resume", "a", "--eager"]),
        (&another, &["autostart"]),
        (&usual, &["resume", "a", "--clone", "b"]),
    ] {
        // The running one is suspended, too, after the update.
        updated.installs(now);
        let _ = updated.does(&["suspend", "a"]);
        let _ = updated.does(resume);
        match resume.last() {
            Some(&"b") => {
                let said = updated
                    .does(&["exec", "b", "--", "cat", "/run/file"])
                    .text();
                assert_eq!(said, "mine\n");
            }
            _ => updated.is_well(),
        }
    }
    let log = updated.log();
    let continues = format!("QEMU {name} continues what QEMU ");
    assert!(log.contains(&continues), "{log}");
    let continues = format!("continues what QEMU {name} saved");
    assert!(log.contains(&continues), "{log}");
}

/// As a script whose program waits for something.
fn silent() {
    let updated = Updated::new();
    let usual = fs::read_to_string(updated.path("started")).unwrap();
    updated.suspended();
    // The script itself changes, so that it is asked.
    let text = format!(
        "#!/bin/sh\n# New.\n. {}\n",
        updated.path("started").display()
    );
    script(&updated.path("bin").join(NAME), &text);
    updated.installs("exec sleep 1000");
    let texts = [
        "cannot be resumed here",
        "timed out after 30 s waiting for its answer",
    ];
    updated.refuses(&["resume", "a"], &texts);
    updated.installs(&usual);
    let _ = updated.does(&["resume", "a"]);
    updated.is_well();
}

/// The image says that a release made it which is not installed any more.
fn other_release() {
    let updated = Updated::new();
    let usual = fs::read_to_string(updated.path("started")).unwrap();
    let _ = updated.does(&["create", "a", "--memory", "128M", "--autoboot"]);
    let _ = updated.does(&["start", "a"]);
    let _ = updated.output("echo mine > /run/file");
    let plan = updated.all.runtime_dir("a").join("plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    let version = text.split_once("\"version\":[").unwrap().1;
    let (major, rest) = version.split_once(',').unwrap();
    let (minor, _) = rest.split_once(']').unwrap();
    let (now, then) = (format!("{major}.{minor}."), format!("{major}.99."));
    let made = text
        .replace(
            &format!("\"version\":[{major},{minor}]"),
            &format!("\"version\":[{major},99]"),
        )
        .replace(&format!("\"qemu\":\"{now}"), &format!("\"qemu\":\"{then}"));
    assert_ne!(made, text);
    fs::write(&plan, made).unwrap();
    let ask = format!(
        "*'-qmp stdio'*) {} \"$@\" | sed -u 's/\"minor\": [0-9]*/\"minor\": 99/'",
        tool(NAME).display()
    );
    // The script itself changes, which is noticed: what is cached of it is not used.
    script(
        &updated.path("bin").join(NAME),
        &format!(
            "#!/bin/sh\n# Another one.\n. {}\n",
            updated.path("started").display()
        ),
    );
    updated.installs(&format!("case \"$*\" in {ask};; *) {usual};; esac"));
    let _ = updated.does(&["suspend", "a"]);
    script(
        &updated.path("bin").join(NAME),
        &format!("#!/bin/sh\n. {}\n", updated.path("started").display()),
    );
    updated.installs(&usual);
    let refused = [
        "it was made by QEMU",
        &then,
        "another release",
        "--accept-qemu",
    ];
    let image = updated.all.state_dir("a").join("a.brisk");
    let before = fs::read(&image).unwrap();
    for words in [
        &["resume", "a"][..],
        &["resume", "a", "--eager"],
        &["resume", "a", "--clone", "b"],
        &["autostart"],
    ] {
        updated.refuses(words, &refused);
    }
    let foreseen = updated.vm(&["autostart", "--dry-run"]).exits(125).text();
    assert!(
        foreseen.contains("a: would fail: it was made by QEMU"),
        "{foreseen}"
    );
    let doctor = updated.with(updated.all.with(brisk_of!["doctor"])).output();
    let said = format!("the image of VM a is not resumed: it was made by QEMU {then}");
    assert!(doctor.text().contains(&said), "{}", doctor.text());
    assert_eq!(fs::read(&image).unwrap(), before);
    let _ = updated.does(&["resume", "a", "--accept-qemu"]);
    updated.is_well();
    let log = updated.log();
    assert!(
        log.contains(&format!("continues what QEMU {then}")),
        "{log}"
    );
    // From now on it is an image of the release that runs it.
    let _ = updated.does(&["suspend", "a"]);
    let foreseen = updated.does(&["autostart", "--dry-run"]).text();
    assert_eq!(foreseen, "a: would be resumed\n");
    let _ = updated.does(&["autostart"]);
    updated.is_well();
}

fn old_release() {
    let updated = Updated::new();
    let usual = fs::read_to_string(updated.path("started")).unwrap();
    updated.suspended();
    let old = system_qemu_before(8, 2).unwrap();
    script(
        &updated.path("bin").join(NAME),
        &format!("#!/bin/sh\nexec {} \"$@\"\n", old.display()),
    );
    let texts = ["it was made by QEMU", "older than 8.2", "or a later one"];
    updated.refuses(&["resume", "a"], &texts);
    updated.refuses(&["resume", "a", "--accept-qemu"], &texts);
    // A script that changes behind its back is found out when it has started.
    script(
        &updated.path("bin").join(NAME),
        &format!("#!/bin/sh\n. {}\n", updated.path("started").display()),
    );
    updated.installs(&usual);
    let _ = updated.does(&["resume", "a"]);
    updated.is_well();
}
