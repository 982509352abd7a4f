//! `brisk idle fix` and `brisk idle undo`.

mod all;
mod shown;
mod undo;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use brisk_lint::{Description, Finding};
use brisk_tools::idle::backup::Backups;
use brisk_tools::idle::domain::Change;
use brisk_tools::idle::fix::{self, Fixed, Look, Wanted};
use brisk_tools::idle::prove::Start;
use brisk_tools::idle::proxmox;
use brisk_tools::idle::rules;
use brisk_tools::idle::text::Text;
use brisk_tools::idle::trial::{Answer, Tester};
use brisk_tools::idle::vm;
use brisk_tools::vm::VmPaths;
use brisk_vm::cache::Cache;
use brisk_vm::libvirt::Defined;
use serde_json::json;

use super::causes::{named_domain, rules_of};
use super::description::{Described, Guests, explain};
use super::prove;
use crate::exit;
use crate::output::{now, printable, replace_file};
use crate::ui::Ui;
use shown::{diff, print, shown, whole};
pub(in crate::command) use undo::{UndoArgs, undo};

/// Change what keeps an idle guest awake, and nothing else.
///
/// Shows the change as a diff. The XML of a domain and the definition of a VM of brisk's keep every
/// other byte; with --apply they are changed, that of a domain by libvirt, which validates it, and
/// brisk idle undo restores what was there. Of a command line the changed one is shown. What somebody switched off on purpose, and devices that may be wanted, are
/// changed only if their rule is named.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    guests: Guests,

    /// All domains of libvirt's and persistent VMs of brisk's.
    #[arg(long, conflicts_with_all = ["files", "domain", "vm", "pid", "qemu_command", "output"])]
    all: bool,

    /// Make the changes of these rules only, also those that are made on request.
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,

    /// Change the definition of the domain or VM; it counts from the next start on. With --all, the
    /// rules have to be named.
    #[arg(long, conflicts_with = "output")]
    apply: bool,

    /// Write the whole result to a file, also the XML that was read; - is standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Form of what is shown.
    #[arg(long, value_enum, default_value_t = Format::Diff, conflicts_with = "output")]
    format: Format,
}

impl Args {
    /// The rules that were named.
    pub(in crate::command) fn rules(&self) -> &[String] {
        &self.rules
    }

    /// What the rules find about the one guest that was named.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(in crate::command) fn found(&self, topic: &Topic) -> anyhow::Result<Vec<Finding>> {
        let mut guest = self.guests.one()?;
        guest.context.look = topic.look;
        let wanted = Wanted { rules: &self.rules };
        let Fixed { applied, left, .. } = fix::fix(guest.text, &guest.context, wanted)?;
        Ok(applied.into_iter().chain(left).collect())
    }

    /// The one guest that was named, with what starts it for a measurement, if it is a domain or a
    /// VM, and its description with the changes. A domain has its passwords.
    ///
    /// # Errors
    /// If it cannot be read or started.
    pub(in crate::command) fn trial(&self, topic: &Topic) -> anyhow::Result<Tried> {
        let mut guest = self.guests.one()?;
        guest.context.look = topic.look;
        let start = prove::start(&guest, Duration::ZERO)?;
        if let Some(domain) = &guest.domain {
            guest.text = Text::Xml(domain.xml_with_passwords()?);
        }
        let wanted = Wanted { rules: &self.rules };
        let fixed = fix::fix(guest.text.clone(), &guest.context, wanted)?;
        Ok(Tried {
            name: guest.name,
            start,
            changed: !fixed.applied.is_empty(),
            texts: [guest.text, fixed.text],
        })
    }
}

/// A guest whose changes are tried.
#[derive(Debug)]
pub(in crate::command) struct Tried {
    /// Its name.
    pub(in crate::command) name: String,
    /// What starts it.
    pub(in crate::command) start: Start,
    /// Whether there is anything to try.
    pub(in crate::command) changed: bool,
    /// Its description, as it is and with the changes.
    pub(in crate::command) texts: [Text; 2],
}

