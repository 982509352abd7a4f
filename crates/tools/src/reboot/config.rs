//! Configuration of warm reboots: `reboot.toml` in brisk's directory of configuration, such as
//! `/etc/brisk/reboot.toml`. Parsing is pure.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brisk_host::files;
use brisk_host::quantity::duration;
use serde::Deserialize;
use toml::Spanned;

/// Name of the file.
pub const FILE: &str = "reboot.toml";
/// Bytes that it may have.
const LARGEST: u64 = 1 << 20;
/// Length of a name in it, bytes: more than systemd permits (`UNIT_NAME_MAX` is 256).
const LONGEST_NAME: usize = 256;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is too large to be one.
    #[error("{} has more than 1 MiB; it is to have a few lines", .0.display())]
    Large(PathBuf),
    /// No TOML, or not of this form; the message has the line.
    #[error("{}: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Reason, with the line.
        reason: String,
    },
}

/// Configuration; without a file, everything has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Section `[quiesce]`.
    pub quiesce: QuiesceConfig,
    /// Section `[vms]`.
    pub vms: VmsConfig,
}

/// Section `[vms]`: guests that are suspended before this host goes down, and resumed afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmsConfig {
    /// Names of domains of libvirt that are suspended, too.
    pub libvirt: Vec<String>,
    /// The libvirt that has them, such as `qemu:///system`; `None`: as `virsh` chooses.
    pub uri: Option<String>,
    /// Longest time for all guests to go down.
    pub deadline: Option<Duration>,
    /// Number of guests that are suspended at once.
    pub jobs: Option<u16>,
    /// Directory of memory that is kept in RAM over a warm restart.
    pub keep: Option<PathBuf>,
}

/// Section `[quiesce]`: what is released before a warm reboot, besides GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuiesceConfig {
    /// Modules to unload.
    pub modules: Vec<String>,
    /// Addresses of devices to unbind from their drivers.
    pub unbind: Vec<String>,
    /// Units to stop.
    pub stop: Vec<String>,
    /// Modules, addresses of devices, and units that are left alone.
    pub keep: Vec<String>,
    /// Longest time for one step.
    pub timeout: Duration,
}

