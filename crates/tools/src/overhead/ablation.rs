//! One thing about a target that is changed, to see what it is worth. Pure.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use super::guest;
use super::target::{Engine, Kind};
use crate::idle::fix::{Context, Wanted, fix};
use crate::idle::rules::Host;
use crate::idle::text::Text;

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
    /// Its command line has the changes of these rules of [`super::guest`]; of all that are made
    /// unasked, if there is none.
    Fix(Vec<String>),
}

/// Facts about the host that changes of targets need.
#[derive(Debug, Clone, Default)]
pub struct Here {
    /// File of the kernel that it runs.
    pub kernel: String,
    /// What rules about guests look at.
    pub host: Host,
}

/// Text that names no ablation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: no such change; there are thp, tmpfs, pinning, kernel or kernel=FILE, fix or \
     fix=RULE+RULE"
)]
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
                "fix" => Ok(Self::Fix(Vec::new())),
                _ => Err(AblationError(text.to_owned())),
            },
            Some(("kernel", file)) if !file.is_empty() => Ok(Self::Kernel(Some(file.to_owned()))),
            Some(("fix", rules)) if rules.split('+').all(is_rule) => {
                Ok(Self::Fix(rules.split('+').map(str::to_owned).collect()))
            }
            Some(_) => Err(AblationError(text.to_owned())),
        }
    }
}

fn is_rule(name: &str) -> bool {
    guest::descriptions().iter().any(|rule| rule.id == name)
}

impl fmt::Display for Ablation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HugePages => formatter.write_str("without huge pages"),
            Self::Tmpfs => formatter.write_str("without tmpfs"),
            Self::Pinning => formatter.write_str("without pinning"),
            Self::Kernel(None) => formatter.write_str("with the host's kernel"),
            Self::Kernel(Some(file)) => write!(formatter, "with kernel {file}"),
            Self::Fix(_) => formatter.write_str("with its fixes"),
        }
    }
}

impl Ablation {
    /// The kind of target that has this change as far as its kind can say it.
    ///
    /// # Errors
    /// If a target of this kind cannot have it, with the reason.
    pub(super) fn of(&self, kind: &Kind, here: &Here) -> Result<Kind, &'static str> {
        let is_docker = |engine: &Engine| *engine == Engine::Docker;
        match (self, kind) {
            (Self::HugePages, Kind::Container { engine, .. }) if is_docker(engine) => {
                Err("its processes are started by a daemon")
            }
            (Self::HugePages | Self::Pinning, Kind::Vm(_) | Kind::Libvirt { .. }) => {
                Err("it runs already")
            }
            (Self::HugePages | Self::Tmpfs | Self::Pinning, kind) => Ok(kind.clone()),
            (Self::Kernel(file), Kind::Brisk(options)) => {
                let file = file.as_deref().unwrap_or(&here.kernel);
                let kernel = ["--kernel", file].map(str::to_owned);
                Ok(Kind::Brisk(options.iter().cloned().chain(kernel).collect()))
            }
            (Self::Fix(rules), Kind::Qemu(words)) => fixed(words, rules, here),
            (Self::Fix(_), _) => Err("only a command line of QEMU is fixed for a measurement"),
            (Self::Kernel(_), _) => Err("only a guest of brisk's can be given another kernel"),
        }
    }
}

/// A command line with the changes of rules.
fn fixed(words: &[String], rules: &[String], here: &Here) -> Result<Kind, &'static str> {
    let context = Context {
        look: guest::findings,
        host: here.host.clone(),
        ..Context::default()
    };
    let text = Text::Arguments(words.iter().map(OsString::from).collect());
    let fixed = fix(text, &context, Wanted { rules }).map_err(|_| "it cannot be read")?;
    match fixed.text {
        Text::Arguments(words) if !fixed.applied.is_empty() => {
            let words = words.into_iter().map(|word| word.into_string());
            let words: Result<_, _> = words.collect();
            words.map(Kind::Qemu).map_err(|_| "it is not text")
        }
        _ => Err("there is nothing to fix"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_and_named() {
        let names: Vec<_> = [
            "thp",
            "tmpfs",
            "pinning",
            "kernel",
            "kernel=/boot/x",
            "fix",
            "fix=guest-pinning+guest-huge-pages",
        ]
        .map(|text| text.parse::<Ablation>().unwrap().to_string())
        .into();
        insta::assert_snapshot!(names.join("\n"), @r"
        without huge pages
        without tmpfs
        without pinning
        with the host's kernel
        with kernel /boot/x
        with its fixes
        with its fixes
        ");
        for text in ["", "kernel=", "hugepages", "thp=1", "fix=nohz"] {
            let error = text.parse::<Ablation>().unwrap_err();
            assert!(error.to_string().contains("there are thp, tmpfs"), "{text}");
        }
    }

    #[test]
    fn a_target_has_what_it_can_have() {
        let kind = |text: &str| text.parse::<super::super::target::Target>().unwrap().kind;
        let kernel = Ablation::Kernel(None);
        let here = Here {
            kernel: "/boot/k".into(),
            host: Host::default(),
        };
        let changed = kernel.of(&kind("x=brisk:--memory 1G"), &here).unwrap();
        assert_eq!(changed.to_string(), "brisk:--memory 1G --kernel /boot/k");
        assert!(kernel.of(&kind("x=runc:"), &here).is_err());
        let docker = kind("x=docker:gcc");
        assert!(Ablation::HugePages.of(&docker, &here).is_err());
        let fix = Ablation::Fix(Vec::new());
        assert!(fix.of(&docker, &here).is_err());
        assert_eq!(Ablation::Pinning.of(&docker, &here), Ok(docker));
        let qemu = kind("x=qemu:qemu-system-x86_64 -accel kvm -drive file=a,cache=unsafe");
        let changed = fix.of(&qemu, &here).unwrap().to_string();
        let expected = "qemu:qemu-system-x86_64 -accel kvm -drive file=a,cache=writeback -cpu host";
        assert_eq!(changed, expected);
        let one = Ablation::Fix(vec!["guest-cpu-model".into()]);
        let changed = one.of(&qemu, &here).unwrap().to_string();
        assert!(changed.contains("cache=unsafe") && changed.ends_with("-cpu host"));
        let good = kind("x=qemu:qemu-system-x86_64 -accel kvm -cpu host");
        assert_eq!(fix.of(&good, &here), Err("there is nothing to fix"));
    }
}
