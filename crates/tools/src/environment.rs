//! What this machine is, as far as it matters for numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use brisk_measure::Environment;

/// This machine now; what cannot be read stays unknown.
#[must_use]
pub fn here() -> Environment {
    let read = |path: &str| fs::read_to_string(path).ok();
    let field = |path: &str, name: &str| {
        let text = read(path)?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Environment {
        host: read("/proc/sys/kernel/hostname").map(|text| text.trim().to_owned()),
        cpu_model: field("/proc/cpuinfo", "model name"),
        logical_cpus: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        memory: field("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
            .map(|kib| kib * 1024),
        host_kernel: Some(brisk_host::kernel::running()),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|text| text.trim().to_owned()),
        mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
        load: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ..Environment::default()
    }
}

/// Where brisk keeps what outlives a command and is no cache: `/var/lib/brisk` for root, else by
/// the XDG base directories. None where the environment names none: a directory that anybody could
/// make first is no substitute, for a profile that is in it decides about kernels.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    brisk_vm::state::default_dir(root, |name| std::env::var_os(name).map(PathBuf::from))
}

fn mitigations(directory: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(entry.path()).ok()?;
            let text = text.trim();
            (text != "Not affected").then(|| (name, text.to_owned()))
        })
        .collect()
}