impl Default for QuiesceConfig {
    fn default() -> Self {
        Self {
            modules: Vec::new(),
            unbind: Vec::new(),
            stop: Vec::new(),
            keep: Vec::new(),
            // More than systemd gives a unit that does not stop by itself: 90 s.
            timeout: Duration::from_secs(120),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    quiesce: QuiesceFile,
    #[serde(default)]
    vms: VmsFile,
}

/// A file of which only one section counts.
#[derive(Deserialize)]
struct OnlyVms {
    #[serde(default)]
    vms: VmsFile,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct VmsFile {
    libvirt: Vec<Spanned<String>>,
    uri: Option<Spanned<String>>,
    deadline: Option<Spanned<String>>,
    jobs: Option<Spanned<i64>>,
    keep: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct QuiesceFile {
    modules: Vec<Spanned<String>>,
    unbind: Vec<Spanned<String>>,
    stop: Vec<Spanned<String>>,
    keep: Vec<Spanned<String>>,
    timeout: Option<Spanned<String>>,
}

impl Config {
    /// Reads the file in a directory of configuration; without one, everything has its default.
    ///
    /// # Errors
    /// If it cannot be read, or is no configuration.
    pub fn read(directory: &Path) -> Result<Self, ConfigError> {
        let path = directory.join(FILE);
        // A link to nothing is no missing file: it was to be there.
        let read = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => Err(error),
            Ok(_) => files::start(&path, LARGEST + 1),
        };
        let bytes = read.map_err(|source| ConfigError::Read {
            path: path.clone(),
            source,
        })?;
        if bytes.len() as u64 > LARGEST {
            return Err(ConfigError::Large(path));
        }
        let form = |reason| ConfigError::Form {
            path: path.clone(),
            reason,
        };
        let text = String::from_utf8(bytes).map_err(|error| form(error.to_string()))?;
        Self::parse(&text).map_err(form)
    }

    /// Section `[vms]` of a file that cannot be used, if nothing is wrong with that section: guests
    /// have to go down whatever is wrong with the others.
    #[must_use]
    pub fn only_vms(directory: &Path) -> Option<VmsConfig> {
        let text = String::from_utf8(files::start(&directory.join(FILE), LARGEST).ok()?).ok()?;
        let file: OnlyVms = toml::from_str(&text).ok()?;
        file.vms.checked(&text).ok()
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// A text with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self {
            quiesce: file.quiesce.checked(text)?,
            vms: file.vms.checked(text)?,
        })
    }
}

impl QuiesceFile {
    fn checked(self, text: &str) -> Result<QuiesceConfig, String> {
        let modules = checked(
            text,
            self.modules,
            is_module,
            "is no name of a module; write one as lsmod shows it",
        )?;
        Ok(QuiesceConfig {
            modules: modules.iter().map(|name| name.replace('-', "_")).collect(),
            unbind: checked(
                text,
                self.unbind,
                is_address,
                "is no address of a PCI or virtio device; write one such as 0000:03:00.0",
            )?,
            stop: checked(
                text,
                self.stop,
                is_unit,
                "is no name of a unit; write one such as nvidia-persistenced.service",
            )?,
            keep: checked(
                text,
                self.keep,
                |name| is_module(name) || is_address(name) || is_unit(name),
                "is neither a module nor an address of a device nor a unit",
            )?,
            timeout: time(text, self.timeout)?.unwrap_or(QuiesceConfig::default().timeout),
        })
    }
}

impl VmsFile {
    fn checked(self, text: &str) -> Result<VmsConfig, String> {
        let uri = checked(
            text,
            self.uri.into_iter().collect(),
            is_uri,
            "is no URI of a libvirt; write one such as qemu:///system",
        )?;
        let keep = checked(
            text,
            self.keep.into_iter().collect(),
            |path| path.starts_with('/') && !path.contains('\0'),
            "is no absolute path of a directory; write one such as /var/lib/brisk/memory",
        )?;
        let jobs = |jobs: Spanned<i64>| {
            let number = u16::try_from(*jobs.get_ref()).ok().filter(|it| *it > 0);
            let what = "is no number of guests; write one from 1 to 65535";
            number.ok_or_else(|| wrong(text, &jobs, what))
        };
        let mut names = BTreeSet::new();
        let is_again = |name: &&Spanned<String>| !names.insert(name.get_ref().clone());
        if let Some(name) = self.libvirt.iter().find(is_again) {
            return Err(wrong(text, name, "is there already; leave it out here"));
        }
        Ok(VmsConfig {
            libvirt: checked(
                text,
                self.libvirt,
                is_domain,
                "is no name of a domain; write one as virsh list --all shows it",
            )?,
            uri: uri.into_iter().next(),
            deadline: time(text, self.deadline)?,
            jobs: self.jobs.map(jobs).transpose()?,
            keep: keep.into_iter().next().map(PathBuf::from),
        })
    }
}

fn checked(
    text: &str,
    list: Vec<Spanned<String>>,
    is_good: fn(&str) -> bool,
    what: &str,
) -> Result<Vec<String>, String> {
    let one = |value: Spanned<String>| match is_good(value.get_ref()) {
        true => Ok(value.into_inner()),
        false => Err(wrong(text, &value, what)),
    };
    list.into_iter().map(one).collect()
}

fn time(text: &str, value: Option<Spanned<String>>) -> Result<Option<Duration>, String> {
    let one = |value: Spanned<String>| {
        duration(value.get_ref())
            .filter(|time| (1..=86400).contains(&time.as_secs()))
            .ok_or_else(|| {
                let what = "is no time from 1 s to a day; write one such as \"2m\"";
                wrong(text, &value, what)
            })
    };
    value.map(one).transpose()
}

fn wrong(text: &str, value: &Spanned<impl Debug>, what: &str) -> String {
    let start = value.span().start;
    let line = 1 + text[..start].matches('\n').count();
    format!("line {line}: {:?} {what}", value.get_ref())
}

fn is_plain(name: &str, others: &[u8]) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    let starts = |first: char| first.is_ascii_alphanumeric();
    name.starts_with(starts) && name.len() <= LONGEST_NAME && name.bytes().all(is_usual)
}

fn is_module(name: &str) -> bool {
    is_plain(name, b"-_")
}

/// Names of libvirt's domains: any text without a slash or a newline. virsh takes a dash for an
/// option.
fn is_domain(name: &str) -> bool {
    let is_odd = |c: char| c == '/' || c.is_control();
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('-')
        && !name.contains(is_odd)
}

/// URIs of <https://libvirt.org/uri.html>.
fn is_uri(uri: &str) -> bool {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let starts = |first: char| first.is_ascii_alphabetic();
    scheme.starts_with(starts) && uri.len() <= 4096 && uri.chars().all(|c| c.is_ascii_graphic())
}

/// Addresses of PCI, such as `0000:03:00.0`, and of virtio, such as `virtio3`.
pub(in crate::reboot) fn is_address(name: &str) -> bool {
    is_plain(name, b":.-")
}

