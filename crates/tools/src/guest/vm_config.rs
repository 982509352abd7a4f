//! The VM of a plan. Pure.

use std::path::PathBuf;

use brisk_vm::qemu::{
    Accelerator, BootPayload, Channels, Debugging, Devices, Filesystem, GuestMemory,
    Machine as QemuMachine, Network, Parameter, Processors, VmConfig,
};

use super::error::Error;
use super::facts::Facts;
use super::machine::{cpu, firmware, has_room, ram, speaks, vmlinux};
use super::options::{Net, Options};
use super::parameters::{Setting, parameters};
use super::root::Root;

/// The VM. Its initramfs is named when it is built.
pub(super) fn vm_config(
    options: &Options,
    facts: &Facts,
    machine: QemuMachine,
    serves: bool,
    filesystems: Vec<Filesystem>,
) -> Result<VmConfig, Error> {
    let accelerator = facts.accelerator.0;
    let ram = ram(options.hardware.ram, serves, facts.huge_pages, accelerator)?;
    let root = match &facts.root {
        Root::Disk { disk, .. } => Some(&**disk),
        _ => None,
    };
    let more = facts.disks.iter().map(|attached| &attached.disk);
    let disks: Vec<_> = root.into_iter().chain(more).cloned().collect();
    let cards = usize::from(options.hardware.net != Net::None);
    let balloon = reports_free_memory(options, facts);
    let devices = 1 + disks.len() + filesystems.len() + cards + usize::from(balloon);
    has_room(machine, devices)?;
    let firmware = firmware(options, facts, machine, devices)?;
    Ok(VmConfig {
        program: facts.qemu.clone(),
        version: facts.capabilities.version,
        machine,
        accelerator,
        processors: Processors {
            model: cpu(options, facts, machine),
            count: options.hardware.cpus,
            pretranslator: None,
            pretranslates: false,
            traced: false,
            instructions: options.instructions,
        },
        memory: GuestMemory {
            mib: options.hardware.memory_mib,
            ram,
            postcopy: false,
            reports_free: balloon,
            locked: options.hardware.lock_memory,
        },
        boot: BootPayload {
            kernel: if vmlinux(options, facts) {
                facts.image.path.clone()
            } else {
                facts.kernel.image.clone()
            },
            initramfs: PathBuf::new(),
            parameters: kernel_parameters(options, facts, machine, accelerator),
        },
        state: None,
        devices: Devices {
            disks,
            filesystems,
            network: match options.hardware.net {
                Net::None => Network::None,
                Net::User => Network::User,
            },
            mac: None,
            generation: None,
        },
        channels: Channels::Connected,
        debugging: Debugging {
            firmware_log: options.trace && speaks(machine, &firmware),
            debugger: false,
        },
        machine_version: None,
        firmware,
        sandbox: true,
        stopped: false,
        exit_on_reset: true,
        extra: options.hardware.qemu_args.clone(),
    })
}

/// The time stamp counter's rate under QEMU's instruction clock: one tick a nanosecond.
const INSTRUCTION_CLOCK_KHZ: u64 = 1_000_000;

fn kernel_parameters(
    options: &Options,
    facts: &Facts,
    machine: QemuMachine,
    accelerator: Accelerator,
) -> Vec<Parameter> {
    parameters(&Setting {
        accelerator,
        tsc_khz: if options.instructions {
            Some(INSTRUCTION_CLOCK_KHZ)
        } else {
            facts.tsc_khz
        },
        trace: options.trace,
        instructions: options.instructions,
        console: options.console,
        keep_going_on_panic: options.keep_going_on_panic,
        all_initcalls: options.kernel.all_initcalls,
        signed_modules: options.kernel.signed_modules,
        machine,
        no_policy: (facts.root == Root::None || !options.persistent)
            && !options.kernel.all_initcalls,
        no_cmpxchg16b: facts.capabilities.cmpxchg16b_is_wrong(),
        optimisations: &options.optimisations,
        append: &options.kernel.append,
    })
}

/// Memory that is locked cannot be given back: madvise(2) refuses it. Memory of which the host has
/// only so much may not be there again.
pub(super) fn reports_free_memory(options: &Options, facts: &Facts) -> bool {
    let stays = options.hardware.lock_memory || options.hardware.keep_memory;
    options.persistent && !stays && facts.is_in_kernel("virtio_balloon")
}
