//! Start and stop of VMs.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::guest::Step;
use brisk_vm::launch::{start_detached, why_one_user};
use brisk_vm::qemu::{Channels, Ram};

use super::backing_chain;
use super::condition::Condition;
use super::definition::Definition;
use super::directories::{Directories, Served};
use super::disks;
use super::ended::{note_console_start, note_end};
use super::error::Error;
use super::identity::{identify, new_generation};
use super::live::{self, condition};
use super::log_size;
use super::page_service::looking_after;
use super::paths::VmPaths;
use super::ports::{ALL, connect, converse, run_steps};
use super::process;
use super::qemu_fit::note_started;
use super::running::Running;
use super::stderr_tail::StderrTail;
use super::suspend_record::{SuspendRecord, cut_off, image_missing};
use super::unit;
use crate::guest;

/// Program that the kernel executes as PID 1.
const BRISK_INIT: &[u8] = b"/init";
/// Interval at which it is checked whether another program has become PID 1.
const GLANCE: Duration = Duration::from_millis(20);
/// Time after which the program that is PID 1 is asked again to stop the VM: one that has just
/// begun ignores the first request. systemd takes seven requests within two seconds for an
/// emergency.
const ASKED_AGAIN: Duration = Duration::from_secs(3);
/// Time limit for QEMU to end once its channels are closed.
const ENDING: Duration = Duration::from_secs(1);
/// Usual time limit of a boot.
pub const BOOT: Duration = Duration::from_secs(120);

/// Boots a VM. `cancel` ends it again; `limit` is the time that its guest has to come up.
///
/// # Errors
/// If it runs or is suspended, its definition is wrong, or the guest does not boot.
pub fn start(
    paths: &VmPaths,
    cache: &Cache,
    limit: Duration,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let ending = Ending {
        limit,
        cancelled: &|| cancel.load(Ordering::Relaxed),
    };
    start_as(paths, &paths.definition()?, cache, ending, progress).map(drop)
}

/// What ends a boot before its guest is up.
#[derive(Clone, Copy)]
pub struct Ending<'a> {
    /// Time limit.
    pub limit: Duration,
    /// Whether the boot is no longer wanted.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Boots a VM from a definition other than that of its file, which stays as it is. Returns the number of
