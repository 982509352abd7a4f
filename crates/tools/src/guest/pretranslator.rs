//! Changing a plan so that its guest has the kernel's code translated ahead, or shows which code
//! that is.

use brisk_vm::pretranslation;
use brisk_vm::qemu::{Accelerator, Firmware, Machine, Parameter, Ram, VmConfig};

use super::facts::Facts;
use super::optimisations::{CPU, Optimisations};
use super::options::{Options, Ram as RamOption};
use super::pretranslation::Outcome;

/// Changes a plan for it, if it can be done with the host: one processor, for which there are
/// no tables in which the kernel would find another.
pub(super) fn apply(machine: &mut VmConfig, options: &Options, facts: &Facts) {
    let Some(known) = &facts.pretranslation else {
        return;
    };
    let fits = machine.accelerator == Accelerator::Tcg
        && machine.machine == Machine::Pc { acpi: false }
        && matches!(machine.firmware, Firmware::Qboot(_))
        && machine.boot.kernel == facts.image.path
        && machine.processors.count == 1
        && options.hardware.cpu.is_none()
        && options.optimisations.has(CPU)
        && !(options.persistent || options.instructions || options.trace);
    if !fits {
        return;
    }
    let usual = options.kernel.append.is_empty()
        && !options.kernel.all_initcalls
        && options.optimisations == Optimisations::All;
    match &known.outcome {
        // It would slow down what keeps the host busy, and the guest no less.
        Outcome::Code(_) if !known.spare => {}
        Outcome::Code(pretranslator) | Outcome::Waiting(pretranslator) => {
            machine.processors.pretranslator = Some(pretranslator.clone());
            let reserved = pretranslation::RESERVED;
            // First, where no `--` of the user's is before it.
            let parameter = Parameter::new(
                format!(
                    "memmap={}K${:#x}",
                    (reserved.end - reserved.start) >> 10,
                    reserved.start
                ),
                "memory of the processor that has the kernel's code translated ahead",
            );
            machine.boot.parameters.insert(0, parameter);
        }
        Outcome::None if usual && options.hardware.ram != RamOption::Private => {
            machine.processors.traced = true;
            // What the kernel has patched is read there.
            machine.memory.ram = Ram::Shared;
        }
        Outcome::None | Outcome::Impossible => {}
    }
}

/// Whether the second processor of a guest that goes on from a template is to work.
pub(crate) fn works(machine: &VmConfig, facts: &Facts) -> bool {
    machine.processors.pretranslator.is_some()
        && facts
            .pretranslation
            .as_ref()
            .is_some_and(|known| known.spare)
}
