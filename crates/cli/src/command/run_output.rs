//! What `brisk run` prints besides the command's own output.

use brisk_measure::{Environment, render};
use brisk_tools::run::{Facts, Plan, Timing};
use brisk_vm::guest::Stage;
use brisk_vm::qemu::{self, Part};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::run::Format;

/// What a stage is, behind "the guest cannot".
pub(crate) fn doing(stage: Stage) -> &'static str {
    match stage {
        Stage::Module => "load the module",
        Stage::Config => "understand its",
        Stage::Prepare => "make",
        Stage::Device => "find the device",
        Stage::Mount => "mount",
        Stage::Enter => "enter",
        Stage::Network => "set up the network interface",
        Stage::NotFound | Stage::Execute => "execute",
        Stage::Internal => "get",
    }
}

#[derive(Serialize)]
struct DryRun<'a> {
    schema: &'static str,
    kernel: &'a str,
    accelerator_why: &'a str,
    program: String,
    parts: Vec<Part>,
}

/// The command line with reasons, and what happens in the guest.
pub(crate) fn dry_run(plan: &Plan, facts: &Facts, format: Format) -> anyhow::Result<String> {
    let mut machine = plan.machine.clone();
    machine.initramfs = "INITRAMFS".into();
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
                parts,
            };
            serde_json::to_string_pretty(&dry)? + "\n"
        }
        Format::Csv => {
            let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let rows = parts
                .iter()
                .map(|part| format!("{},{}\n", quote(&part.words.join(" ")), quote(&part.why)));
            std::iter::once("words,why\n".to_owned())
                .chain(rows)
                .collect()
        }
        Format::Table => {
            let mut text = format!(
                "kernel {} ({})\n{}: {}\n\n{program}\n",
                facts.kernel.version,
                facts.kernel.image.display(),
                machine.accelerator.name(),
                plan.accelerator_why,
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

fn quoted(words: &[String]) -> String {
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

/// What the run was made on.
pub(crate) fn environment(plan: &Plan, facts: &Facts) -> Environment {
    let read = |path| std::fs::read_to_string(path).ok();
    let cpu_model = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    Environment {
        cpu_model,
        logical_cpus: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        host_kernel: Some(brisk_host::kernel::running()),
        qemu_version: Some(facts.capabilities.package.clone()),
        accelerator: Some(plan.machine.accelerator.name().to_owned()),
        load: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        guest_kernel: Some(facts.kernel.version.clone()),
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ..Environment::default()
    }
}

/// When what happened.
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

/// Seconds since 1970 as RFC 3339, in UTC.
pub(crate) fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    jiff::Timestamp::from_second(seconds as i64)
        .unwrap_or_default()
        .to_string()
}

/// The most memory this process ever had, bytes (proc_pid_status(5), VmHWM).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
