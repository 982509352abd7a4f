//! Steps of a restart on this machine.

use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use brisk_host::boot_entries::OnceError;
use brisk_host::files;
use brisk_host::program::Program;

use super::boot::Boot;
use super::combination::unchanged;
use super::record::{Restart, Stage, Way};
use super::sequence::{Host, Refused, Step, steps};
use super::store::Store;
use super::watchdog::{Dog, Watch};
use super::{drop_in, kexec_tools};
use crate::reboot::Target;
use crate::reboot::load::{self, Call, Course, LoadError, Loadable};
use brisk_host::chain;

/// Drop-in of systemd-system.conf(5) that lasts until the machine goes down.
const DROP_IN: &str = "/run/systemd/system.conf.d/50-brisk-reboot.conf";

/// VMs that are carried across a restart.
pub trait Vms {
    /// Suspends them. The result are the names of those that were suspended.
    ///
    /// # Errors
    /// Text of the reason.
    fn suspend(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Vec<String>, String>;

    /// Those that were suspended with the host, and have not been resumed.
    fn away(&self) -> Vec<String>;

    /// Resumes what [`Self::suspend`] of this or an earlier process suspended; `others` were away
    /// before, and stay.
    ///
    /// # Errors
    /// Names of those that do not run again, with reasons.
    fn resume(&mut self, others: &[String]) -> Result<(), String>;

    /// Writes to images what is kept in RAM alone of what [`Self::suspend`] suspended: the machine
    /// goes down otherwise.
    ///
    /// # Errors
    /// Names of those whose memory is lost then, with reasons.
    fn write_kept(&mut self) -> Result<(), String>;
}

/// Devices that are released before a jump.
pub trait Devices {
    /// Releases them.
    ///
    /// # Errors
    /// Text of the reason.
    fn release(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), String>;

    /// Gives back what [`Self::release`] of this or an earlier process released.
    ///
    /// # Errors
    /// What could not be given back.
    fn give_back(&mut self) -> Result<(), String>;
}

/// This machine.
pub struct Live<'a> {
    /// Files of restarts.
    pub store: Store,
    /// Kernel to load, for a warm restart.
    pub target: Option<Target>,
    /// What was checked, without what is added to its command line, with its [`combination`](super::combination()); none
    /// if that is not known.
    pub checked: Option<(Target, String)>,
    /// Whether the older call may load it.
    pub older_call: bool,
    /// VMs.
    pub vms: &'a mut dyn Vms,
    /// GPUs.
    pub devices: &'a mut dyn Devices,
    /// Whether it is no longer wanted.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Whether the machine goes down already: [`is_going_down`].
    pub going_down: &'a dyn Fn() -> Option<bool>,
    /// Told what happens.
    pub tell: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Live({:?})", self.store)
    }
}

impl Host for Live<'_> {
    fn save(&mut self, restart: &Restart) -> Result<(), String> {
        self.store
            .set_pending(restart)
            .map_err(|error| chain(&error))
    }

    fn forget(&mut self) -> Result<(), String> {
        self.store.clear_pending().map_err(|error| chain(&error))
    }

    fn take(&mut self, step: Step, restart: &mut Restart) -> Result<(), Refused> {
        match step {
            Step::Load => {
                kexec_tools::silence().map_err(Refused::Reason)?;
                self.load(restart)
            }
            Step::Vms if !restart.suspends => Ok(()),
            Step::Vms => {
                restart.away_before = self.vms.away();
                self.save(restart).map_err(Refused::Reason)?;
                restart.vms = self.vms.suspend(self.tell).map_err(Refused::Reason)?;
                self.save(restart).map_err(Refused::Reason)
            }
            Step::Quiesce if !restart.releases => Ok(()),
            Step::Quiesce => self.devices.release(self.tell).map_err(Refused::Reason),
            Step::Arm => arm(restart.watch.as_ref()).map_err(Refused::Reason),
            Step::Once => consume_once(restart).map_err(Refused::Reason),
            Step::Restart => {
                if restart.way == Way::Cold {
                    kexec_tools::silence().map_err(Refused::Reason)?;
                }
                restart.times.handed = Some(now());
                self.save(restart).map_err(Refused::Reason)?;
                match hand_over(restart.way) {
                    // systemd may have heard it, and answers nobody while it reads its units again.
                    Err(_) if answer(self.going_down, ANSWER) == Some(true) => Ok(()),
                    result => result.map_err(Refused::Reason),
                }
            }
        }
    }

    fn undo(&mut self, step: Step, restart: &Restart) -> Result<(), String> {
        match step {
            Step::Load => {
                let is_loaded = load::is_loaded(Path::new("/")) != Some(false);
                if restart.may_be_loaded && is_loaded {
                    load::unload().map_err(|error| chain(&error))?;
                }
                kexec_tools::restore()
            }
            Step::Vms if !restart.suspends => Ok(()),
            Step::Quiesce if !restart.releases => Ok(()),
            // Somebody else has asked for that: what would be started now would end with it.
            Step::Vms if self.goes_down(restart) => {
                self.vms.write_kept()?;
                Err(
                    "the machine goes down; brisk-vms.service resumes them when it is up again"
                        .to_owned(),
                )
            }
            Step::Quiesce if self.goes_down(restart) => Ok(()),
            Step::Vms => self.vms.resume(&restart.away_before),
            Step::Quiesce => self.devices.give_back(),
            Step::Arm => disarm(),
            Step::Once => restore_once(restart),
            Step::Restart if restart.way == Way::Cold => kexec_tools::restore(),
            Step::Restart => Ok(()),
        }
    }

    fn is_cancelled(&self) -> bool {
        (self.cancelled)()
    }

    fn tell(&mut self, text: &str) {
        (self.tell)(text);
    }
}

