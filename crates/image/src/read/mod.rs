//! Reading an image: a [`reader`] authenticates header, head and records when it opens one ([`open`]),
//! and each chunk when it is read.

pub(crate) mod contents;
pub(crate) mod core_file;
pub(crate) mod extract;
pub(crate) mod load;
pub(crate) mod open;
pub(crate) mod parse;
pub(crate) mod reader;
pub(crate) mod verify;
