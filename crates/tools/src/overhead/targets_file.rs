//! Targets in a TOML file. Pure.

use serde::Deserialize;
use toml::Spanned;

use super::target::{Target, TargetError};

/// A file of targets that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetsFileError {
    /// No TOML, or not of this form; the message has the line.
    #[error("{0}")]
    Form(String),
    /// A target that cannot be.
    #[error("line {line}: {source}")]
    Target {
        /// Where it begins.
        line: usize,
        /// Why not.
        source: TargetError,
    },
    /// There is no target in it.
    #[error("it has no target; write [[target]], and below it name, kind and arguments")]
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    target: Vec<Spanned<Entry>>,
}

/// The parts of `NAME=KIND:ARGUMENTS`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    kind: String,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Arguments {
    /// As on the command line.
    Text(String),
    /// Each by itself.
    Words(Vec<String>),
}

impl Default for Arguments {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Arguments {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Words(words) => {
                let words = words
                    .iter()
                    .map(|word| brisk_host::program::quote(word.as_ref()));
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Reads the targets of a file, in order.
///
/// # Errors
/// If it is no TOML of this form, has no target, or one that cannot be.
pub fn targets(text: &str) -> Result<Vec<Target>, TargetsFileError> {
    let file: File =
        toml::from_str(text).map_err(|error| TargetsFileError::Form(error.to_string()))?;
    if file.target.is_empty() {
        return Err(TargetsFileError::None);
    }
    let read = file.target.iter().map(|entry| {
        let start = entry.span().start;
        let entry = entry.get_ref();
        let target = format!("{}={}:{}", entry.name, entry.kind, entry.arguments.text());
        target.parse().map_err(|source| TargetsFileError::Target {
            line: 1 + text[..start].matches('\n').count(),
            source,
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_what_the_command_line_can_have() {
        let text = "[[target]]\nname = 'box'\nkind = 'runc'\n\n[[target]]\nname = 'tcg'\n\
                    kind = 'brisk'\narguments = '--memory 1G'\n\n[[target]]\nname = 'far'\n\
                    kind = 'command'\narguments = ['ssh', 'a host']\n";
        let expected = [
            "box=runc:",
            "tcg=brisk:--memory 1G",
            "far=command:ssh 'a host'",
        ]
        .map(|target| target.parse().unwrap());
        assert_eq!(targets(text).unwrap(), expected);
    }

    #[test]
    fn errors_have_the_line() {
        let message = |text: &str| targets(text).unwrap_err().to_string();
        let unknown = message("[[target]]\nname = 'a'\nkind = 'runc'\nimage = 'x'\n");
        assert!(unknown.contains("line 4"), "{unknown}");
        assert!(unknown.contains("unknown field `image`"), "{unknown}");
        let kind = message("# Mine.\n[[target]]\nname = 'a'\nkind = 'xen'\n");
        assert!(
            kind.starts_with("line 2: xen: no such kind of target"),
            "{kind}"
        );
        let name = message("[[target]]\nname = 'a b'\nkind = 'runc'\n");
        assert!(name.starts_with("line 1: a b: a name"), "{name}");
        assert!(message("").contains("[[target]]"));
    }
}
