//! Builds: the command runs in the worktree, and the artifacts are copied into a cache.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use brisk_host::files;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::culprit;
use super::git::misleading;
use brisk_host::interrupt::{Ended, Interrupt, wait_for_child};

/// Time for a build to end after the request.
const GRACE: Duration = Duration::from_secs(2);
/// End of a log that is reported, in bytes and lines.
const TAIL: (u64, usize) = (16 << 10, 10);

/// Role of an artifact in the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The kernel.
    Kernel,
    /// The initramfs.
    Initramfs,
    /// The program that is QEMU.
    Qemu,
    /// The firmware.
    Firmware,
    /// Another file, which the measurement finds by its path.
    File,
}

impl Role {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "kernel" => Self::Kernel,
            "initramfs" | "initrd" => Self::Initramfs,
            "qemu" => Self::Qemu,
            "firmware" | "bios" => Self::Firmware,
            "file" => Self::File,
            _ => return None,
        })
    }
}

/// A file or directory that a build is to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    role: Role,
    path: PathBuf,
}

/// Error of an option for an artifact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WantedError {
    /// There is no such role.
    #[error("{0:?}: write kernel=PATH, initramfs=PATH, qemu=PATH, firmware=PATH or file=PATH")]
    Role(String),
    /// The path leads out of the worktree.
    #[error("{0:?}: the path of an artifact is relative to the top of the repository")]
    Path(String),
}

impl FromStr for Wanted {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let parts = text.split_once('=');
        let parts = parts.and_then(|(role, path)| Some((Role::named(role)?, path)));
        let (role, path) = parts.ok_or_else(|| WantedError::Role(text.to_owned()))?;
        // `.` leaves nothing, and would be the worktree itself.
        let parts = Path::new(path)
            .components()
            .filter(|c| *c != Component::CurDir);
        let path: PathBuf = parts.collect();
        let within = path.components().all(|c| matches!(c, Component::Normal(_)));
        match within && !path.as_os_str().is_empty() {
            true => Ok(Self { role, path }),
            false => Err(WantedError::Path(text.to_owned())),
        }
    }
}

impl Wanted {
    /// Role of the artifact.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Path below the top of the repository.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A copy of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Role of the artifact.
    pub role: Role,
    /// Path below the top of the repository.
    pub name: PathBuf,
    /// Path of the copy.
    pub path: PathBuf,
}

/// Artifacts of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    /// The copies, in the order they were asked for.
    pub files: Vec<Artifact>,
}

impl Artifacts {
    /// Path of the copy with a role, the first if there are several.
    #[must_use]
    pub fn get(&self, role: Role) -> Option<&Path> {
        let mut files = self.files.iter();
        let found = files.find(|artifact| artifact.role == role)?;
        Some(&found.path)
    }
}

/// Reason why there are no artifacts.
#[derive(Debug)]
pub(super) enum Failure {
    /// The build failed.
    Broken(String),
    /// The user interrupted.
    Interrupted,
    /// A system call failed.
    System { path: PathBuf, source: io::Error },
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> Failure + use<> {
    let path = path.to_owned();
    |source| Failure::System { path, source }
}

/// Facts that decide about a build's result, for the key of the cache.
#[derive(Debug, Serialize)]
pub(super) struct Recipe<'a> {
    pub(super) repository: &'a Path,
    pub(super) command: &'a str,
    pub(super) clean: bool,
    pub(super) artifacts: &'a [Wanted],
}

/// Record of a finished build, beside its artifacts.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    /// Size of each artifact, in bytes.
    sizes: Vec<u64>,
}

/// Cache of the artifacts of all builds.
#[derive(Debug)]
pub(super) struct Builds {
    dir: PathBuf,
}

impl Builds {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn key(recipe: &Recipe<'_>, sha: &str) -> String {
        let text = serde_json::to_vec(&(recipe, sha)).unwrap_or_default();
        brisk_vm::cache::key(&text)
    }

    /// The artifacts of an earlier build, if all of them are complete.
    pub(super) fn get(&self, key: &str, wanted: &[Wanted]) -> Option<Artifacts> {
        let dir = self.dir.join(key);
        let contents = fs::read(dir.join("contents.json")).ok()?;
        let contents: Contents = serde_json::from_slice(&contents).ok()?;
        let artifacts = artifacts(&dir, wanted);
        let sizes = artifacts.files.iter().map(|file| size(&file.path).ok());
        sizes
            .eq(contents.sizes.into_iter().map(Some))
            .then_some(artifacts)
    }

