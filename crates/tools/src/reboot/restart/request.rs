//! What the unit that restarts the machine is given, and what it says meanwhile. Both are files in
//! `/run/brisk/reboot`, which only root may change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use brisk_host::boot_entries::Once;
use brisk_host::files::{self, Durability};
use brisk_sys::{Sharing, is_taken, lock, try_lock};
use serde::{Deserialize, Serialize};

use super::live::systemctl;
use super::record::Way;
use crate::reboot::Target;

/// Unit in which a restart runs, so that it goes on when the terminal ends that asked for it.
pub const UNIT: &str = "brisk-reboot-run.service";

/// What becomes of the memory of guests that are suspended for a warm restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// It stays in RAM, and is written to the image, too, for a boot that is not warm after all.
    WithImage,
    /// It stays in RAM alone, and is lost with it.
    Alone,
}

/// A restart that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// How.
    pub way: Way,
    /// What to start; none of a cold restart.
    pub target: Option<Target>,
    /// [`combination`](super::combination()) of the target.
    pub combination: Option<String>,
    /// Whether the older call, kexec_load(2), may load it.
    #[serde(default)]
    pub older_call: bool,
    /// What the boot loader would take back as it starts the target.
    #[serde(default)]
    pub once: Option<Once>,
    /// Whether nothing is to happen where it has to be cold after all.
    #[serde(default)]
    pub warm_only: bool,
    /// Why it is cold: sentences.
    pub reasons: Vec<String>,
    /// Whether VMs are suspended before.
    pub vms: bool,
    /// Whether their memory is kept in RAM.
    #[serde(default)]
    pub keep: Option<Keep>,
    /// Whether GPUs are released before.
    pub quiesce: bool,
    /// Time limit of the watchdog, seconds; none: it is not armed, and `panic=` is not added.
    pub watch: Option<u32>,
}

/// What the unit says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// A step begins, or something happened in it.
    Step(String),
    /// systemd restarts the machine.
    Restarting,
    /// The machine does not restart, for a reason.
    Failed(String),
}

/// Directory of what restarts of this boot leave for one another, which only root may change.
pub const DIRECTORY: &str = "/run/brisk/reboot";

/// The files.
#[derive(Debug, Clone)]
pub struct Exchange(PathBuf);

impl Exchange {
    /// Files in a directory.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// Files of the system.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new(DIRECTORY)
    }

    /// Takes the lock that a restart holds, for as long as the file is open; none if another
    /// process has it.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        let file = self.lock_file()?;
        Ok(try_lock(&file, Sharing::Exclusive)?.then_some(file))
    }

    /// Takes the lock of who asks for a restart, until the file is dropped: two who asked at once
    /// would have one request.
    ///
    /// # Errors
    /// If the file cannot be made, or the lock not be taken.
    pub fn lock_to_ask(&self) -> io::Result<File> {
        self.make()?;
        let file = files::open_lock(&self.0.join("asking"))?;
        lock(&file, Sharing::Exclusive)?;
        Ok(file)
    }

    /// Takes the lock of whoever loads a kernel, until the file is dropped: who loads one on trial
    /// would replace another's, and unload it. None if somebody else has it.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn try_lock_to_load(&self) -> io::Result<Option<File>> {
        let file = self.file_to_load()?;
        try_lock(&file, Sharing::Exclusive).map(|taken| taken.then_some(file))
    }

    /// Waits for the lock of [`Self::try_lock_to_load`].
    ///
    /// # Errors
    /// If the file cannot be made, or the lock not be taken.
    pub fn lock_to_load(&self) -> io::Result<File> {
        let file = self.file_to_load()?;
        lock(&file, Sharing::Exclusive)?;
        Ok(file)
    }

    fn file_to_load(&self) -> io::Result<File> {
        self.make()?;
        files::open_lock(&self.0.join("loading"))
    }

    /// Whether a restart holds the lock.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn is_locked(&self) -> io::Result<bool> {
        is_taken(&self.lock_file()?)
    }

    fn lock_file(&self) -> io::Result<File> {
        self.make()?;
        files::open_lock(&self.0.join("lock"))
    }

    /// Writes a request, and forgets what was said of an earlier one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn ask(&self, request: &Request) -> io::Result<()> {
        self.make()?;
        let text = serde_json::to_vec_pretty(request)?;
        files::replace(&self.progress_path(), b"", Durability::Atomic)?;
        files::replace(&self.request_path(), &text, Durability::Atomic)
    }

    /// Takes back a request; false if the restart has begun.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        fs::remove_file(self.request_path()).is_ok()
    }

    /// Whether a request is there, and the restart has not begun.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.request_path().exists()
    }

    /// Takes the request: it is there once.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn take(&self) -> io::Result<Request> {
        let path = self.request_path();
        let bytes = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Says something. It is lost if it cannot be written: a restart does not fail for that.
    pub fn say(&self, progress: &Progress) {
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.progress_path());
        if let (Ok(mut file), Ok(text)) = (file, serde_json::to_string(progress)) {
            let _ = file.write_all((text + "\n").as_bytes());
        }
    }

    /// What was said, from the `skipped`th on.
    #[must_use]
    pub fn said(&self, skipped: usize) -> Vec<Progress> {
        let text = files::text(&self.progress_path()).unwrap_or_default();
        // A line that is being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().skip(skipped);
        lines
            .map_while(|line| serde_json::from_str(line).ok())
            .collect()
    }

    fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
    }

    fn request_path(&self) -> PathBuf {
        self.0.join("request.json")
    }

    fn progress_path(&self) -> PathBuf {
        self.0.join("progress.jsonl")
    }
}

