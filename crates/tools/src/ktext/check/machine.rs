//! Facts of a machine. Only files below a root are read.

use std::path::Path;

use brisk_host::{files, modules, sysfs};
use serde::Serialize;

use super::nodes::Node;
use super::processors::Processors;
use crate::ktext::absence::OPTION;
use crate::ktext::status::release;
use crate::ktext::{Source, SourceError, Stats};
use brisk_host::kernel_config::KernelConfig;

/// Option of older kernels that has them encrypt memory without a word on the command line.
const ENCRYPTS: &str = "CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT";
/// Entries of `/proc` that are counted at most (`PID_MAX_LIMIT` of `include/linux/threads.h`).
const MOST_PROCESSES: usize = 4 << 20;

/// A machine, as far as it matters for replication of its kernel's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Release of the running kernel; empty if it cannot be read.
    pub release: String,
    /// The first two numbers of that.
    pub version: Option<(u32, u32)>,
    /// Its command line.
    pub cmdline: String,
    /// Whether it was built with replication; none if its configuration cannot be read.
    pub is_built: Option<bool>,
    /// File with its configuration.
    pub config: Option<String>,
    /// Whether that has memory encrypted on processors of AMD's unless the command line says otherwise;
    /// none if it cannot be read.
    pub encrypts_by_default: Option<bool>,
    /// What it says about replication.
    pub replication: Replication,
    /// Its processors.
    pub processors: Processors,
    /// Why this is a guest of Hyper-V, if it is one: what shows it.
    pub hyper_v: Option<&'static str>,
    /// Kind of guest of Xen, such as `PV`, if it is one.
    pub xen: Option<String>,
    /// What shows a guest with memory that its host cannot read, if there is something.
    pub encrypted_guest: Option<&'static str>,
    /// Whether the kernel shows devices at all: a copy of files may lack them.
    pub has_sysfs: bool,
    /// NUMA nodes.
    pub nodes: Vec<Node>,
    /// Sizes of the kernel.
    pub image: Image,
    /// Memory of modules, bytes; none if it cannot be read.
    pub modules: Option<u64>,
    /// Processes, threads of the kernel among them; none if not all of them are shown.
    pub processes: Option<u64>,
    /// Device that a hibernated system is resumed from, if there is one.
    pub resume: Option<String>,
    /// Facts that could not be read, each with the reason.
    pub unread: Vec<String>,
}

/// What the running kernel says about replication of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replication {
    /// Nothing, for this reason.
    Absent(String),
    /// Its counts.
    Present(Box<Stats>),
}

/// Sizes of what would be copied of the kernel, bytes; none where they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Instructions.
    pub text: Option<u64>,
    /// Read-only data.
    pub rodata: Option<u64>,
}

impl Machine {
    /// Reads the machine whose tree is below `root`: `/`, or a captured one.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut unread = Vec::new();
        let line = |path: &str| {
            let text = files::text_within(&root.join(path), 64 << 10).unwrap_or_default();
            text.trim_end_matches(['\n', '\0']).to_owned()
        };
        let processors = Processors::read(root);
        let release = release(root);
        let config = KernelConfig::running(root, &release);
        let modules = modules::memory(root);
        if modules.is_none() {
            unread.push("memory of modules: /proc/modules is not there".to_owned());
        }
        let processes = processes(root);
        if processes.is_none() {
            unread.push("number of processes: /proc does not show all of them".to_owned());
        }
        Self {
            cmdline: line("proc/cmdline"),
            is_built: config.as_ref().map(|config| config.has(OPTION)),
            encrypts_by_default: config.as_ref().map(|config| config.has(ENCRYPTS)),
            config: config.map(|config| config.path),
            replication: replication(root),
            hyper_v: hyper_v(root),
            xen: xen(root),
            encrypted_guest: encrypted_guest(root, &processors),
            image: image(root, &mut unread),
            modules,
            processes,
            resume: resume(root),
            version: version(&release),
            release,
            processors,
            has_sysfs: root.join("sys/devices/system").is_dir(),
            nodes: Node::read_all(root),
            unread,
        }
    }

    /// Whether the kernel uses a feature of the processors.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.processors.flags.contains(flag)
    }
}

fn replication(root: &Path) -> Replication {
    let stats = Source::find(root).and_then(|source| source.parsed("stats", Stats::parse));
    match stats {
        Ok(stats) => Replication::Present(Box::new(stats)),
        Err(error @ SourceError::Absent(_)) => Replication::Absent(error.to_string()),
        Err(error) => Replication::Absent(format!("its files cannot be used: {error}")),
    }
}

/// The first two numbers of a release such as `6.12.117+deb13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|one: char| !one.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// The driver of Hyper-V's bus is there in its guests alone (`hv_acpi_init` of
/// `drivers/hv/vmbus_drv.c`), and so are its clocks.
fn hyper_v(root: &Path) -> Option<&'static str> {
    let clocks = "devices/system/clocksource/clocksource0/available_clocksource";
    if root.join("sys/bus/vmbus").is_dir() {
        return Some("/sys/bus/vmbus is there");
    }
    let clocks = sysfs::line(root, clocks)?;
    clocks
        .contains("hyperv_clocksource")
        .then_some("/sys/devices/system/clocksource has a clock of Hyper-V's")
}

fn xen(root: &Path) -> Option<String> {
    let is_xen = sysfs::line(root, "hypervisor/type")? == "xen";
    is_xen.then(|| sysfs::line(root, "hypervisor/guest_type").unwrap_or_default())
}

/// A guest of SEV or SEV-ES alone has no file that says so.
fn encrypted_guest(root: &Path, processors: &Processors) -> Option<&'static str> {
    if processors.flags.contains("tdx_guest") {
        return Some("/proc/cpuinfo: flags have tdx_guest");
    }
    let is_snp = root.join("sys/devices/platform/sev-guest").is_dir();
    is_snp.then_some("/sys/devices/platform/sev-guest is there")
}

/// Sizes by `/proc/iomem` (`code_resource` and `rodata_resource` of `arch/x86/kernel/setup.c`).
fn image(root: &Path, unread: &mut Vec<String>) -> Image {
    let Some(text) = files::text_within(&root.join("proc/iomem"), 4 << 20) else {
        unread.push("size of the kernel: /proc/iomem is not there".to_owned());
        return Image::default();
    };
    let size = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" : "));
        let (range, _) = lines.find(|(_, of)| *of == name)?;
        let (first, last) = range.trim().split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        // To other users than root all are 0.
        (last > 0).then_some(last.checked_sub(first)?.checked_add(1)?)
    };
    let image = Image {
        text: size("Kernel code"),
        rodata: size("Kernel rodata"),
    };
    if image.text.is_none() {
        unread.push("size of the kernel: /proc/iomem shows it to root alone".to_owned());
    } else if image.rodata.is_none() {
        unread.push("size of the kernel's read-only data: /proc/iomem does not show it".to_owned());
    }
    image
}

/// None without the first process: a copy of files, or `/proc` that hides other users' processes
/// (`hidepid` of proc(5)).
fn processes(root: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(root.join("proc"));
    let entries = entries.into_iter().flatten().flatten();
    let numbers = entries.filter(|entry| {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        bytes.iter().all(u8::is_ascii_digit)
    });
    let count = numbers.take(MOST_PROCESSES).count() as u64;
    root.join("proc/1").exists().then_some(count)
}

/// `/sys/power/resume` is `0:0` without one (`Documentation/ABI/testing/sysfs-power`).
fn resume(root: &Path) -> Option<String> {
    let device = sysfs::line(root, "power/resume")?;
    (device != "0:0" && !device.is_empty()).then_some(device)
}