    /// Copies the artifacts of the build in `worktree` into the cache, atomically.
    pub(super) fn store(
        &self,
        key: &str,
        worktree: &Path,
        wanted: &[Wanted],
    ) -> Result<Artifacts, Failure> {
        make_dir(&self.dir).map_err(system(&self.dir))?;
        let prefix = format!("{}.", &key[..12.min(key.len())]);
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .tempdir_in(&self.dir)
            .map_err(system(&self.dir))?;
        let mut sizes = Vec::new();
        for (wanted, copy) in wanted.iter().zip(artifacts(temporary.path(), wanted).files) {
            let made = worktree.join(&wanted.path);
            if !made.exists() {
                let path = wanted.path.display();
                return Err(Failure::Broken(format!("the build left no {path}")));
            }
            copy_all(&made, &copy.path).map_err(system(&made))?;
            sizes.push(size(&copy.path).map_err(system(&copy.path))?);
        }
        let contents = serde_json::to_vec(&Contents { sizes }).unwrap_or_default();
        let file = temporary.path().join("contents.json");
        fs::write(&file, contents).map_err(system(&file))?;
        let place = self.dir.join(key);
        let _ = fs::remove_dir_all(&place);
        fs::rename(temporary.path(), &place).map_err(system(&place))?;
        // Moved away: there is nothing left to clean.
        let _ = temporary.keep();
        Ok(artifacts(&place, wanted))
    }

    pub(super) fn forget(&self, key: &str) {
        let _ = fs::remove_dir_all(self.dir.join(key));
    }
}

fn artifacts(dir: &Path, wanted: &[Wanted]) -> Artifacts {
    let file = |(place, wanted): (usize, &Wanted)| {
        let name = wanted.path.file_name().unwrap_or_default();
        Artifact {
            role: wanted.role,
            name: wanted.path.clone(),
            path: dir.join(place.to_string()).join(name),
        }
    };
    let files = wanted.iter().enumerate().map(file).collect();
    Artifacts { files }
}

/// Size of a file, or of all files in a directory.
fn size(path: &Path) -> io::Result<u64> {
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Ok(meta.size());
    }
    let sizes = fs::read_dir(path)?.map(|entry| size(&entry?.path()));
    sizes.sum()
}

/// Copies a file, or a directory with its contents. Links in a directory stay links. QEMU may be
/// another user than brisk: whatever the umask of the build was, every user may read the copy, and
/// execute it if its owner may. Only brisk's user can enter the cache.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        make_dir(parent)?;
    }
    if !from.is_dir() {
        fs::copy(from, to)?;
        let mode = fs::metadata(to)?.mode();
        let execute = if mode & 0o100 == 0 { 0 } else { 0o111 };
        return fs::set_permissions(to, Permissions::from_mode(mode | 0o444 | execute));
    }
    make_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
        } else if kind.is_dir() || kind.is_file() {
            copy_all(&from, &to)?;
        }
    }
    Ok(())
}

/// Makes a directory that only its owner may enter, as in the rest of the cache.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Runs the build of a commit, with its output in `log`.
pub(super) fn run(
    command: &str,
    sha: &str,
    worktree: &Path,
    log: &Path,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let output = File::create(log).map_err(system(log))?;
    let errors = output.try_clone().map_err(system(log))?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(worktree);
    shell.env("BRISK_COMMIT", sha);
    for variable in misleading() {
        shell.env_remove(variable);
    }
    // In a group of its own it can be ended with all it started.
    shell.process_group(0);
    shell.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = shell.spawn().map_err(system(Path::new("/bin/sh")))?;
    let ended = wait_for_child(&child, limit, interrupt).map_err(system(log));
    if !matches!(ended, Ok(Ended::Itself)) {
        end(&mut child);
    }
    let status = child.wait().map_err(system(log))?;
    match ended? {
        Ended::Interrupted => Err(Failure::Interrupted),
        Ended::TooLate => {
            let limit = limit.unwrap_or_default().as_secs_f64();
            Err(broken(&format!("not finished within {limit} s"), log))
        }
        Ended::Itself if status.success() => Ok(()),
        Ended::Itself => Err(broken(&status.to_string(), log)),
    }
}

