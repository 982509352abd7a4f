//! `brisk reboot quiesce`.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use brisk_host::dirs::Dirs;
use brisk_host::interrupt::Interrupt;
use brisk_tools::reboot::config::Config;
use brisk_tools::reboot::quiesce::{
    self, Event, Live, Lock, Options, Plan, RunError, State, Undone,
};
use serde_json::Value;

use super::options::{Form, RootArgs};
use crate::exit;
use crate::output::printable_line;
use crate::ui::{Bar, Ui};

/// Release graphics cards, as a warm reboot has to, or put them back.
///
/// A graphics card whose driver is loaded when another kernel starts is not initialised again. So
/// the display manager and other services that have graphics cards open are stopped, the text
/// console leaves the framebuffer, and graphics drivers are unloaded, with the modules that use
/// them; drivers that cannot be unloaded are unbound from their devices. Section [quiesce] of
/// /etc/brisk/reboot.toml names more: modules, devices, services.
///
/// If a step fails, and at Ctrl-C, everything is put back. What was done is written down before
/// each step, so that --undo puts it back even after brisk was killed.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 released, or put back; 11 refused, or it failed and \
                       everything is as it was; 125 if brisk failed, or something could not be put \
                       back; 130 after Ctrl-C."
)]
pub(super) struct QuiesceArgs {
    /// Show what would be done, and why, and do nothing.
    #[arg(long)]
    dry_run: bool,

    /// Put back what was released.
    #[arg(long, conflicts_with_all = ["dry_run", "force"])]
    undo: bool,

    /// End processes that have a graphics card open and belong to no service, by SIGTERM and then
    /// SIGKILL, which cannot be put back; and try to unload a module that something holds which
    /// cannot be seen.
    #[arg(long)]
    force: bool,

    /// Form of the plan and of the result.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    #[command(flatten)]
    root: RootArgs,
}

/// Releases, shows what would be released, or puts back.
///
/// # Errors
/// If something cannot be looked at, or there is nothing that may be done.
pub(super) fn run(args: &QuiesceArgs, ui: &Ui) -> anyhow::Result<u8> {
    let root = args.root.checked()?;
    let options = Options { force: args.force };
    if args.dry_run && !args.root.is_running() {
        let config = Config::read(&root.join("etc/brisk"))?;
        let plan = quiesce::plan(&State::read(root), &config.quiesce, options);
        return show(args, &plan, ui);
    }
    ensure!(
        args.root.is_running(),
        "--root {}: nothing can be done there; add --dry-run to see what would be",
        printable_line(&root.display().to_string())
    );
    let dirs = Dirs::here();
    // It is about the system, whoever asks.
    let directory = std::env::var_os("BRISK_CONFIG_DIR").map(PathBuf::from);
    let config = Config::read(&directory.unwrap_or_else(|| "/etc/brisk".into()))?;
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let records = dirs.runtime().unwrap_or_else(|| "/run/brisk".into());
    let records = records.join("reboot");
    let mut live = Live::new(&records, config.quiesce.timeout, interrupt)?;
    if args.dry_run {
        let plan = live.plan(&config.quiesce, options)?;
        return show(args, &plan, ui);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can stop services and unload modules; use sudo, or --dry-run to see what would be \
         done"
    );
    let lock = Lock::take(&records);
    let lock = lock.with_context(|| format!("cannot make a lock in {}", records.display()))?;
    let Some(_lock) = lock else {
        bail!("another brisk releases graphics cards, or puts them back; wait for it");
    };
    match args.undo {
        true => undo(args, &mut live, ui),
        false => release(args, &mut live, &config, ui),
    }
}

/// Shows a plan.
fn show(args: &QuiesceArgs, plan: &Plan, ui: &Ui) -> anyhow::Result<u8> {
    match args.format {
        Form::Table => ui.data(&quiesce::text(plan))?,
        Form::Json => ui.data(&document(&quiesce::json(plan))?)?,
    }
    Ok(match plan.obstacles.is_empty() {
        true => exit::OK,
        false => exit::REFUSED,
    })
}

