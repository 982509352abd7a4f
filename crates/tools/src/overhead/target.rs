//! Targets on the command line: `NAME=KIND:ARGUMENTS`. Pure.

use std::fmt;
use std::str::FromStr;

/// Something that a workload runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name in the report: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it is started.
    pub kind: Kind,
}

/// How a target is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// As a process of the host.
    Host,
    /// By words before the command, such as `ssh HOST` or `nice -n 5`.
    Command(Vec<String>),
    /// In a container of runc, whose root is the host's, read-only.
    Runc,
    /// In a container of gVisor, whose root is the host's, read-only; with further options of runsc.
    Gvisor(Vec<String>),
    /// In a container of an engine.
    Container {
        /// The engine.
        engine: Engine,
        /// Options of its `run`.
        options: Vec<String>,
        /// The image.
        image: String,
    },
    /// In user-mode Linux, whose root is the host's, read-only; with further words of its command
    /// line.
    Uml(Vec<String>),
    /// In a guest of brisk, with options of `brisk run`.
    Brisk(Vec<String>),
    /// In the guest of a QEMU that these words start, whose serial port has a shell or a login
    /// prompt that takes `root` without a password.
    Qemu(Vec<String>),
    /// In a domain of libvirt that runs already.
    Libvirt {
        /// Its name.
        domain: String,
        /// How its guest is reached.
        via: Via,
    },
    /// In a persistent VM of brisk's that runs already, by its name.
    Vm(String),
}

/// How the guest of a domain is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// By its serial console.
    Console,
    /// By its serial console, where the guest agent has started a shell: nobody logs in.
    Agent,
    /// By ssh to this host.
    Ssh(String),
}

/// An engine of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// podman(1).
    Podman,
    /// docker(1).
    Docker,
}

impl Engine {
    /// Name of its program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// Text that names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// It lacks the name.
    #[error("{0}: no name; write it before the kind, for example container=runc:")]
    NoName(String),
    /// The name has other characters.
    #[error("{0}: a name of a target has letters, digits, -, _ and . only")]
    Name(String),
    /// There is no such kind.
    #[error("{kind}: no such kind of target; there are {KINDS}")]
    Kind {
        /// The word.
        kind: String,
    },
    /// The kind lacks what it needs.
    #[error("{kind}: {lacks} is missing, for example {example}")]
    Lacks {
        /// The kind.
        kind: &'static str,
        /// What it lacks.
        lacks: &'static str,
        /// A target of this kind.
        example: &'static str,
    },
    /// The kind takes no arguments.
    #[error("{kind}: takes no arguments, and got {arguments}")]
    Arguments {
        /// The kind.
        kind: &'static str,
        /// What was given.
        arguments: String,
    },
    /// A domain is to be reached in a way that there is not.
    #[error("libvirt: {0}: no way to a guest; there are via=console, via=agent and via=ssh:HOST")]
    Via(String),
    /// The arguments are no words of a shell.
    #[error("{0}: a quotation mark has no end")]
    Quotes(String),
}

/// All kinds, for people.
const KINDS: &str = "host, command:PREFIX, runc:, gvisor:[PLATFORM or OPTIONS], \
                     podman:[OPTIONS] IMAGE, docker:[OPTIONS] IMAGE, uml:[OPTIONS], brisk:[OPTIONS], \
                     vm:NAME, libvirt:DOMAIN[,via=console|agent|ssh:HOST], qemu:COMMAND LINE";

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let no_name = || TargetError::NoName(text.to_owned());
        let (name, kind) = text.split_once('=').ok_or_else(no_name)?;
        if name.is_empty() {
            return Err(no_name());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.chars().all(is_plain) {
            return Err(TargetError::Name(name.to_owned()));
        }
        let (kind, arguments) = kind.split_once(':').unwrap_or((kind, ""));
        Ok(Self {
            name: name.to_owned(),
            kind: Kind::parse(kind, arguments)?,
        })
    }
}

