//! `brisk reboot list`.

use brisk_host::boot_entries::{self, BootEntries, Choice, Entry, Kind, Loader};
use brisk_host::kernel;
use brisk_measure::render::{clean, columns};

use super::options::{Form, RootArgs};
use crate::exit;
use crate::ui::Ui;

/// List what could be started, which entry is next, and why.
///
/// Entries are read from the configuration of the boot loader: of GRUB the script is run as GRUB
/// runs it, of systemd-boot the entries, unified kernel images and EFI variables are read, of
/// extlinux the configuration. Kernels that are installed and have no entry come last.
///
/// In the first column ">" is the entry that is started next, "*" the default if that is another
/// one, and "!" is one that cannot be started, with the reason below. "running" is the kernel that
/// runs now.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    root: RootArgs,

    /// Format of the list.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
}

/// Lists.
///
/// # Errors
/// If there is no such tree, or nothing can be printed.
pub(super) fn run(args: &ListArgs, ui: &Ui) -> anyhow::Result<u8> {
    let boot = boot_entries::read(args.root.checked()?);
    let running = args.root.is_running().then(kernel::running);
    match args.format {
        Form::Json => {
            let mut value = serde_json::to_value(&boot)?;
            value["schema"] = "brisk.reboot.list/1".into();
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Form::Table => ui.data(&text(&boot, running.as_deref()))?,
    }
    Ok(exit::OK)
}

/// The list for a terminal.
fn text(boot: &BootEntries, running: Option<&str>) -> String {
    let loader = match boot.loader {
        Loader::None => "not known",
        loader => loader.name(),
    };
    let mut lines = vec![format!("Boot loader: {loader}: {}", boot.reason)];
    lines.extend(boot.notes.iter().map(|note| format!("Note: {note}")));
    let name = |choice: &Choice| {
        let entry = &boot.entries[choice.entry];
        let is_same = |it: &&Entry| it.title == entry.title;
        match boot.entries.iter().filter(is_same).count() {
            1 => entry.title.clone(),
            _ => format!("{} ({})", entry.title, entry.id),
        }
    };
    match (&boot.next, &boot.default) {
        (None, _) => lines.push("Next: not known".to_owned()),
        (Some(next), default) => {
            lines.push(format!("Next: {}: {}", name(next), next.reason));
            if let Some(default) = default
                .as_ref()
                .filter(|default| default.entry != next.entry)
            {
                lines.push(format!("Default: {}: {}", name(default), default.reason));
            }
        }
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(&clean(&line));
        text.push('\n');
    }
    if boot.entries.is_empty() {
        return text;
    }
    let rows = boot.entries.iter().enumerate().map(|(index, entry)| {
        let is = |choice: &Option<Choice>| choice.as_ref().is_some_and(|it| it.entry == index);
        let mut mark = match (is(&boot.next), is(&boot.default)) {
            (true, _) => ">",
            (_, true) => "*",
            _ => "",
        }
        .to_owned();
        if !entry.problems.is_empty() {
            mark.push('!');
        }
        row(mark, entry, running)
    });
    text.push('\n');
    text.push_str(&columns(
        &["", "number", "title", "release", "kernel"],
        rows,
    ));
    text.push_str(&problems(&boot.entries));
    text
}

fn row(mark: String, entry: &Entry, running: Option<&str>) -> Vec<String> {
    let titles = entry.menus.iter().chain([&entry.title]);
    let titles: Vec<_> = titles.map(String::as_str).collect();
    let is_running = !entry.release.is_empty() && running == Some(&entry.release);
    let release = match is_running {
        true => format!("{} (running)", entry.release),
        false => entry.release.clone(),
    };
    let kernel = match entry.kind {
        Kind::Other => "no Linux".to_owned(),
        _ => entry.kernel.display().to_string(),
    };
    let cells = [
        mark,
        entry.number.clone().unwrap_or_else(|| "-".to_owned()),
        titles.join(" > "),
        release,
        kernel,
    ];
    cells.into()
}

/// Problems of entries, a line for each.
fn problems(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        for problem in &entry.problems {
            let name = entry.number.as_deref().unwrap_or(&entry.id);
            text.push_str(&clean(&format!("! {name}: {problem}")));
            text.push('\n');
        }
    }
    text
}