/// Arguments of systemd-run(1) that start the unit, with the path of brisk.
#[must_use]
pub fn systemd_run(brisk: &Path) -> Vec<String> {
    let brisk = brisk.display().to_string();
    let words = [
        &format!("--unit={UNIT}"),
        "--description=Restart of this machine (brisk reboot)",
        "--collect",
        "--quiet",
        // While it waits for brisk-vms.service, who asked may take the request back.
        "--no-block",
        // Leaving the graphical target by isolate stops other units.
        "--property=IgnoreOnIsolate=yes",
        // A signal to the main process alone: a VM that it has resumed, to undo a restart, is in this
        // unit where systemd gives it none of its own.
        "--property=KillMode=process",
        "--property=TimeoutStopSec=15min",
        // Waits until no more VMs are started, and ends before those that run are suspended.
        "--property=After=brisk-vms.service",
        // Undoes what a killed process has done.
        &format!("--property=ExecStopPost={} reboot undo", quoted(&brisk)),
        "--",
        &brisk,
        "reboot",
        "execute",
    ];
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether the unit runs.
#[must_use]
pub fn unit_is_active() -> bool {
    is_active() == Some(true)
}

/// Whether the unit has ended: systemd says so. While it reads its units again, as arming a watchdog
/// has it do, it answers nobody, on a busy machine for longer than systemctl waits.
#[must_use]
pub fn unit_has_ended() -> bool {
    is_active() == Some(false)
}

/// None if systemd does not say.
fn is_active() -> Option<bool> {
    let shown = systemctl(&["show", "--property=ActiveState,Job", UNIT]).ok()?;
    Some(is_active_by(&shown))
}

/// Whether properties are those of a unit that runs, or that a job is to start.
fn is_active_by(shown: &str) -> bool {
    let value = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name));
    let is_waited_for = value("Job=").is_some_and(|job| !matches!(job.trim(), "" | "0"));
    let state = value("ActiveState=").unwrap_or("");
    is_waited_for || !matches!(state.trim(), "" | "inactive" | "failed")
}

