//! Whether QEMU takes a changed command line: it makes the machine and its devices of it, and runs
//! nothing.

mod harmless;
mod known;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_host::program;
use brisk_sys::{bounded, die_with_parent, wait_for};
use brisk_vm::cache::Cache;

use brisk_vm::qemu::{SANDBOX, choose};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use serde::Serialize;

use super::fix::{self, Context, Fixed, Wanted};
use super::text::Text;
pub use harmless::{Unsuited, harmless};

/// Time that QEMU has to make a machine; a busy host takes seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of QEMU's messages that are kept.
const TAIL: u64 = 2000;
/// Most memory that QEMU may map, and the largest file that it may write: its screens are such.
const MOST_MEMORY: u64 = 4 << 30;
const MOST_FILE: u64 = 256 << 20;
/// User and group that have no files, as which root runs QEMU.
const NOBODY: u32 = 65534;
/// Beginning of the first answer of a machine that was made.
const GREETING: &[u8] = b"{\"QMP\"";
/// What QEMU reads once the machine is there (`qapi/control.json`).
const QUIT: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n";

/// What QEMU made of a changed command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Answer {
    /// It made the machine and its devices.
    Accepted {
        /// The QEMU, as `QEMU 10.0`.
        qemu: String,
    },
    /// It refused them, and took those before the change.
    Refused {
        /// The QEMU, as `QEMU 10.0`.
        qemu: String,
        /// What it said.
        reason: String,
    },
    /// It is not known.
    Unknown {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { qemu } => {
                write!(
                    f,
                    "{qemu} makes the machine and the devices of the changed command line; the \
                     guest was not started"
                )
            }
            Self::Refused { qemu, reason } => {
                write!(f, "{qemu} refuses the changed command line: {reason}")
            }
            Self::Unknown { reason } => {
                write!(
                    f,
                    "the changed command line was not tried in QEMU: {reason}"
                )
            }
        }
    }
}

/// A QEMU of this host for a guest. One that a description names is not run: the description may be
/// somebody else's.
#[derive(Debug)]
pub struct Tester {
    program: PathBuf,
    /// As `QEMU 10.0`.
    name: String,
}

impl Tester {
    /// The QEMU for the guest of a command line; None for what is no command line.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(text: &Text, cache: &Cache) -> Option<Result<Self, String>> {
        let (Text::Arguments(words) | Text::Vm { words, .. }) = text else {
            return None;
        };
        let name = words.first().map(Path::new).and_then(Path::file_name);
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        let name = match name {
            "kvm" | "qemu-kvm" | "qemu" => format!("qemu-system-{}", std::env::consts::ARCH),
            name if name.starts_with("qemu-system-") => name.to_owned(),
            name => return Some(Err(format!("{name:?} is no QEMU that is known"))),
        };
        let choice = choose(&name, cache).map_err(|error| error.to_string());
        Some(choice.map(|choice| {
            let (major, minor) = choice.capabilities.version;
            Self {
                program: choice.path,
                name: format!("QEMU {major}.{minor}"),
            }
        }))
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Has QEMU make the guest before and after a change.
    #[must_use]
    pub fn try_out(&self, before: &Text, after: &Text) -> Answer {
        match self.accepts(after) {
            Ok(Ok(())) => Answer::Accepted { qemu: self.name() },
            Err(reason) => Answer::Unknown { reason },
            Ok(Err(reason)) => match self.accepts(before) {
                Ok(Ok(())) => Answer::Refused {
                    qemu: self.name(),
                    reason,
                },
                // It is not the change.
                Ok(Err(reason)) | Err(reason) => Answer::Unknown {
                    reason: format!("{} here does not make this guest: {reason}", self.name),
                },
            },
        }
    }

    /// Makes changes that QEMU takes. One that it refuses is not made, and is among the failed ones.
    ///
    /// # Errors
    /// As [`fix::fix`].
    pub fn fix(
        &self,
        text: &Text,
        context: &Context,
        wanted: Wanted<'_>,
    ) -> Result<(Fixed, Option<Answer>), fix::Error> {
        let fixed = fix::fix(text.clone(), context, wanted)?;
        if fixed.applied.is_empty() {
            return Ok((fixed, None));
        }
        let tried = self.try_out(text, &fixed.text);
        if !matches!(tried, Answer::Refused { .. }) {
            return Ok((fixed, Some(tried)));
        }
        // Which of the changes it is.
        let mut check = |after: &Text| match self.accepts(after) {
            Ok(Err(reason)) => Err(format!("{} refuses it: {reason}", self.name)),
            _ => Ok(()),
        };
        let fixed = fix::fix_if(text.clone(), context, wanted, &mut check)?;
        let is_changed = !fixed.applied.is_empty();
        let tried = is_changed.then(|| self.try_out(text, &fixed.text));
        Ok((fixed, tried))
    }

    /// Whether QEMU makes a guest, or what it says instead.
    ///
    /// # Errors
    /// Why it cannot be asked.
    fn accepts(&self, text: &Text) -> Result<Result<(), String>, String> {
        let (Text::Arguments(words) | Text::Vm { words, .. }) = text else {
            return Err("it is no command line".into());
        };
        let words = harmless(words).map_err(|error| error.to_string())?;
        self.ask(&words).map_err(|error| error.to_string())
    }

    fn ask(&self, words: &[String]) -> io::Result<Result<(), String>> {
        let messages = tempfile::tempfile()?;
        let mut command = Command::new(&self.program);
        command
            .args(["-S", "-no-user-config", "-sandbox", SANDBOX])
            .args(["-display", "none", "-monitor", "none", "-serial", "none"])
            .args(["-parallel", "none", "-qmp", "stdio"])
            .args(words)
            .env_clear()
            .env("QEMU_AUDIO_DRV", "none")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(messages.try_clone()?)
            // A terminal's Ctrl-C ends brisk, and brisk's end QEMU.
            .process_group(0);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = bounded(die_with_parent(&mut command), MOST_MEMORY, MOST_FILE).spawn()?;
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        if let Some(mut stdin) = child.stdin.take() {
            // A pipe has room for it. A QEMU that has ended says why.
            let _ = stdin.write_all(QUIT);
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let ended = wait_for(&mut fds, Some(Instant::now() + LIMIT));
            if !ended.is_ok_and(|count| count > 0) {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let status = child.wait()?;
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(TAIL).read_to_end(&mut answer)?;
        }
        // It printed help where it did not get so far.
        let was_made = answer.starts_with(GREETING);
        if status.success() && was_made {
            return Ok(Ok(()));
        }
        let text = files::tail(&messages, TAIL).unwrap_or_default();
        let is_reason =
            |line: &&str| !line.contains("warning:") && !line.contains("failed to open module");
        let lines: Vec<_> = text.lines().filter(is_reason).collect();
        let text = program::tail(&lines.join("\n")).replace('\n', "; ");
        Ok(Err(match &*text {
            "" => status.to_string(),
            text => text.to_owned(),
        }))
    }
}
