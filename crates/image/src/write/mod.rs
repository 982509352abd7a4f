//! Writing an image: a [`writer`] has each chunk read, compressed, sealed and put in its place by a
//! [`job`], and writes head, records and header last ([`index`]).

pub(crate) mod blob;
pub(crate) mod early;
pub(crate) mod estimate;
pub(crate) mod index;
pub(crate) mod job;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod writer;
