//! The machine itself, and the kernel that runs on it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use brisk_host::{files, sysfs};

/// Fields of DMI (`/sys/class/dmi/id`) that are read.
const DMI: [&str; 9] = [
    "bios_vendor",
    "board_name",
    "board_vendor",
    "chassis_asset_tag",
    "chassis_vendor",
    "product_family",
    "product_name",
    "product_version",
    "sys_vendor",
];
/// Bytes of the kernel log that are read.
const LOG: usize = 16 << 20;
/// Longest record of the kernel log (`LOG_LINE_MAX` and its prefix).
const RECORD: usize = 8192;
/// Place of `ramdisk_size` in the zero page.
const RAMDISK_SIZE: usize = 0x21c;
/// Type of boot loader that kexec says it is (`Documentation/arch/x86/boot.rst`, `type_of_loader`).
const KEXEC_LOADER: u32 = 0xd;

/// A machine and its running kernel.
#[derive(Debug, Clone, Default)]
pub struct Platform {
    /// Release of the running kernel.
    pub release: String,
    /// Its command line.
    pub cmdline: String,
    /// Whether kexec started it.
    pub was_kexec: bool,
    /// Whether a boot loader gave it an initial RAM disk; not if that is not known.
    pub had_initrd: bool,
    /// Processor, as the kernel names it.
    pub processor: String,
    /// Flaws of the processor that the kernel knows, such as `tdx_pw_mce`.
    pub flaws: Vec<String>,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// DMI fields by name.
    pub dmi: BTreeMap<String, String>,
    /// Model in the device tree.
    pub model: Option<String>,
    /// Xen, if it runs below.
    pub xen: Option<Xen>,
    /// Memory, bytes.
    pub memory: u64,
    /// Memory that programs could still get, bytes.
    pub available: u64,
    /// The kernel log; empty if it cannot be read.
    pub log: String,
}

impl Platform {
    /// Whether writes to memory of TDX may become machine checks (`X86_BUG_TDX_PW_MCE`).
    #[must_use]
    pub fn has_tdx_erratum(&self) -> bool {
        self.flaws.iter().any(|flaw| flaw == "tdx_pw_mce")
    }
}

/// Xen below a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xen {
    /// Whether this is the control domain.
    pub is_control: bool,
    /// Kind of guest: `PV`, `HVM` or `PVH`; empty if it is not known.
    pub kind: String,
}

impl Platform {
    pub(super) fn read(root: &Path, unread: &mut Vec<String>) -> Self {
        let line = |path: &str| {
            let text = files::text(&root.join(path)).unwrap_or_default();
            text.trim_end_matches(['\n', '\0']).to_owned()
        };
        let cpuinfo = line("proc/cpuinfo");
        let field = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim() == name);
            found.map_or("", |(_, value)| value.trim()).to_owned()
        };
        let memory = line("proc/meminfo");
        let loader = line("proc/sys/kernel/bootloader_type").parse::<u32>();
        let dmi = DMI.iter().filter_map(|name| {
            let text = sysfs::line(root, &format!("class/dmi/id/{name}"))?;
            Some(((*name).to_owned(), text))
        });
        Self {
            release: line("proc/sys/kernel/osrelease"),
            cmdline: line("proc/cmdline"),
            was_kexec: loader.is_ok_and(|loader| loader >> 4 == KEXEC_LOADER),
            had_initrd: had_initrd(root),
            processor: field("model name"),
            flaws: field("bugs").split(' ').map(str::to_owned).collect(),
            is_virtual: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            dmi: dmi.collect(),
            model: sysfs::line(root, "firmware/devicetree/base/model")
                .map(|model| model.trim_end_matches('\0').to_owned()),
            xen: xen(root),
            memory: of_memory(&memory, "MemTotal:"),
            available: of_memory(&memory, "MemAvailable:"),
            log: log(root).unwrap_or_else(|error| {
                unread.push(format!("the kernel log (/dev/kmsg): {error}"));
                String::new()
            }),
        }
    }
}

/// Whether `ramdisk_size` of the zero page is not 0 (`Documentation/arch/x86/zero-page.rst`,
/// `Documentation/ABI/testing/sysfs-kernel-boot_params`).
fn had_initrd(root: &Path) -> bool {
    let page = files::start(&root.join("sys/kernel/boot_params/data"), 4096).unwrap_or_default();
    let size = page.get(RAMDISK_SIZE..RAMDISK_SIZE + 4);
    size.is_some_and(|size| size.iter().any(|byte| *byte != 0))
}

/// A line of proc_meminfo(5), in bytes.
fn of_memory(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn xen(root: &Path) -> Option<Xen> {
    if sysfs::line(root, "hypervisor/type")? != "xen" {
        return None;
    }
    let capabilities = files::text(&root.join("proc/xen/capabilities")).unwrap_or_default();
    Some(Xen {
        is_control: capabilities.contains("control_d"),
        kind: sysfs::line(root, "hypervisor/guest_type").unwrap_or_default(),
    })
}

/// Messages of the kernel, one a line. Each read(2) gives one record, and an error at the end of
/// what there is (`Documentation/ABI/testing/dev-kmsg`).
fn log(root: &Path) -> io::Result<String> {
    let mut file = files::open_any(&root.join("dev/kmsg"))?;
    let mut bytes = Vec::new();
    let mut record = vec![0; RECORD];
    while bytes.len() < LOG {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) => bytes.extend(&record[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // Records were overwritten; the next read goes on behind them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
