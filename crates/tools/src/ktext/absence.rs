//! Why a system shows no replication of its kernel's text, and what to do about it.

use std::path::{Path, PathBuf};

use brisk_host::files;

use brisk_host::kernel_config::KernelConfig;

/// Option of the kernel's configuration.
pub(super) const OPTION: &str = "CONFIG_KTEXT_REPLICATION";
/// Where debugfs is usually mounted.
pub(super) const DEBUGFS: &str = "/sys/kernel/debug";
/// Bytes of a list of mounts that are read.
const LONGEST_MOUNTS: u64 = 1 << 20;

/// Why there is no directory `ktext_repl` in debugfs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// The kernel was built without.
    #[error(
        "the kernel {release} does not replicate its text: {config} has no {OPTION}=y; boot a \
         kernel with the patch series, if brisk ktext check finds that it could be worth it"
    )]
    NotBuilt {
        /// Release of the kernel.
        release: String,
        /// File with its configuration.
        config: String,
    },
    /// Nobody but root may look.
    #[error("only root may look into {}: run it as root", .0.display())]
    Denied(PathBuf),
    /// The kernel's command line keeps debugfs away.
    #[error(
        "the kernel's command line has debugfs={0}, which keeps debugfs from being mounted: boot \
         without it"
    )]
    SwitchedOff(String),
    /// debugfs is not mounted.
    #[error("debugfs is not mounted: mount -t debugfs none {DEBUGFS}")]
    NotMounted,
    /// The kernel has it and does not show it.
    #[error(
        "the kernel has {OPTION}=y ({config}), and there is no {DEBUGFS}/ktext_repl: look for \
         ktext_repl in the kernel's log (dmesg)"
    )]
    NotShown {
        /// File with its configuration.
        config: String,
    },
    /// It is not known why.
    #[error(
        "there is no {DEBUGFS}/ktext_repl, and the kernel's configuration cannot be read: a kernel \
         with {OPTION}=y of the patch series has it"
    )]
    NotKnown,
}

impl Absence {
    /// Looks for the reason in the system below `root`, in which none of the `denied` directories, if
    /// any, could be looked into.
    pub(super) fn find(root: &Path, denied: Option<PathBuf>) -> Self {
        let line = |path: &str| {
            let text = files::text_within(&root.join(path), 4096).unwrap_or_default();
            text.trim_end().to_owned()
        };
        let release = line("proc/sys/kernel/osrelease");
        let config = KernelConfig::running(root, &release);
        if let Some(config) = config.as_ref().filter(|config| !config.has(OPTION)) {
            return Self::NotBuilt {
                release,
                config: config.path.clone(),
            };
        }
        if let Some(path) = denied {
            return Self::Denied(path);
        }
        let cmdline = line("proc/cmdline");
        let mut words = cmdline.split_whitespace();
        if let Some(value) = words.find_map(|word| word.strip_prefix("debugfs=")) {
            if matches!(value, "off" | "no-mount") {
                return Self::SwitchedOff(value.to_owned());
            }
        }
        match mounts(root) {
            Some(mounts) if mounts.is_empty() => Self::NotMounted,
            _ => match config {
                Some(config) => Self::NotShown {
                    config: config.path,
                },
                None => Self::NotKnown,
            },
        }
    }
}

/// Where debugfs is mounted in a system (proc_pid_mounts(5)); none if that cannot be read.
pub(super) fn mounts(root: &Path) -> Option<Vec<PathBuf>> {
    let text = files::text_within(&root.join("proc/mounts"), LONGEST_MOUNTS)?;
    let of_line = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        // Escapes, as of spaces, are for places that nobody uses.
        let is_it = fields.next()? == "debugfs" && path.starts_with('/') && !path.contains('\\');
        is_it.then(|| PathBuf::from(path))
    };
    Some(text.lines().filter_map(of_line).collect())
}
