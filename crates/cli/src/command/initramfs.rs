//! `brisk initramfs`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use brisk_host::files;
use brisk_tools::guest as tool;
use brisk_vm::cache::Cache;
use brisk_vm::initramfs::{self, Built, Defect, Verified};
use brisk_vm::kernel::Compression;
use comfy_table::{CellAlignment, Table, presets};

use super::guest::GuestArgs;
use crate::output::write_whole;
use crate::output::{Format, explain};
use crate::ui::Ui;

/// Most entries that are listed.
const MOST_ENTRIES: usize = 1_000_000;

/// Build the initramfs of a guest, and show what is in one and why.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Build the initramfs that `brisk run` would use with the same options.
    Build {
        /// Kernel, root and modules.
        #[command(flatten)]
        guest: GuestArgs,
        /// File to write; without it the path in the cache is printed.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the entries of an initramfs: of all its archives, compressed or not, as the kernel
    /// unpacks them. Without a file, of the one that would be built.
    List {
        /// Initramfs to list.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Kernel, root and modules.
        #[command(flatten)]
        guest: GuestArgs,
        /// Format of the list.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Explain why each module and file is in it, and what the kernel has built in.
    Explain {
        /// Kernel, root and modules.
        #[command(flatten)]
        guest: GuestArgs,
        /// Format of the explanation.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

/// Runs a command of `brisk initramfs`; the result is the exit status.
///
/// # Errors
/// If the kernel lacks a module, or a file cannot be read or written.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Build {
            guest,
            output: None,
        } => {
            ui.data(&format!("{}\n", build(guest, ui)?.path.display()))?;
        }
        Command::Build {
            guest,
            output: Some(output),
        } => {
            let built = build(guest, ui)?;
            let bytes = fs::read(&built.path)
                .with_context(|| format!("cannot read {}", built.path.display()))?;
            write_whole(output, &bytes)?;
            ui.note(&format!("{}: {} bytes", output.display(), bytes.len()));
        }
        Command::List {
            file,
            guest,
            format,
        } => {
            let path = match file {
                Some(path) => path.clone(),
                None => build(guest, ui)?.path,
            };
            let failed = || format!("cannot list {}", path.display());
            let file = files::open_regular(&path).with_context(failed)?;
            let (rows, found) = listed(BufReader::new(file));
            if !rows.is_empty() {
                ui.data(&list(&rows, *format)?)?;
            }
            if let Some(junk) = found.with_context(failed)?.junk {
                ui.note(&format!(
                    "what is behind it from byte {junk} on is no archive, and the kernel ignores it"
                ));
            }
        }
        Command::Explain { guest, format } => {
            let built = build(guest, ui)?;
            ui.data(&reasons(&built, *format)?)?;
        }
    }
    Ok(0)
}

fn build(guest: &GuestArgs, ui: &Ui) -> anyhow::Result<Built> {
    let cache = Cache::open()?;
    let options = guest.options();
    let spinner = ui.spinner("building the initramfs");
    let facts = tool::gather(&options, &cache, &mut |_| {}).map_err(explain)?;
    let plan = tool::plan(&options, &facts).map_err(explain)?;
    let built = initramfs::initramfs(
        &plan.initramfs,
        &plan.release,
        plan.modules.as_deref(),
        &cache,
    )?;
    drop(spinner);
    Ok(built)
}

/// An entry of an initramfs.
struct Row {
    mode: u32,
    size: u32,
    path: String,
    compression: Option<Compression>,
}

/// The entries of an initramfs, and whether the kernel would unpack it: as many of them as there
/// are before a defect.
fn listed(reader: impl BufRead) -> (Vec<Row>, anyhow::Result<Verified>) {
    let mut rows = Vec::new();
    let mut more = 0_u64;
    let found = initramfs::list(reader, &mut |entry| match rows.len() < MOST_ENTRIES {
        true => rows.push(Row {
            mode: entry.mode,
            size: entry.size,
            path: String::from_utf8_lossy(entry.path).into_owned(),
            compression: entry.compression,
        }),
        false => more += 1,
    });
    let found = found.map_err(|defect| match defect {
        Defect::Unsupported { remedy, .. } => anyhow!("{defect}; {remedy}"),
        defect => defect.into(),
    });
    let found = found.and_then(|found| {
        ensure!(
            more == 0,
            "it has {more} entries more than the first {MOST_ENTRIES}"
        );
        Ok(found)
    });
    (rows, found)
}

fn list(rows: &[Row], format: Format) -> anyhow::Result<String> {
    let texts = rows.iter().map(|row| {
        [
            format!("{:o}", row.mode),
            row.size.to_string(),
            row.path.escape_debug().to_string(),
        ]
    });
    Ok(match format {
        Format::Json => {
            let entries: Vec<_> = rows
                .iter()
                .map(|row| {
                    serde_json::json!({
                        "path": row.path, "mode": row.mode, "size": row.size,
                        "compression": row.compression.map(|it| it.to_string()),
                    })
                })
                .collect();
            let json = serde_json::json!({ "schema": "brisk.archive/1", "entries": entries });
            serde_json::to_string_pretty(&json)? + "\n"
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["mode", "size", "path"])?;
            for text in texts {
                writer.write_record(text)?;
            }
            String::from_utf8(writer.into_inner()?)?
        }
        Format::Table => sized_table(["mode", "size", "path"], texts, 1),
    })
}

fn reasons(built: &Built, format: Format) -> anyhow::Result<String> {
    let contents = &built.contents;
    if format == Format::Json {
        let json = serde_json::json!({ "schema": "brisk.initramfs/1", "contents": contents });
        return Ok(serde_json::to_string_pretty(&json)? + "\n");
    }
    let mut rows: Vec<[String; 3]> = Vec::new();
    for module in &contents.modules {
        let needed = match module.needed_by.as_slice() {
            [] => String::new(),
            by => format!(" (needed by {})", by.join(", ")),
        };
        let reason = format!("{}{needed}", module.reason);
        rows.push([module.path.clone(), module.size.to_string(), reason]);
    }
    for builtin in &contents.builtin {
        let how = if builtin.assumed {
            "taken to be built in"
        } else {
            "built in"
        };
        rows.push([
            builtin.name.clone(),
            "0".into(),
            format!("{}: {how}", builtin.reason),
        ]);
    }
    for skipped in &contents.skipped {
        let reason = format!(
            "left out: {} would like it, {} denies",
            skipped.wanted_by, skipped.pattern
        );
        rows.push([skipped.name.clone(), "0".into(), reason]);
    }
    for file in contents.files.iter().filter(|file| file.size > 0) {
        let reason = match file.path.as_str() {
            "init" | "/init" => "the first program",
            "modules" | "/modules" => "the order to load modules in",
            _ => "for the command",
        };
        rows.push([file.path.clone(), file.size.to_string(), reason.into()]);
    }
    rows.push([
        "total".into(),
        contents.total.to_string(),
        format!("for {}", contents.release),
    ]);
    Ok(match format {
        Format::Csv => {
            let quoted = |row: &[String; 3]| format!("{},{},\"{}\"\n", row[0], row[1], row[2]);
            std::iter::once("what,size,why\n".to_owned())
                .chain(rows.iter().map(quoted))
                .collect()
        }
        _ => sized_table(["what", "size", "why"], rows.into_iter(), 1),
    })
}

/// Formats a table whose column of sizes is aligned to the right.
fn sized_table(header: [&str; 3], rows: impl Iterator<Item = [String; 3]>, sizes: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table.add_rows(rows);
    if let Some(column) = table.column_mut(sizes) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}
