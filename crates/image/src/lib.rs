//! Suspend images: a guest's memory and device state in one compressed, sealed file.
//!
//! An image is written by [`write()`] while the guest is stopped, or begun before that by
//! [`Writer`], read by [`Image`], claimed once by [`Claim`], and wrapped for other keys by
//! [`rekey`]. The file is described byte by byte in `docs/src/image-format.md`; nothing of the
//! guest is in clear in it.
//!
//! ```text
//! header | sealed chunks of memory, device state, working set | sealed head | sealed records
//! ```

mod claim;
mod digest;
mod durable;
mod error;
mod format;
mod host_key;
mod keys;
mod memory;
mod naming;
mod pipeline;
mod read;
mod rekey;
mod working_set_file;
mod write;

pub use claim::{Claim, Hold, State, remove_resumed, resumable, resumed, resumed_name, state};
pub use digest::digest;
pub use error::{Error, Place};
pub use format::codec::Compression;
pub use format::description::{Description, Disk, Kernel, MAX_DESCRIPTION, MAX_TEXT, Range};
pub use format::head::{Head, Parent};
pub use format::header::{DEFAULT_CHUNK, Header, MAX_CHUNK, MIN_CHUNK, VERSION, chunk_size_for};
pub use format::kept::Kept;
pub use format::record::Record;
pub use format::slot::{Slot, SlotKind};
pub use format::working_set::WORKING_PAGES;
pub use host_key::{host_key, host_key_path};
pub use keys::{Keys, Recipient, Secret};
pub use memory::{PAGE, PAGE_SIZE, Pages, is_zero, push_page};
pub use naming::real_path;
pub use pipeline::{Control, Progress};
pub use read::extract::{Form, extract};
pub use read::load::Piece;
#[doc(hidden)]
pub use read::parse::parse_anything;
pub use read::reader::Image;
pub use read::verify::Verified;
pub use rekey::rekey;
pub use working_set_file::{read_working_set, write_working_set};
pub use write::early::Forecast;
pub use write::estimate::{Estimate, estimate};
pub use write::report::{Report, Stages};
pub use write::source::{Base, Changed, KeptMemory, Source};
pub use write::writer::{Options, Outline, Writer, write};

/// The usual end of an image's name.
pub const EXTENSION: &str = "brisk";

#[cfg(test)]
mod tests;
