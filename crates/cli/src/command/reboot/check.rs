//! `brisk reboot check`.

use anyhow::Context as _;
use brisk_host::boot_entries::Once;
use brisk_host::interrupt::Interrupt;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::check::{self, Preflight, Trial, Verdict, descriptions};

use super::options::{Form, TargetArgs};
use crate::command::rules::RulesArgs;
use crate::exit;
use crate::ui::Ui;

/// Say whether this machine can be restarted without its firmware.
///
/// Nothing is stopped and nothing restarts. Rules look at the running kernel, the firmware, the
/// devices and the system, and at the files of the kernel that is to be started, which are read to
/// their ends. At last the kernel is loaded on trial and unloaded again. Each finding has
/// the name of its rule, and what to do.
///
/// A finding of "refuse" makes a warm reboot impossible, or would leave a machine that does not run;
/// with one of "cold" the machine has to go through its firmware; "warn" and "note" permit a warm
/// reboot.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 warm, 10 cold, 11 refused; 125 if brisk failed, 130 after \
                       Ctrl-C."
)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Load nothing: leave the last rule out.
    #[arg(long)]
    no_trial_load: bool,

    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    #[command(flatten)]
    rules: RulesArgs,
}

/// Checks.
///
/// # Errors
/// If the kernel cannot be found, or nothing can be printed.
pub(super) fn run(args: &CheckArgs, ui: &Ui) -> anyhow::Result<u8> {
    let asked = args
        .rules
        .answer(&descriptions(), 18, "brisk reboot check", args.format)?;
    if let Some(text) = asked {
        ui.data(&text)?;
        return Ok(exit::OK);
    }
    let root = args.target.root.checked()?;
    let (target, once) = target(&args.target)?;
    let spinner = ui.spinner("looking");
    let mut preflight = Preflight::read(root, &target, once);
    // A signal must not leave a kernel loaded.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    if args.no_trial_load {
        preflight.trial = Trial::NotAsked;
    } else if !args.target.root.is_running() {
        preflight.trial = Trial::LeftOut("it is another system's tree".to_owned());
    } else {
        preflight.try_load();
    }
    drop(spinner);
    if let Some(signal) = interrupt.signal() {
        ui.note("interrupted");
        return Ok(exit::by_signal(signal));
    }
    let findings = preflight.findings();
    match args.format {
        Form::Table => ui.data(&check::text(&preflight, &findings))?,
        Form::Json => {
            let value = check::json(&preflight, &findings);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(match Verdict::of(&findings) {
        Verdict::Warm => exit::OK,
        Verdict::Cold => exit::COLD,
        Verdict::Refused => exit::REFUSED,
    })
}

/// What brisk reboot would start, for rules to say what is wrong with it.
fn target(args: &TargetArgs) -> anyhow::Result<(Target, Option<Once>)> {
    let (mut target, once) = args.target()?;
    if !is_plain(&target.release) {
        target.release.clear();
    }
    Ok((target, once))
}

/// Whether a release is one, and nothing that leads to other files or means something to a shell: an
/// image may contain any text, and the release is part of names and of commands to type.
fn is_plain(release: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".+-_~".contains(&byte);
    release.starts_with(|first: char| first.is_ascii_alphanumeric())
        && release.bytes().all(is_usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_an_image_is_no_path_and_no_command() {
        for (text, is_it) in [
            ("6.1.0-56-cloud-amd64", true),
            ("6.12.95+deb13-amd64", true),
            ("6.1.0~rc1_x", true),
            ("6.1;reboot", false),
            ("$(reboot)", false),
            ("x/../../etc/shadow", false),
            ("..", false),
            ("-k", false),
            ("", false),
        ] {
            assert_eq!(is_plain(text), is_it, "{text}");
        }
    }
}
