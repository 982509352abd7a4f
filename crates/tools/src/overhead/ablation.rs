//! One thing about a target that is changed, to see what it is worth. Pure.

use std::fmt;
use std::str::FromStr;

use super::target::{Engine, Kind};

/// A change of how a target is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ablation {
    /// The host gives its processes no huge pages (`PR_SET_THP_DISABLE` of prctl(2)).
    HugePages,
    /// The work directory is on a disk, not on a tmpfs.
    Tmpfs,
    /// It may run on all processors that brisk may use.
    Pinning,
    /// It has the kernel of this file; of the host, if there is none.
    Kernel(Option<String>),
}

/// Text that names no ablation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: no such change; there are thp, tmpfs, pinning, and kernel or kernel=FILE")]
pub struct AblationError(String);

impl FromStr for Ablation {
    type Err = AblationError;

    fn from_str(text: &str) -> Result<Self, AblationError> {
        match text.split_once('=') {
            None => match text {
                "thp" => Ok(Self::HugePages),
                "tmpfs" => Ok(Self::Tmpfs),
                "pinning" => Ok(Self::Pinning),
                "kernel" => Ok(Self::Kernel(None)),
                _ => Err(AblationError(text.to_owned())),
            },
            Some(("kernel", file)) if !file.is_empty() => Ok(Self::Kernel(Some(file.to_owned()))),
            Some(_) => Err(AblationError(text.to_owned())),
        }
    }
}

impl fmt::Display for Ablation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HugePages => formatter.write_str("without huge pages"),
            Self::Tmpfs => formatter.write_str("without tmpfs"),
            Self::Pinning => formatter.write_str("without pinning"),
            Self::Kernel(None) => formatter.write_str("with the host's kernel"),
            Self::Kernel(Some(file)) => write!(formatter, "with kernel {file}"),
        }
    }
}

impl Ablation {
    /// The kind of target that has this change as far as its kind can say it. `host_kernel` is
    /// the file of the kernel that the host runs.
    ///
    /// # Errors
    /// If a target of this kind cannot have it, with the reason.
    pub(super) fn of(&self, kind: &Kind, host_kernel: &str) -> Result<Kind, &'static str> {
        let is_docker = |engine: &Engine| *engine == Engine::Docker;
        match (self, kind) {
            (Self::HugePages, Kind::Container { engine, .. }) if is_docker(engine) => {
                Err("its processes are started by a daemon")
            }
            (Self::HugePages | Self::Pinning, Kind::Vm(_)) => Err("it runs already"),
            (Self::HugePages | Self::Tmpfs | Self::Pinning, kind) => Ok(kind.clone()),
            (Self::Kernel(file), Kind::Brisk(options)) => {
                let file = file.as_deref().unwrap_or(host_kernel);
                let kernel = ["--kernel", file].map(str::to_owned);
                Ok(Kind::Brisk(options.iter().cloned().chain(kernel).collect()))
            }
            (Self::Kernel(_), _) => Err("only a guest of brisk's can be given another kernel"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_and_named() {
        let names: Vec<_> = ["thp", "tmpfs", "pinning", "kernel", "kernel=/boot/x"]
            .map(|text| text.parse::<Ablation>().unwrap().to_string())
            .into();
        insta::assert_snapshot!(names.join("\n"), @r"
        without huge pages
        without tmpfs
        without pinning
        with the host's kernel
        with kernel /boot/x
        ");
        for text in ["", "kernel=", "hugepages", "thp=1"] {
            let error = text.parse::<Ablation>().unwrap_err();
            assert!(error.to_string().contains("there are thp, tmpfs"), "{text}");
        }
    }

    #[test]
    fn a_target_has_what_it_can_have() {
        let kind = |text: &str| text.parse::<super::super::target::Target>().unwrap().kind;
        let kernel = Ablation::Kernel(None);
        let changed = kernel.of(&kind("x=brisk:--memory 1G"), "/boot/k").unwrap();
        assert_eq!(changed.to_string(), "brisk:--memory 1G --kernel /boot/k");
        assert!(kernel.of(&kind("x=runc:"), "/boot/k").is_err());
        let docker = kind("x=docker:gcc");
        assert!(Ablation::HugePages.of(&docker, "").is_err());
        assert_eq!(Ablation::Pinning.of(&docker, ""), Ok(docker));
    }
}