/// QEMU's process.
///
/// # Errors
/// As [`start`].
pub fn start_as(
    paths: &VmPaths,
    definition: &Definition,
    cache: &Cache,
    ending: Ending<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<u32, Error> {
    let _lock = paths.lock("start")?;
    may_start(paths, definition)?;
    let options = paths.options(definition)?;
    let facts = guest::gather_and_probe(&options, cache, progress)?;
    let mut plan = guest::plan(&options, &facts)?;
    plan.pack(cache, progress)?;
    let directories = Directories::of(&plan, &facts);
    // What another boot needed or had says nothing of this one.
    backing_chain::forget(paths);
    paths.clear();
    paths.prepare()?;
    paths.processing("start", "");
    let _ = fs::remove_file(paths.working_set());
    SuspendRecord::remove(paths)?;
    // A suspended VM needs them, and a cache may be emptied.
    plan.machine.boot.kernel = paths.keep("kernel", &plan.machine.boot.kernel)?;
    plan.machine.boot.initramfs = paths.keep("initramfs", &plan.machine.boot.initramfs)?;
    let memory = paths.make_defined_memory(plan.machine.memory.mib << 20, definition)?;
    plan.machine.memory.ram = Ram::File(memory.path);
    plan.machine.channels = Channels::Listening { ports: ALL };
    let machine = plan.machine.machine.name();
    let versioned = facts.capabilities.versioned(machine);
    plan.machine.machine_version = Some(versioned.to_owned()).filter(|it| it != machine);
    let uuid = definition.uuid().map_err(|source| paths.wrong(source))?;
    identify(&mut plan.machine, uuid, new_generation()?);
    let mut running = Running {
        machine: plan.machine,
        unprivileged: plan.unprivileged,
        kernel: plan.release,
        qemu: facts.capabilities.package.clone(),
        directories,
        filled_from: None,
        images: Vec::new(),
        booting: true,
        nameless: false,
    };
    let init = definition.init.as_deref();
    let steps = first_steps(plan.prepare, &paths.name, init);
    progress("booting");
    let stderr = StderrTail::from_now(paths);
    let booted =
        launch(paths, &running).and_then(|pid| boot(paths, &steps, init, ending).map(|()| pid));
    progress("");
    running.booting = false;
    let booted = booted.and_then(|pid| note_started(paths, &mut running).map(|()| pid));
    let booted = booted.and_then(|pid| running.save(paths).map(|()| pid));
    match booted {
        Ok(pid) => {
            paths.note("VM running");
            if let Some((what, _)) = running.cannot_be_saved() {
                paths.note(&format!("It cannot be suspended: it {what}"));
            }
            Ok(pid)
        }
        Err(error) => {
            let error = stderr.explain(paths, error);
            // What went wrong first is what matters.
            let _ = process::end(paths);
            paths.note(&format!("VM did not start: {error}"));
            if (ending.cancelled)() {
                return Err(Error::Interrupted);
            }
            Err(error)
        }
    }
}

/// Whether a VM can be booted.
fn may_start(paths: &VmPaths, definition: &Definition) -> Result<(), Error> {
    match live::settle(paths)? {
        Condition::Off => {}
        Condition::Missing => return Err(image_missing(paths)),
        Condition::CutOff => return Err(cut_off(paths, definition)),
        Condition::Suspended => {
            return Err(Error::state(
                &paths.name,
                "is suspended",
                "brisk vm resume goes on from there, brisk vm discard removes the image",
            ));
        }
        _ => return Err(Error::runs_already(&paths.name)),
    }
    if disks::are_partial(paths) {
        let what = "is a clone whose disks were not copied to the end";
        return Err(Error::state(&paths.name, what, "brisk vm rm removes it"));
    }
    Ok(())
}

/// What brisk's init does before it serves commands. `init` becomes PID 1 then, if there is one.
fn first_steps(mut steps: Vec<Step>, name: &str, init: Option<&str>) -> Vec<Step> {
    steps.push(Step::HostName { name: name.into() });
    if let Some(init) = init {
        steps.push(Step::Init);
        steps.push(Step::Argument { text: init.into() });
    }
    steps.push(Step::Serve { ports: ALL.into() });
    steps
}

/// Has a guest that was launched take its first steps; returns when it serves commands.
fn boot(
    paths: &VmPaths,
    steps: &[Step],
    init: Option<&str>,
    ending: Ending<'_>,
) -> Result<(), Error> {
    let port = connect(&paths.runtime_files().guest())?;
    let still = || {
        if (ending.cancelled)() {
            return Err("interrupted".to_owned());
        }
        match process::pid(paths) {
            Some(_) => Ok(()),
            None => Err("QEMU ended".to_owned()),
        }
    };
    let result = converse(&port, steps, false, ending.limit, &still).map(drop);
    result.map_err(|reason| Error::Guest {
        reason: match init {
            Some(init) => format!("{init} did not become PID 1: {reason}"),
            None => reason,
        },
        console: paths.runtime_files().console,
    })?;
    match init {
        Some(init) => wait_for_init(paths, init, ending),
        None => Ok(()),
    }
}

/// Waits until the program that is to be PID 1 is: `exec` would find nothing of what it starts
/// before.
fn wait_for_init(paths: &VmPaths, program: &str, ending: Ending<'_>) -> Result<(), Error> {
    let words = [Step::SendFile {
        path: "/proc/1/cmdline".into(),
    }];
    let failed = || Error::Guest {
        reason: format!("{program} did not become PID 1"),
        console: paths.runtime_files().console,
    };
    let deadline = Instant::now() + ending.limit;
    loop {
        let answer = run_steps(paths, &words, ending.limit).map_err(|error| {
            // The kernel gave up, for lack of a PID 1. Channels close before QEMU has ended.
            match process::wait_for_end(paths, ENDING) {
                true => failed(),
                false => error,
            }
        })?;
        // It may have changed its words since; those of brisk's init begin with this.
        if answer.split(|byte| *byte == 0).next() != Some(BRISK_INIT) {
            return Ok(());
        }
        if (ending.cancelled)() {
            return Err(Error::Interrupted);
        }
        if process::pid(paths).is_none() || Instant::now() > deadline {
            return Err(failed());
        }
        std::thread::sleep(GLANCE);
    }
}

/// Starts QEMU and records the running VM. Returns the number of QEMU's process.
pub(super) fn launch(paths: &VmPaths, running: &Running) -> Result<u32, Error> {
    // First, so that there is no VM without one, wherever we are killed.
    running.save(paths)?;
    note_console_start(paths);
    let files = paths.runtime_files();
    let served = match &running.directories {
        Some(directories) => directories.serve(&files.errors)?,
        None => Served::default(),
    };
    let pid = start_detached(
        &running.machine,
        served.sockets,
        &files,
        running.unprivileged,
    )?;
    process::set_pid(paths, pid)?;
    if let Some(reason) = running.unprivileged.and_then(|_| why_one_user()) {
        paths.note(&format!("QEMU has no user of its own: {reason}"));
    }
    // Whoever serves its memory must not end before it.
    let us = running.machine.memory.postcopy.then(std::process::id);
    let logs = log_size::start(paths);
    let others = us.into_iter().chain(served.processes).chain(logs);
    let processes: Vec<_> = std::iter::once(pid).chain(others).collect();
    unit::enter(paths, &processes, &files_of(paths, running));
    Ok(pid)
}

/// Files of a VM that may be in file systems of their own.
fn files_of(paths: &VmPaths, running: &Running) -> Vec<PathBuf> {
    let disks = running.machine.devices.disks.iter();
    let disks = disks.map(|disk| disk.path.clone());
    let image = paths
        .definition()
        .map(|definition| paths.image(&definition));
    disks.chain(image).collect()
}

/// Asks a VM to stop: its init ends all processes, unmounts and resets, which ends QEMU.
///
/// # Errors
/// If it does not run, or does not stop in time.
pub fn stop(paths: &VmPaths, limit: Duration) -> Result<(), Error> {
    let _lock = paths.lock("stop")?;
    stop_locked(paths, limit)
}

/// [`stop`], but leaves a VM alone whose QEMU is another process: somebody has ended it since, and
/// started it for themselves.
///
/// # Errors
/// If it does not stop in time.
pub fn stop_process(paths: &VmPaths, pid: u32, limit: Duration) -> Result<(), Error> {
    let _lock = paths.lock("stop")?;
    match process::pid(paths) == Some(pid) {
        true => stop_locked(paths, limit),
        false => Ok(()),
    }
}

fn stop_locked(paths: &VmPaths, limit: Duration) -> Result<(), Error> {
    let now = live::settle(paths)?;
    if now != Condition::Running {
        return Err(Error::not_running(&paths.name, now));
    }
    paths.processing("stop", "");
    let deadline = Instant::now() + limit;
    let once = paths.definition().is_ok_and(|now| now.init.is_none());
    let has_ended = looking_after(paths, || {
        let left = || deadline.saturating_duration_since(Instant::now());
        loop {
            let time = if once {
                left()
            } else {
                left().min(ASKED_AGAIN)
            };
            // A VM that stops may do so before it has answered.
            let _ = run_steps(paths, &[Step::Stop], time);
            let time = if once {
                left()
            } else {
                left().min(ASKED_AGAIN)
            };
            if process::wait_for_end(paths, time) {
                return true;
            }
            if left().is_zero() {
                return false;
            }
        }
    })?;
    if !has_ended {
        return Err(Error::state(
            &paths.name,
            format!("did not stop within {} s", limit.as_secs()),
            "brisk vm kill ends it",
        ));
    }
    ended(paths);
    paths.note("VM halted");
    Ok(())
}

/// Ends a VM as by a power cut. Its image is not changed: see [`discard`].
///
/// # Errors
/// If it does not run.
pub fn kill(paths: &VmPaths) -> Result<(), Error> {
    let _lock = paths.lock("kill")?;
    kill_locked(paths)
}

/// [`kill`], but leaves a VM alone whose QEMU is another process, as [`stop_process`] does.
///
/// # Errors
/// If it does not end.
pub fn kill_process(paths: &VmPaths, pid: u32) -> Result<(), Error> {
    let _lock = paths.lock("kill")?;
    match process::pid(paths) == Some(pid) {
        true => kill_locked(paths),
        false => Ok(()),
    }
}

fn kill_locked(paths: &VmPaths) -> Result<(), Error> {
    note_end(paths);
    let there = process::is_there(paths)?;
    let now = match condition(paths) {
        // It can be ended even if its definition is wrong by now.
        Err(_) if there => Condition::Running,
        other => other?,
    };
    let removes = match now {
        Condition::Suspended => "brisk vm discard removes its image",
        Condition::CutOff => "brisk vm discard removes the image",
        Condition::Missing => "brisk vm discard forgets the image",
        Condition::Off if !there => return Err(Error::not_running(&paths.name, now)),
        _ => "",
    };
    if !removes.is_empty() && !there {
        let what = format!("does not run: it is {}", now.name());
        return Err(Error::state(&paths.name, what, removes));
    }
    paths.processing("kill", "");
    process::end_process(paths)?;
    paths.note("VM killed");
    // One that did not answer may have been suspended when its command was killed.
    match condition(paths) {
        Ok(Condition::Suspended) => {
            paths.clear();
            live::note_kept(paths)?;
        }
        _ if removes.is_empty() => ended(paths),
        _ => {}
    }
    Ok(())
}

/// Removes the runtime files of a VM that is off.
pub(super) fn ended(paths: &VmPaths) {
    backing_chain::forget(paths);
    paths.forget_memory();
    // What can be removed has been by discard; another VM that ends had none.
    let _ = SuspendRecord::remove(paths);
    paths.clear();
}
