//! Changes of what describes a guest: of the XML of a domain without touching another byte, and of
//! the words of a command line. Pure.

mod arguments;
mod json;
mod path;
#[cfg(test)]
mod tests;
mod xml;

pub use arguments::ArgumentChange;
pub use path::{Path, Step};
pub use xml::XmlChange;

/// A change that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text is no XML, or not that of a domain.
    #[error("{0}")]
    Xml(String),
    /// An element, word or parameter to change is not there.
    #[error("there is no {0} to change")]
    Missing(String),
    /// The argument of an option cannot be read.
    #[error("the argument {0} cannot be changed: it is no JSON object, or not text")]
    Argument(String),
}
