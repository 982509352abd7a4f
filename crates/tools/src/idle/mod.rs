//! What an idle guest costs its host, why, and what to change.

pub mod fix;
pub mod rules;
