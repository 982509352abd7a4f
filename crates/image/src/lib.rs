//! Suspend images: a guest's memory and device state in one compressed, sealed file.
//!
//! An image is written by [`write`] while the guest is stopped, or begun before that by [`Writer`],
//! read by [`Image`], claimed once by [`Claim`], and encrypted to other keys by [`rekey`].
//! `docs/src/image-format.md` describes the file byte by byte; nothing of the guest is unencrypted
//! in it.
//! guest is in clear in it.
//!
//! ```text
//! header | sealed chunks of memory, device state, working set | sealed head | sealed records
//! ```

mod blob;
mod chunk;
mod claim;
mod codec;
mod contents;
mod core_file;
mod description;
mod durable;
mod early;
mod error;
mod estimate;
mod extract;
mod head;
mod header;
mod host_key;
mod index;
mod job;
mod keys;
mod learnt;
mod load;
mod memory;
mod naming;
mod open;
mod output;
mod pages;
mod parse;
mod pipeline;
mod reader;
mod record;
mod rekey;
mod report;
mod seal;
mod slot;
mod source;
mod target;
mod verify;
mod working_set;
mod writer;

pub use claim::{Claim, Hold, State, remove_resumed, resumable, resumed, resumed_name, state};
pub use codec::Compression;
pub use description::{Description, Disk, Kernel, MAX_DESCRIPTION, MAX_TEXT, Range};
pub use early::Forecast;
pub use error::{Error, Place};
pub use estimate::{Estimate, estimate};
pub use extract::{Form, extract};
pub use head::{Head, Parent};
pub use header::{DEFAULT_CHUNK, Header, MAX_CHUNK, MIN_CHUNK, PAGE, VERSION, chunk_size_for};
pub use host_key::{host_key, host_key_path};
pub use keys::{Keys, Recipient, Secret};
pub use learnt::{read_working_set, write_working_set};
pub use load::Piece;
pub use pages::Pages;
pub use pages::is_zero;
#[doc(hidden)]
pub use parse::parse_anything;
pub use pipeline::{Control, Progress};
pub use reader::Image;
pub use record::Record;
pub use rekey::rekey;
pub use report::{Report, Stages};
pub use slot::{Slot, SlotKind};
pub use source::{Base, Changed, Source};
pub use verify::Verified;
pub use working_set::WORKING_PAGES;
pub use writer::{Options, Outline, Writer, write};

/// The usual end of an image's name.
pub const EXTENSION: &str = "brisk";

#[cfg(test)]
mod tests;