/// Forms of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A unified diff, for people and for patch(1); of a command line, words.
    Diff,
    /// The rules, the diff and the result, with a versioned schema.
    Json,
}

/// What changes are about: the rules, and the words of a command for them.
#[derive(Debug, Clone, Copy)]
pub(in crate::command) struct Topic {
    /// The command that these changes are of, such as `brisk idle`.
    pub(in crate::command) command: &'static str,
    /// Version of the form of `--format json`.
    pub(in crate::command) schema: &'static str,
    /// What looks at a guest.
    pub(in crate::command) look: Look,
    /// Descriptions of the rules.
    pub(in crate::command) rules: fn() -> Vec<Description>,
    /// The command that says more of what is left; none if that is said at once.
    pub(in crate::command) more: Option<&'static str>,
}

/// Changes about idle guests.
const IDLE: Topic = Topic {
    command: "brisk idle",
    schema: "brisk.idle.fix/1",
    look: rules::findings,
    rules: rules::descriptions,
    more: Some("brisk idle lint"),
};

/// Shows or makes changes.
///
/// # Errors
/// If the guest cannot be read or changed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    change(args, &IDLE, ui)
}

/// Shows or makes changes about something.
///
/// # Errors
/// If the guest cannot be read or changed.
pub(in crate::command) fn change(args: &Args, topic: &Topic, ui: &Ui) -> anyhow::Result<u8> {
    for rule in &args.rules {
        let known = (topic.rules)();
        if !known.iter().any(|one| one.id == rule) {
            let names: Vec<_> = known.iter().map(|one| one.id).collect();
            match topic.more {
                Some(more) => bail!("there is no rule {rule}; {more} --rules lists them"),
                None => bail!("there is no rule {rule}; there are {}", names.join(", ")),
            }
        }
    }
    if args.all {
        return all::change(args, topic, ui);
    }
    if args.apply && args.guests.domain.is_none() && args.guests.vm.is_none() {
        bail!(
            "--apply changes domains of libvirt and VMs of brisk's: name one with --domain or \
             --vm, or all with --all; of a file --output FILE writes the result"
        );
    }
    let wanted = Wanted { rules: &args.rules };
    let spinner = ui.spinner("looking");
    let mut guest = args.guests.one()?;
    guest.context.look = topic.look;
    drop(spinner);
    if let (Text::Arguments(_), Some(path)) = (&guest.text, &args.output) {
        let is_it =
            |file: &PathBuf| std::fs::canonicalize(file).ok() == std::fs::canonicalize(path).ok();
        if path.exists() && args.guests.files.iter().any(is_it) {
            bail!(
                "{} is a script, of which only the command line of QEMU would be left; write to \
                 another file, and change the script by hand",
                printable(&guest.name)
            );
        }
    }
    if args.apply {
        let backups = Backups::open()?;
        let applied = apply(&guest, wanted, &backups, ui)?;
        applied.tell(&guest, topic, args.guests.connect.as_deref(), ui)?;
        return Ok(exit::OK);
    }
    // Proxmox' commands change other things than the words.
    let of_proxmox = match &guest.text {
        Text::Arguments(words) if proxmox::id(words).is_some() => Some(words),
        _ => None,
    };
    let (fixed, tried) = match of_proxmox {
        Some(_) => (untried(&guest, wanted)?, None),
        None => tried(&guest, wanted, ui)?,
    };
    let (old, new) = (shown(&guest.text), shown(&fixed.text));
    let diff = diff(&guest.name, &old, &new);
    let commands = of_proxmox.map(|words| Commands::of(words, &fixed.applied));
    match (&args.output, args.format) {
        (Some(path), _) if path == Path::new("-") => print(&whole(&fixed.text), ui)?,
        (Some(path), _) => replace_file(path, whole(&fixed.text).as_bytes())?,
        (None, Format::Json) => {
            let value = json!({
                "schema": topic.schema,
                "guest": guest.name,
                "applied": fixed.applied,
                "left": fixed.left,
                "failed": fixed.failed,
                "tried": tried,
                "commands": commands.map(|commands| commands.lines),
                "diff": diff,
                "result": whole(&fixed.text),
            });
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
            return Ok(exit::OK);
        }
        (None, Format::Diff) if commands.is_some() => {}
        (None, Format::Diff) => {
            print(&diff, ui)?;
            if matches!(fixed.text, Text::Arguments(_)) && !fixed.applied.is_empty() {
                print(&format!("\n{}", whole(&fixed.text)), ui)?;
            }
        }
    }
    if let Some(commands) = commands.filter(|_| args.output.is_none()) {
        print(
            &commands
                .lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
            ui,
        )?;
        commands.tell(&fixed, topic, ui);
        return Ok(exit::OK);
    }
    tell(&fixed, topic, ui);
    if let Some(tried) = tried {
        ui.note(&printable(&tried.to_string()));
    }
    Ok(exit::OK)
}