/// Names of systemd.unit(5).
pub(in crate::reboot) fn is_unit(name: &str) -> bool {
    const KINDS: [&str; 9] = [
        "service",
        "socket",
        "timer",
        "target",
        "path",
        "mount",
        "automount",
        "scope",
        "slice",
    ];
    let kind = name.rsplit_once('.').map(|(_, kind)| kind);
    kind.is_some_and(|kind| KINDS.contains(&kind)) && is_plain(name, b":_.\\@-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_read() {
        let text = "[quiesce]\nmodules = ['mlx5_core', 'a-b']\nunbind = ['0000:03:00.0']\n\
                    stop = ['nvidia-persistenced.service', 'a@b\\x2d.socket']\n\
                    keep = ['i915', '0000:00:02.0', 'gdm.service']\ntimeout = '30s'\n";
        let quiesce = Config::parse(text).unwrap().quiesce;
        assert_eq!(quiesce.modules, ["mlx5_core", "a_b"]);
        assert_eq!(quiesce.unbind, ["0000:03:00.0"]);
        assert_eq!(quiesce.stop.len(), 2);
        assert_eq!(quiesce.keep.len(), 3);
        assert_eq!(quiesce.timeout, Duration::from_secs(30));
        let text = "[vms]\nlibvirt = ['web', \"it's 1 domain\"]\nuri = 'qemu:///system'\n\
                    deadline = '10m'\njobs = 3\n";
        let vms = Config::parse(text).unwrap().vms;
        assert_eq!(vms.libvirt, ["web", "it's 1 domain"]);
        assert_eq!(vms.uri.as_deref(), Some("qemu:///system"));
        assert_eq!(vms.deadline, Some(Duration::from_secs(600)));
        assert_eq!(vms.jobs, Some(3));
        assert_eq!(Config::parse("").unwrap(), Config::default());
        assert_eq!(Config::parse("[quiesce]\n").unwrap(), Config::default());
    }

    #[test]
    fn errors_have_the_line_and_what_to_write() {
        for (text, parts) in [
            (
                "[quiesce]\nmodule = []\n",
                ["line 2", "unknown field `module`"],
            ),
            ("[vm]\n", ["line 1", "unknown field `vm`"]),
            ("[vms]\njobs = 0\n", ["line 2", "0 is no number of guests"]),
            ("[vms]\njobs = 70000\n", ["line 2", "65535"]),
            ("[vms]\nuri = 'system'\n", ["line 2", "qemu:///system"]),
            (
                "[vms]\nlibvirt = ['a',\n'-b']\n",
                ["line 3", "\"-b\" is no name of a domain"],
            ),
            ("[vms]\nlibvirt = [\"a\\nb\"]\n", ["line 2", "virsh"]),
            (
                "[vms]\nlibvirt = ['a', 'b',\n'a']\n",
                ["line 3", "\"a\" is there already"],
            ),
            ("[vms]\ndeadline = '0s'\n", ["line 2", "2m"]),
            (
                "[quiesce]\n\nmodules = ['x', '../y']\n",
                ["line 3", "\"../y\" is no name of a module"],
            ),
            ("[quiesce]\nmodules = ['-f']\n", ["line 2", "lsmod"]),
            (
                "[quiesce]\nunbind = ['../0000:03:00.0']\n",
                ["line 2", "0000:03:00.0"],
            ),
            (
                "[quiesce]\nstop = ['gdm']\n",
                ["line 2", "nvidia-persistenced.service"],
            ),
            (
                "[quiesce]\nstop = ['--all.service']\n",
                ["line 2", "no name of a unit"],
            ),
            ("[quiesce]\nkeep = ['a b']\n", ["line 2", "neither"]),
            ("[quiesce]\ntimeout = '0'\n", ["line 2", "2m"]),
            ("[quiesce]\ntimeout = 3\n", ["line 2", "expected a string"]),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Config::read(dir.path()).unwrap(), Config::default());
        let path = dir.path().join(FILE);
        std::fs::write(&path, "[quiesce]\nstop = [1]\n").unwrap();
        let error = Config::read(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        // A mistake in another section is no reason to forget a domain.
        let vms = "[vms]\nlibvirt = ['web']\n";
        for (text, is_good) in [
            (format!("{vms}[quiesce]\nstop = ['gdm']\n"), true),
            (format!("{vms}[quiet]\n"), true),
            (format!("{vms}jobs = 0\n"), false),
            (format!("{vms}["), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert!(Config::read(dir.path()).is_err(), "{text}");
            let names = Config::only_vms(dir.path()).map(|vms| vms.libvirt);
            assert_eq!(names, is_good.then(|| vec!["web".to_owned()]), "{text}");
        }
        std::fs::write(&path, b"\xff").unwrap();
        assert!(matches!(
            Config::read(dir.path()),
            Err(ConfigError::Form { .. })
        ));
        std::fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
        assert!(matches!(
            Config::read(dir.path()),
            Err(ConfigError::Large(_))
        ));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(
            Config::read(dir.path()),
            Err(ConfigError::Read { .. })
        ));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(
            Config::read(dir.path()),
            Err(ConfigError::Read { .. })
        ));
    }
}
