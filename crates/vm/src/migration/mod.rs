//! QEMU's migration stream, as far as a guest that goes on from an image needs it: what QEMU
//! saved of a machine without its memory is taken apart ([`Saved`]), and sent to a QEMU that
//! waits as the source of a *postcopy* migration does ([`Source`]): devices first, and then
//! memory page by page as the guest asks for it, the rest in the background. If a source is lost in
//! the middle, another one asks QEMU what it has and sends the rest.
//!
//! The formats are those of QEMU 10 (`migration/savevm.c`, `ram.c`, `postcopy-ram.c`); streams of
//! one QEMU version are only given to the same one.
//!
//! ```text
//! header | configuration | return path | advise | list of memory | pages of ROMs | discard
//!        | packaged { listen | devices | run } | pages … | end
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
pub use wire::PAGE;
