//! Processes that have devices open or mapped.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use brisk_host::files;
use brisk_host::proc::Procfs;
use serde::Serialize;

use super::devices::{Device, Nodes, Owner};
use super::unit::Unit;

/// Descriptors of a process that are looked at (`fs.nr_open` is 1048576 by default).
const DESCRIPTORS: usize = 1 << 20;
/// Bytes of the list of mappings of a process that are read.
const LONGEST_MAPS: u64 = 16 << 20;
/// Bytes of other files of a process that are read.
const LONGEST: u64 = 16 << 10;
/// Nodes of one process that are kept.
const MOST_NODES: usize = 64;
/// Starts the name of a buffer that is shared with devices (`dmabuffs_dname` of
/// `drivers/dma-buf/dma-buf.c`).
const BUFFER: &str = "/dmabuf:";

/// A device node or buffer that a process has open or mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hold {
    /// Path of the node, or `a buffer of` a driver.
    pub node: String,
    /// Address of its device, if it belongs to one.
    pub device: Option<String>,
    /// Module that stays in use by it; none if the driver is built in.
    pub module: Option<String>,
    /// Whether it is a buffer, of any of the graphics cards.
    pub is_buffer: bool,
}

/// A process that keeps devices in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Process number.
    pub pid: u32,
    /// Start, in clock ticks since the boot: it tells the process from a later one of its number.
    pub start_ticks: u64,
    /// Name, which the process may choose.
    pub name: String,
    /// Name of the user, or the number if it has none.
    pub user: String,
    /// Unit that it belongs to.
    pub unit: Option<Unit>,
    /// What it has open or mapped.
    pub holds: Vec<Hold>,
}

/// What processes say.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    pub(super) holders: Vec<Holder>,
    /// Services in which a process is.
    pub(super) services: BTreeSet<String>,
    /// Processes whose descriptors this user may not see.
    pub(super) hidden: usize,
}

/// Looks at all processes below a root. Those that end meanwhile are left out.
pub(super) fn read(root: &Path, nodes: &Nodes, devices: &[Device]) -> Processes {
    let mut found = Processes::default();
    let users = files::text(&root.join("etc/passwd")).unwrap_or_default();
    let procfs = Procfs::below(root);
    let mut numbers = procfs.processes().unwrap_or_default();
    numbers.sort_unstable();
    for pid in numbers {
        let directory = root.join("proc").join(pid.to_string());
        let text = |name: &str| files::text_within(&directory.join(name), LONGEST);
        let unit = Unit::of(&text("cgroup").unwrap_or_default());
        if let Some(Unit::Service(name)) = &unit {
            found.services.insert(name.clone());
        }
        let mut paths = BTreeSet::new();
        match descriptors(&directory, &mut paths) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.hidden += 1,
            _ => mappings(&directory, &mut paths),
        }
        let holds = paths.iter().filter_map(|path| hold(path, nodes, devices));
        let holds: BTreeSet<_> = holds.take(MOST_NODES).collect();
        if holds.is_empty() {
            continue;
        }
        let Ok(stat) = procfs.stat(pid) else {
            continue;
        };
        let name = text("comm").unwrap_or_default();
        found.holders.push(Holder {
            pid,
            start_ticks: stat.start_ticks,
            name: name.strip_suffix('\n').unwrap_or(&name).to_owned(),
            user: user(&text("status").unwrap_or_default(), &users),
            unit,
            holds: holds.into_iter().collect(),
        });
    }
    found
}

/// Paths of nodes, and names of buffers, that a process has open.
fn descriptors(directory: &Path, paths: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join("fd"))?.take(DESCRIPTORS) {
        // One that was closed meanwhile is no error.
        let Ok(target) = entry.and_then(|entry| Ok((fs::read_link(entry.path())?, entry))) else {
            continue;
        };
        let (target, entry) = target;
        let Some(path) = target.to_str() else {
            continue;
        };
        if path.starts_with(BUFFER) {
            let info = directory.join("fdinfo").join(entry.file_name());
            let info = files::text_within(&info, LONGEST).unwrap_or_default();
            let exporter = info.lines().find_map(|line| line.strip_prefix("exp_name:"));
            paths.insert(format!("{BUFFER}{}", exporter.unwrap_or_default().trim()));
        } else if path.starts_with("/dev/") {
            paths.insert(path.to_owned());
        }
    }
    Ok(())
}

/// Paths of nodes that a process has mapped: a mapping outlives its descriptor.
fn mappings(directory: &Path, paths: &mut BTreeSet<String>) {
    let text = files::text_within(&directory.join("maps"), LONGEST_MAPS).unwrap_or_default();
    // Address, permissions, offset, device, inode, and the path (proc_pid_maps(5)).
    let found = text
        .lines()
        .filter_map(|line| line.find(" /dev/").map(|at| &line[at + 1..]));
    paths.extend(found.map(str::to_owned));
}

fn hold(path: &str, nodes: &Nodes, devices: &[Device]) -> Option<Hold> {
    if let Some(exporter) = path.strip_prefix(BUFFER) {
        let is_module = devices
            .iter()
            .any(|one| one.module.as_deref() == Some(exporter));
        // Most drivers have the core of DRM export their buffers.
        return (exporter == "drm" || is_module).then(|| Hold {
            node: format!("a buffer of {exporter}"),
            device: None,
            module: is_module.then(|| exporter.to_owned()),
            is_buffer: true,
        });
    }
    let (device, module) = match nodes.owner(path)? {
        Owner::Module(module) => (None, Some(module.to_owned())),
        Owner::Device(address) => {
            let device = devices.iter().find(|one| one.address == address);
            let module = device.and_then(|device| device.module.clone());
            (Some(address), module)
        }
    };
    Some(Hold {
        node: path.to_owned(),
        device,
        module,
        is_buffer: false,
    })
}

/// Name of the user of a process, from its status and passwd(5).
fn user(status: &str, passwd: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uid = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or("?");
    let named = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then_some(name)
    });
    named.unwrap_or(uid).to_owned()
}
