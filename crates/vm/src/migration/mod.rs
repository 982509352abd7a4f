//! QEMU's migration stream, as far as a postcopy resume needs it.
//!
//! [`Saved`] parses the device state, which QEMU wrote without the memory. [`Source`] is the source
//! of a *postcopy* migration to a new QEMU: it sends the devices first, and then memory page by
//! page as the guest touches it, the rest in the background. If a source is lost in the middle,
//! another one asks QEMU for the pages that it has and sends the rest.
//!
//! The formats are those of QEMU 10 (`migration/savevm.c`, `ram.c`, `postcopy-ram.c`). A stream of
//! one QEMU version is only sent to that version.
//!
//! ```text
//! header | configuration | return path | advise | list of memory | pages of ROMs | discard
//! |       | packaged { listen | devices | run } | pages … | end
//! again: return path | which pages are there? … resume | pages … | end
//! ```

mod opening;
mod requests;
mod saved;
mod sender;
mod source;
mod throttle;
mod wire;

pub use opening::{RamSection, opening};
pub use requests::{Request, Requests};
pub use saved::{Block, Content, Error, Saved};
pub use source::{Ended, Failure, Memory, Reading, Source};
