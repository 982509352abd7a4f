//! Git repository: its commits, and a worktree of brisk's own to build them in.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use brisk_host::files;
use brisk_host::program::{self, Program};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::build::Wanted;

/// Options that switch off features for interactive use: hooks, watching, tidying, submodules.
const QUIET: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "advice.detachedHead=false",
];
/// Variables of git's configuration that are kept. All others (git(1), "Environment Variables") may
/// name another repository, as they do in a hook.
const KEPT: [&str; 4] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
];
/// Hash, parents, date and subject of a commit, with tabs between them.
const FORMAT: &str = "--format=%H%x09%P%x09%cI%x09%s";

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its hash.
    pub sha: String,
    /// The first line of its message. Hostile text.
    pub subject: String,
    /// When it was committed (RFC 3339).
    pub date: String,
}

/// Error of a repository.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// git is not installed, or failed.
    #[error(transparent)]
    Program(#[from] program::Error),
    /// The range is not of the form `A..B`.
    #[error("{0:?} is no range of commits: write A..B")]
    NotARange(String),
    /// One end of the range is no commit.
    #[error("{name:?} is no commit of {}", repository.display())]
    NoCommit {
        /// Name that was given.
        name: String,
        /// The repository.
        repository: PathBuf,
    },
    /// There is nothing in the range.
    #[error("{0} holds no commits: is the older end first?")]
    Empty(String),
    /// Another process works on the same range.
    #[error("another brisk works on this range: it holds {}", .0.display())]
    Busy(PathBuf),
    /// A file of brisk's cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Names of environment variables that may name another repository.
pub(super) fn misleading() -> Vec<OsString> {
    let git = |name: &OsString| name.as_encoded_bytes().starts_with(b"GIT_");
    let names = std::env::vars_os().map(|(name, _)| name);
    names
        .filter(git)
        .filter(|name| KEPT.iter().all(|kept| name != kept))
        .collect()
}

/// A repository.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    git: Program,
    /// Its git directory, common to all of its worktrees.
    common: PathBuf,
}

impl Repository {
    pub(super) fn open(dir: &Path) -> Result<Self, GitError> {
        let git = Program::find("git")?.unset(misleading()).args(QUIET);
        let asked = git.clone().arg("-C").arg(dir);
        let found = asked
            .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
            .run()?;
        let common = PathBuf::from(OsString::from_vec(found.trim_ascii_end().to_vec()));
        Ok(Self { git, common })
    }

    /// Identity of the repository.
    pub(super) fn identity(&self) -> &Path {
        &self.common
    }

    fn git(&self) -> Program {
        self.git.clone().arg("--git-dir").arg(&self.common)
    }

    /// The first parent of the range's oldest commit, if it has one, and the commits of the range
    /// on the first-parent line, oldest first.
    pub(super) fn commits(&self, range: &str) -> Result<Vec<Commit>, GitError> {
        let ends = range.split_once("..").filter(|(_, b)| !b.starts_with('.'));
        let (a, b) = ends.ok_or_else(|| GitError::NotARange(range.to_owned()))?;
        let (a, b) = (self.resolve(a)?, self.resolve(b)?);
        let list = self.list(&["--first-parent", "--reverse", &format!("{a}..{b}")])?;
        let Some((_, parents)) = list.first() else {
            return Err(GitError::Empty(range.to_owned()));
        };
        let base = match parents.split(' ').next() {
            Some(parent) if !parent.is_empty() => self.list(&["--no-walk", parent])?,
            _ => Vec::new(),
        };
        let all = base.into_iter().chain(list);
        Ok(all.map(|(commit, _)| commit).collect())
    }

