//! The processes of a target, from their start to their end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brisk_host::cgroup::Group;
use brisk_host::cpu::Cpu;
use brisk_host::proc::Procfs;
use brisk_host::process_times::tree;
use brisk_host::program::Program;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use super::ablation::Ablation;
use super::console::shell_of_agent;
use super::existing::{self, Existing, ExistingError, Pinned};
use super::launch::{Channel, Launch, Place, launch, uml};
use super::memory::Bound;
use super::meter::Meter;
use super::session::{Patience, Session};
use super::session_error::SessionError;
use super::sides::Side;
use super::target::Kind;
use super::work_directory;
use crate::idle::prove::{Error as TrialError, Running};
use brisk_host::affinity::on_processors;
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::{NoOutput, output_within};

/// Directories that a work directory may be in, on a tmpfs if there is one.
pub(super) const WORK: [&str; 2] = ["/dev/shm", "/tmp"];

/// Directory that a work directory is in that is to be on a disk.
pub(super) const DISK: &str = "/var/tmp";

/// End of the name of a target's directory, which may be in `/tmp` as its work directory.
const FILES: &str = "-files";

/// How long processes that were killed may take to end.
const EMPTYING: Duration = Duration::from_secs(5);

/// How long what removes a container may take.
const CLEANING: Duration = Duration::from_secs(30);

/// Fact about where a guest that runs already may run.
pub(super) const PROCESSORS_OF_VMM: &str = "processors of its VMM";

/// A target that cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It is a guest that does not run.
    #[error(transparent)]
    Existing(#[from] ExistingError),
    /// It is a guest that is started for its runs, and cannot be.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// Its shell cannot be started.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A target whose shell was started. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) session: Session,
    /// What its processes are counted by.
    pub(super) meter: Meter,
    group: Option<Group>,
    /// Threads that somebody else started, put back when this is dropped.
    _pinned: Pinned,
    /// A guest that was started for this; it ends when this is dropped.
    _trial: Option<Running>,
    cleanup: Option<Vec<OsString>>,
    /// As in [`Launch`].
    process: Option<Vec<OsString>>,
    /// As in [`Launch`].
    pub(super) channel: Channel,
    /// As in [`Launch`].
    ends_by_signal: bool,
    /// Unique on the host: the name of its containers, groups and work directory.
    pub(super) id: String,
    /// Whether it did not answer: it is not waited for then.
    pub(super) is_lost: bool,
    /// Facts that are known before it says anything.
    pub(super) facts: BTreeMap<String, String>,
    /// Of the target alone. Removed after the rest, as fields are dropped in their order.
    pub(super) directory: TempDir,
}

impl Started {
    /// Starts it on these processors, a guest with so many of its own. Its files may take so many bytes
    /// of the host's memory.
    ///
    /// # Errors
    /// If it cannot be started, or is a guest that does not run.
    pub(super) fn start(
        side: &Side,
        cpus: &[usize],
        count: usize,
        limit: Option<u64>,
        patience: Patience<'_>,
    ) -> Result<Self, StartError> {
        let kind = &side.kind;
        let change = side.change.as_ref().map(|(change, _)| change);
        let trial = match &side.trial {
            Some(trial) => Some(trial.start.start(&trial.text, patience.interrupt)?),
            None => None,
        };
        let mut existing = existing::find(kind)?;
        let parent = match change {
            // What a target writes to its disk is below this.
            Some(Ablation::Tmpfs) => DISK.into(),
            _ => std::env::temp_dir(),
        };
        let directory = tempfile::Builder::new()
            .prefix("brisk-overhead-")
            .suffix(FILES)
            .tempdir_in(parent);
        let directory = directory.map_err(SessionError::Io)?;
        let id = directory.path().file_name().unwrap_or_default();
        let id = id.to_string_lossy().trim_end_matches(FILES).to_owned();
        let brisk = std::env::current_exe().map_err(SessionError::Io)?;
        let group = Group::below_own(&id);
        let disk = directory.path().join("disk");
        let place = Place {
            directory: directory.path(),
            id: &id,
            cpus,
            count,
            brisk: &brisk,
            group: group.as_ref().map(Group::path),
            disk: (change == Some(&Ablation::Tmpfs)).then_some(&*disk),
            limit,
        };
        let mut launch = launch(kind, &place);
        launch.has_small_pages = change == Some(&Ablation::HugePages);
        let mut known = None;
        if let Kind::Uml(_) = kind {
            let cpu = Cpu::below(Path::new("/"));
            known = uml::fit(&mut launch, directory.path(), &cpu.flags());
        }
        write(&launch).map_err(SessionError::Io)?;
        // A user who may not make groups has the processes counted one by one.
        let group = group.filter(|group| launch.makes_group || group.make().is_ok());
        if let Some(group) = group.as_ref().filter(|_| !launch.makes_group) {
            enter(&mut launch, &group.entrance());
        }
        let mut session = session(existing.as_mut(), &launch, cpus, &id).inspect_err(|_| {
            let _ = group.as_ref().map(Group::remove);
        })?;
        // Others have a file system or a memory of their own.
        if matches!(kind, Kind::Host | Kind::Command(_) | Kind::Uml(_)) {
            session.bound = limit.and_then(|limit| Bound::here(&WORK, limit));
        }
        // What a guest that runs already does is not done by what was started here.
        let meter = match (&existing, &group) {
            (Some(guest), _) => Meter::of_process(guest.pid),
            (None, Some(group)) => Meter::Group(group.clone()),
            (None, None) => Meter::Tree(session.pid().unwrap_or_default()),
        };
        let has_places = side.trial.as_ref().is_some_and(|trial| trial.has_places);
        let (pinned, mut facts) = match existing {
            Some(_) if has_places => {
                let text = "not kept on these processors, as where it runs is what is tried";
                let facts = BTreeMap::from([(PROCESSORS_OF_VMM.to_owned(), text.to_owned())]);
                (Pinned::default(), facts)
            }
            Some(_) => pinned(&meter, cpus),
            None => Default::default(),
        };
        facts.extend(known);
        Ok(Self {
            meter,
            _pinned: pinned,
            _trial: trial,
            session,
            group,
            cleanup: launch.cleanup,
            process: launch.process,
            channel: launch.channel,
            ends_by_signal: launch.ends_by_signal,
            id,
            is_lost: false,
            facts,
            directory,
        })
    }

