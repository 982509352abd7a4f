//! Processors of a machine, by `/proc/cpuinfo`.

use std::collections::BTreeSet;
use std::path::Path;

use brisk_host::cpu::Cpu;

/// A machine's processors, as its kernel shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processors {
    /// Their kind.
    pub kind: Kind,
    /// Their model; empty if it is not shown.
    pub model: String,
    /// Their vendor, such as `AuthenticAMD`.
    pub vendor: String,
    /// Their features that the kernel uses, as `/proc/cpuinfo` names them.
    pub flags: BTreeSet<String>,
    /// What the kernel does about Meltdown, such as `Mitigation: PTI`.
    pub meltdown: Option<String>,
    /// What it does about Indirect Target Selection, such as `Not affected`.
    pub indirect_target_selection: Option<String>,
}

/// Kind of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There is no `/proc/cpuinfo`.
    Unknown,
    /// x86, of 32 or 64 bits.
    X86,
    /// Arm.
    Arm,
    /// Another one.
    Other,
}

impl Processors {
    /// Reads those of the system below `root`.
    pub(super) fn read(root: &Path) -> Self {
        let cpu = Cpu::below(root);
        let flags: BTreeSet<_> = cpu.flags().into_iter().map(str::to_owned).collect();
        Self {
            kind: kind(cpu.text(), flags.is_empty()),
            model: cpu.model().unwrap_or_default(),
            vendor: cpu.vendor().unwrap_or_default(),
            flags,
            meltdown: cpu.mitigation("meltdown"),
            indirect_target_selection: cpu.mitigation("indirect_target_selection"),
        }
    }
}

fn kind(cpuinfo: &str, has_no_flags: bool) -> Kind {
    if !has_no_flags {
        return Kind::X86;
    }
    if cpuinfo
        .trim_matches(|one: char| one == '\0' || one.is_whitespace())
        .is_empty()
    {
        return Kind::Unknown;
    }
    let mut lines = cpuinfo.lines();
    match lines.any(|line| line.starts_with("CPU implementer")) {
        true => Kind::Arm,
        false => Kind::Other,
    }
}
