//! Postcopy resume, the page server's side: the process that lives until all memory has been
//! copied.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::{Claim, Header};
use brisk_vm::cache::Cache;
use brisk_vm::migration::Source;
use brisk_vm::qemu::control::{self, Control};
use brisk_vm::qemu::{Ram, State, Urgent, allow_late_memory, qmp, take_late_memory};
use serde_json::json;

use super::busy::Processors;
use super::clock::set_clock;
use super::condition::Condition;
use super::disk_error;
use super::error::{Error, file};
use super::first_run::{Failure, FirstRun, PATIENCE};
use super::kept;
use super::lifecycle::launch;
use super::live;
use super::page_service::{PageService, is_postcopying, start_standby};
use super::paths::VmPaths;
use super::postcopy::Word;
use super::postcopy_memory::PostcopyMemory;
use super::process;
use super::qemu_fit::check_started;
use super::resume::{How, open};
use super::stderr_tail::StderrTail;
use super::suspend_record::SuspendRecord;
use brisk_host::chain;

/// First QEMU whose migration stream is supported.
const FIRST: u32 = 10;

/// Interval at which an interruption is noticed while QEMU does not answer.
const GLANCE: Duration = Duration::from_millis(500);
/// Time limit of QEMU before its guest runs, where the image cannot be read.
const STARVING: Duration = Duration::from_secs(5);
/// Time limit of QEMU before its guest runs, where the image can be read.
const SILENCE: Duration = Duration::from_secs(30);

/// Result of an attempt.
enum Begun<'a> {
    Yes(Box<PageService<'a>>),
    Unable(String),
}

/// Resumes a VM, reports to `out` as soon as the guest runs, and returns when the guest has all of
/// its memory.
///
/// # Errors
/// If the report cannot be written. All other errors are reported, or recorded in the VM's log.
pub fn fill(
    paths: &VmPaths,
    cache: &Cache,
    cancel: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut say = |word: Word| {
        let text = serde_json::to_string(&word).map_err(std::io::Error::other);
        let written = text.and_then(|text| {
            writeln!(out, "{text}")?;
            out.flush()
        });
        written.map_err(file("write to", "standard output"))
    };
    let result = attempt(paths, cache, cancel, &mut say);
    match result {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => say(Word::Unable(reason)),
        Err(Error::Interrupted) => say(Word::Interrupted),
        Err(error) => say(failed(&error)),
    }
}

fn failed(error: &Error) -> Word {
    Word::Failed(match error.hint() {
        Some(hint) => format!("{} ({hint})", chain(error)),
        None => chain(error),
    })
}

/// Tries to resume: `None` when the guest has run, else the reason why it cannot.
fn attempt(
    paths: &VmPaths,
    cache: &Cache,
    cancel: &AtomicBool,
    say: &mut dyn FnMut(Word) -> Result<(), Error>,
) -> Result<Option<String>, Error> {
    let begun = Instant::now();
    let lock = paths.lock("resume")?;
    let definition = paths.definition()?;
    match live::settle(paths)? {
        Condition::Suspended => {}
        // What a killed command left, and errors, are the other resume's.
        Condition::Off | Condition::Missing | Condition::CutOff | Condition::Paused => {
            return Ok(Some(String::new()));
        }
        _ if is_postcopying(paths)? => {
            disk_error::check_continuable(paths)?;
            let (what, hint) = (
                "runs, and gets its memory from its image",
                "brisk vm log says when all is there, and whether the image can be read",
            );
            return Err(Error::state(&paths.name, what, hint));
        }
        _ => return Err(Error::runs_already(&paths.name)),
    }
    let path = paths.image(&definition);
    let area = paths.area(&definition);
    if let Ok(Some(area)) = area {
        return Ok(Some(format!(
            "its memory is to be in {}, which is no memory that userfaultfd(2) serves",
            area.directory.display()
        )));
    }
    if Header::read(&path).is_ok_and(|header| header.kept) {
        return Ok(Some("its image has no memory".to_owned()));
    }
    paths.processing("resume", &format!("from {}", path.display()));
    let claim = Claim::take(&path)?;
    let serving = match begin(paths, claim, cache, begun) {
        Ok(Begun::Yes(serving)) => *serving,
        Ok(Begun::Unable(reason)) => {
            // What went wrong first is what matters.
            let _ = process::end(paths);
            paths.note(&format!("Lazy resume is not possible: {reason}"));
            return Ok(Some(reason));
        }
        Err(error) => {
            // What went wrong first is what matters.
            let _ = process::end(paths);
            paths.note(&format!("Resume failed: {}", chain(&error)));
            return Err(error);
        }
    };
    if let Err(reason) = area {
        // The other resume says so itself.
        paths.note_outside(&reason);
    }
    let memory = serving.image.header().memory;
    serving.serve(|claim, late| {
        let mut ending = Some((lock, say));
        let mut standby = None;
        // The command ends, and others can begin.
        let mut conclude = |word| {
            late.has_answered();
            if let Some((lock, say)) = ending.take() {
                // What follows the command must not find it at work.
                drop(lock);
                // The command may have been ended: the guest runs all the same.
                let _ = say(word);
            }
        };
        let runs = |running| Word::Runs { running, memory };
        let running = run(paths, claim, late, cancel, begun, &mut |running| {
            if standby.is_none() {
                standby = start_standby(paths);
            }
            // It goes on when it can be read.
            if late.is_unreadable() {
                conclude(runs(running));
            }
        });
        if let Err(Failure::NotRun(error)) = running {
            return Err(error);
        }
        late.runs();
        if standby.is_none() {
            standby = start_standby(paths);
        }
        match running {
            Ok(running) => {
                if late.is_unreadable() {
                    // Its clock is set when it goes on.
                    conclude(runs(running));
                } else {
                    set_clock(paths);
                }
                paths.forget_memory();
                paths.note("VM running");
                conclude(runs(running));
            }
            Err(failure) => {
                let error = failure.error();
                paths.note(&format!("VM may stand still: {}", chain(&error)));
                conclude(failed(&error));
            }
        }
        Ok(standby)
    })?;
    Ok(None)
}

