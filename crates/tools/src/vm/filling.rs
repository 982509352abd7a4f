//! Resuming with memory that comes later: the process that stays until all is there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::image::{self, Claim, Image, Keys, host_key};
use brisk_vm::migration::{Ended, Failure, PAGE, Source};
use brisk_vm::qemu::{Ram, State, allow_late_memory, end_late_memory, take_late_memory};
use serde_json::json;

use super::error::{Error, file};
use super::home::Home;
use super::late::Late;
use super::lazy::Word;
use super::lifecycle::launch_with;
use super::live::{self, Condition};
use super::suspend::{check, machine_of, set_clock};

/// The first QEMU whose stream is known.
const FIRST: u32 = 10;

/// A guest that runs, or will: who serves its memory, and what is left to say.
struct Filling {
    claim: Claim,
    image: Image,
    source: Source,
    begun: Instant,
}

/// What became of an attempt.
enum Begun {
    Yes(Box<Filling>),
    Unable(String),
}

/// Resumes a machine, says so to `out` as soon as the guest runs, and returns when the guest has
/// all of its memory.
///
/// # Errors
/// If what is to be said cannot be said. All else is said, or noted in the machine's log.
pub fn fill(
    home: &Home,
    cache: &Cache,
    cancel: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut say = |word: Word| {
        let text = serde_json::to_string(&word).map_err(std::io::Error::other);
        let said = text.and_then(|text| {
            writeln!(out, "{text}")?;
            out.flush()
        });
        said.map_err(file("write to", "standard output"))
    };
    let result = attempt(home, cache, cancel, &mut say);
    match result {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => say(Word::Unable(reason)),
        Err(Error::Interrupted) => say(Word::Interrupted),
        Err(error) => say(Word::Failed(match error.hint() {
            Some(hint) => format!("{} ({hint})", chain(&error)),
            None => chain(&error),
        })),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// `None` when the guest has run; else why it cannot.
fn attempt(
    home: &Home,
    cache: &Cache,
    cancel: &AtomicBool,
    say: &mut dyn FnMut(Word) -> Result<(), Error>,
) -> Result<Option<String>, Error> {
    let begun = Instant::now();
    let definition = home.definition()?;
    let lock = home.lock("resume")?;
    let served = image::state(&home.image(&definition))?;
    match live::settle(home)? {
        Condition::Suspended => {}
        now @ (Condition::Running | Condition::Paused | Condition::Busy)
            if matches!(served, image::State::Resumed { .. })
                // One that waits for a page in order to stop says nothing.
                && (now == Condition::Busy || lacks_memory(home)?) =>
        {
            let (what, hint) = match served {
                image::State::Resumed { held: true } => (
                    "waits for memory from its image",
                    "brisk vm log says whether that can be read",
                ),
                _ => (
                    "lacks memory, and the process that served it was ended",
                    "brisk vm kill ends it",
                ),
            };
            return Err(Error::state(&home.name, what, hint));
        }
        // What a killed command left, and errors, are the other resume's.
        Condition::Off | Condition::Paused => return Ok(Some(String::new())),
        _ => {
            return Err(Error::state(
                &home.name,
                "runs already",
                "brisk vm exec runs a command in it",
            ));
        }
    }
    let path = home.image(&definition);
    home.note(&format!(
        "Processing command resume from {}",
        path.display()
    ));
    let claim = Claim::take(&path)?;
    let filling = match begin(home, claim, cache, begun) {
        Ok(Begun::Yes(filling)) => *filling,
        Ok(Begun::Unable(reason)) => {
            // What went wrong first is what matters.
            let _ = live::end(home);
            home.note(&format!("Lazy resume is not possible: {reason}"));
            return Ok(Some(reason));
        }
        Err(error) => {
            // What went wrong first is what matters.
            let _ = live::end(home);
            home.note(&format!("Resume failed: {}", chain(&error)));
            return Err(error);
        }
    };
    let Filling {
        mut claim,
        image,
        source,
        begun,
    } = filling;
    let late = Late::new(home, &image);
    let order = order(&image);
    let served = thread::scope(|scope| {
        let serving = scope.spawn(|| source.serve(&late, &order));
        let ran = run(home, &mut claim, begun, cancel);
        match ran {
            Ok(running) => {
                set_clock(home);
                home.note("VM running");
                let memory = image.header().memory;
                // The command may have been ended: the guest runs all the same.
                let _ = say(Word::Runs { running, memory });
                drop(lock);
            }
            Err(error) => {
                late.give_up();
                // What went wrong first is what matters.
                let _ = live::end(home);
                home.note(&format!("Resume failed: {}", chain(&error)));
                let _ = serving.join();
                return Err(error);
            }
        }
        Ok(serving.join())
    });
    match served {
        Err(error) => {
            // If the guest may have run, it stays used.
            let _ = claim.release();
            Err(error)
        }
        Ok(Ok(served)) => {
            conclude(home, claim, begun, served);
            Ok(None)
        }
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
    }
}

/// Whether QEMU has not got all of its memory.
fn lacks_memory(home: &Home) -> Result<bool, Error> {
    let stream = live::connect(home)?.ok_or_else(|| ended(home))?;
    let answer = live::control(&stream)?.execute("query-migrate", &json!(null))?;
    let status = answer["status"].as_str().unwrap_or_default();
    Ok(status.starts_with("postcopy"))
}

/// Up to a QEMU that waits for the machine.
fn begin(home: &Home, claim: Claim, cache: &Cache, begun: Instant) -> Result<Begun, Error> {
    let path = claim.path().to_owned();
    let keys = Keys::new().with_identity(host_key(home.key(), false)?);
    let image = Image::from_file(claim.file()?, &path, &keys)?;
    let mut running = machine_of(&image, &path)?;
    check(home, &image, &running, &path, cache)?;
    let version = running.machine.version.0;
    if version < FIRST {
        return Ok(Begun::Unable(format!(
            "it needs QEMU {FIRST} or newer, and this is {version}"
        )));
    }
    home.clear();
    home.prepare()?;
    let memory = home.memory();
    let length = image.header().memory;
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&memory)
        .and_then(|ram| {
            ram.set_permissions(fs::Permissions::from_mode(0o666))?;
            ram.set_len(length)
        });
    made.map_err(file("make", &memory))?;
    running.machine.ram = Ram::Kept(memory.clone());
    running.machine.state = Some(State {
        path: memory,
        offset: 0,
    });
    running.machine.stopped = true;
    launch_with(home, &running, true)?;
    let channel = |error| file("make", "a channel to QEMU")(error);
    let (ours, theirs) = UnixStream::pair().map_err(channel)?;
    let source = Source::new(ours, &image.state()?, length)?;
    let stream = live::connect(home)?.ok_or_else(|| ended(home))?;
    let mut qmp = live::control(&stream)?;
    if let Err(reason) = allow_late_memory(&mut qmp)? {
        return Ok(Begun::Unable(reason));
    }
    take_late_memory(&mut qmp, theirs.as_fd())?;
    running.machine.state = None;
    running.machine.stopped = false;
    running.save(home)?;
    Ok(Begun::Yes(Box::new(Filling {
        claim,
        image,
        source,
        begun,
    })))
}

fn ended(home: &Home) -> Error {
    Error::state(
        &home.name,
        "ended while its state was loaded",
        "its qemu.log says why",
    )
}

/// Has the guest run as soon as it has its devices.
fn run(
    home: &Home,
    claim: &mut Claim,
    begun: Instant,
    cancel: &AtomicBool,
) -> Result<Duration, Error> {
    let stream = live::connect(home)?.ok_or_else(|| ended(home))?;
    let mut qmp = live::control(&stream)?;
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let status = qmp.execute("query-status", &json!(null))?;
        if status["status"] != json!("inmigrate") {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // Nobody may resume it again once the guest has run an instruction.
    claim.start()?;
    qmp.execute("cont", &json!(null))?;
    Ok(begun.elapsed())
}

/// The image's chunks that the guest needed first the last time.
fn order(image: &Image) -> Vec<u64> {
    let ranges = image.working_set().ok().flatten().unwrap_or_default();
    let chunk = u64::from(image.header().chunk_size) / PAGE as u64;
    let mut seen = BTreeSet::new();
    let chunks = ranges
        .into_iter()
        .flat_map(|range| range.start / chunk..range.end.div_ceil(chunk));
    chunks.filter(|index| seen.insert(*index)).collect()
}

/// The guest has all of its memory, or nobody serves it any more.
fn conclude(home: &Home, claim: Claim, begun: Instant, served: Result<Ended, Failure>) {
    let whole = served.map_err(Error::from).and_then(|ended| {
        let stream = live::connect(home)?.ok_or_else(|| self::ended(home))?;
        let mut qmp = live::control(&stream)?;
        end_late_memory(&mut qmp)?;
        Ok(ended)
    });
    match &whole {
        Ok(ended) => {
            let wanted: u64 = ended
                .wanted
                .iter()
                .map(|range| range.end - range.start)
                .sum();
            home.note(&format!(
                "VM has all of its memory after {:.1} s: {} pages, {wanted} of them when it asked",
                begun.elapsed().as_secs_f64(),
                ended.sent,
            ));
        }
        Err(_) if live::pid(home).is_none() => {
            home.note("VM ended before it had all of its memory");
        }
        Err(error) => {
            home.note(&format!("VM lacks memory: {}", chain(error)));
            return;
        }
    }
    if let Err(error) = claim.finish() {
        home.note(&format!("The image was not removed: {}", chain(&error)));
    }
}
