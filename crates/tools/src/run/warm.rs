//! Templates: guests are restored from one that booted before, instead of booted.
//!
//! The first run boots a guest up to where it waits for its command, and keeps its memory and its
//! device state in one file in memory, the template. Later runs map that file, so that they share
//! every page that none of them has written, and give their guest what must differ between two: the
//! time and fresh randomness. Where directories of the host are served to the guest, the file is
//! copied: a virtiofsd, which continues from the state of the template's, has to see what the guest
//! writes.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::{Duration, Instant};

use brisk_vm::cache::{self, Cache, Identity};
use brisk_vm::guest_pages::{Memory, trim};
use brisk_vm::pretranslation::TemplateMemory;
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::{Ram, State, save_state};
use serde::{Deserialize, Serialize};

use super::ending::Ending;
use super::pretranslation_recorder;
use super::session::{Session, Stop};
use super::timing::Timing;
use super::warm_pool::WarmPool;
use crate::guest::error::Error;
use crate::guest::facts::Facts;
use crate::guest::memory_directory::memory_directory;
use crate::guest::options::{Options, Warm};
use crate::guest::plan::{Part, Plan, encoded};
use crate::guest::readahead::Common;
use crate::guest::{pretranslator, template};

/// Kind of the template's entries in the directory.
const KIND: &str = "warm";
/// Time limit of a boot.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time that a guest runs before it becomes a template. The kernel puts work off until after its
/// boot (a second after its start it refines the rate of the time stamp counter, and changes its
/// clock): work that it has not done by then would be repeated in each later run.
const REST: Duration = Duration::from_millis(1500);
/// Time limit of QEMU for a command.
const ANSWER: Duration = Duration::from_secs(30);
/// Most templates; each takes as much memory as its guest needs, some 60 MB.
const KEPT: usize = 4;

/// Way to run.
#[derive(Debug)]
pub enum Start {
    /// By this plan, or with a guest from this warm pool.
    Plan(Box<Plan>, WarmPool),
    /// By this plan, which boots: these options do not allow a template, for this reason.
    Cold(Box<Plan>, String),
    /// Not at all: the guest that was to become a template ended before.
    Ended(Ending),
}

#[derive(Serialize, Deserialize)]
struct Template {
    /// Offset of the device state, bytes.
    offset: u64,
}

