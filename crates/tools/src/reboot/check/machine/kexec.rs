//! What the running kernel lets load.

use std::path::Path;
use std::{fs, iter};

use brisk_host::{files, sysfs};

use crate::reboot::load::is_loaded;
use brisk_host::kernel_config::KernelConfig;

/// Bit of CAP_SYS_BOOT in a set of capabilities (capabilities(7)).
const CAP_SYS_BOOT: u32 = 22;

/// Whether and how a kernel can be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kexec {
    /// Whether the running kernel has kexec (`CONFIG_KEXEC_CORE`), as far as that is known.
    pub is_supported: bool,
    /// Whether loading is disabled until the next boot (`kernel.kexec_load_disabled`).
    pub is_disabled: bool,
    /// How often a kernel may still be loaded (`kernel.kexec_load_limit_reboot`, since Linux 6.3);
    /// none without a limit.
    pub loads_left: Option<u32>,
    /// Whether a kernel is loaded.
    pub is_loaded: bool,
    /// Whether the running kernel loads by the newer call only what is signed, also if it is not locked
    /// down (`CONFIG_KEXEC_SIG_FORCE`), as far as its configuration can be read.
    pub forces_signatures: bool,
    /// Whether the running kernel's configuration says that it has no newer call, kexec_file_load(2)
    /// (`CONFIG_KEXEC_FILE`).
    pub lacks_file_call: bool,
    /// Whether it says that of the older call, kexec_load(2) (`CONFIG_KEXEC`).
    pub lacks_older_call: bool,
    /// Whether kexec-tools make a kexec of every restart (`LOAD_KEXEC` in `/etc/default/kexec`).
    pub by_kexec_tools: bool,
    /// Whether this process may load one, as far as capabilities say.
    pub may_load: bool,
    /// Lockdown of the kernel: `none`, `integrity` or `confidentiality` (kernel_lockdown(7)); none
    /// if that is not known.
    pub lockdown: Option<String>,
    /// The container in which this process runs, in which there is no kexec.
    pub container: Option<String>,
}

impl Kexec {
    pub(super) fn read(root: &Path, unread: &mut Vec<String>) -> Self {
        let lockdown = sysfs::chosen(root, "kernel/security/lockdown");
        if lockdown.is_none() && sysfs::names(root, "kernel/security").is_empty() {
            unread.push("lockdown: securityfs is not mounted at /sys/kernel/security".to_owned());
        }
        let line = |name: &str| {
            let text = files::text(&root.join("proc/sys/kernel").join(name))?;
            Some(text.trim().to_owned())
        };
        let sysctl = |name: &str| line(name)?.parse::<i64>().ok();
        let config = KernelConfig::running(root, &line("osrelease").unwrap_or_default());
        // The line itself: a file that was cut off has none.
        let lacks = |option: &str| {
            let line = format!("# {option} is not set");
            let text = config.as_ref().map_or("", |config| &config.text);
            text.lines().any(|one| one == line)
        };
        let disabled = sysctl("kexec_load_disabled");
        let is_loaded = is_loaded(root);
        let status = files::text(&root.join("proc/self/status"));
        let is_known = [
            "proc/sys/kernel/osrelease",
            "sys/kernel/kexec_loaded",
            "sys/kernel/vmcoreinfo",
        ]
        .iter()
        .any(|path| root.join(path).exists());
        if !is_known {
            unread.push("whether the kernel has kexec: /proc/sys/kernel is not there".to_owned());
        }
        Self {
            is_supported: disabled.is_some() || is_loaded.is_some() || !is_known,
            lacks_file_call: lacks("CONFIG_KEXEC_FILE"),
            lacks_older_call: lacks("CONFIG_KEXEC"),
            forces_signatures: config
                .as_ref()
                .is_some_and(|it| it.has("CONFIG_KEXEC_SIG_FORCE")),
            by_kexec_tools: by_kexec_tools(root),
            is_disabled: disabled.is_some_and(|value| value != 0),
            loads_left: sysctl("kexec_load_limit_reboot").and_then(|left| u32::try_from(left).ok()),
            is_loaded: is_loaded.unwrap_or(false),
            may_load: status.is_none_or(|status| may_boot(&status)),
            lockdown,
            container: container(root),
        }
    }

    /// Whether the kernel takes only what is signed.
    #[must_use]
    pub fn is_locked_down(&self) -> bool {
        self.lockdown.as_deref().is_some_and(|mode| mode != "none")
    }
}

/// Whether kexec-tools before 2.0.27 load a kernel at each restart, as the scripts decide it.
fn by_kexec_tools(root: &Path) -> bool {
    let at = |path: &str| root.join(path);
    // Removing the package leaves the scripts and the settings.
    let program = ["sbin/kexec", "usr/sbin/kexec"];
    if !at("etc/init.d/kexec-load").exists() || !program.iter().any(|path| at(path).exists()) {
        return false;
    }
    let entries = fs::read_dir(at("etc/default/kexec.d"));
    let entries = entries.into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut is_on = false;
    for path in iter::once(at("etc/default/kexec")).chain(paths) {
        let settings = files::text(&path).unwrap_or_default();
        let lines = settings.lines().map(str::trim);
        let mut values = lines.filter_map(|line| line.strip_prefix("LOAD_KEXEC="));
        if let Some(value) = values.next_back() {
            is_on = value.trim_matches(['"', '\'']) == "true";
        }
    }
    is_on
}

/// Whether a process has CAP_SYS_BOOT, by its `status` (proc_pid_status(5)).
fn may_boot(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> CAP_SYS_BOOT & 1 == 1)
}

/// The namespace of processes that the kernel starts with (`PROC_PID_INIT_INO` of
/// `include/linux/proc_ns.h`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Sources: `container` of systemd's Container Interface; files that Docker and Podman make, which
/// are also in images of virtual machines that were made from containers; user_namespaces(7).
fn container(root: &Path) -> Option<String> {
    if let Some(name) = files::text(&root.join("run/systemd/container")) {
        return Some(name.trim().to_owned());
    }
    let namespace = fs::read_link(root.join("proc/self/ns/pid"));
    let is_first = namespace.is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE);
    for (file, name) in [(".dockerenv", "docker"), ("run/.containerenv", "podman")] {
        if !is_first && root.join(file).exists() {
            return Some(name.to_owned());
        }
    }
    let environment = files::text(&root.join("proc/1/environ")).unwrap_or_default();
    let mut variables = environment.split('\0');
    if let Some(name) = variables.find_map(|one| one.strip_prefix("container=")) {
        return Some(name.to_owned());
    }
    let map = files::text(&root.join("proc/self/uid_map"))?;
    let fields: Vec<_> = map.split_whitespace().collect();
    let is_whole = fields.is_empty() || fields == ["0", "0", "4294967295"];
    (!is_whole).then(|| "a user namespace".to_owned())
}
