//! Optimisations: what makes a boot quicker and can be left out, by name. `brisk boot tune` tries
//! them one by one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Prefix of the name of an initcall that is left out.
pub(crate) const INITCALL: &str = "initcall:";
/// The kernel as a vmlinux that was extracted on the host.
pub(crate) const VMLINUX: &str = "vmlinux";
/// A CPU model that is quick to emulate, instead of QEMU's `max`.
pub(crate) const CPU: &str = "cpu";

/// The optimisations in use. That of a kernel parameter has the parameter's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimisations {
    /// All that fit the guest.
    #[default]
    All,
    /// These only.
    Only(BTreeSet<String>),
}

impl Optimisations {
    /// Parses a list with commas, `all` or `none`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "all" => Self::All,
            "none" => Self::Only(BTreeSet::new()),
            list => Self::Only(list.split(',').map(|name| name.trim().to_owned()).collect()),
        }
    }

    /// Whether an optimisation is used.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

impl std::fmt::Display for Optimisations {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => formatter.write_str("all"),
            Self::Only(names) if names.is_empty() => formatter.write_str("none"),
            Self::Only(names) => {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                formatter.write_str(&names.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levers_read_as_they_are_written() {
        for text in ["all", "none", "initcall:hpet_init,quiet"] {
            assert_eq!(Optimisations::parse(text).to_string(), text);
        }
        assert!(Optimisations::parse("all").has("anything"));
        assert!(!Optimisations::parse("none").has("quiet"));
        assert!(Optimisations::parse("quiet,tsc").has("tsc"));
    }
}
