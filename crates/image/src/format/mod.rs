//! The format, byte for byte as `docs/src/image-format.md` has it.
//!
//! A [`chunk`] is compressed ([`codec`]) with the bitmap of its pages ([`pages`]) and sealed
//! ([`seal`]); a [`record`] says where it is. The [`header`] has the key slots ([`slot`]), the [`head`]
//! what only a key shows.

pub(crate) mod chunk;
pub(crate) mod codec;
pub(crate) mod description;
pub(crate) mod head;
pub(crate) mod header;
pub(crate) mod kept;
pub(crate) mod pages;
pub(crate) mod record;
pub(crate) mod seal;
pub(crate) mod slot;
pub(crate) mod working_set;
