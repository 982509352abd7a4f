//! Guest memory that stays in the RAM of the host while the guest is suspended and the host is
//! restarted by kexec.
//!
//! The memory is a file in a file system with DAX on a part of the RAM that no kernel uses
//! ([`area`]): what a guest writes is in that RAM and nowhere else, and the next kernel finds it
//! there. While the guest runs the file has the name of its VM. When it is suspended the file gets
//! the identity of the image as the end of its name, and the image says, sealed, which content it
//! has ([`brisk_image::Kept`]).

mod again;
mod area;
mod file;

pub use area::Area;
pub(super) use file::{Found, Keeping, Loss, find, may_be_found, note_kept_again};
