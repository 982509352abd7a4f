//! What the kernel says about its crypto API, and about devices for it.
//!
//! Files are read below a root that tests put elsewhere. Nothing is loaded or opened that would
//! change the machine: a socket of AF_ALG or `NETLINK_CRYPTO` would load modules.

mod capabilities;
mod config;
mod devices;
mod driver;
mod flags;
pub(crate) mod glob;
mod modules;
mod netlink;
mod socket;
mod text;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use brisk_host::cpu::Cpu;

pub use capabilities::Capabilities;
pub use config::{Config, Setting};
pub use devices::Device;
pub(crate) use devices::module_of_devices;
pub use driver::Driver;
pub(crate) use driver::{chosen, of};
pub use flags::Flags;
pub use modules::{Modules, State};
pub use netlink::{Answer, Reported, parse as parse_netlink, request as netlink_request};
pub use version::{Since, Version};

/// How the flags of implementations are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagSource {
    /// The kernel told them.
    Kernel,
    /// The module `crypto_user` is not loaded.
    NotLoaded,
    /// The kernel was built without `CONFIG_CRYPTO_USER`.
    NotBuilt,
    /// They were asked for in vain; the reason.
    Failed(String),
}

/// A kernel, its devices, and what this process may do.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Release, such as `6.1.0-56-amd64`; empty if it is not known.
    pub release: String,
    /// Version of its source.
    pub version: Option<Version>,
    /// Implementations in `/proc/crypto`, in its order; None if it cannot be read.
    pub drivers: Option<Vec<Driver>>,
    /// How the flags of these are known.
    pub flags: FlagSource,
    /// Modules.
    pub modules: Modules,
    /// Devices that may do cryptography.
    pub devices: Vec<Device>,
    /// Whether there is a list of devices, `/sys/bus`.
    pub has_bus: bool,
    /// Its configuration, if it can be read.
    pub config: Option<Config>,
    /// `crypto.af_alg_restrict`; None if the kernel has no such setting now.
    pub af_alg_restrict: Option<u32>,
    /// Whether the kernel is in FIPS mode; None if there is no `/proc/sys`.
    pub is_fips: Option<bool>,
    /// Whether there is `/dev/crypto`, of cryptodev-linux; None for a tree whose `dev` was not copied.
    pub has_cryptodev: Option<bool>,
    /// Counters of `/proc/net/tls_stat`; None if kTLS is not loaded.
    pub tls: Option<BTreeMap<String, u64>>,
    /// Features of the CPU, as `/proc/cpuinfo` names them.
    pub cpu: BTreeSet<String>,
    /// Capabilities of this process.
    pub capabilities: Option<Capabilities>,
}

impl Kernel {
    /// Reads the files below `root` (`/` but for tests). The flags of implementations are not asked
    /// for.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let version = text::of(root, "proc/version").or_else(|| {
            let release = text::of(root, "proc/sys/kernel/osrelease")?;
            Some(format!("Linux version {release}"))
        });
        let version = version.unwrap_or_default();
        let release = version.split_whitespace().nth(2).unwrap_or_default();
        let release = match release.contains('/') {
            true => String::new(),
            false => release.to_owned(),
        };
        let signature = text::of(root, "proc/version_signature");
        let modules = Modules::below(root, &release);
        let devices = devices::below(root, &modules);
        let config = Config::below(root, &release);
        let drivers = text::of(root, "proc/crypto").map(|text| Driver::parse(&text));
        let setting = config
            .as_ref()
            .map(|config| config.get("CONFIG_CRYPTO_USER"));
        let flags = match (socket::is_there(root), setting) {
            (false, Some(Setting::No)) => FlagSource::NotBuilt,
            _ => FlagSource::NotLoaded,
        };
        Self {
            version: Version::parse(&version, signature.as_deref()),
            drivers,
            flags,
            modules,
            devices,
            config,
            af_alg_restrict: text::number(root, "proc/sys/crypto/af_alg_restrict"),
            // A kernel that cannot be in it does not have the file.
            is_fips: match text::number(root, "proc/sys/crypto/fips_enabled") {
                Some(number) => Some(number == 1),
                None => root.join("proc/sys").is_dir().then_some(false),
            },
            has_bus: root.join("sys/bus").is_dir(),
            has_cryptodev: has_cryptodev(root),
            tls: text::of(root, "proc/net/tls_stat").map(|text| counters(&text)),
            cpu: features(root),
            capabilities: Capabilities::below(root),
            release,
        }
    }

    /// A kernel of which nothing is known but its release, if that.
    #[must_use]
    pub fn named(release: Option<&str>) -> Self {
        let release = release.unwrap_or_default();
        Self {
            release: release.to_owned(),
            version: Version::parse(&format!("Linux version {release}"), None),
            drivers: None,
            flags: FlagSource::NotLoaded,
            modules: Modules::default(),
            devices: Vec::new(),
            has_bus: false,
            config: None,
            af_alg_restrict: None,
            is_fips: None,
            has_cryptodev: None,
            tls: None,
            cpu: BTreeSet::new(),
            capabilities: None,
        }
    }

    /// Looks at the machine: files, and flags of implementations if the kernel tells them without a
    /// module being loaded.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let root = Path::new("/");
        let mut kernel = Self::below(root);
        if socket::is_there(root) {
            match socket::dump() {
                Ok(reported) => kernel.add_flags(&reported),
                Err(error) => kernel.flags = FlagSource::Failed(error.to_string()),
            }
        }
        kernel
    }

    /// Adds what the kernel told about flags.
    pub fn add_flags(&mut self, reported: &[Reported]) {
        // The kernel cuts names to 63 bytes in these messages.
        let key = |name: &str| name.as_bytes()[..name.len().min(63)].to_vec();
        let flags: BTreeMap<_, _> = reported
            .iter()
            .map(|one| ((key(&one.name), key(&one.driver)), one.flags))
            .collect();
        for driver in self.drivers.iter_mut().flatten() {
            let found = flags.get(&(key(&driver.name), key(&driver.driver)));
            driver.flags = found.copied();
        }
        self.flags = FlagSource::Kernel;
    }

    /// What it is called, for people.
    #[must_use]
    pub fn title(&self) -> String {
        match self.release.is_empty() {
            true => "Linux, release not known".to_owned(),
            false => format!("Linux {}", self.release),
        }
    }

    /// How an option of the kernel is set; None if its configuration is not known.
    #[must_use]
    pub fn setting(&self, option: &str) -> Option<Setting> {
        self.config.as_ref().map(|config| config.get(option))
    }
}

/// Devices are made when a system starts: its tree has no `dev`, or an empty one for devtmpfs.
fn has_cryptodev(root: &Path) -> Option<bool> {
    if root.join("dev/crypto").exists() {
        return Some(true);
    }
    let is_populated = root.join("dev/null").exists();
    is_populated.then_some(false)
}

/// Lines `NAME VALUE`.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.next()?.parse().ok()?))
    });
    lines.collect()
}

/// `flags` of x86, `Features` of Arm.
fn features(root: &Path) -> BTreeSet<String> {
    let cpu = Cpu::below(root);
    let of_x86 = cpu.flags();
    if !of_x86.is_empty() {
        return of_x86.into_iter().map(str::to_owned).collect();
    }
    let text = text::of(root, "proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Features"));
    let words = line.and_then(|line| line.split_once(':'));
    let words = words.map(|(_, words)| words.split_whitespace().map(str::to_owned));
    words.into_iter().flatten().collect()
}
