//! `brisk reboot`: asks for a restart, and follows it until the machine goes down.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_host::program::Program;
use brisk_lint::Finding;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::check::{self, Consequence, Preflight, Trial, Verdict};
use brisk_tools::reboot::rehearse;
use brisk_tools::reboot::restart::{
    Exchange, Keep, Progress, Request, UNIT, Way, combination, systemd_run, unit_has_ended,
    unit_is_active,
};
use brisk_tools::vm::{Area, StateDirs};

use super::carried;
use super::plan::PlanArgs;
use super::rehearse::watched;
use crate::command::vm::{KeepMemory, configuration};
use crate::exit;
use crate::parse::duration_or_zero;
use crate::ui::Ui;

/// Interval at which the unit's words are read.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which it is asked whether the unit is there.
const ASK: Duration = Duration::from_secs(2);

/// How the machine is restarted.
#[derive(Debug, clap::Args)]
pub(super) struct RestartArgs {
    /// Restart through the firmware, with all that a warm reboot does for VMs, and a note for brisk
    /// reboot report.
    #[arg(long, conflicts_with = "warm_only")]
    cold: bool,

    /// Do nothing if the machine has to be restarted through its firmware; the exit status is 10.
    #[arg(long)]
    warm_only: bool,

    /// Rehearse it first, as by brisk reboot rehearse, and restart only if the root's init was
    /// reached, or a passphrase was asked for. If it was not, the exit status is 11.
    #[arg(long, conflicts_with = "cold")]
    rehearse: bool,

    /// Leave VMs to brisk-vms.service, which suspends or stops them as the machine goes down.
    #[arg(long)]
    no_vms: bool,

    /// Keep the memory of VMs in RAM over a warm reboot: of those whose definition has keep-memory,
    /// in the directory that keep in the section [vms] of reboot.toml names.
    ///
    /// with-image writes it to their images, too, for a boot that is not warm after all; alone writes
    /// only the state of their devices, so that a VM whose memory is lost has to be booted. In RAM
    /// the memory is not encrypted.
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "with-image", conflicts_with_all = ["no_vms", "cold"])]
    keep_vms: Option<KeepMemory>,

    /// Leave GPUs as they are.
    #[arg(long)]
    no_quiesce: bool,

    /// Time within which the new kernel and its initrd have to come to the root's init before the
    /// watchdog resets the machine. 0: no watchdog is armed, and panic= is not added to the command
    /// line.
    #[arg(long, value_parser = duration_or_zero, value_name = "DURATION", default_value = "2m")]
    watchdog: Duration,
}

/// Restarts the machine.
///
/// # Errors
/// If it is not permitted, or nothing could be asked for.
pub(super) fn run(plan: &PlanArgs, args: &RestartArgs, ui: &Ui) -> anyhow::Result<u8> {
    ensure!(
        plan.target.root.is_running(),
        "--root is for --dry-run: only this machine can be restarted"
    );
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may restart the machine; try: sudo brisk reboot"
    );
    ensure!(
        Path::new("/run/systemd/system").is_dir(),
        "the init of this machine is not systemd, which would stop its services in good order \
         before the jump; try brisk reboot check, and the init's own reboot"
    );
    let limit = (!args.watchdog.is_zero()).then_some(args.watchdog);
    // A package that is upgraded meanwhile replaces the file.
    let brisk = std::env::current_exe().context("cannot find brisk's own file")?;
    let exchange = Exchange::of_system();
    is_alone(&exchange)?;
    // One for all of it: no signal is missed between two steps.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let mut request = Request {
        way: Way::Cold,
        target: None,
        combination: None,
        older_call: false,
        once: None,
        warm_only: args.warm_only,
        reasons: vec!["--cold was given".to_owned()],
        vms: !args.no_vms,
        keep: None,
        quiesce: !args.no_quiesce,
        watch: limit.map(|limit| u32::try_from(limit.as_secs().max(1)).unwrap_or(u32::MAX)),
    };
    if !args.cold {
        match decide(plan, &mut request, &interrupt, ui)? {
            None | Some(Verdict::Warm) => {}
            Some(Verdict::Cold) if args.warm_only => return Ok(exit::COLD),
            Some(Verdict::Cold) => {}
            Some(Verdict::Refused) => return Ok(exit::REFUSED),
        }
    }
    if let (true, Some(target), false) = (args.rehearse, &request.target, interrupt.came()) {
        if let Some(status) = rehearse(target, ui)? {
            return Ok(status);
        }
    }
    if let Some(how) = args.keep_vms.filter(|_| !interrupt.came()) {
        request.keep = keep(how, request.target.as_ref(), ui)?;
    }
    if request.vms && !interrupt.came() {
        carried::come_back(&interrupt, ui)?;
    }
    if let Some(signal) = ask(&exchange, &request, &brisk, &interrupt)? {
        return Ok(interrupted(signal, ui));
    }
    follow(&exchange, &interrupt, ui)
}

