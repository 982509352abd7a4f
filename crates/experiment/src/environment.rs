//! Environment of measurements on this host.

use std::fs;
use std::path::Path;

use brisk_host::cpu::Cpu;
use brisk_host::proc::Procfs;
use brisk_measure::Environment;

/// Environment now; facts that cannot be read are unknown.
#[must_use]
pub fn here() -> Environment {
    let (cpu, proc) = (Cpu::below(Path::new("/")), Procfs::default());
    Environment {
        host: fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|text| text.trim().to_owned()),
        cpu_model: cpu.model(),
        logical_cpus: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        memory: proc.memory(),
        host_kernel: Some(brisk_host::kernel::running()),
        governor: cpu.governor(),
        mitigations: cpu.mitigations(),
        load: proc.load().map(|load| load.minute),
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ..Environment::default()
    }
}