/// Commands of Proxmox VE for changes.
struct Commands {
    lines: Vec<String>,
    /// Rules that it has no setting for.
    without: Vec<&'static str>,
    /// Whether the processor is that of the user's own arguments.
    has_own_cpu: bool,
}

impl Commands {
    fn of(words: &[OsString], applied: &[Finding]) -> Self {
        let mut commands = Self {
            lines: Vec::new(),
            without: Vec::new(),
            has_own_cpu: proxmox::has_own_cpu(words),
        };
        for finding in applied {
            match proxmox::command(words, finding) {
                Some(line) if commands.lines.contains(&line) => {}
                Some(line) => commands.lines.push(line),
                None => commands.without.push(finding.rule),
            }
        }
        commands.without.dedup();
        commands
    }

    fn tell(&self, fixed: &Fixed, topic: &Topic, ui: &Ui) {
        match self.lines.is_empty() {
            true => ui.note("there is nothing to change by qm set"),
            false => ui.note(
                "run these on the host of Proxmox VE; they count when the guest is shut down and \
                 started again",
            ),
        }
        if self.lines.iter().any(|line| line.ends_with("--tablet 0")) {
            ui.note(
                "without the tablet, the pointer of the noVNC console is relative: leave it to \
                 guests with a desktop",
            );
        }
        if !self.without.is_empty() {
            let what = match self.has_own_cpu {
                true => {
                    "the args of the configuration have -cpu, which replaces that of Proxmox VE; \
                         change it there for"
                }
                false => "Proxmox VE has no setting for",
            };
            ui.note(&format!("{what} {}", self.without.join(", ")));
        }
        left(fixed, topic, ui);
    }
}

/// The changes that QEMU takes, of a command line; and what QEMU said of them.
fn tried(
    guest: &Described,
    wanted: Wanted<'_>,
    ui: &Ui,
) -> anyhow::Result<(Fixed, Option<Answer>)> {
    let tester = match Tester::of(&guest.text, &Cache::open()?) {
        Some(Ok(tester)) => tester,
        none => {
            let fixed = untried(guest, wanted)?;
            let unknown = none
                .and_then(Result::err)
                .filter(|_| !fixed.applied.is_empty());
            return Ok((fixed, unknown.map(|reason| Answer::Unknown { reason })));
        }
    };
    let _spinner = ui.spinner("trying the changes in QEMU");
    let fixed = tester.fix(&guest.text, &guest.context, wanted);
    fixed.with_context(|| stays(guest))
}

fn untried(guest: &Described, wanted: Wanted<'_>) -> anyhow::Result<Fixed> {
    let fixed = fix::fix(guest.text.clone(), &guest.context, wanted);
    fixed.with_context(|| stays(guest))
}

fn stays(guest: &Described) -> String {
    format!("{} stays as it is", guest.name)
}

