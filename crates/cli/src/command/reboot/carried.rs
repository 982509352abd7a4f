//! VMs and GPUs of a restart.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_host::program::Program;
use brisk_tools::reboot::config::{Config, QuiesceConfig};
use brisk_tools::reboot::quiesce;
use brisk_tools::reboot::restart::{self, Devices, Keep, Vms};
use brisk_tools::vm::{self, Autoshutdown, Condition, Down, Outcome, StateDirs, Turn};
use brisk_vm::cache::Cache;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::command::vm::{configuration, domains, explain, suspended_at_once};
use crate::ui::{Ui, error_text};

/// Interval at which systemd is asked whether VMs are still being started.
const INTERVAL: Duration = Duration::from_millis(500);
/// VMs that are resumed at once: each runs soon, and its memory follows.
const JOBS: usize = 32;

/// Names of root's VMs that run, and of the domains of libvirt that are carried with them.
pub(super) fn running() -> Vec<String> {
    let Ok(dirs) = StateDirs::here() else {
        return Vec::new();
    };
    let runs = |name: &String| {
        let condition = dirs.vm(name).and_then(|paths| vm::condition(&paths));
        condition.is_ok_and(|now| matches!(now, Condition::Running | Condition::Paused))
    };
    let (config, _) = configuration(&dirs);
    let mut running: Vec<_> = dirs.names().into_iter().filter(runs).collect();
    running.extend(domains(&config).running());
    running
}

/// Ensures that what is suspended for a restart is resumed after it. Waits until the unit that does so
/// has come to its end after this boot: it would resume at once what is suspended meanwhile. It waits no
/// longer once the command is interrupted.
///
/// # Errors
/// If there is something, and the unit is not enabled.
pub(super) fn come_back(interrupt: &Interrupt, ui: &Ui) -> anyhow::Result<()> {
    let Ok(dirs) = StateDirs::here() else {
        return Ok(());
    };
    let mut spinner = None;
    while is_starting()? {
        spinner
            .get_or_insert_with(|| ui.spinner("waiting for brisk-vms.service, which starts VMs"));
        thread::sleep(INTERVAL);
        if interrupt.came() {
            return Ok(());
        }
    }
    drop(spinner);
    let goes = |name: &String| {
        let suspends = dirs.vm(name).and_then(|paths| paths.definition());
        // A domain of libvirt has no such definition.
        suspends.map_or(name.contains(':'), |it| {
            it.autoshutdown == Autoshutdown::Suspend
        })
    };
    let going: Vec<_> = running().into_iter().filter(goes).collect();
    let is_enabled = || {
        let systemctl = Program::find("systemctl")?;
        systemctl.args(["--quiet", "is-enabled", UNIT]).run()
    };
    ensure!(
        going.is_empty() || is_enabled().is_ok(),
        "nothing would resume {} after the restart: {UNIT} is not enabled; try systemctl enable \
         --now {UNIT}, or --no-vms, which leaves them alone",
        going.join(", ")
    );
    Ok(())
}

/// Whether the unit still starts VMs.
fn is_starting() -> anyhow::Result<bool> {
    let systemctl = Program::find("systemctl")?;
    let words = ["show", "--property=ActiveState", "--value", UNIT];
    let state = systemctl.args(words).run();
    Ok(state.context("cannot ask systemd")?.trim_ascii() == b"activating")
}

/// Unit that resumes VMs after a boot.
const UNIT: &str = "brisk-vms.service";

/// VMs of root.
#[derive(Debug)]
pub(super) struct OwnVms {
    is_wanted: bool,
    keep: Option<Keep>,
    cancel: Arc<AtomicBool>,
}

impl OwnVms {
    /// If they are not wanted, none is suspended. `keep`: how their memory is kept in RAM. A signal
    /// ends what is being suspended; such a VM runs on.
    ///
    /// # Errors
    /// If signals cannot be watched for.
    pub(super) fn new(is_wanted: bool, keep: Option<Keep>) -> anyhow::Result<Self> {
        let cancel = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&cancel))
                .with_context(|| format!("cannot watch for signal {signal}"))?;
        }
        Ok(Self {
            is_wanted,
            keep,
            cancel,
        })
    }
}

