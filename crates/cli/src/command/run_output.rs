//! Output of `brisk run` besides the command's own.

use brisk_experiment::environment;
use brisk_measure::{Environment, render};
use brisk_tools::guest::{Facts, Plan};
use brisk_tools::run::Timing;
use brisk_vm::qemu::{self, Part};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::output::{Format, csv_field, now};

#[derive(Serialize)]
struct DryRun<'a> {
    schema: &'static str,
    kernel: &'a str,
    accelerator_why: &'a str,
    program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program_why: Option<String>,
    parts: Vec<Part>,
}

/// Formats QEMU's command line for a shell, one word or option a line.
pub(crate) fn command_line(plan: &Plan) -> String {
    let mut machine = plan.machine.clone();
    machine.boot.initramfs = "INITRAMFS".into();
    let parts = qemu::argv(&machine);
    let lines: Vec<_> = parts.iter().map(|part| quoted(&part.words)).collect();
    format!(
        "{} \\\n  {}",
        machine.program.display(),
        lines.join(" \\\n  ")
    )
}

/// Describes a run: QEMU's command line with reasons, and the steps in the guest.
pub(crate) fn dry_run(plan: &Plan, facts: &Facts, format: Format) -> anyhow::Result<String> {
    let mut machine = plan.machine.clone();
    machine.boot.initramfs = "INITRAMFS".into();
    let parts = qemu::argv(&machine);
    let program = machine.program.display().to_string();
    Ok(match format {
        Format::Json => {
            let kernel = &*facts.kernel.version;
            let accelerator_why = &*plan.accelerator_why;
            let schema = "brisk.dry-run/1";
            let dry = DryRun {
                schema,
                kernel,
                accelerator_why,
                program,
                program_why: facts.instead.as_ref().map(ToString::to_string),
                parts,
            };
            serde_json::to_string_pretty(&dry)? + "\n"
        }
        Format::Csv => {
            let rows = parts.iter().map(|part| {
                format!(
                    "{},{}\n",
                    csv_field(&part.words.join(" ")),
                    csv_field(&part.why)
                )
            });
            std::iter::once("words,why\n".to_owned())
                .chain(rows)
                .collect()
        }
        Format::Table => {
            let instead = facts.instead.as_ref();
            let why = instead.map_or_else(String::new, |older| format!(", because {older}"));
            let mut text = format!(
                "kernel {} ({})\n{}: {}\nQEMU {}{why}\n\n{program}\n",
                facts.kernel.version,
                facts.kernel.image.display(),
                machine.accelerator.name(),
                plan.accelerator_why,
                facts.capabilities.package,
            );
            for part in parts {
                text.push_str(&format!("  {}\n", quoted(&part.words)));
                for line in part.why.lines() {
                    text.push_str(&format!("      # {line}\n"));
                }
            }
            text.push_str(
                "\nDescriptors 3 to 5 are sockets to brisk; INITRAMFS is built on demand:\n",
            );
            let modules: Vec<_> = plan
                .initramfs
                .modules
                .iter()
                .map(|wanted| format!("  {}: {}\n", wanted.module, wanted.reason))
                .collect();
            text.push_str(&modules.concat());
            text
        }
    })
}

pub(crate) fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+@%".contains(c);
    words
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The environment of the run, for reports.
pub(crate) fn environment(plan: &Plan, facts: &Facts) -> Environment {
    Environment {
        qemu_version: Some(facts.capabilities.package.clone()),
        accelerator: Some(plan.machine.accelerator.name().to_owned()),
        guest_kernel: Some(facts.kernel.version.clone()),
        ..environment::here()
    }
}

/// Formats the events of a run with their times.
pub(crate) fn timing(
    timing: &Timing,
    environment: Environment,
    format: Format,
) -> anyhow::Result<String> {
    let rows = timing.rows();
    Ok(match format {
        Format::Json => {
            let mut environment = environment;
            if let Some(peak) = peak_memory() {
                let text = format!("{peak} bytes");
                environment
                    .extra
                    .insert("brisk peak memory".to_owned(), text);
            }
            render::json(&timing.report(now(), environment))
        }
        Format::Csv => std::iter::once("moment,at_ms,since_previous_ms,clock\n".to_owned())
            .chain(rows.iter().map(|row| row.join(",") + "\n"))
            .collect(),
        Format::Table => {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            table.set_header(["", "at ms", "+ ms", "clock"]);
            for row in rows {
                table.add_row(row);
            }
            for index in 1..3 {
                if let Some(column) = table.column_mut(index) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            format!("{table}\n")
        }
    })
}

/// The most memory this process ever had, bytes (proc_pid_status(5), VmHWM).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
