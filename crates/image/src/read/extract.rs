//! Extraction of guest memory, unencrypted, for debuggers.

use std::path::Path;

use crate::durable::Durable;
use crate::error::Error;
use crate::pipeline::Control;
use crate::read::core_file::write_core;
use crate::read::reader::Image;

/// Format of the extracted memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The memory from its first byte to its last.
    Raw,
    /// An ELF core file with a segment for each range of physical addresses.
    Core,
}

/// Writes the memory of an image to a new file, readable by its owner only, that appears under
/// its name when it is whole. Zero pages are holes.
///
/// # Errors
/// If a chunk cannot be read or was altered, there is such a file and `replace` is not set, or
/// it cannot be written. Nothing is left of it then.
pub fn extract(
    image: &Image,
    form: Form,
    path: &Path,
    replace: bool,
    threads: usize,
    control: Control<'_>,
) -> Result<(), Error> {
    if !replace && path.symlink_metadata().is_ok() {
        return Err(Error::Exists {
            path: path.to_owned(),
        });
    }
    let durable = Durable::create(path)?;
    match form {
        Form::Raw => image.load(&durable.file, path, threads, control),
        Form::Core => write_core(image, &durable.file, path, threads, control),
    }?;
    durable.sync()?;
    durable.publish(replace)
}
