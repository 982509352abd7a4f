//! Processes beside QEMU that work for a guest: swtpm, virtiofsd, passt, vhost-user back ends.
//!
//! A process of such a name works for a guest if one of its sockets is connected to one of QEMU's, or
//! if its command line has the path of the guest's socket. Anybody can write any path on a command
//! line: it is believed of root's processes and of those of QEMU's own user. One that works for
//! several guests is named, and its CPU time is nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use brisk_host::proc::Procfs;
use brisk_host::sockets;
use brisk_vm::hardware::{Backend, GuestHardware};
use serde::{Deserialize, Serialize};

use super::guests::Guest;

/// A process beside QEMU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Helper {
    /// Its number.
    pub pid: u32,
    /// What it is, such as `swtpm`.
    pub name: String,
}

/// Processes beside a guest's QEMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helpers {
    /// Those that work for this guest alone.
    pub own: Vec<Helper>,
    /// Those that work for others, too, or may.
    pub shared: Vec<Helper>,
    /// Whether the guest has devices that such a process serves, and none was found.
    pub is_missing: bool,
}

impl Helpers {
    /// Whether there is nothing to say of them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Programs that serve one guest each.
const HELPERS: &[&str] = &[
    "swtpm",
    "virtiofsd",
    "passt",
    "slirp-helper",
    "qemu-storage-daemon",
];
/// Beginnings of names of such programs: those of QEMU's `contrib`, and of rust-vmm.
const FAMILIES: &[&str] = &["vhost-user-", "vhost-device-"];
/// Programs that serve any number of guests.
const SWITCHES: &[&str] = &[
    "ovs-vswitchd",
    "vpp",
    "dpdk-testpmd",
    "testpmd",
    "spdk_tgt",
    "vhost",
    "snabb",
];

/// Number of root.
const ROOT: u32 = 0;

/// What a program beside QEMU is, by its file name: passt's is `passt.avx2` where the processor has
/// that.
fn known(program: &str) -> Option<&str> {
    let name = program.strip_suffix(".avx2").unwrap_or(program);
    let is_known = HELPERS.contains(&name)
        || SWITCHES.contains(&name)
        || FAMILIES.iter().any(|start| name.starts_with(start));
    is_known.then_some(name)
}

/// A QEMU and what it has to do with other processes.
#[derive(Debug, Default)]
pub(super) struct Qemu {
    pub(super) pid: u32,
    /// Number of the user who runs it; None if it is not known.
    pub(super) user: Option<u32>,
    /// Number of its devices that another process serves.
    pub(super) served: usize,
    /// Paths of their sockets, where they are known.
    pub(super) paths: Vec<String>,
    pub(super) sockets: Vec<u32>,
}

/// A process that may work for a guest.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) helper: Helper,
    /// Number of the user who runs it; None if it is not known.
    pub(super) user: Option<u32>,
    pub(super) words: Vec<String>,
    pub(super) sockets: Vec<u32>,
}

impl Guest {
    /// Finds the processes that work for guests, which are some or all of this host.
    pub fn find_helpers(root: &Path, guests: &mut [Self]) {
        let proc = Procfs::below(root);
        let mut pids = proc.processes().unwrap_or_default();
        pids.sort_unstable();
        let candidates: Vec<_> = pids
            .iter()
            .filter_map(|pid| candidate(&proc, *pid))
            .collect();
        // Also those that are not measured: a process may work for them.
        let qemus: Vec<_> = pids
            .iter()
            .filter_map(|pid| {
                let hardware = GuestHardware::of_process(root, *pid).ok()?;
                Some(qemu(&proc, *pid, &hardware))
            })
            .collect();
        let has_sockets = |list: &[u32]| !list.is_empty();
        let may_ask = root == Path::new("/")
            && candidates.iter().any(|one| has_sockets(&one.sockets))
            && qemus.iter().any(|one| has_sockets(&one.sockets));
        let peers = match may_ask {
            true => sockets::peers().unwrap_or_default(),
            false => BTreeMap::new(),
        };
        for (pid, helpers) in attribute(&qemus, &candidates, &peers) {
            if let Some(guest) = guests.iter_mut().find(|guest| guest.pid == pid) {
                guest.helpers = helpers;
            }
        }
    }
}

fn candidate(proc: &Procfs, pid: u32) -> Option<Candidate> {
    let words = proc.words(pid).ok()?;
    let words: Vec<_> = words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let program = Path::new(words.first()?).file_name()?.to_str()?;
    let name = known(program)?.to_owned();
    Some(Candidate {
        helper: Helper { pid, name },
        user: proc.user(pid).ok(),
        sockets: proc.sockets(pid),
        words,
    })
}