/// Ensures that no restart is under way.
fn is_alone(exchange: &Exchange) -> anyhow::Result<()> {
    let is_locked = exchange
        .is_locked()
        .context("cannot make /run/brisk/reboot")?;
    ensure!(
        !is_locked && !unit_is_active(),
        "a restart is under way already; see journalctl --unit={UNIT}"
    );
    Ok(())
}

/// Time in which a rehearsal has to reach the root's init.
const REHEARSAL: Duration = Duration::from_secs(300);

/// Rehearses; the result is the exit status if the machine is not to be restarted then.
fn rehearse(target: &Target, ui: &Ui) -> anyhow::Result<Option<u8>> {
    let request = rehearse::Request {
        target,
        disks: rehearse::Origin::System,
        goal: rehearse::Goal::Init,
        limit: REHEARSAL,
        memory_mib: None,
        cpus: 1,
    };
    let verdict = match watched(&request, ui)? {
        Ok(verdict) => verdict,
        Err(signal) => return Ok(Some(interrupted(signal, ui))),
    };
    match verdict.judgement() {
        rehearse::Judgement::Passed => ui.note("the rehearsal reached the root's init"),
        rehearse::Judgement::Undecided => {
            ui.note("the rehearsal came to a passphrase; what comes after it is not known");
        }
        rehearse::Judgement::Failed => {
            ui.data(&verdict.text())?;
            ui.note("nothing was restarted: the rehearsal failed");
            return Ok(Some(exit::REFUSED));
        }
    }
    Ok(None)
}

/// Exit status of a command that a signal ended before anything was done.
fn interrupted(signal: i32, ui: &Ui) -> u8 {
    ui.note("interrupted; nothing was changed");
    exit::by_signal(signal)
}

/// Decides how the machine is restarted, and shows why; none if the command was interrupted.
fn decide(
    plan: &PlanArgs,
    request: &mut Request,
    interrupt: &Interrupt,
    ui: &Ui,
) -> anyhow::Result<Option<Verdict>> {
    let (plan, _) = plan.target.plan()?;
    let (target, once) = (plan.target, plan.once);
    let spinner = ui.spinner("looking");
    let mut preflight = Preflight::read(Path::new("/"), &target, once.clone());
    preflight.try_load();
    drop(spinner);
    if interrupt.came() {
        return Ok(None);
    }
    let findings = preflight.findings();
    let verdict = Verdict::of(&findings);
    let bad = |finding: &&Finding<Consequence>| finding.severity >= Consequence::Cold;
    request.reasons = findings
        .iter()
        .filter(bad)
        .map(|one| one.what.clone())
        .collect();
    match verdict {
        Verdict::Warm => {
            request.way = Way::Warm;
            request.older_call = preflight.may_use_older_call();
            request.reasons.clear();
            for finding in &findings {
                ui.note(&format!("{}: {}", finding.severity.name(), finding.what));
            }
            if let Trial::LeftOut(reason) = &preflight.trial {
                ui.note(&format!("the trial load was left out: {reason}"));
            }
            ui.note(&format!(
                "restarting into {} without the firmware",
                target.kernel.display()
            ));
            let hash = combination(Path::new("/"), &target);
            request.combination = Some(hash.with_context(|| {
                format!("cannot read {} or its initrds", target.kernel.display())
            })?);
            request.target = Some(target);
            request.once = once;
        }
        Verdict::Cold => {
            for reason in &request.reasons {
                ui.note(&format!("cold: {reason}"));
            }
            ui.note("the machine has to be restarted through its firmware");
        }
        Verdict::Refused => ui.data(&check::text(&preflight, &findings))?,
    }
    Ok(Some(verdict))
}