impl Kind {
    fn parse(kind: &str, arguments: &str) -> Result<Self, TargetError> {
        let words =
            || shlex::split(arguments).ok_or_else(|| TargetError::Quotes(arguments.to_owned()));
        let none = |kind, parsed| match arguments.trim() {
            "" => Ok(parsed),
            arguments => Err(TargetError::Arguments {
                kind,
                arguments: arguments.to_owned(),
            }),
        };
        match kind {
            "host" => none("host", Self::Host),
            "command" => match words()? {
                words if words.is_empty() => Err(TargetError::Lacks {
                    kind: "command",
                    lacks: "the prefix",
                    example: "cloud='command:ssh HOST'",
                }),
                words => Ok(Self::Command(words)),
            },
            "runc" => none("runc", Self::Runc),
            "gvisor" => words().map(|words| Self::Gvisor(platform(words))),
            "podman" => container(Engine::Podman, words()?),
            "docker" => container(Engine::Docker, words()?),
            "uml" => words().map(Self::Uml),
            "brisk" => words().map(Self::Brisk),
            "qemu" => match words()? {
                words if words.is_empty() => Err(TargetError::Lacks {
                    kind: "qemu",
                    lacks: "the command line",
                    example: "q35='qemu:qemu-system-x86_64 -M q35 -m 2G disk.qcow2'",
                }),
                words => Ok(Self::Qemu(words)),
            },
            "libvirt" => libvirt(arguments.trim()),
            "vm" => match arguments.trim() {
                "" => Err(TargetError::Lacks {
                    kind: "vm",
                    lacks: "the name of the VM",
                    example: "shop=vm:shop",
                }),
                name => Ok(Self::Vm(name.to_owned())),
            },
            kind => Err(TargetError::Kind {
                kind: kind.to_owned(),
            }),
        }
    }
}

/// A container of an engine: options of its `run`, and then the image.
fn container(engine: Engine, mut words: Vec<String>) -> Result<Kind, TargetError> {
    match words.pop() {
        Some(image) if !image.starts_with('-') => Ok(Kind::Container {
            engine,
            options: words,
            image,
        }),
        _ => Err(TargetError::Lacks {
            kind: engine.program(),
            lacks: "the image",
            example: match engine {
                Engine::Podman => "box=podman:docker.io/library/gcc",
                Engine::Docker => "box=docker:gcc",
            },
        }),
    }
}

/// A domain, and how its guest is reached.
fn libvirt(arguments: &str) -> Result<Kind, TargetError> {
    let (domain, via) = arguments.split_once(',').unwrap_or((arguments, ""));
    if domain.is_empty() {
        return Err(TargetError::Lacks {
            kind: "libvirt",
            lacks: "the domain",
            example: "web=libvirt:web,via=ssh:root@web",
        });
    }
    let via = match via.strip_prefix("via=") {
        None if via.is_empty() => Via::Console,
        Some("console") => Via::Console,
        Some("agent") => Via::Agent,
        other => match other.and_then(|via| via.strip_prefix("ssh:")) {
            Some(host) if !host.is_empty() => Via::Ssh(host.to_owned()),
            _ => return Err(TargetError::Via(via.to_owned())),
        },
    };
    Ok(Kind::Libvirt {
        domain: domain.to_owned(),
        via,
    })
}