/// Turns a plan into one that restores a template, which is made if there is none.
///
/// # Errors
/// If there is no directory for templates, or the guest cannot be saved.
pub fn warm(
    mut plan: Plan,
    options: &Options,
    facts: &Facts,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<Start, Error> {
    if let Some(reason) = template::unfit(&plan, options, facts) {
        return Ok(Start::Cold(Box::new(plan), reason));
    }
    plan.prepare.extend(facts.common.iter().map(Common::step));
    plan.pack(cache, progress)?;
    let dir = memory_directory()?;
    let store = Cache::new(&dir);
    let key = key(&plan, facts)?;
    let place = WarmPool::new(&store, &key);
    if options.warm == Warm::New {
        store.remove(KIND, &key)?;
        place.clear();
    }
    let mut ended = None;
    let made = store.get_or_build(KIND, &key, |file| {
        progress("booting the guest that later ones go on from, once");
        prune(&store.dir().join(KIND));
        make(plan.clone(), facts, cache, file).map_err(|stop| match stop {
            Failed::Error(error) => error,
            Failed::Ended(ending) => {
                ended = Some(ending);
                Error::Session(io::Error::other("the guest ended"))
            }
        })
    });
    let entry = match (made, ended) {
        (_, Some(ending)) => return Ok(Start::Ended(ending)),
        (made, None) => made?,
    };
    // What was used last is kept longest.
    let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
    let _ = File::open(&entry.path).and_then(|file| file.set_times(now));
    plan.machine.memory.ram = match plan.served.is_empty() {
        true => Ram::Template(entry.path.clone()),
        // Who serves the directories must see what the guest writes.
        false => Ram::Copy(entry.path.clone()),
    };
    plan.machine.processors.traced = pretranslation_recorder::is_wanted(&plan.machine, &entry.path);
    plan.machine.processors.pretranslates = pretranslator::works(&plan.machine, facts);
    plan.machine.state = Some(State {
        path: entry.path,
        offset: entry.meta.offset,
    });
    plan.part = Part::Command;
    progress("");
    Ok(Start::Plan(Box::new(plan), place))
}

/// Key of a template: everything that a guest up to its command depends on.
fn key(plan: &Plan, facts: &Facts) -> Result<String, Error> {
    let mut identity = format!(
        "{} {:?} {:?} {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        plan.machine,
        plan.unprivileged,
        (
            &plan.served,
            facts.virtiofsd.as_ref().filter(|_| !plan.served.is_empty())
        ),
        facts.capabilities,
        Identity::of(&plan.machine.program)?,
    );
    identity.push_str(&format!("{:?}", facts.common));
    for disk in &plan.machine.devices.disks {
        identity.push_str(&format!("{:?}", Identity::of(&disk.path)?));
    }
    let mut identity = identity.into_bytes();
    identity.extend(encoded(&plan.prepare)?);
    Ok(cache::key(&identity))
}

enum Failed {
    Error(Error),
    Ended(Ending),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Boots a guest, and fills `file` with its memory and its device state.
fn make(mut plan: Plan, facts: &Facts, cache: &Cache, file: &mut File) -> Result<Template, Failed> {
    let session = |error: io::Error| Failed::Error(Error::Session(error));
    let bytes = plan.machine.memory.mib << 20;
    let ranges = plan.machine.ranges();
    file.set_len(bytes).map_err(session)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    // It is open for writing only.
    let both = File::options().read(true).write(true).open(&path);
    let both = both.map_err(session)?;
    plan.machine.memory.ram = Ram::File(path.into());
    plan.part = Part::Preparation;
    plan.terminal = false;
    let timing = Timing::new(Instant::now());
    let waits = plan.machine.processors.pretranslator.is_some();
    let started = Session::start(plan, facts, cache, timing, &mut |_| {})?;
    let paused = match started.run_to_pause(PATIENCE, REST)? {
        Stop::Paused(paused) => *paused,
        Stop::Ended(ending) => return Err(Failed::Ended(ending)),
    };
    let mut control = Control::new(&paused.running.qmp, paused.qmp, ANSWER);
    let state = save_state(&mut control)?;
    paused.running.kill();
    // Those that copy it have less to copy.
    let memory = Memory {
        file: &both,
        ranges: &ranges,
    };
    trim(memory).map_err(session)?;
    file.write_all_at(&state, bytes).map_err(session)?;
    if waits {
        // The second processor halts until a restored guest was recorded.
        TemplateMemory::new(file)
            .await_pretranslation()
            .map_err(session)?;
    }
    // QEMUs of several users read it, each through a descriptor that is open for reading only, and
    // nobody else gets into the directory.
    let own = rustix::process::geteuid().as_raw();
    fchown(&*file, Some(own), None).map_err(session)?;
    let readable = Permissions::from_mode(0o444);
    file.set_permissions(readable).map_err(session)?;
    Ok(Template { offset: bytes })
}

/// Makes room for a new template, and removes files of runs that were killed.
fn prune(dir: &Path) {
    let files = || fs::read_dir(dir).into_iter().flatten().flatten();
    for left in files() {
        let name = left.file_name();
        let maker = name.to_str().and_then(|name| {
            let (pid, _) = name
                .strip_suffix(".tmp")?
                .rsplit_once('.')?
                .1
                .split_once('-')?;
            pid.parse::<u32>().ok()
        });
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(left.path());
        }
    }
    let mut whole: Vec<_> = files()
        .filter(|file| file.path().extension().is_none())
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    whole.sort();
    let excess = (whole.len() + 1).saturating_sub(KEPT);
    for (_, path) in whole.into_iter().take(excess) {
        // A guest that runs on it keeps its pages.
        for path in [path.with_extension("json"), path] {
            let _ = fs::remove_file(path);
        }
    }
}