/// Says which rules' changes were made, and what is left to decide.
fn tell(fixed: &Fixed, topic: &Topic, ui: &Ui) {
    match &*fixed.applied {
        [] => ui.note("there is nothing to change"),
        applied => ui.note(&format!("changes of the rules {}", rules_of(applied))),
    }
    for (rule, reason) in &fixed.failed {
        ui.note(&printable(&format!(
            "the fix of {rule} cannot be made here: {reason}"
        )));
    }
    self::left(fixed, topic, ui);
}

/// Says what is left to decide.
fn left(fixed: &Fixed, topic: &Topic, ui: &Ui) {
    let left = &*fixed.left;
    match topic.more {
        _ if left.is_empty() => {}
        Some(more) => ui.note(&format!(
            "left to decide: {} ({more} says why)",
            rules_of(left)
        )),
        None => {
            for finding in left {
                let Finding {
                    rule, what, fix, ..
                } = finding;
                ui.note(&printable(&format!(
                    "left to decide: {what}: {fix} [{rule}]"
                )));
            }
        }
    }
}

/// What a change of a definition was.
struct Applied {
    /// The changes, and what is left.
    fixed: Fixed,
    /// Against the definition before; empty without a change.
    diff: String,
    /// File of the definition before, if it was changed.
    backup: Option<String>,
}

impl Applied {
    fn tell(
        &self,
        guest: &Described,
        topic: &Topic,
        connect: Option<&str>,
        ui: &Ui,
    ) -> anyhow::Result<()> {
        print(&self.diff, ui)?;
        tell(&self.fixed, topic, ui);
        let Some(backup) = &self.backup else {
            return Ok(());
        };
        let when = match &guest.domain {
            Some(domain) if !domain.is_off() => {
                "when it is shut down and started again; a reboot in the guest is not enough"
            }
            _ => "at the next start",
        };
        let named = match &guest.vm {
            Some(paths) => format!("--vm={}", paths.name),
            None => named_domain(&guest.name, connect),
        };
        ui.note(&format!(
            "defined; it counts {when} ({} undo {named} restores {backup})",
            topic.command
        ));
        Ok(())
    }
}

fn apply(
    guest: &Described,
    wanted: Wanted<'_>,
    backups: &Backups,
    ui: &Ui,
) -> anyhow::Result<Applied> {
    match (&guest.domain, &guest.vm) {
        (Some(domain), _) => apply_to_domain(domain.clone(), guest, wanted, backups, ui),
        (None, Some(paths)) => apply_to_vm(paths, guest, wanted, backups),
        (None, None) => bail!("--apply changes domains and VMs; name one with --domain or --vm"),
    }
}

fn apply_to_vm(
    paths: &VmPaths,
    guest: &Described,
    wanted: Wanted<'_>,
    backups: &Backups,
) -> anyhow::Result<Applied> {
    let before = shown(&guest.text);
    let fixed = fix::fix(guest.text.clone(), &guest.context, wanted)?;
    let diff = diff(&guest.name, &before, &shown(&fixed.text));
    let is_changed = !fixed.applied.is_empty();
    let apply = || vm::apply(paths, &before, &fixed, backups, now()).map_err(explain);
    let backup = is_changed.then(apply).transpose()?;
    Ok(Applied {
        fixed,
        diff,
        backup,
    })
}

fn apply_to_domain(
    domain: Defined,
    guest: &Described,
    wanted: Wanted<'_>,
    backups: &Backups,
    ui: &Ui,
) -> anyhow::Result<Applied> {
    let _spinner = ui.spinner("changing the domain");
    let change = Change::of(domain, &guest.context, wanted)?;
    let (old, new) = change.shown(&guest.context, wanted)?;
    let is_changed = !change.fixed.applied.is_empty();
    let backup = is_changed
        .then(|| change.apply(&new, backups, now()))
        .transpose()?;
    let diff = match is_changed {
        true => diff(&guest.name, &old, &new),
        false => String::new(),
    };
    Ok(Applied {
        fixed: change.fixed,
        diff,
        backup,
    })
}
