//! Files and variables of EFI: what firmware starts, unified kernel images, and their command lines.

pub(super) mod firmware;
pub(super) mod found;
pub(super) mod stub;
pub(super) mod unified;
pub(super) mod variables;