impl Live<'_> {
    /// Whether the machine goes down. Where systemd does not say and was asked to restart it, it does.
    fn goes_down(&self, restart: &Restart) -> bool {
        let was_asked = restart.stage == Stage::Restart;
        (self.going_down)().unwrap_or(was_asked)
    }

    fn load(&mut self, restart: &mut Restart) -> Result<(), Refused> {
        let Some(target) = &self.target else {
            return Err(Refused::Reason("no kernel was named".to_owned()));
        };
        let refused = |error: LoadError| match &error {
            LoadError::Refused(refusal) if refusal.course() == Course::Memory => {
                Refused::NoMemory(chain(&error))
            }
            _ => Refused::Reason(chain(&error)),
        };
        let files = Loadable::open(target).map_err(refused)?;
        // Read again behind that: memory may have been waited for meanwhile, and an upgrade replaces
        // files.
        if let Some((checked, known)) = &self.checked {
            unchanged(Path::new("/"), checked, known)
                .map_err(|error| Refused::Reason(chain(&error)))?;
        }
        // What another program has loaded is not unloaded.
        if load::is_loaded(Path::new("/")) == Some(true) {
            return Err(refused(LoadError::Occupied));
        }
        restart.may_be_loaded = true;
        self.save(restart).map_err(Refused::Reason)?;
        if let Call::Older(refusal) = files
            .load_by_either_call(self.older_call)
            .map_err(refused)?
        {
            (self.tell)(&format!("loaded by kexec_load, the older call: {refusal}"));
        }
        Ok(())
    }
}

/// Undoes a restart whose process was killed. The result tells whether there was one.
///
/// # Errors
/// What could not be undone.
pub fn undo_leftovers(host: &mut Live<'_>) -> Result<bool, String> {
    let Some(restart) = host.store.pending() else {
        return Ok(false);
    };
    let is_of_this_boot = restart.from.id == Boot::read(Path::new("/")).id;
    if !is_of_this_boot {
        return Ok(false);
    }
    if host.goes_down(&restart) {
        // If systemd was asked, it is this restart that goes on.
        if (Stage::Vms..Stage::Restart).contains(&restart.stage) {
            let restored = restore_once(&restart);
            host.vms.write_kept()?;
            restored?;
        }
        return Ok(false);
    }
    let mut left = Vec::new();
    // All of them: a load that was put off comes after its own stage, and undoing what was not done
    // changes nothing.
    let begun = match restart.stage {
        Stage::Begun => &[],
        _ => steps(restart.way),
    };
    for step in begun.iter().rev() {
        if let Err(reason) = host.undo(*step, &restart) {
            left.push(format!("{}: {reason}", step.undoing()));
        }
    }
    match &left[..] {
        [] => host.forget().map(|()| true),
        // It can be tried again.
        left => Err(left.join("; ")),
    }
}

/// Takes back the one-shot choice of the boot loader.
fn consume_once(restart: &mut Restart) -> Result<(), String> {
    let Some(once) = &restart.once else {
        return Ok(());
    };
    once.consume(Path::new("/")).map_err(|error| {
        let reason = chain(&error);
        // What somebody else has changed is not restored.
        if !matches!(error, OnceError::Write { .. }) {
            restart.once = None;
        }
        reason
    })
}