    /// The hash of a commit, of HEAD if no name is given.
    fn resolve(&self, name: &str) -> Result<String, GitError> {
        let wanted = match name {
            "" => "HEAD^{commit}".to_owned(),
            name => format!("{name}^{{commit}}"),
        };
        let command = self
            .git()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        match command.arg(wanted).run() {
            Ok(found) => Ok(String::from_utf8_lossy(found.trim_ascii_end()).into_owned()),
            Err(program::Error::Failed { stderr, .. }) if stderr.is_empty() => {
                Err(GitError::NoCommit {
                    name: name.to_owned(),
                    repository: self.common.clone(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Commits, each with its parents.
    fn list(&self, what: &[&str]) -> Result<Vec<(Commit, String)>, GitError> {
        let command = self.git().args(["rev-list", "--encoding=UTF-8", FORMAT]);
        let text = command.args(what).run()?;
        let text = String::from_utf8_lossy(&text);
        // Before each there is a line `commit HASH`, which has no tabs.
        let commit = |line: &str| {
            let mut fields = line.splitn(4, '\t').map(str::to_owned);
            let (sha, parents) = (fields.next()?, fields.next()?);
            let (date, subject) = (fields.next()?, fields.next()?);
            Some((Commit { sha, subject, date }, parents))
        };
        Ok(text.split('\n').filter_map(commit).collect())
    }
}

/// A worktree of brisk's own, for one process. Removed when dropped.
#[derive(Debug)]
pub(super) struct Worktree {
    repository: Repository,
    path: PathBuf,
    _lock: Lock,
}

impl Worktree {
    /// Makes an empty worktree below `dir`. Worktrees of processes that have ended are removed.
    pub(super) fn create(
        repository: &Repository,
        dir: &Path,
        name: &str,
    ) -> Result<Self, GitError> {
        let path = dir.join(name);
        let lock_path = dir.join(format!("{name}.lock"));
        let lock = try_lock(&lock_path)?.ok_or(GitError::Busy(lock_path))?;
        remove_stale(&repository.git, dir);
        remove(&repository.git, &path);
        let add = ["worktree", "add", "--force", "--detach", "--no-checkout"];
        // An unborn HEAD has no commit to begin with, but then there would be no range.
        repository.git().args(add).arg(&path).run()?;
        Ok(Self {
            repository: repository.clone(),
            path,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a commit out. Files that git does not know are kept, so that a build can reuse them,
    /// unless `clean` is set; but the `wanted` artifacts are removed, so that a build that makes
    /// nothing cannot pass off those of another commit.
    pub(super) fn checkout(
        &self,
        sha: &str,
        wanted: &[Wanted],
        clean: bool,
    ) -> Result<(), GitError> {
        for wanted in wanted {
            let path = self.path.join(wanted.path());
            let gone = match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
                Err(_) => Ok(()),
            };
            gone.map_err(|source| GitError::File { path, source })?;
        }
        let git = self.repository.git.clone().arg("-C").arg(&self.path);
        let checkout = ["checkout", "--quiet", "--force", "--detach", sha];
        git.clone().args(checkout).run()?;
        if clean {
            git.args(["clean", "-ffdxq"]).run()?;
        }
        Ok(())
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        remove(&self.repository.git, &self.path);
    }
}

/// Removes the worktrees below `dir` whose processes have ended.
fn remove_stale(git: &Program, dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let locked = path.is_dir() && path.extension().is_none();
        if locked && matches!(try_lock(&path.with_extension("lock")), Ok(Some(_))) {
            remove(git, &path);
        }
    }
}

/// Removes a worktree, if it exists, with its record in the repository.
fn remove(git: &Program, path: &Path) {
    if !path.exists() {
        return;
    }
    let asked = git.clone().arg("-C").arg(path);
    let asked = asked.args(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let common = asked.run().unwrap_or_default();
    let common = OsString::from_vec(common.trim_ascii_end().to_vec());
    let of = git.clone().arg("--git-dir").arg(common);
    let of = of.args(["worktree", "remove", "--force", "--force"]);
    let of = of.arg(path);
    // git gives up at directories that a build made unwritable, and where the repository is gone;
    // of a worktree without files it forgets the rest.
    if of.run().is_err() {
        let _ = fs::remove_dir_all(path);
        let _ = of.run();
    }
}

/// A lock on a file.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that is being started has the file too until it is executed, and would keep the
        // lock for a moment. If this fails, closing the file does it.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks a file as long as this process lives; `None` if another process has the lock.
pub(super) fn try_lock(path: &Path) -> Result<Option<Lock>, GitError> {
    let failed = |source| GitError::File {
        path: path.to_owned(),
        source,
    };
    let file = files::open_lock(path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}