/// How memory is kept over a restart into a target; none if it would not be there afterwards.
///
/// # Errors
/// If there is no place for it.
fn keep(how: KeepMemory, target: Option<&Target>, ui: &Ui) -> anyhow::Result<Option<Keep>> {
    let dirs = StateDirs::here()?;
    let (config, wrong) = configuration(&dirs);
    if let Some(error) = wrong {
        return Err(error);
    }
    let hint = "see Memory that stays in RAM in the book, and brisk reboot without --keep-vms";
    let directory = config.keep.with_context(|| {
        format!("--keep-vms needs keep = DIRECTORY in the section [vms] of reboot.toml; {hint}")
    })?;
    let area = Area::open(&directory).map_err(|reason| anyhow!("{reason}; {hint}"))?;
    let Some(target) = target else {
        ui.note("the memory of VMs is not kept in RAM, but in images: the restart is cold");
        return Ok(None);
    };
    if !area.is_reserved_by(&target.cmdline) {
        ui.note(&format!(
            "the memory of VMs is not kept in RAM, but in images: the command line of the new \
             kernel has no memmap=SIZE!START for {}",
            directory.display()
        ));
        return Ok(None);
    }
    ui.note("the memory of VMs stays in RAM meanwhile, where it is not encrypted");
    Ok(Some(how.into()))
}

/// Starts the unit, unless a signal came before; the result is that signal.
fn ask(
    exchange: &Exchange,
    request: &Request,
    brisk: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<i32>> {
    let run = Program::find("systemd-run")?;
    // Somebody else may have asked while this was checked and rehearsed.
    let _asking = exchange
        .lock_to_ask()
        .context("cannot make a lock in /run/brisk/reboot")?;
    is_alone(exchange)?;
    if let Some(signal) = interrupt.signal() {
        return Ok(Some(signal));
    }
    exchange
        .ask(request)
        .context("cannot write to /run/brisk/reboot")?;
    let started = run.args(systemd_run(brisk)).run();
    // Where the request is gone, systemd has heard it all the same, and the restart has begun.
    if started.is_err() && exchange.withdraw() {
        let _ = stop_unit();
        if let Some(signal) = interrupt.signal() {
            return Ok(Some(signal));
        }
        started.context("cannot start the restart's unit")?;
    }
    Ok(None)
}

/// Has systemd stop the unit, or no longer start it.
fn stop_unit() -> anyhow::Result<()> {
    let systemctl = Program::find("systemctl")?;
    systemctl.args(["stop", "--no-block", UNIT]).run()?;
    Ok(())
}

/// Shows what the unit says, until the machine goes down or the restart has failed.
fn follow(exchange: &Exchange, interrupt: &Interrupt, ui: &Ui) -> anyhow::Result<u8> {
    let (mut skipped, mut stopped) = (0, false);
    let mut asked = Instant::now();
    let begun = Instant::now();
    let mut waits = None;
    loop {
        if begun.elapsed() > ASK && exchange.is_asked() {
            waits.get_or_insert_with(|| ui.spinner("waiting for brisk-vms.service"));
        } else {
            waits = None;
        }
        let is_over = asked.elapsed() > ASK && {
            asked = Instant::now();
            unit_has_ended()
        };
        let said = exchange.said(skipped);
        skipped += said.len();
        for progress in said {
            match progress {
                Progress::Step(text) => ui.note(&text),
                Progress::Restarting => {
                    ui.note("systemd restarts the machine");
                    return Ok(exit::OK);
                }
                Progress::Failed(reason) => match interrupt.signal() {
                    Some(signal) => {
                        ui.note(&format!("interrupted: {reason}"));
                        return Ok(exit::by_signal(signal));
                    }
                    None => bail!("nothing was restarted: {reason}"),
                },
            }
        }
        ensure!(
            !is_over,
            "nothing was restarted: the unit of the restart ended; see journalctl --unit={UNIT}"
        );
        if let Some(signal) = interrupt.signal().filter(|_| !stopped) {
            stopped = true;
            let is_withdrawn = exchange.withdraw();
            if !is_withdrawn {
                ui.note("interrupted: undoing what was done");
            }
            match stop_unit() {
                _ if is_withdrawn => return Ok(interrupted(signal, ui)),
                Ok(()) => {}
                // It is followed until it ends.
                Err(error) => ui.note(&format!("cannot have systemd stop it: {error:#}")),
            }
        }
        thread::sleep(INTERVAL);
    }
}
