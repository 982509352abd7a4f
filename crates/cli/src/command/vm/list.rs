//! `brisk vm list`, `info`, `console` and `log`.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use brisk_host::files;
use brisk_tools::guest::harmless;
use brisk_tools::vm::{Condition, Error, StateDirs, VmPaths, condition, standstill, unit_of};
use comfy_table::{Table, presets};
use serde_json::json;

use super::named::{explain, paths};
use crate::exit;
use crate::output::Format;
use crate::output::csv_field;
use crate::ui::Ui;

/// List VMs and their states.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Show a VM's definition and where its files are.
#[derive(Debug, clap::Args)]
pub(super) struct InfoArgs {
    /// Name of the VM.
    name: String,

    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Show what a VM's kernel wrote to its console.
#[derive(Debug, clap::Args)]
pub(super) struct ConsoleArgs {
    /// Name of the VM.
    name: String,

    /// Follow the console until interrupted.
    #[arg(long, short)]
    follow: bool,
}

/// Show the log of a VM: what was done to it, and how quickly.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Name of the VM.
    name: String,

    /// Follow the log until interrupted.
    #[arg(long, short)]
    follow: bool,
}

pub(super) fn list(args: &ListArgs, ui: &Ui) -> anyhow::Result<u8> {
    let dirs = StateDirs::here().map_err(explain)?;
    let mut rows = Vec::new();
    for name in dirs.names() {
        let Ok(paths) = dirs.vm(&name) else { continue };
        let (now, memory, root) = match paths.definition() {
            Ok(definition) => {
                let now = condition(&paths).map_or("unknown", |now| now.name());
                (now, definition.memory, definition.root)
            }
            Err(error) => {
                ui.note(&format!("error: {:#}", explain(error)));
                ("wrong", String::new(), String::new())
            }
        };
        rows.push([name, now.to_owned(), memory, root]);
    }
    for name in dirs.misnamed() {
        if let Err(error) = dirs.vm(&name) {
            ui.note(&format!("error: {:#}", explain(error)));
        }
    }
    for name in dirs.undefined() {
        let Ok(paths) = dirs.vm(&name) else { continue };
        let now = condition(&paths).map_or("unknown", |now| now.name());
        if let Err(error) = paths.definition() {
            ui.note(&format!("error: {:#}", explain(error)));
        }
        let state = format!("{now}, no definition");
        rows.push([name, state, String::new(), String::new()]);
    }
    let text = match args.format {
        Format::Json => {
            let machines: Vec<_> = rows
                .iter()
                .map(|[name, state, memory, root]| {
                    json!({ "name": name, "state": state, "memory": memory, "root": root })
                })
                .collect();
            let value = json!({ "schema": "brisk.vm-list/1", "machines": machines });
            serde_json::to_string_pretty(&value)? + "\n"
        }
        Format::Csv => {
            let line = |row: &[String; 4]| row.each_ref().map(|field| csv_field(field)).join(",");
            let lines: Vec<_> = rows.iter().map(|row| line(row) + "\n").collect();
            format!("name,state,memory,root\n{}", lines.concat())
        }
        Format::Table => {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            table.set_header(["name", "state", "memory", "root"]);
            table.add_rows(rows);
            format!("{}\n", table.trim_fmt())
        }
    };
    ui.data(&text)?;
    Ok(exit::OK)
}

pub(super) fn info(args: &InfoArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let definition = paths.definition().map_err(explain)?;
    let now = condition(&paths).map_err(explain)?;
    let why = standstill(&paths).filter(|_| now != Condition::Off);
    let now = now.name();
    let image = paths.image(&definition);
    let unit = unit_of(&paths);
    let places = paths.runtime_files();
    let files = [
        ("definition", paths.file()),
        ("image", image),
        ("log", paths.log()),
        ("console", places.console),
        ("QEMU's messages", places.errors),
    ];
    let text = match args.format {
        Format::Json => {
            let files: serde_json::Map<_, _> = files
                .iter()
                .map(|(what, path)| ((*what).to_owned(), json!(path)))
                .collect();
            let value = json!({
                "schema": "brisk.vm-info/1",
                "name": paths.name,
                "state": now,
                "reason": why,
                "unit": unit,
                "definition": definition,
                "files": files,
            });
            serde_json::to_string_pretty(&value)? + "\n"
        }
        Format::Csv => {
            let mut text = "what,value\n".to_owned();
            let mut row = |what: &str, value: &str| {
                text.push_str(&format!("{},{}\n", csv_field(what), csv_field(value)));
            };
            row("state", now);
            row("reason", why.as_deref().unwrap_or_default());
            row("unit", unit.as_deref().unwrap_or_default());
            for (what, path) in &files {
                row(what, &path.display().to_string());
            }
            fields("", &json!(definition), &mut row);
            text
        }
        Format::Table => {
            let mut text = format!("# {} is {now}\n", paths.name);
            if let Some(why) = why {
                text.push_str(&format!("# reason: {why}\n"));
            }
            if let Some(unit) = unit {
                text.push_str(&format!("# unit: {unit}\n"));
            }
            for (what, path) in &files {
                text.push_str(&format!("# {what}: {}\n", path.display()));
            }
            text + "\n" + &definition.text()?
        }
    };
    ui.data(&text)?;
    Ok(exit::OK)
}

/// Visits the values of a definition with their names, such as `suspend.threads`.
fn fields(prefix: &str, value: &serde_json::Value, row: &mut impl FnMut(&str, &str)) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let dot = if prefix.is_empty() { "" } else { "." };
                fields(&format!("{prefix}{dot}{name}"), value, row);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(prefix, value, row)),
        Value::String(text) => row(prefix, text),
        other => row(prefix, &other.to_string()),
    }
}

pub(super) fn console(args: &ConsoleArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = known(&args.name)?;
    show(&paths.runtime_files().console, args.follow, ui)
}

pub(super) fn log(args: &LogArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = known(&args.name)?;
    // Records in the log that the VM has ended, if no command has noticed that yet.
    let _ = condition(&paths);
    show(&paths.log(), args.follow, ui)
}

/// Paths of a VM that has files to show, also if its definition is wrong or gone.
fn known(name: &str) -> anyhow::Result<VmPaths> {
    let paths = paths(name)?;
    match paths.definition() {
        Err(error @ Error::Unknown { .. }) => Err(explain(error)),
        _ => Ok(paths),
    }
}

/// Interval at which a followed file is read.
const GLANCE: Duration = Duration::from_millis(200);

fn show(path: &Path, follow: bool, ui: &Ui) -> anyhow::Result<u8> {
    let mut at = 0;
    loop {
        let mut bytes = Vec::new();
        match files::open_regular(path) {
            Ok(mut file) => {
                // A log that became too long has lost its beginning, which was shown already.
                at = at.min(file.metadata()?.len());
                file.seek(SeekFrom::Start(at))?;
                at += file
                    .read_to_end(&mut bytes)
                    .with_context(|| format!("cannot read {}", path.display()))?
                    as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
        ui.data(&harmless(&bytes))?;
        if !follow {
            return Ok(exit::OK);
        }
        std::thread::sleep(GLANCE);
    }
}
