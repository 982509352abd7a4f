//! Capabilities of a QEMU binary, asked once and cached until the binary changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use brisk_host::program::Program;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::qmp::{self, Message};
use crate::cache::{self, Cache, Identity};

/// Time that a QEMU has to say what it can do.
const ANSWER: Duration = Duration::from_secs(30);

/// Static facts about a QEMU binary. Whether an accelerator works is not among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Full version with the distribution's name for it.
    pub package: String,
    /// Machine types.
    pub machines: BTreeSet<String>,
    /// Machine types that stand for others, such as `q35` for `pc-q35-10.0`.
    pub aliases: BTreeMap<String, String>,
    /// Device types.
    pub devices: BTreeSet<String>,
    /// Path of qboot, if it is installed.
    pub qboot: Option<PathBuf>,
    identities: Vec<Identity>,
}

/// Error of asking a QEMU binary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It could not be run, or failed.
    #[error("cannot ask {} what it can do", program.display())]
    Run {
        /// The binary.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Its answer is not understood.
    #[error("{} did not answer as QEMU does: {answer}", program.display())]
    Answer {
        /// The binary.
        program: PathBuf,
        /// Its answer, or its stderr.
        answer: String,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

impl Capabilities {
    /// Whether emulation (TCG) gets the flags of `cmpxchg16b` wrong.
    ///
    /// QEMU before 8.0 takes the other flags from whatever an earlier instruction left, an operand
    /// for instance. An interrupt that comes next saves these flags, and its return may set trap or
    /// interrupt flags: kernels that use the instruction in their allocator (6.12 does) crash
    /// sooner or later.
    #[must_use]
    pub fn cmpxchg16b_is_wrong(&self) -> bool {
        self.version < (8, 0)
    }

    /// The machine type that a name stands for: itself, if it is no alias.
    #[must_use]
    pub fn versioned<'a>(&'a self, machine: &'a str) -> &'a str {
        self.aliases.get(machine).map_or(machine, String::as_str)
    }

    /// Capabilities of `program`, from the cache if it has this binary.
    ///
    /// # Errors
    /// If the binary cannot be asked, or the cache cannot be written.
    pub fn of(program: &Path, cache: &Cache) -> Result<Self, Error> {
        let key = cache_key(program);
        let valid = |meta: &Self| meta.identities.iter().all(Identity::holds);
        let entry = cache.get_valid_or_build("qemu", &key, valid, |_| Self::ask(program))?;
        Ok(entry.meta)
    }

    /// Forgets what is cached of a program, which turned out to be another one.
    pub fn forget(program: &Path, cache: &Cache) {
        // What stays is found to be wrong again.
        let _ = cache.remove("qemu", &cache_key(program));
    }

    fn ask(program: &Path) -> Result<Self, Error> {
        let run = |source| Error::Run {
            program: program.to_owned(),
            source,
        };
        let mut child = Program::at(program)
            .args([
                "-M",
                "none",
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
            ])
            .args(["-S", "-qmp", "stdio"])
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(run)?;
        let limit = TimeLimit::on(&child);
        let mut questions = qmp::command("qmp_capabilities");
        questions.extend(qmp::command("query-version"));
        questions.extend(qmp::command("query-machines"));
        let devices = json!({"implements": "device", "abstract": false});
        questions.extend(qmp::command_with("qom-list-types", &devices));
        questions.extend(qmp::command("quit"));
        let stdout = child.stdout.take().map(BufReader::new);
        let (mut said, stdout) = greeting(stdout).map_err(run)?;
        // It has started, whatever started it: the file that is named may be a script.
        let running = fs::read_link(format!("/proc/{}/exe", child.id()));
        if let Some(mut stdin) = child.stdin.take() {
            // A binary that has died already is reported by its output.
            let _ = stdin.write_all(&questions);
        }
        if let Some(mut stdout) = stdout {
            stdout.read_to_end(&mut said).map_err(run)?;
        }
        let output = child.wait_with_output().map_err(run)?;
        if limit.is_over() {
            return Err(Error::Run {
                program: program.to_owned(),
                source: io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "timed out after {} s waiting for its answer",
                        ANSWER.as_secs()
                    ),
                ),
            });
        }
        let answer = |answer: String| Error::Answer {
            program: program.to_owned(),
            answer,
        };
        let messages = qmp::Reader::default()
            .push(&said)
            .map_err(|error| answer(error.to_string()))?;
        let results: Vec<Value> = messages
            .into_iter()
            .filter_map(|message| match message {
                Message::Return(value) => Some(value),
                _ => None,
            })
            .collect();
        let [_, version, machines, devices, ..] = results.as_slice() else {
            return Err(answer(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        };
        let (release, package) = release(version);
        let (qboot, mut identities) = find_qboot(program);
        identities.insert(0, Identity::of(program)?);
        identities.extend(running.ok().and_then(|path| Identity::of(&path).ok()));
        Ok(Self {
            version: release,
            package,
            machines: names(machines, "name")
                .chain(names(machines, "alias"))
                .collect(),
            aliases: aliases(machines),
            devices: names(devices, "name").collect(),
            qboot,
            identities,
        })
    }
}

/// Ends a program, and what it started, that says nothing for too long.
struct TimeLimit {
    /// Dropped when the program has ended.
    _done: Sender<()>,
    is_over: Arc<AtomicBool>,
}

impl TimeLimit {
    fn on(child: &Child) -> Self {
        let (done, ended) = mpsc::channel::<()>();
        let is_over = Arc::<AtomicBool>::default();
        let (over, group) = (Arc::clone(&is_over), Pid::from_child(child));
        thread::spawn(move || {
            if ended.recv_timeout(ANSWER) == Err(RecvTimeoutError::Timeout) {
                over.store(true, Ordering::Relaxed);
                // It is not waited for before its output ends, so that its number is its own.
                let _ = kill_process_group(group, Signal::KILL);
            }
        });
        Self {
            _done: done,
            is_over,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn cache_key(program: &Path) -> String {
    cache::key(program.as_os_str().as_encoded_bytes())
}

/// Major and minor version, and full version with the distribution's name for it, as `query-version`
/// says them.
#[must_use]
pub fn release(version: &Value) -> ((u32, u32), String) {
    let number = |name| version["qemu"][name].as_u64().unwrap_or(0) as u32;
    let (major, minor, micro) = (number("major"), number("minor"), number("micro"));
    let package = version["package"].as_str().unwrap_or("");
    let text = format!("{major}.{minor}.{micro} {package}");
    ((major, minor), text.trim().to_owned())
}

fn names(list: &Value, field: &'static str) -> impl Iterator<Item = String> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.into_iter()
        .filter_map(move |item| item[field].as_str().map(str::to_owned))
}

/// The aliases of machine types that `query-machines` lists.
fn aliases(machines: &Value) -> BTreeMap<String, String> {
    let list = machines.as_array().into_iter().flatten();
    let alias = |machine: &Value| {
        let text = |field| machine[field].as_str().map(str::to_owned);
        Some((text("alias")?, text("name")?))
    };
    list.filter_map(alias).collect()
}

/// Reads the greeting of a QEMU, its first line; also returns what the rest is read from.
fn greeting(
    stdout: Option<BufReader<ChildStdout>>,
) -> io::Result<(Vec<u8>, Option<BufReader<ChildStdout>>)> {
    let mut line = Vec::new();
    let Some(mut stdout) = stdout else {
        return Ok((line, None));
    };
    stdout.read_until(b'\n', &mut line)?;
    Ok((line, Some(stdout)))
}

/// Finds qboot in the directories that `-L help` lists.
fn find_qboot(program: &Path) -> (Option<PathBuf>, Vec<Identity>) {
    let listed = Program::at(program)
        .args(["-L", "help"])
        .run()
        .unwrap_or_default();
    let found = String::from_utf8_lossy(&listed)
        .lines()
        .map(|dir| Path::new(dir.trim()).join("qboot.rom"))
        .find(|path| path.is_file());
    let identities = found
        .iter()
        .filter_map(|path| Identity::of(path).ok())
        .collect();
    (found, identities)
}
