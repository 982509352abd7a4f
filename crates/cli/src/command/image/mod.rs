//! `brisk image`.

mod info;
mod keys;
mod work;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use brisk_image::{Error, Form, Header, Image, Keys, PAGE_SIZE};
use serde::Serialize;

use self::keys::NewKeyArgs;
pub(super) use self::keys::{KeyArgs, passphrase_of};
pub(super) use self::work::{Work, end_soon, with_hint};
use crate::exit;
use crate::output::Format;
use crate::ui::Ui;

/// Inspect, verify, re-encrypt and extract suspend images.
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "Exit status: 0; 1 if verify found damage; 125 if brisk failed.")]
pub enum Command {
    /// Describe an image: what is public without a key, the VM as well with one.
    Info {
        /// Path of the image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Keys that open it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Format of the output.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Verify that nothing of an image was altered.
    ///
    /// Reads all of the image. The first bad place is named; the exit status is then 1.
    Verify {
        /// Path of the image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Keys that open it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Base image that is not beside the image. Repeatable.
        #[arg(long, value_name = "IMAGE")]
        parent: Vec<PathBuf>,
        /// Number of threads. Default: one for each processor.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
        /// Format of the output.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Encrypt the data key of an image to other keys.
    ///
    /// The memory is not encrypted again: somebody who could open the image before and kept a copy
    /// still can.
    Rekey {
        /// Path of the image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Keys that open it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Recipients that the image is encrypted to from now on.
        #[command(flatten)]
        new: NewKeyArgs,
    },
    /// Write the guest's memory, unencrypted, for a debugger.
    #[command(group = clap::ArgGroup::new("form").required(true).args(["raw", "elf"]))]
    Extract {
        /// Path of the image.
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Keys that open it.
        #[command(flatten)]
        keys: KeyArgs,
        /// Base image that is not beside the image. Repeatable.
        #[arg(long, value_name = "IMAGE")]
        parent: Vec<PathBuf>,
        /// Write the memory from its first byte to its last to this file.
        #[arg(long, value_name = "FILE")]
        raw: Option<PathBuf>,
        /// Write an ELF core file with the guest's physical addresses, for gdb and crash.
        #[arg(long, value_name = "FILE")]
        elf: Option<PathBuf>,
        /// Replace the file if it exists.
        #[arg(long)]
        replace: bool,
        /// Number of threads. Default: one for each processor.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        threads: Option<u16>,
    },
}

/// Runs a command of `brisk image`; the result is the exit status.
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
            new.host_key()?;
            // Opened first, so that a passphrase is asked for where it is needed.
            let (opened, keys) = keys.open(image, ui).map_err(with_hint)?;
            // Recipients of an image that is a base of another can read most of the other.
            let opened = opened.with_parents(&keys, &[]).map_err(with_hint)?;
            let chain = std::iter::successors(opened.parent(), |image| image.parent());
            let parents: Vec<_> = chain.map(|image| image.path().to_owned()).collect();
            drop(opened);
            if let Some(other) = sharing(image, &parents, &keys) {
                bail!(
                    "{} is based on {}, too, and would have to be encrypted to the other keys as well; \
                     move one of both with its base images to another directory, or keep the keys",
                    other.display(),
                    parents[0].display()
                );
            }
            // A key is made only for an image that can have it.
            let recipients = new.recipients(ui)?;
            let work = Work::new("copying", ui)?;
            let mut linked = Vec::new();
            for one in parents.iter().map(PathBuf::as_path).chain([&**image]) {
                let rekeyed = brisk_image::rekey(one, &keys, &recipients, work.control());
                if rekeyed.map_err(with_hint)? > 0 {
                    linked.push(one);
                }
            }
            drop(work);
            for one in linked {
                ui.note(&format!(
                    "{} had other names (hard links): the old image, with its old keys, is still \
                     there under those; find it with find -samefile before it is forgotten, and \
                     remove it",
                    one.display()
                ));
            }
            let who = Header::read(image).map_err(with_hint)?.encrypted_to();
            let others = match parents.len() {
                0 => String::new(),
                1 => ", and the one that it is based on".to_owned(),
                more => format!(", and the {more} that it is based on"),
            };
            ui.note(&format!(
                "{}{others}: now encrypted to {who}",
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
        stored_bytes: verified.stored_pages * PAGE_SIZE,
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

/// Another image in the directory of `image` that is based on one of its `parents`, as far as these
/// keys open it.
fn sharing(image: &Path, parents: &[PathBuf], keys: &Keys) -> Option<PathBuf> {
    let ids: Vec<_> = parents
        .iter()
        .filter_map(|parent| Header::read(parent).ok())
        .map(|header| header.id)
        .collect();
    let directory = parents.first()?.parent()?;
    let is_other = |path: &PathBuf| {
        let same = |known: &Path| fs::canonicalize(known).ok() == fs::canonicalize(path).ok();
        !same(image) && !parents.iter().any(|parent| same(parent))
    };
    let is_based = |path: &PathBuf| {
        let opened = path
            .is_file()
            .then(|| Image::open(path, keys).ok())
            .flatten();
        let parent = opened.and_then(|image| image.head().parent);
        parent.is_some_and(|parent| ids.contains(&parent.id))
    };
    let files = fs::read_dir(directory).ok()?.flatten();
    files
        .map(|entry| entry.path())
        .find(|path| is_other(path) && is_based(path))
}