/// Ends a build with all processes that it started.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    if let Ok(never) = Interrupt::new() {
        let _ = wait_for_child(child, Some(GRACE), &never);
    }
    let _ = kill_process_group(group, Signal::KILL);
}

/// Failure of a build: the first line is the likely reason, the others are the end of the log.
fn broken(what: &str, log: &Path) -> Failure {
    let tail = tail(log).unwrap_or_default();
    let message = match culprit::find(log) {
        Ok(Some(line)) => format!("{what}: {line}"),
        _ => what.to_owned(),
    };
    Failure::Broken(format!("{message}\n{tail}").trim_end().to_owned())
}

/// The last lines of a log.
fn tail(log: &Path) -> io::Result<String> {
    let text = files::tail(&File::open(log)?, TAIL.0)?;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(TAIL.1)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn artifacts_are_within_the_repository() {
        let wanted: Wanted = "initrd=./out/initrd.img".parse().unwrap();
        assert_eq!(wanted.role(), Role::Initramfs);
        assert_eq!(wanted.path(), Path::new("out/initrd.img"));
        for text in [
            "kernel",
            "kern=x",
            "kernel=",
            "kernel=.",
            "bios=/etc/passwd",
            "file=a/../../b",
        ] {
            let error = text.parse::<Wanted>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    /// A build in a directory with the given command, within a limit.
    fn build(command: &str, limit: Option<Duration>, interrupt: &Interrupt) -> Result<(), Failure> {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        run(command, "0", dir.path(), &log, limit, interrupt)
    }

    #[test]
    fn a_failure_tells_the_end_of_the_log() {
        let never = Interrupt::new().unwrap();
        assert!(build("true", None, &never).is_ok());
        let Err(Failure::Broken(reason)) = build("seq 20; echo no rule >&2; exit 2", None, &never)
        else {
            panic!()
        };
        let lines: Vec<&str> = reason.lines().collect();
        assert_eq!((lines[0], lines[1]), ("exit status: 2: no rule", "12"));
        assert_eq!(lines.last(), Some(&"no rule"));
    }

    #[test]
    fn a_build_that_takes_too_long_is_ended_with_its_children() {
        let never = Interrupt::new().unwrap();
        let started = Instant::now();
        let Err(Failure::Broken(reason)) = build("sleep 1000 & wait", SECOND, &never) else {
            panic!()
        };
        assert_eq!(reason, "not finished within 1 s");
        assert!(started.elapsed() < Duration::from_secs(100));
    }

    #[test]
    fn an_interrupted_build_ends() {
        let interrupt = Interrupt::new().unwrap();
        interrupt.trigger().unwrap().pull();
        let ended = build("sleep 1000", None, &interrupt);
        assert!(matches!(ended, Err(Failure::Interrupted)));
    }

    #[test]
    fn what_is_not_whole_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("bios/sub")).unwrap();
        fs::write(tree.join("bios/sub/a.bin"), "abc").unwrap();
        fs::write(tree.join("bzImage"), "kernel").unwrap();
        let wanted = ["kernel=bzImage", "file=bios"].map(|text| text.parse::<Wanted>().unwrap());
        let builds = Builds::new(dir.path().join("builds"));
        assert_eq!(builds.get("key", &wanted), None);
        let stored = builds.store("key", &tree, &wanted).unwrap();
        assert_eq!(builds.get("key", &wanted).as_ref(), Some(&stored));
        let kernel = stored.get(Role::Kernel).unwrap();
        assert_eq!(fs::read(kernel).unwrap(), b"kernel");
        let bios = stored.get(Role::File).unwrap();
        assert_eq!(fs::read(bios.join("sub/a.bin")).unwrap(), b"abc");
        fs::write(bios.join("sub/a.bin"), "ab").unwrap();
        assert_eq!(builds.get("key", &wanted), None);
        let missing = ["kernel=vmlinux".parse().unwrap()];
        let Err(Failure::Broken(reason)) = builds.store("other", &tree, &missing) else {
            panic!()
        };
        assert_eq!(reason, "the build left no vmlinux");
        assert_eq!(fs::read_dir(dir.path().join("builds")).unwrap().count(), 1);
    }
}