fn release(args: &QuiesceArgs, live: &mut Live, config: &Config, ui: &Ui) -> anyhow::Result<u8> {
    let plan = {
        let _spinner = ui.spinner("looking");
        live.plan(&config.quiesce, Options { force: args.force })?
    };
    let before = live.record()?;
    if let Some(before) = &before {
        let is_done = before.is_complete() && plan.steps.is_empty();
        ensure!(
            is_done,
            "something was released before and not put back; put it back first: brisk reboot quiesce \
             --undo"
        );
    }
    if !plan.obstacles.is_empty() {
        ui.note("nothing was done: something stands against it");
        return show(args, &plan, ui);
    }
    if plan.steps.is_empty() {
        if before.is_some() {
            ui.note("everything is released already");
        }
        return show(args, &plan, ui);
    }
    let mut record = live.begin(&plan);
    let bar = ui.bar(plan.steps.len() as u64, "releasing");
    let result = quiesce::run(&mut record, live, &mut teller(&bar));
    drop(bar);
    let (status, name) = match &result {
        Ok(()) => (exit::OK, "released"),
        Err(error) => {
            tell_lost(error.undone(), ui);
            let is_back = error.undone().lost.is_empty();
            match error {
                _ if !is_back => (exit::BRISK, "failed"),
                RunError::Interrupted { signal, .. } => (exit::by_signal(*signal), "interrupted"),
                _ => (exit::REFUSED, "put-back"),
            }
        }
    };
    match (&result, args.format) {
        (_, Form::Json) => {
            let mut value = quiesce::json(&plan);
            value["result"] = name.into();
            if let Err(error) = &result {
                value["error"] = error.to_string().into();
                value["lost"] = error.undone().lost.clone().into();
                value["ended"] = error.undone().ended.clone().into();
            }
            ui.data(&document(&value)?)?;
        }
        (Ok(()), Form::Table) => {
            let count = plan.devices.len();
            let devices = if count == 1 { "device" } else { "devices" };
            ui.data(&format!(
                "Released: {count} {devices}. Put back: brisk reboot quiesce --undo\n"
            ))?;
        }
        (Err(_), Form::Table) => {}
    }
    if let Err(error) = result {
        let undone = error.undone();
        let rest = match (undone.lost.is_empty(), undone.ended.is_empty()) {
            (true, true) => "; everything is as it was before",
            (true, false) => "; everything else is as it was before",
            (false, _) => "",
        };
        ui.note(&printable_line(&format!("error: {error}{rest}")));
    }
    Ok(status)
}

fn undo(args: &QuiesceArgs, live: &mut Live, ui: &Ui) -> anyhow::Result<u8> {
    let Some(mut record) = live.record()? else {
        ui.note("there is nothing to put back: nothing was released since this system has started");
        return Ok(exit::OK);
    };
    let bar = ui.bar(record.entries.len() as u64, "putting back");
    let undone = quiesce::undo(&mut record, live, &mut teller(&bar));
    drop(bar);
    tell_lost(&undone, ui);
    let is_back = undone.lost.is_empty();
    match args.format {
        Form::Table if is_back => ui.data("Everything is as it was before.\n")?,
        Form::Table => {}
        Form::Json => ui.data(&document(&serde_json::json!({
            "schema": quiesce::SCHEMA,
            "result": if is_back { "put-back" } else { "failed" },
            "lost": undone.lost,
            "ended": undone.ended,
        }))?)?,
    }
    Ok(if is_back { exit::OK } else { exit::BRISK })
}

/// Tells what happens, a line for each thing.
fn teller(bar: &Bar) -> impl FnMut(Event<'_>) {
    let mut done = 0;
    move |event| {
        let line = |start: &str, action: &dyn ToString| {
            printable_line(&format!("{start}{}", action.to_string()))
        };
        match event {
            Event::Begins(action) => bar.say(&line("", action)),
            Event::Done(action) => {
                done += 1;
                bar.at(done);
                bar.above(&line("done: ", action));
            }
            Event::PutsBack(action) => bar.say(&line("put back: ", action)),
            Event::Back(action) => bar.above(&line("undone: ", action)),
        }
    }
}

fn tell_lost(undone: &Undone, ui: &Ui) {
    for ended in &undone.ended {
        ui.note(&printable_line(&format!(
            "{ended} was ended, and does not come back"
        )));
    }
    for lost in &undone.lost {
        ui.note(&printable_line(&format!("error: not put back: {lost}")));
    }
    if !undone.lost.is_empty() {
        ui.note("brisk reboot quiesce --undo tries again");
    }
}

fn document(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
