//! To an image and back.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::image::{self, Claim, Image, Keys, Recipient, Report, Secret, Source, host_key};
use brisk_vm::qemu::{Capabilities, Ram, State, load_state, save_state};
use serde_json::json;

use super::definition::text_of_uuid;
use super::describe::{describe, identify};
use super::error::{Error, file};
use super::home::Home;
use super::lazy::wait_until_filled;
use super::lifecycle::{Running, launch};
use super::live::{self, Condition};
use super::ports::tell;
use super::unlock::with_host_key;
use crate::run::clock;

/// How long QEMU may take to end.
const END: Duration = Duration::from_secs(30);
/// How long init may take to set the clock.
const CLOCK: Duration = Duration::from_secs(10);

/// What a resume did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resumed {
    /// Until the guest ran.
    pub running: Duration,
    /// Bytes of the guest's memory.
    pub memory: u64,
    /// Time it took to read, decrypt and decompress.
    pub loading: Duration,
}

impl Resumed {
    /// In the manner of the report of a suspend.
    fn line(&self) -> String {
        let megabytes = self.memory as f64 / 1e6;
        let seconds = self.loading.as_secs_f64().max(1e-9);
        let rate = megabytes / seconds;
        format!("loaded: {megabytes:.0} MB in {seconds:.2} sec {rate:.1} MB/s")
    }
}

/// Writes a running machine to its image and ends it. When this fails, the machine goes on. With a
/// `passphrase` that opens the image, too.
///
/// # Errors
/// If it does not run, QEMU cannot save it, or the image cannot be written.
pub fn suspend(
    home: &Home,
    passphrase: Option<Secret>,
    control: image::Control<'_>,
) -> Result<Report, Error> {
    let definition = home.definition()?;
    let wrong = |source| home.wrong(source);
    let options = definition.suspend.options().map_err(wrong)?;
    let mut recipients = definition.suspend.recipients().map_err(wrong)?;
    if definition.suspend.passphrase && passphrase.is_none() {
        let hint = "give a file with it: --passphrase-file";
        return Err(Error::state(&home.name, "is locked for a passphrase", hint));
    }
    recipients.extend(passphrase.map(Recipient::Passphrase));
    let _lock = home.lock("suspend")?;
    let now = live::settle(home)?;
    if !matches!(now, Condition::Running | Condition::Paused) {
        return Err(Error::not_running(&home.name, now));
    }
    let path = home.image(&definition);
    wait_until_filled(home, &path, control)?;
    if definition.suspend.host_key {
        recipients.push(Recipient::Host(host_key(home.key(), true)?.to_public()));
    }
    let running = Running::of(home)?;
    let (major, minor) = running.machine.version;
    if (major, minor) < (8, 2) {
        return Err(Error::state(
            &home.name,
            format!("runs in QEMU {major}.{minor}, which cannot go on from a file"),
            "stop it, and start it with QEMU 8.2 or later",
        ));
    }
    home.processing("suspend", &format!("to {}", path.display()));
    let off = || Error::state(&home.name, "has ended", "brisk vm start starts it");
    let stream = live::connect(home)?.ok_or_else(off)?;
    let mut qmp = live::control(&stream)?;
    // An earlier suspend that was killed may have left it standing still.
    qmp.execute("cont", &json!(null))?;
    home.note("VM suspending");
    let written = save_state(&mut qmp).map_err(Error::from).and_then(|state| {
        let memory = match &running.machine.ram {
            Ram::Kept(path) => path.clone(),
            _ => home.memory(),
        };
        let ram = File::open(&memory).map_err(file("open", &memory))?;
        let description = describe(home, &running, &definition)?;
        let source = Source {
            memory: &ram,
            size: running.machine.memory_mib << 20,
            leave_out: None,
            state: &state,
            description: &description,
            base: None,
            working_set: &[],
        };
        Ok(image::write(
            &path,
            &source,
            &recipients,
            &options,
            control,
        )?)
    });
    let report = match written {
        Ok(report) => report,
        Err(error) => {
            // It goes on where it was.
            let goes_on = qmp.execute("cont", &json!(null));
            let how = match &goes_on {
                Ok(_) => "it goes on",
                Err(_) => "and it does not go on",
            };
            home.note(&format!("Suspend failed, {how}: {error}"));
            set_clock(home);
            return match error {
                Error::Image(image::Error::Cancelled) => Err(Error::Interrupted),
                error => Err(error),
            };
        }
    };
    // The image is durable: from here on it is the machine.
    let _ = qmp.execute("quit", &json!(null));
    live::wait_for_end(home, END);
    live::end(home)?;
    for line in report.lines() {
        home.note(&line);
    }
    home.note("VM halted");
    Ok(report)
}

/// Goes on from a machine's image, which is used up by that. `keys` open it besides this host's.
///
/// # Errors
/// If there is none, it is damaged, or what it needs is not here as it was. The image stays as it
/// is until the guest runs.
pub fn resume(
    home: &Home,
    cache: &Cache,
    keys: &Keys,
    control: image::Control<'_>,
) -> Result<Resumed, Error> {
    let begun = Instant::now();
    let definition = home.definition()?;
    let _lock = home.lock("resume")?;
    match live::settle(home)? {
        Condition::Suspended => {}
        Condition::Paused => return go_on(home, begun),
        Condition::Off => {
            return Err(Error::state(
                &home.name,
                "is not suspended",
                "brisk vm start boots it",
            ));
        }
        _ => {
            return Err(Error::state(
                &home.name,
                "runs already",
                "brisk vm exec runs a command in it",
            ));
        }
    }
    let path = home.image(&definition);
    home.processing("resume", &format!("from {}", path.display()));
    let mut claim = Claim::take(&path)?;
    let resumed = load(home, (&path, keys), &mut claim, cache, control, begun);
    match resumed {
        Ok(resumed) => {
            claim.finish()?;
            home.note(&resumed.line());
            home.note("VM running");
            Ok(resumed)
        }
        Err(error) => {
            // What went wrong first is what matters.
            let _ = live::end(home);
            // If the guest may have run, it stays used.
            let _ = claim.release();
            home.note(&format!("Resume failed: {error}"));
            match error {
                Error::Image(image::Error::Cancelled) => Err(Error::Interrupted),
                error => Err(error),
            }
        }
    }
}