pub(super) fn qemu(proc: &Procfs, pid: u32, hardware: &GuestHardware) -> Qemu {
    let (served, paths) = served(hardware);
    Qemu {
        pid,
        user: proc.user(pid).ok(),
        served,
        paths,
        sockets: proc.sockets(pid),
    }
}

/// Devices that another process serves: how many, and the paths of their sockets.
fn served(hardware: &GuestHardware) -> (usize, Vec<String>) {
    let get = |of: &BTreeMap<String, String>, key: &str| of.get(key).cloned().unwrap_or_default();
    let is_served = |backend: &&Backend| {
        let kind = get(&backend.properties, "type");
        let object = get(&backend.properties, "qom-type");
        match &*backend.option {
            "tpmdev" => kind == "emulator",
            "netdev" => kind == "vhost-user",
            "object" => object == "cryptodev-vhost-user",
            _ => false,
        }
    };
    let backends = hardware.backends.iter();
    let by_backend = backends
        .clone()
        .filter(is_served)
        .map(|backend| get(&backend.properties, "chardev"));
    let devices = hardware.devices.iter();
    let by_device = devices
        .filter(|device| device.model.starts_with("vhost-user-"))
        .map(|device| get(&device.properties, "chardev"));
    let channels: Vec<_> = by_backend.chain(by_device).collect();
    let of_channel = |id: &String| {
        let mut list = hardware.backends.iter();
        let found = list.find(|one| one.option == "chardev" && one.id == *id);
        found.map(|channel| get(&channel.properties, "path"))
    };
    // passt has a socket of its own.
    let streams: Vec<_> = backends
        .filter(|one| one.option == "netdev" && get(&one.properties, "type") == "stream")
        .map(|one| get(&one.properties, "addr.path"))
        .collect();
    let count = channels.len() + streams.len();
    let paths = channels.iter().filter_map(of_channel).chain(streams);
    // A relative path is below a directory that is not known.
    (count, paths.filter(|path| path.starts_with('/')).collect())
}

/// Reason to believe that a process works for a QEMU, the better the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// A process of root's names the path of a socket of QEMU's.
    Rooted,
    /// A process of QEMU's user names it, or both are connected.
    Sure,
}

/// Why a process is one of a QEMU, if it is.
fn claim(candidate: &Candidate, qemu: &Qemu, peers: &BTreeMap<u32, u32>) -> Option<Claim> {
    let mut peers = candidate.sockets.iter().filter_map(|own| peers.get(own));
    if peers.any(|peer| qemu.sockets.contains(peer)) {
        return Some(Claim::Sure);
    }
    let user = candidate.user?;
    let claim = match qemu.user? {
        own if own == user => Claim::Sure,
        _ if user == ROOT => Claim::Rooted,
        _ => return None,
    };
    let is_named = qemu.paths.iter().any(|path| has_path(candidate, path));
    is_named.then_some(claim)
}

/// Helpers of each QEMU, by its process number.
pub(super) fn attribute(
    qemus: &[Qemu],
    candidates: &[Candidate],
    peers: &BTreeMap<u32, u32>,
) -> BTreeMap<u32, Helpers> {
    let mut found: BTreeMap<u32, Helpers> = BTreeMap::new();
    for candidate in candidates {
        let claims: Vec<_> = qemus
            .iter()
            .filter_map(|qemu| Some((claim(candidate, qemu, peers)?, qemu.pid)))
            .collect();
        // A QEMU of anybody's may name the socket of a helper of root's, too.
        let best = claims.iter().map(|(claim, _)| *claim).max();
        let served = claims.iter().filter(|(claim, _)| Some(*claim) == best);
        let served: BTreeSet<_> = served.map(|(_, pid)| *pid).collect();
        let is_shared = served.len() > 1 || SWITCHES.contains(&&*candidate.helper.name);
        for pid in served {
            let helpers = found.entry(pid).or_default();
            let list = match is_shared {
                true => &mut helpers.shared,
                false => &mut helpers.own,
            };
            list.push(candidate.helper.clone());
        }
    }
    for qemu in qemus.iter().filter(|qemu| qemu.served > 0) {
        let helpers = found.entry(qemu.pid).or_default();
        helpers.is_missing = helpers.own.is_empty() && helpers.shared.is_empty();
    }
    found
}

/// Whether a word is a path, or has it as a value: `--socket-path=/a`, `type=unixio,path=/a`.
fn has_path(candidate: &Candidate, path: &str) -> bool {
    let mut words = candidate.words.iter().skip(1);
    words.any(|word| word.split([',', '=']).any(|part| part == path))
}

#[cfg(test)]
mod tests;
