//! Replication of the kernel's text on NUMA nodes, as a kernel with the patch series of
//! `CONFIG_KTEXT_REPLICATION` shows it in debugfs: which memory each node maps, which CPU runs on
//! which page tables, and whether the copies are equal to what they were copied from.
//!
//! [`Source`] reads the files, [`Status`] is what they say, [`info`], [`draw`] and [`verify`] show it.
//! [`check`] needs no such kernel: it says whether a machine could gain from one. [`bench`] measures
//! what it gains, and [`locality`] counts, in an emulated machine, from where instructions come.

mod absence;
pub mod bench;
pub mod check;
mod cpus;
pub mod draw;
pub mod emulated;
pub mod info;
pub mod locality;
mod mapping;
mod modules;
mod source;
mod stats;
mod status;
mod switch;
mod symbol;
mod table;
#[cfg(test)]
mod tests;
pub mod verify;
mod worker;

use serde::Serializer;

pub use absence::Absence;
pub use cpus::{CpuState, CpuVerdict};
pub use mapping::{Backing, Kind, Mapping};
pub use modules::ModulePart;
pub use source::{Source, SourceError};
pub use stats::Stats;
pub use status::Status;
pub use switch::{SwitchError, switch};
pub use worker::{Operation, WorkerError};

/// NUMA nodes that the kernel can have at most on x86-64 (`NODES_SHIFT` of `arch/x86/Kconfig` is at
/// most 10).
const MOST_NODES: usize = 1024;

/// A file of debugfs that is not as the kernel writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {reason}")]
pub struct FormatError {
    /// Name of the file.
    pub file: &'static str,
    /// Line in it, from 1.
    pub line: usize,
    /// The mistake.
    pub reason: String,
}

/// An address in JSON, whose numbers are not exact beyond 53 bits.
fn hexadecimal<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

/// As [`hexadecimal`], or null.
fn maybe_hexadecimal<S: Serializer>(address: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => hexadecimal(address, to),
        None => to.serialize_none(),
    }
}

/// Bytes as KiB, which the kernel and RedHawk's ktrinfo write as kB.
fn kib(bytes: u64) -> String {
    format!("{} kB", bytes.div_ceil(1024))
}

/// Bytes as KiB, MiB or GiB, which the kernel writes as kB, MB and GB.
fn amount(bytes: u64) -> String {
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..0x10_0000 => kib(bytes),
        0x10_0000..0x2_8000_0000 => format!("{:.1} MB", scaled(1 << 20)),
        _ => format!("{:.1} GB", scaled(1 << 30)),
    }
}

/// Numbers as a list of ranges, `0-3,8`, as the kernel writes lists of CPUs. They are sorted.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = rest {
        let follows = |place: &usize| {
            let number = u32::try_from(*place).ok();
            number.and_then(|number| first.checked_add(number)) == rest.get(*place).copied()
        };
        let count = (1..rest.len()).take_while(follows).count() + 1;
        let last = rest[count - 1];
        parts.push(match count {
            1 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
        rest = &rest[count..];
    }
    parts.join(",")
}
