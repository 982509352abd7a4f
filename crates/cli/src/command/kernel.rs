//! `brisk kernel`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use brisk_host::kernel::{self as installed, Installed};
use brisk_vm::cache::Cache;
use brisk_vm::kernel;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::output::{Format, write_whole};
use crate::ui::Ui;

/// Show the kernels that are installed, and take them apart.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the kernels that are installed, newest first.
    List {
        /// Format of the list.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// Look in another system's tree.
        #[arg(long, value_name = "DIR", default_value = "/")]
        sysroot: PathBuf,
    },
    /// Describe a kernel image: format, release, compression, PVH entry.
    Info {
        /// Release, or path of a bzImage, vmlinux or unified kernel image.
        #[arg(value_name = "PATH|VERSION")]
        kernel: Option<String>,
        /// Format of the output.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Write the uncompressed vmlinux of an image.
    Extract {
        /// Release, or path of a bzImage, vmlinux or unified kernel image.
        #[arg(value_name = "PATH|VERSION")]
        kernel: Option<String>,
        /// File to write.
        ///
        /// It is the whole ELF file as the distribution linked it, except for what the
        /// distribution's build stripped.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

/// Runs a command of `brisk kernel`; the result is the exit status.
///
/// # Errors
/// If there is no such kernel, or a file cannot be read or written.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::List { format, sysroot } => {
            let kernels = installed::installed(sysroot);
            if kernels.is_empty() {
                ui.note(&format!(
                    "no kernel is installed under {}",
                    sysroot.display()
                ));
            }
            ui.data(&list(&kernels, *format)?)?;
        }
        Command::Info { kernel, format } => {
            let info = info(&find(kernel.as_deref())?)?;
            ui.data(&info.render(*format)?)?;
        }
        Command::Extract { kernel, output } => {
            let kernel = find(kernel.as_deref())?;
            let spinner = ui.spinner("extracting");
            let bytes = kernel::extract(&kernel.image).map_err(with_hint)?;
            write_whole(output, &bytes)?;
            drop(spinner);
            ui.note(&format!("{}: {} bytes", output.display(), bytes.len()));
        }
    }
    Ok(0)
}

fn find(selector: Option<&str>) -> anyhow::Result<Installed> {
    installed::resolve(Path::new("/"), selector, &installed::running()).map_err(|error| {
        let hint = error.hint();
        anyhow!("{:#}; {hint}", anyhow::Error::new(error))
    })
}

fn with_hint(error: kernel::Error) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow!("{:#}; {hint}", anyhow::Error::new(error)),
        None => anyhow::Error::new(error),
    }
}

fn list(kernels: &[Installed], format: Format) -> anyhow::Result<String> {
    let path = |path: Option<&PathBuf>| path.map_or("-".into(), |path| path.display().to_string());
    let rows = kernels.iter().map(|kernel| {
        [
            kernel.version.clone(),
            kernel.image.display().to_string(),
            path(kernel.modules.as_ref()),
        ]
    });
    Ok(match format {
        Format::Json => {
            let json = serde_json::json!({ "schema": "brisk.kernels/1", "kernels": kernels });
            serde_json::to_string_pretty(&json)? + "\n"
        }
        Format::Csv => std::iter::once("version,image,modules\n".to_owned())
            .chain(rows.map(|row| row.join(",") + "\n"))
            .collect(),
        Format::Table => {
            let mut table = Table::new();
            table
                .load_preset(presets::NOTHING)
                .set_header(["version", "image", "modules"]);
            table.add_rows(rows);
            format!("{table}\n")
        }
    })
}

#[derive(Serialize)]
struct Info {
    schema: &'static str,
    image: PathBuf,
    version: String,
    format: &'static str,
    compression: Option<String>,
    size: u64,
    vmlinux_size: u64,
    pvh: bool,
    modules: Option<PathBuf>,
}

fn info(kernel: &Installed) -> anyhow::Result<Info> {
    let cache = Cache::open()?;
    let extracted = kernel::vmlinux(&kernel.image, &cache).map_err(with_hint)?;
    let form = kernel::form(&kernel.image).map_err(with_hint)?;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    Ok(Info {
        schema: "brisk.kernel/1",
        version: extracted.version.clone(),
        format: form.name,
        compression: form.compression.map(|it| it.to_string()),
        size: size(&kernel.image),
        vmlinux_size: size(&extracted.path),
        pvh: extracted.pvh,
        image: kernel.image.clone(),
        modules: kernel.modules.clone(),
    })
}

impl Info {
    fn render(&self, format: Format) -> anyhow::Result<String> {
        if format == Format::Json {
            return Ok(serde_json::to_string_pretty(self)? + "\n");
        }
        let modules = self
            .modules
            .as_ref()
            .map_or("none".into(), |dir| dir.display().to_string());
        let rows = [
            ("image", self.image.display().to_string()),
            ("version", self.version.clone()),
            ("format", self.format.to_owned()),
            (
                "compression",
                self.compression.clone().unwrap_or_else(|| "none".into()),
            ),
            ("size", self.size.to_string()),
            ("vmlinux", self.vmlinux_size.to_string()),
            ("pvh", if self.pvh { "yes" } else { "no" }.to_owned()),
            ("modules", modules),
        ];
        let separator = if format == Format::Csv { "," } else { "\t" };
        Ok(rows
            .iter()
            .map(|(name, value)| format!("{name}{separator}{value}\n"))
            .collect())
    }
}
