//! Layout of a VM's memory.

use super::config::VmConfig;
use super::machine::Machine;
use brisk_image::Range;

impl VmConfig {
    /// Ranges of memory as QEMU places them: below the devices, and the rest from 4 GiB on
    /// (`pc_init1` in `hw/i386/pc_piix.c`, `pc_q35_init`, `microvm_memory_init`).
    #[must_use]
    pub fn ranges(&self) -> Vec<Range> {
        const GIB: u64 = 1 << 30;
        let bytes = self.memory.mib << 20;
        let below = match self.machine {
            Machine::Q35 if bytes >= 0xb000_0000 => 2 * GIB,
            Machine::Q35 => 0xb000_0000,
            Machine::Pc { .. } | Machine::Microvm { .. } if bytes >= 0xe000_0000 => 3 * GIB,
            Machine::Pc { .. } | Machine::Microvm { .. } => 0xe000_0000,
        };
        let low = bytes.min(below);
        let mut ranges = vec![Range {
            offset: 0,
            address: 0,
            length: low,
        }];
        if bytes > low {
            ranges.push(Range {
                offset: low,
                address: 4 * GIB,
                length: bytes - low,
            });
        }
        ranges
    }
}