/// Prepares a QEMU that waits for the VM's state.
fn begin<'a>(
    paths: &'a VmPaths,
    claim: Claim,
    cache: &Cache,
    begun: Instant,
) -> Result<Begun<'a>, Error> {
    let (image, mut running) = open(paths, claim.file()?, claim.image(), &How::default(), cache)?;
    let version = running.machine.version.0;
    if version < FIRST {
        return Ok(Begun::Unable(format!(
            "it needs QEMU {FIRST} or newer, and this is {version}"
        )));
    }
    if running.directories.is_some() {
        return Ok(Begun::Unable(
            "what serves its directories reads and writes its memory, too, and must find it there"
                .to_owned(),
        ));
    }
    let kept = kept::may_be_found(&image);
    if kept == Ok(true) {
        return Ok(Begun::Unable("its memory was kept in RAM".to_owned()));
    }
    paths.clear();
    paths.prepare()?;
    let length = image.header().memory;
    // It comes in pages of 4 KiB.
    let memory = paths.make_memory(length, false)?;
    running.machine.memory.ram = Ram::File(memory.path.clone());
    running.machine.state = Some(State {
        path: memory.path,
        offset: 0,
    });
    running.machine.memory.postcopy = true;
    running.filled_from = Some(claim.image().to_owned());
    running.machine.stopped = true;
    SuspendRecord::ensure(paths, &image, &running.machine.devices.disks)?;
    let stderr = StderrTail::from_now(paths);
    let explain = |error: Error| stderr.explain(paths, error);
    let pid = launch(paths, &running)?;
    let channel = |error| file("make", "a channel to QEMU")(error);
    let (ours, theirs) = UnixStream::pair().map_err(channel)?;
    let source = Source::new(ours, &image.state()?, length)?;
    let stream = process::connect(paths)?.ok_or_else(|| Error::ended_loading(&paths.name));
    let stream = stream.map_err(explain)?;
    let mut qmp = process::control(&stream).map_err(explain)?;
    check_started(paths, &mut running, &mut qmp)?;
    if let Err(reason) = allow_late_memory(&mut qmp).map_err(|error| explain(error.into()))? {
        return Ok(Begun::Unable(reason));
    }
    match Urgent::of(pid) {
        Ok(urgent) => urgent.agree()?,
        Err(error) => {
            return Ok(Begun::Unable(format!(
                "QEMU could not get its memory from another process than this one ({error})"
            )));
        }
    }
    take_late_memory(&mut qmp, theirs.as_fd())?;
    if let Err(reason) = kept {
        paths.note_unused(&reason);
    }
    Ok(Begun::Yes(Box::new(PageService {
        paths,
        claim,
        image,
        source,
        begun,
    })))
}

/// Runs the guest as soon as QEMU has its devices. `slow` is called if that takes long.
fn run(
    paths: &VmPaths,
    claim: &mut Claim,
    late: &PostcopyMemory<'_>,
    cancel: &AtomicBool,
    begun: Instant,
    slow: &mut dyn FnMut(Duration),
) -> Result<Duration, Failure> {
    let stream = process::connect(paths)?.ok_or_else(|| Error::ended_loading(&paths.name))?;
    let mut qmp = Control::new(&stream, qmp::Reader::default(), GLANCE);
    let asked = Instant::now();
    // QEMU waits itself for what its devices have in memory.
    let starves = || late.is_unreadable() && asked.elapsed() > STARVING;
    let cancelled = || cancel.load(Ordering::Relaxed);
    let mut ask = |command| {
        let answer = qmp.execute_while(command, &json!(null), &mut || {
            !cancelled() && !starves() && asked.elapsed() < SILENCE
        });
        match answer {
            Err(_) if cancelled() => Err(Error::Interrupted),
            Err(control::Error::Silent { .. }) if starves() => Err(Error::state(
                &paths.name,
                "was not resumed: its image cannot be read",
                "brisk vm log says why; try again when it can",
            )),
            result => Ok(result?),
        }
    };
    ask("qmp_capabilities")?;
    loop {
        let status = ask("query-status")?;
        if cancelled() {
            return Err(Error::Interrupted.into());
        }
        if status["status"] != json!("inmigrate") {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let processors = ask("query-cpus-fast")?;
    if let Some(pid) = process::pid(paths) {
        late.has(Processors::of(pid, &processors));
    }
    let first = FirstRun {
        paths,
        image: late.image(),
        claim: Some(claim),
        how: &How::default(),
    };
    let asked = Instant::now();
    let wait = &mut || {
        slow(begun.elapsed());
        process::pid(paths).is_some() && (late.is_unreadable() || asked.elapsed() < PATIENCE)
    };
    first.run(&mut qmp, wait).map(|()| {
        late.set_has_run();
        begun.elapsed()
    })
}
