//! Reports as text and pictures: pure functions from a [`Report`] to a string.
//!
//! Names in a report may come from a guest and are hostile until shown otherwise. Every renderer
//! takes out control characters and escapes for its own format.

mod json;

#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod tests;

pub use json::json;
