//! Reader of tar streams from untrusted sources.
//!
//! The headers are parsed by the `tar` crate; the walk over them is ours for two reasons. The
//! crate's own walk reads extension records of any length into memory, and it splits PAX records
//! at newlines, although they are length-prefixed and binary values (`security.capability`, ACLs)
//! may contain one (POSIX.1-2017, pax, "pax Extended Header").

mod entry;
mod extension;
mod reader;

pub(super) use entry::{Entry, Kind, Metadata};
pub(crate) use reader::{Reader, Skip};