    /// Finds the processes that work for it, when its shell runs.
    ///
    /// # Errors
    /// If its engine does not say.
    pub(super) fn find_process(&mut self, patience: Patience<'_>) -> Result<(), SessionError> {
        let Some((program, words)) = self.process.as_ref().and_then(|words| words.split_first())
        else {
            return Ok(());
        };
        let program = Program::at(program).args(words);
        let output = output_within(&program, Some(patience.time), patience.interrupt);
        let output = output.map_err(|error| match error {
            NoOutput::Failed(error) => SessionError::Process(error),
            NoOutput::Interrupted(_) => SessionError::Interrupted,
        })?;
        let text = String::from_utf8_lossy(&output);
        let elsewhere = || SessionError::Elsewhere(text.trim().to_owned());
        let (pid, id) = text.trim().split_once(' ').ok_or_else(elsewhere)?;
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        // An engine on another host has processes of that.
        let pid = pid.parse().ok().filter(|_| group.contains(id));
        let pid = pid.ok_or_else(elsewhere)?;
        self.meter = Meter::of_process(pid);
        Ok(())
    }

    fn end(&mut self) {
        let pid = self.session.pid();
        // What has left the process group is found while its parents live.
        let below = Procfs::default().all_process_times();
        let below = match (below, pid) {
            (Ok(all), Some(pid)) => tree(&all, pid),
            _ => Vec::new(),
        };
        // A number may be that of another process when the target has ended.
        let below: Vec<_> = below.into_iter().filter_map(process).collect();
        self.session.end(self.is_lost || self.ends_by_signal);
        // Linux before 5.14 kills no groups.
        let is_killed = self
            .group
            .as_ref()
            .is_some_and(|group| group.kill().is_ok());
        if !is_killed {
            let members = self
                .group
                .iter()
                .flat_map(Group::processes)
                .filter_map(process);
            for process in members.chain(below) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
        if let Some((program, words)) = self.cleanup.as_ref().and_then(|words| words.split_first())
        {
            let program = Program::at(program).args(words);
            // A second Ctrl-C does not end it, and one that hangs does not keep brisk.
            let _ = Interrupt::new().map(|never| output_within(&program, Some(CLEANING), &never));
        }
        if let Some(group) = &self.group {
            let _ = group
                .wait_until_empty(EMPTYING)
                .and_then(|()| group.remove());
        }
        // A target that shares the host's files and was killed has left its work there.
        for parent in WORK.into_iter().chain([DISK]) {
            let _ = work_directory::remove(&Path::new(parent).join(&self.id));
        }
    }
}

/// A process by its number, if it is there.
fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the shell of a target, or takes the console of a guest that runs already.
fn session(
    existing: Option<&mut Existing>,
    launch: &Launch,
    cpus: &[usize],
    id: &str,
) -> Result<Session, StartError> {
    let Some((guest, console)) = existing.and_then(|guest| {
        let console = guest.console.take()?;
        Some((guest, console))
    }) else {
        return Ok(on_processors(cpus, || Session::start(launch, id))?);
    };
    let session = Session::on_console(console, id)?;
    if let Some(domain) = &guest.agent {
        let started = domain.start_by_agent(&shell_of_agent(id));
        started.map_err(ExistingError::Libvirt)?;
    }
    Ok(session)
}

/// Keeps a guest that runs already on some processors; where that cannot be done, a fact says so.
fn pinned(guest: &Meter, cpus: &[usize]) -> (Pinned, BTreeMap<String, String>) {
    match Pinned::new(&guest.processes(), cpus) {
        Ok(pinned) => (pinned, BTreeMap::new()),
        Err(error) => {
            let text = format!("not kept on these processors: {error}");
            let facts = BTreeMap::from([(PROCESSORS_OF_VMM.to_owned(), text)]);
            (Pinned::default(), facts)
        }
    }
}

/// Makes the directories and files that a target needs.
fn write(launch: &Launch) -> io::Result<()> {
    for path in &launch.directories {
        fs::create_dir(path)?;
    }
    for (path, bytes, mode) in &launch.files {
        fs::write(path, bytes)?;
        fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
    }
    Ok(())
}

/// Has a shell enter a group and then become the program.
fn enter(launch: &mut Launch, entrance: &PathBuf) {
    let script = "echo $$ >\"$0\" && exec \"$@\"";
    let mut words = vec!["sh".into(), "-c".into(), script.into(), entrance.into()];
    words.append(&mut launch.words);
    launch.words = words;
}