impl Vms for OwnVms {
    fn suspend(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Vec<String>, String> {
        if !self.is_wanted {
            return Ok(Vec::new());
        }
        let dirs = here()?;
        let (config, wrong) = configuration(&dirs);
        if let Some(error) = wrong {
            return Err(error_text(&error));
        }
        let domains = domains(&config);
        let down = Down {
            deadline: config.deadline,
            stop: Duration::ZERO,
            domains: &domains,
            keep: self.keep,
            ram_stays: false,
        };
        let jobs = suspended_at_once(&config);
        all(&self.cancel, jobs, tell, |turn| {
            vm::carry(&dirs, down, turn)
        })
    }

    fn away(&self) -> Vec<String> {
        StateDirs::here().map_or_else(|_| Vec::new(), |dirs| vm::away(&dirs))
    }

    fn resume(&mut self, others: &[String]) -> Result<(), String> {
        let cache = Cache::open().map_err(|error| error.to_string())?;
        let dirs = here()?;
        let never = AtomicBool::new(false);
        let work = |turn: Turn<'_>| vm::carry_back(&dirs, &cache, others, turn);
        all(&never, JOBS, &mut |_| {}, work).map(drop)
    }

    fn write_kept(&mut self) -> Result<(), String> {
        let cache = Cache::open().map_err(|error| error.to_string())?;
        let dirs = here()?;
        let never = AtomicBool::new(false);
        let work = |turn: Turn<'_>| vm::write_kept(&dirs, &cache, turn);
        all(&never, 1, &mut |_| {}, work).map(drop)
    }
}

fn here() -> Result<StateDirs, String> {
    StateDirs::here().map_err(|error| error_text(&explain(error)))
}

/// Acts on all VMs. The result are the names of those that something was done to.
///
/// # Errors
/// Those that failed, with reasons.
fn all(
    cancel: &AtomicBool,
    jobs: usize,
    tell: &mut dyn FnMut(&str),
    work: impl FnOnce(Turn<'_>) -> Vec<Outcome> + Send,
) -> Result<Vec<String>, String> {
    let (sender, lines) = mpsc::channel();
    let outcomes = thread::scope(|scope| {
        // The channel ends with the thread that the sender belongs to.
        let working = scope.spawn(move || {
            let report = |outcome: &Outcome| {
                if let Some(done) = outcome.done() {
                    let _ = sender.send(done);
                }
            };
            work(Turn {
                jobs,
                cancel,
                report: &report,
            })
        });
        for line in lines {
            tell(&line);
        }
        working.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome.result {
            Ok(Some(_)) => done.push(outcome.name),
            Ok(None) => {}
            Err(error) => {
                let reason = error_text(&explain(error));
                failed.push(format!("{}: {reason}", outcome.name));
            }
        }
    }
    match &failed[..] {
        [] => Ok(done),
        failed => Err(failed.join("; ")),
    }
}

/// Graphics cards, and what else the configuration names.
#[derive(Debug)]
pub(super) struct Gpus {
    is_wanted: bool,
    config: QuiesceConfig,
    interrupt: Interrupt,
}

impl Gpus {
    /// If they are not wanted, they are left as they are.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub(super) fn new(is_wanted: bool, interrupt: Interrupt) -> anyhow::Result<Self> {
        let config = Config::read(Path::new("/etc/brisk"))?.quiesce;
        Ok(Self {
            is_wanted,
            config,
            interrupt,
        })
    }

    /// Gives back only, whatever the configuration says by now.
    pub(super) fn to_give_back(interrupt: Interrupt) -> Self {
        let config = Config::read(Path::new("/etc/brisk")).unwrap_or_default();
        Self {
            is_wanted: false,
            config: config.quiesce,
            interrupt,
        }
    }
}

impl Devices for Gpus {
    fn release(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        match self.is_wanted {
            true => quiesce::release(
                Path::new(restart::DIRECTORY),
                &self.config,
                self.interrupt.clone(),
                tell,
            ),
            false => Ok(()),
        }
    }

    fn give_back(&mut self) -> Result<(), String> {
        quiesce::give_back(Path::new(restart::DIRECTORY), &self.config, &mut |_| {})
    }
}
