//! `brisk overhead fix`.

use brisk_host::program::quote;
use brisk_lint::{Finding, Fix};
use brisk_tools::idle::prove::Start;
use brisk_tools::idle::text::Text;
use brisk_tools::overhead::{
    self, Explanation, Judged, Kind, Remedy, Target, guest, sides_of_trial,
};
use clap::Parser;

use crate::command::idle::fix::{self, Topic};
use crate::ui::Ui;

/// Change what makes a guest of QEMU slower than it has to be, or its times too good.
///
/// Rules look at the model of the processor, huge pages, pinning and caches of disks. The change is
/// shown as a diff. The XML of a domain and the definition of a VM of brisk's keep every other
/// byte; with --apply they are changed, that of a domain by libvirt, which validates it, and brisk
/// overhead undo restores what was there. Of a command line the changed one is shown. What needs
/// more of the host, or may have been chosen on purpose, is changed only if its rule is named.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    change: fix::Args,

    /// Measure what the changes are worth: compile in the guest as it is and as it would be, in
    /// turn. The guest has to be off, and offers a compiler and, unless it is a VM of brisk's, a
    /// shell on its serial console. The images of a command line are not written; a domain and a VM
    /// are started as they are, also their disks, and killed after each run. brisk overhead run
    /// --ablate fix has more options for command lines. LIBVIRT_DEFAULT_URI chooses the libvirt.
    #[arg(long = "try", conflicts_with_all = ["apply", "all", "output", "pid", "connect"])]
    tries: bool,

    /// Measure this instead of compiling: a command for a shell in the guest.
    #[arg(long, value_name = "COMMAND", requires = "tries")]
    command: Option<String>,

    /// Make so many rounds. Default: as brisk overhead run.
    #[arg(long, value_name = "NUMBER", requires = "tries", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Count runs, too, in which other programs had the processors for more than 5 % of the time.
    #[arg(long, requires = "tries")]
    keep_disturbed: bool,
}

/// Arguments that name a guest.
#[derive(Debug, Parser)]
struct Named {
    #[command(flatten)]
    change: fix::Args,
}

/// Arguments of a measurement.
#[derive(Debug, Parser)]
struct Parsed {
    #[command(flatten)]
    args: super::run::Args,
}

const OVERHEAD: Topic = Topic {
    command: "brisk overhead",
    schema: "brisk.overhead.fix/1",
    look: guest::findings,
    rules: guest::descriptions,
    more: None,
};

/// Shows or makes changes.
///
/// # Errors
/// If the guest cannot be read or changed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let ended = fix::change(&args.change, &OVERHEAD, ui)?;
    if !args.tries {
        return Ok(ended);
    }
    let guest = args.change.trial(&OVERHEAD)?;
    if !guest.changed {
        return Ok(ended);
    }
    let rules = args.change.rules();
    let target: Target = format!("guest={}", reached(&guest.texts[0], &guest.name)).parse()?;
    let mut words = vec!["run".to_owned(), format!("--target=guest={}", target.kind)];
    words.extend(args.rounds.map(|rounds| format!("--rounds={rounds}")));
    if args.keep_disturbed {
        words.push("--keep-disturbed".into());
    }
    if let Some(command) = &args.command {
        words.push("--workload=command".into());
        words.push(format!("--command={command}"));
    }
    if let Start::Command = guest.start {
        let rules = match rules {
            [] => String::new(),
            rules => format!("={}", rules.join("+")),
        };
        words.push(format!("--ablate=fix{rules}"));
        return super::run::run(&Parsed::try_parse_from(words)?.args, ui);
    }
    let sides = sides_of_trial(&target.kind, &guest.start, guest.texts, rules);
    let args = Parsed::try_parse_from(words)?.args;
    super::run::measure(&args, &[target], &sides, Vec::new(), ui)
}

/// How a guest that runs is reached, as a target.
fn reached(text: &Text, name: &str) -> String {
    match text {
        Text::Arguments(words) => {
            let words: Vec<_> = words.iter().map(|word| quote(word)).collect();
            format!("qemu:{}", words.join(" "))
        }
        Text::Xml(_) => format!("libvirt:{name}"),
        Text::Vm { .. } => format!("vm:{}", name.trim_start_matches("VM ")),
    }
}

/// What could be changed about the definitions of guests among the targets, by what was measured of
/// them: the name of a target and a line for each finding, the largest cause first.
pub(super) fn remedies(
    targets: &[Target],
    judged: &[Judged],
    explained: &[Explanation],
) -> Vec<(String, String)> {
    let lines = targets.iter().flat_map(|target| {
        let judged = judged.iter().find(|one| one.name == target.name);
        let explained = explained.iter().find(|one| one.name == target.name);
        let lines = of_target(target, &overhead::remedies(judged, explained));
        lines.into_iter().map(|line| (target.name.clone(), line))
    });
    lines.collect()
}

fn of_target(target: &Target, remedies: &[Remedy]) -> Vec<String> {
    let (words, tries) = match &target.kind {
        _ if remedies.is_empty() => return Vec::new(),
        Kind::Libvirt { domain, .. } => {
            let option = format!("--domain={domain}");
            let tries = format!(
                "brisk overhead fix {} --try --rule=",
                quote(option.as_ref())
            );
            (vec![option], tries)
        }
        Kind::Vm(name) => {
            let option = format!("--vm={name}");
            let tries = format!("brisk overhead fix {option} --try --rule=");
            (vec![option], tries)
        }
        Kind::Qemu(words) => {
            let words = std::iter::once("--".to_owned()).chain(words.iter().cloned());
            (words.collect(), "--ablate fix=".to_owned())
        }
        _ => return Vec::new(),
    };
    let words = std::iter::once("fix".to_owned()).chain(words);
    let found = Named::try_parse_from(words)
        .map_err(anyhow::Error::from)
        .and_then(|named| named.change.found(&OVERHEAD));
    // A guest that is gone meanwhile was measured all the same.
    let found = found.unwrap_or_default();
    let lines = remedies.iter().filter_map(|remedy| {
        let finding = found.iter().find(|finding| finding.rule == remedy.rule)?;
        let Finding { what, fix, .. } = finding;
        let Remedy { rule, because } = remedy;
        let then = match fix {
            Fix::Edit(_) => format!("{tries}{rule} measures the change"),
            fix => fix.to_string(),
        };
        Some(format!("{because}, and {what}: {then} [{rule}]"))
    });
    lines.collect()
}