/// A path as a word of a command line of systemd.service(5).
fn quoted(path: &str) -> String {
    let mut word = String::from("\"");
    for c in path.chars() {
        match c {
            '"' | '\\' => word.push('\\'),
            '%' | '$' => word.push(c),
            _ => {}
        }
        word.push(c);
    }
    word + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = Exchange::new(dir.path().join("run"));
        let request = Request {
            way: Way::Warm,
            target: Some(Target {
                release: "6.12".to_owned(),
                kernel: "/boot/vmlinuz".into(),
                initrds: vec!["/boot/initrd".into()],
                cmdline: "quiet".to_owned(),
                is_uki: false,
            }),
            older_call: true,
            once: None,
            warm_only: false,
            combination: Some("c".to_owned()),
            reasons: Vec::new(),
            vms: true,
            keep: Some(Keep::Alone),
            quiesce: true,
            watch: Some(120),
        };
        exchange.ask(&request).unwrap();
        assert_eq!(exchange.take().unwrap(), request);
        assert_eq!(exchange.take().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_request_is_taken_back_before_the_restart_begins() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = Exchange::new(dir.path());
        let request = Request {
            way: Way::Cold,
            target: None,
            combination: None,
            older_call: false,
            once: None,
            warm_only: false,
            reasons: Vec::new(),
            vms: false,
            keep: None,
            quiesce: false,
            watch: None,
        };
        exchange.ask(&request).unwrap();
        assert!(exchange.is_asked() && exchange.withdraw());
        assert!(!exchange.is_asked() && !exchange.withdraw());
        assert_eq!(exchange.take().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_unit_that_waits_for_another_one_has_not_ended() {
        for (shown, is) in [
            ("Job=18\nActiveState=inactive\n", true),
            ("ActiveState=inactive\n", false),
            ("Job=0\nActiveState=failed\n", false),
            ("ActiveState=active\n", true),
            ("ActiveState=deactivating\n", true),
            ("", false),
        ] {
            assert_eq!(is_active_by(shown), is, "{shown}");
        }
    }

    #[test]
    fn two_who_ask_at_once_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = Exchange::new(dir.path().join("run"));
        let first = exchange.lock_to_ask().unwrap();
        let seen = files::open_lock(&dir.path().join("run/asking")).unwrap();
        assert!(is_taken(&seen).unwrap());
        // Nobody restarts meanwhile: that is another lock.
        assert!(!exchange.is_locked().unwrap());
        drop(first);
        assert!(!is_taken(&seen).unwrap());
        exchange.lock_to_ask().unwrap();
    }

    #[test]
    fn one_loads_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = Exchange::new(dir.path().join("run"));
        let first = exchange.lock_to_load().unwrap();
        assert!(exchange.try_lock_to_load().unwrap().is_none());
        // Nobody asks or restarts meanwhile.
        assert!(!exchange.is_locked().unwrap());
        drop(first);
        assert!(exchange.try_lock_to_load().unwrap().is_some());
    }

    #[test]
    fn the_unit_undoes_what_a_killed_process_did() {
        let words = systemd_run(Path::new("/opt/my $5 %n\"/brisk"));
        let undo = r#"--property=ExecStopPost="/opt/my $$5 %%n\"/brisk" reboot undo"#;
        assert!(words.iter().any(|word| word == undo), "{words:?}");
        // A VM that was resumed outlives it.
        let kill = "--property=KillMode=process".to_owned();
        assert!(words.contains(&kill), "{words:?}");
        assert!(words.ends_with(&["reboot".to_owned(), "execute".to_owned()]));
    }

    #[test]
    fn what_is_said_comes_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let exchange = Exchange::new(dir.path());
        assert_eq!(exchange.said(0), []);
        let step = Progress::Step("load the kernel".to_owned());
        exchange.say(&step);
        exchange.say(&Progress::Restarting);
        assert_eq!(exchange.said(0), [step, Progress::Restarting]);
        assert_eq!(exchange.said(1), [Progress::Restarting]);
        let path = exchange.progress_path();
        let mut text = fs::read_to_string(&path).unwrap();
        text += "{\"failed\": \"no";
        fs::write(&path, text).unwrap();
        assert_eq!(exchange.said(2), []);
    }
}
