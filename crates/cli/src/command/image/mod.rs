//! `brisk image`.

mod info;
mod keys;
mod work;

use std::path::PathBuf;

use brisk_image::{Error, Form, Header, PAGE};
use serde::Serialize;

use self::keys::NewKeyArgs;
pub(super) use self::keys::{KeyArgs, passphrase_of};
pub(super) use self::work::{Work, with_hint};
use crate::exit;
use crate::output::Format;
use crate::ui::Ui;

/// Look into suspend images, check them, lock them for other keys, take the memory out.
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "Exit status: 0; 1 if verify found damage; 125 if brisk failed.")]
pub enum Command {
    /// Say what an image is: without a key what is public, with one the machine as well.
    Info {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// What opens it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Form of the output.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Read all of an image and check that nothing of it was altered. The first bad place is
    /// named; the exit status is then 1.
    Verify {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// What opens it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Images that it is based on, where they are not beside it.
        #[arg(long, value_name = "IMAGE")]
        parent: Vec<PathBuf>,
        /// Threads. Default: one for each processor.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
        /// Form of the output.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Lock an image for others than before. Its memory is not encrypted again: who could open
    /// it before and kept a copy still can.
    Rekey {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// What opens it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Who shall open it.
        #[command(flatten)]
        new: NewKeyArgs,
    },
    /// Write the guest's memory, in clear, for a debugger.
    #[command(group = clap::ArgGroup::new("form").required(true).args(["raw", "elf"]))]
    Extract {
        /// The image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// What opens it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Images that it is based on, where they are not beside it.
        #[arg(long, value_name = "IMAGE")]
        parent: Vec<PathBuf>,
        /// Write the memory from its first byte to its last.
        #[arg(long, value_name = "FILE")]
        raw: Option<PathBuf>,
        /// Write an ELF core file with the guest's physical addresses, for gdb and crash.
        #[arg(long, value_name = "FILE")]
        elf: Option<PathBuf>,
        /// Replace the file if it is there.
        #[arg(long)]
        replace: bool,
        /// Threads. Default: one for each processor.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
    },
}

/// Runs it.
///
/// # Errors
/// If the image cannot be opened, or a file cannot be read or written.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Info {
            image,
            keys,
            format,
        } => ui.data(&info::info(image, keys, *format, ui)?)?,
        Command::Verify {
            image,
            keys,
            parent,
            threads,
            format,
        } => match verify(image, keys, parent, threads_of(*threads), ui) {
            Ok(checked) => ui.data(&checked.render(*format)?)?,
            Err(error @ Error::Damaged { .. }) => {
                ui.error(&with_hint(error));
                return Ok(exit::FOUND);
            }
            Err(error) => return Err(with_hint(error)),
        },
        Command::Rekey { image, keys, new } => {
            let recipients = new.recipients(ui)?;
            // Opened first, so that a passphrase is asked for where it is needed.
            let (opened, keys) = keys.open(image, ui).map_err(with_hint)?;
            // Who can open one that another is based on can read most of that.
            let opened = opened.with_parents(&keys, &[]).map_err(with_hint)?;
            let chain = std::iter::successors(opened.parent(), |image| image.parent());
            let parents: Vec<_> = chain.map(|image| image.path().to_owned()).collect();
            drop(opened);
            let work = Work::new("copying", ui)?;
            for one in parents.iter().map(PathBuf::as_path).chain([&**image]) {
                brisk_image::rekey(one, &keys, &recipients, work.control()).map_err(with_hint)?;
            }
            drop(work);
            let who = Header::read(image).map_err(with_hint)?.locked_for();
            let others = match parents.len() {
                0 => String::new(),
                1 => ", and the one that it is based on".to_owned(),
                more => format!(", and the {more} that it is based on"),
            };
            ui.note(&format!(
                "{}{others}: now locked for {who}",
                image.display()
            ));
        }
        Command::Extract {
            image,
            keys,
            parent,
            raw,
            elf,
            replace,
            threads,
        } => {
            let (form, path) = match (raw, elf) {
                (Some(raw), _) => (Form::Raw, raw),
                (None, Some(elf)) => (Form::Core, elf),
                (None, None) => anyhow::bail!("give --raw FILE or --elf FILE"),
            };
            let (opened, keys) = keys.open(image, ui).map_err(with_hint)?;
            let opened = opened.with_parents(&keys, parent).map_err(with_hint)?;
            let work = Work::new("extracting", ui)?;
            let threads = threads_of(*threads);
            brisk_image::extract(&opened, form, path, *replace, threads, work.control())
                .map_err(with_hint)?;
            drop(work);
            let bytes = opened.header().memory;
            ui.note(&format!(
                "{}: {bytes} bytes of memory, in clear",
                path.display()
            ));
        }
    }
    Ok(exit::OK)
}

fn threads_of(asked: Option<u16>) -> usize {
    asked.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    )
}

fn verify(
    path: &std::path::Path,
    keys: &KeyArgs,
    parents: &[PathBuf],
    threads: usize,
    ui: &Ui,
) -> Result<Checked, Error> {
    let (opened, keys) = keys.open(path, ui)?;
    let opened = opened.with_parents(&keys, parents)?;
    let work = Work::new("checking", ui).map_err(|error| Error::Invalid(error.to_string()))?;
    let verified = opened.verify(threads, work.control())?;
    let header = opened.header();
    Ok(Checked {
        schema: "brisk.image-verified/2",
        image: path.to_owned(),
        size: header.file_len(),
        chunks: header.chunks(),
        stored_chunks: verified.stored_chunks,
        stored_bytes: verified.stored_pages * PAGE as u64,
        parent_chunks: header.incremental.then_some(verified.parent_chunks),
        state: verified.state,
    })
}

#[derive(Serialize)]
struct Checked {
    schema: &'static str,
    image: PathBuf,
    size: u64,
    chunks: u64,
    stored_chunks: u64,
    stored_bytes: u64,
    /// None of a full image.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_chunks: Option<u64>,
    state: u64,
}

impl Checked {
    fn render(&self, format: Format) -> anyhow::Result<String> {
        if format == Format::Json {
            return Ok(serde_json::to_string_pretty(self)? + "\n");
        }
        let mut rows = vec![
            ("image", self.image.display().to_string()),
            ("whole", "yes".to_owned()),
            ("size", self.size.to_string()),
        ];
        let (chunks, bytes) = (self.stored_chunks, self.stored_bytes);
        rows.extend(info::stored(chunks, self.chunks, bytes));
        rows.extend(self.parent_chunks.map(info::parents));
        rows.push(("device state", self.state.to_string()));
        Ok(info::rows(&rows, format))
    }
}