/// Gives the boot loader its one-shot choice back: also before another shutdown, which it is for.
fn restore_once(restart: &Restart) -> Result<(), String> {
    let consumed = restart
        .once
        .as_ref()
        .filter(|_| restart.stage >= Stage::Once);
    let restored = consumed.map(|it| it.restore(Path::new("/")));
    restored.unwrap_or(Ok(())).map_err(|error| chain(&error))
}

/// Now, seconds since 1970.
#[must_use]
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Output of systemctl.
pub(super) fn systemctl(words: &[&str]) -> Result<String, String> {
    let program = Program::find("systemctl").map_err(|error| chain(&error))?;
    let output = program.args(words.iter().copied()).run();
    let output = output.map_err(|error| chain(&error))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Whether the machine is being shut down: by systemd, or by logind, which before it asks systemd
/// waits for programs that have delayed it (systemd-inhibit(1)). None if systemd does not say.
#[must_use]
pub fn is_going_down() -> Option<bool> {
    if is_delayed() {
        return Some(true);
    }
    // A property, as is-system-running fails in other states than running, too.
    let state = systemctl(&["show", "--property=SystemState", "--value"]);
    let state = state.ok().filter(|state| !state.trim().is_empty())?;
    Some(state.trim() == "stopping")
}

/// Whether the machine goes down by a jump into a loaded kernel: systemd has been asked to start
/// `kexec.target`, and for no other end since. False if it does not say.
#[must_use]
pub fn is_jumping() -> bool {
    let job = systemctl(&["show", "--property=Job", "--value", "kexec.target"]);
    job.is_ok_and(|job| !matches!(job.trim(), "" | "0"))
}

/// Time in which systemd answers again at most, in intervals of [`AGAIN`].
const ANSWER: u32 = 300;
/// Interval at which it is asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Asks until there is an answer.
fn answer(ask: &dyn Fn() -> Option<bool>, times: u32) -> Option<bool> {
    (0..times).find_map(|time| {
        if time > 0 {
            thread::sleep(AGAIN);
        }
        ask()
    })
}

/// Whether logind has been asked to shut the machine down.
fn is_delayed() -> bool {
    let words = [
        "--system",
        "--timeout=10",
        "--auto-start=no",
        "get-property",
        "org.freedesktop.login1",
        "/org/freedesktop/login1",
        "org.freedesktop.login1.Manager",
        "PreparingForShutdown",
    ];
    let value = Program::find("busctl").and_then(|busctl| busctl.args(words).run());
    // Without logind, nothing delays it.
    value.is_ok_and(|value| value.trim_ascii() == b"b true")
}

/// Has systemd arm the watchdog as it jumps.
fn arm(watch: Option<&Watch>) -> Result<(), String> {
    let Some(limit) = watch.and_then(|watch| watch.watchdog) else {
        return Ok(());
    };
    let settings = format!("[Manager]\nKExecWatchdogSec={limit}\n");
    drop_in::write(Path::new(DROP_IN), &settings)?;
    systemctl(&["daemon-reload"])?;
    let limits = systemctl(&["show", "--property=KExecWatchdogUSec", "--value"])?;
    match limits.trim() {
        "0" | "" | "infinity" => Err(
            "systemd did not take KExecWatchdogSec=; see journalctl --unit=init.scope".to_owned(),
        ),
        _ => Ok(()),
    }
}

fn disarm() -> Result<(), String> {
    match drop_in::remove(Path::new(DROP_IN))? {
        true => systemctl(&["daemon-reload"]).map(drop),
        false => Ok(()),
    }
}

/// Asks systemd to restart the machine.
fn hand_over(way: Way) -> Result<(), String> {
    let program = Program::find("systemctl").map_err(|error| chain(&error))?;
    let program = match way {
        Way::Warm => program.args(["--no-wall", "kexec"]),
        // Without this, newer versions restart into what is loaded for kexec.
        Way::Cold => program
            .args(["--no-wall", "reboot"])
            .set("SYSTEMCTL_SKIP_AUTO_KEXEC", "1"),
    };
    program.run().map(drop).map_err(|error| chain(&error))
}

impl Watch {
    /// Watch over a restart of the system below `root`: by a watchdog, with a time limit that is
    /// wanted, seconds, and with what was added to the command line as `panic=`.
    #[must_use]
    pub fn over(root: &Path, dog: Option<Dog>, wanted: u32, panic: Option<u32>) -> Self {
        let before = files::text(&root.join("proc/sys/kernel/panic"));
        Self {
            watchdog: dog.as_ref().map(|dog| dog.limit(wanted)),
            stays: dog.as_ref().is_some_and(|dog| dog.stays),
            module: dog.and_then(|dog| dog.module),
            panic,
            panic_before: before.and_then(|text| text.trim().parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests;