/// A machine that a killed command left standing still.
fn go_on(home: &Home, begun: Instant) -> Result<Resumed, Error> {
    let off = || Error::state(&home.name, "has ended", "brisk vm start starts it");
    let stream = live::connect(home)?.ok_or_else(off)?;
    live::control(&stream)?.execute("cont", &json!(null))?;
    home.note("VM goes on");
    set_clock(home);
    Ok(Resumed {
        running: begun.elapsed(),
        memory: 0,
        loading: Duration::ZERO,
    })
}

fn load(
    home: &Home,
    (path, keys): (&Path, &Keys),
    claim: &mut Claim,
    cache: &Cache,
    control: image::Control<'_>,
    begun: Instant,
) -> Result<Resumed, Error> {
    let keys = with_host_key(home, keys)?;
    let image = Image::from_file(claim.file()?, claim.path(), &keys)?;
    let mut running = machine_of(&image, path)?;
    check(home, &image, &running, path, cache)?;
    home.clear();
    home.prepare()?;
    let memory = home.memory();
    let mut ram = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&memory)
        .map_err(file("make", &memory))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let loading = Instant::now();
    image.load(&ram, &memory, threads, control)?;
    let loading = loading.elapsed();
    // The devices' state lies behind the memory, where QEMU does not map the file.
    let offset = image.header().memory;
    let state = image.state()?;
    let appended = std::io::Seek::seek(&mut ram, std::io::SeekFrom::Start(offset))
        .and_then(|_| ram.write_all(&state))
        .and_then(|()| ram.set_permissions(fs::Permissions::from_mode(0o666)));
    appended.map_err(file("write", &memory))?;
    let place = State {
        path: memory.clone(),
        offset,
    };
    running.machine.ram = Ram::Kept(memory);
    running.machine.state = Some(place.clone());
    running.machine.stopped = true;
    launch(home, &running)?;
    let off = || {
        Error::state(
            &home.name,
            "ended while its state was loaded",
            "its qemu.log says why",
        )
    };
    let stream = live::connect(home)?.ok_or_else(off)?;
    let mut qmp = live::control(&stream)?;
    load_state(&mut qmp, &place)?;
    // Nobody may resume it again once the guest has run an instruction.
    claim.start()?;
    qmp.execute("cont", &json!(null))?;
    let done = begun.elapsed();
    let cut = ram.set_len(offset);
    cut.map_err(file("cut", home.memory()))?;
    set_clock(home);
    Ok(Resumed {
        running: done,
        memory: offset,
        loading,
    })
}

/// A guest whose clock cannot be set still runs.
pub(super) fn set_clock(home: &Home) {
    if let Err(error) = tell(home, &[clock()], CLOCK) {
        home.note(&format!("The clock was not set: {error}"));
    }
}

pub(super) fn machine_of(image: &Image, path: &Path) -> Result<Running, Error> {
    let unlike = |reason: &str| Error::Unlike {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let text = &image.description().definition;
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| unlike("it does not say what machine it holds"))?;
    let machine = value["machine"].as_str().unwrap_or_default();
    serde_json::from_str(machine)
        .map_err(|_| unlike("it was made by another version of brisk, whose machines are unknown"))
}

/// What must be as it was.
pub(super) fn check(
    home: &Home,
    image: &Image,
    running: &Running,
    path: &Path,
    cache: &Cache,
) -> Result<(), Error> {
    let unlike = |reason: String| {
        Err(Error::Unlike {
            path: path.to_owned(),
            reason,
        })
    };
    let description = image.description();
    if description.name != home.name {
        return unlike(format!("it holds the machine {}", description.name));
    }
    let uuid = home.definition()?.uuid().map_err(|e| home.wrong(e))?;
    if let Some(uuid) = uuid.filter(|uuid| ![*uuid, [0; 16]].contains(&description.uuid)) {
        return unlike(format!(
            "it holds another machine {}: one with the UUID {}, and this has {}",
            home.name,
            text_of_uuid(description.uuid),
            text_of_uuid(uuid)
        ));
    }
    let capabilities = Capabilities::of(&running.machine.program, cache);
    let package = capabilities.map_err(crate::run::Error::from)?.package;
    if package != description.qemu {
        return unlike(format!(
            "it was made by QEMU {}, and {} is {package}",
            description.qemu,
            running.machine.program.display()
        ));
    }
    for file in [&running.machine.kernel, &running.machine.initramfs] {
        if !file.exists() {
            return unlike(format!("{} is not there any more", file.display()));
        }
    }
    for disk in &description.disks {
        let now = identify(&disk.path, disk.writable)?;
        if (now.size, now.dev, now.ino, now.mtime) != (disk.size, disk.dev, disk.ino, disk.mtime) {
            return unlike(format!(
                "its disk {} has changed since, and what the guest has in memory of it is not \
                 true any more",
                disk.path.display()
            ));
        }
    }
    Ok(())
}