/// Options of runsc; a first word that is none is a platform.
fn platform(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut().filter(|word| !word.starts_with('-')) {
        *first = format!("--platform={first}");
    }
    words
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |words: &[String]| {
            let words = words
                .iter()
                .map(|word| brisk_host::program::quote(word.as_ref()));
            words.collect::<Vec<_>>().join(" ")
        };
        match self {
            Self::Host => formatter.write_str("host"),
            Self::Command(words) => write!(formatter, "command:{}", joined(words)),
            Self::Runc => formatter.write_str("runc:"),
            Self::Gvisor(words) => write!(formatter, "gvisor:{}", joined(words)),
            Self::Container {
                engine,
                options,
                image,
            } => {
                let words = [options, std::slice::from_ref(image)].concat();
                write!(formatter, "{}:{}", engine.program(), joined(&words))
            }
            Self::Uml(words) => write!(formatter, "uml:{}", joined(words)),
            Self::Brisk(words) => write!(formatter, "brisk:{}", joined(words)),
            Self::Qemu(words) => write!(formatter, "qemu:{}", joined(words)),
            Self::Libvirt { domain, via } => match via {
                Via::Console => write!(formatter, "libvirt:{domain},via=console"),
                Via::Agent => write!(formatter, "libvirt:{domain},via=agent"),
                Via::Ssh(host) => write!(formatter, "libvirt:{domain},via=ssh:{host}"),
            },
            Self::Vm(name) => write!(formatter, "vm:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        let target: Target = text.parse().unwrap();
        assert_eq!(target.name, "x-1.a_");
        // A target reads back as it is shown.
        let again: Target = format!("x-1.a_={}", target.kind).parse().unwrap();
        assert_eq!(again, target);
        target.kind
    }

    #[test]
    fn each_kind_is_read() {
        let words =
            |words: &[&str]| -> Vec<_> { words.iter().map(|word| (*word).to_owned()).collect() };
        assert_eq!(kind("x-1.a_=host"), Kind::Host);
        let prefix = words(&["ssh", "a host", "--"]);
        assert_eq!(
            kind("x-1.a_=command:ssh 'a host' --"),
            Kind::Command(prefix)
        );
        assert_eq!(kind("x-1.a_=runc:"), Kind::Runc);
        assert_eq!(kind("x-1.a_=gvisor:"), Kind::Gvisor(Vec::new()));
        let options = words(&["--platform=ptrace", "--debug"]);
        assert_eq!(
            kind("x-1.a_=gvisor:ptrace --debug"),
            Kind::Gvisor(options.clone())
        );
        assert_eq!(
            kind("x-1.a_=gvisor:--platform=ptrace --debug"),
            Kind::Gvisor(options)
        );
        let image = "registry:5000/gcc:12".to_owned();
        let engine = Engine::Podman;
        let container = |options: &[&str]| Kind::Container {
            engine,
            options: words(options),
            image: image.clone(),
        };
        assert_eq!(kind("x-1.a_=podman:registry:5000/gcc:12"), container(&[]));
        assert_eq!(
            kind("x-1.a_=podman:--memory 1g registry:5000/gcc:12"),
            container(&["--memory", "1g"])
        );
        assert_eq!(kind("x-1.a_=uml:"), Kind::Uml(Vec::new()));
        assert_eq!(kind("x-1.a_=uml"), Kind::Uml(Vec::new()));
        assert_eq!(kind("x-1.a_=uml:mem=1G"), Kind::Uml(words(&["mem=1G"])));
        let options = words(&["--memory", "1G"]);
        assert_eq!(kind("x-1.a_=brisk:--memory 1G"), Kind::Brisk(options));
        let line = words(&["qemu-system-x86_64", "-m", "1G"]);
        assert_eq!(
            kind("x-1.a_=qemu:qemu-system-x86_64 -m 1G"),
            Kind::Qemu(line)
        );
        let domain = |via| Kind::Libvirt {
            domain: "web".into(),
            via,
        };
        assert_eq!(kind("x-1.a_=libvirt:web"), domain(Via::Console));
        assert_eq!(kind("x-1.a_=libvirt:web,via=agent"), domain(Via::Agent));
        assert_eq!(
            kind("x-1.a_=libvirt:web,via=ssh:root@web"),
            domain(Via::Ssh("root@web".into()))
        );
        assert_eq!(kind("x-1.a_=vm:shop"), Kind::Vm("shop".into()));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let messages: Vec<_> = [
            "host",
            "=host",
            "a b=host",
            "x=xen:",
            "x=host:y",
            "x=command:",
            "x=docker:",
            "x=qemu:",
            "x=vm:",
            "x=libvirt:",
            "x=libvirt:web,via=ssh:",
            "x=brisk:'",
        ]
        .map(|text| text.parse::<Target>().unwrap_err().to_string())
        .into();
        insta::assert_snapshot!(messages.join("\n"), @r"
        host: no name; write it before the kind, for example container=runc:
        =host: no name; write it before the kind, for example container=runc:
        a b: a name of a target has letters, digits, -, _ and . only
        xen: no such kind of target; there are host, command:PREFIX, runc:, gvisor:[PLATFORM or OPTIONS], podman:[OPTIONS] IMAGE, docker:[OPTIONS] IMAGE, uml:[OPTIONS], brisk:[OPTIONS], vm:NAME, libvirt:DOMAIN[,via=console|agent|ssh:HOST], qemu:COMMAND LINE
        host: takes no arguments, and got y
        command: the prefix is missing, for example cloud='command:ssh HOST'
        docker: the image is missing, for example box=docker:gcc
        qemu: the command line is missing, for example q35='qemu:qemu-system-x86_64 -M q35 -m 2G disk.qcow2'
        vm: the name of the VM is missing, for example shop=vm:shop
        libvirt: the domain is missing, for example web=libvirt:web,via=ssh:root@web
        libvirt: via=ssh:: no way to a guest; there are via=console, via=agent and via=ssh:HOST
        ': a quotation mark has no end
        ");
    }
}
