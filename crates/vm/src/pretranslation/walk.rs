//! Check whether a processor that jumps to a block comes back, without an effect other than time.

use std::collections::{HashMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, OpKind};

use super::kernel::Kernel;

/// Most instructions on a path.
const DEEPEST: u32 = 500;

/// Follows paths, and caches the results.
pub(super) struct Walker<'a> {
    kernel: &'a Kernel<'a>,
    /// Numbers of the virtual pages that are mapped.
    pages: HashSet<u64>,
    known: HashMap<u64, Known>,
    info: InstructionInfoFactory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Being followed: a path that comes here again is a loop.
    Open,
    Safe,
    Unsafe,
}

/// Destination of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// An exception.
    Fault,
    /// One address, or either of two.
    To(u64, Option<u64>),
    /// A destination from which the processor does not come back.
    Away,
}

impl<'a> Walker<'a> {
    /// A processor for which the pages of these addresses are mapped, and no others.
    pub(super) fn new(kernel: &'a Kernel<'a>, addresses: &[u64]) -> Self {
        Self {
            kernel,
            pages: addresses.iter().map(|address| address >> 12).collect(),
            known: HashMap::new(),
            info: InstructionInfoFactory::new(),
        }
    }

    /// Whether every path from an address leads to an exception, and has no other effect before.
    pub(super) fn is_safe(&mut self, address: u64) -> bool {
        self.follow(address, 0)
    }

    fn follow(&mut self, address: u64, depth: u32) -> bool {
        if !self.pages.contains(&(address >> 12)) {
            return true;
        }
        match self.known.get(&address) {
            Some(Known::Safe) => return true,
            Some(Known::Open | Known::Unsafe) => return false,
            None if depth == DEEPEST => return false,
            None => {}
        }
        self.known.insert(address, Known::Open);
        let kernel = self.kernel;
        let mut forms = kernel.forms(address).peekable();
        let safe = forms.peek().is_some()
            && forms.all(|bytes| match self.step(address, bytes) {
                Step::Fault => true,
                Step::Away => false,
                Step::To(one, other) => {
                    self.follow(one, depth + 1)
                        && other.is_none_or(|other| self.follow(other, depth + 1))
                }
            });
        let known = if safe { Known::Safe } else { Known::Unsafe };
        self.known.insert(address, known);
        safe
    }

    fn step(&mut self, address: u64, bytes: &[u8]) -> Step {
        let options = DecoderOptions::NONE;
        let instruction = Decoder::with_ip(64, bytes, address, options).decode();
        let away = changes_the_machine(&instruction)
            || self.crosses(&instruction)
            || self.names_code(&instruction);
        if away {
            return Step::Away;
        }
        let next = instruction.next_ip();
        let flow = instruction.flow_control();
        if matches!(flow, FlowControl::Exception | FlowControl::Interrupt) {
            return Step::Fault;
        }
        if self.accesses_memory(&instruction) {
            return Step::Fault;
        }
        match flow {
            FlowControl::Next => Step::To(next, None),
            FlowControl::UnconditionalBranch => Step::To(instruction.near_branch_target(), None),
            FlowControl::ConditionalBranch => {
                Step::To(instruction.near_branch_target(), Some(next))
            }
            _ => Step::Away,
        }
    }

    /// Whether part of the instruction is on a page that is not mapped, which is a fault, or whose
    /// bytes are unknown.
    fn crosses(&self, instruction: &Instruction) -> bool {
        let last = instruction.next_ip().wrapping_sub(1);
        last >> 12 != instruction.ip() >> 12 && !self.pages.contains(&(last >> 12))
    }

    /// Whether the instruction has the address of code in it, which can be read: after it an access
    /// to memory need not be a fault.
    fn names_code(&self, instruction: &Instruction) -> bool {
        let is_code = |address: u64| self.pages.contains(&(address >> 12));
        let memory = instruction.memory_displacement64();
        (0..instruction.op_count()).any(|operand| match instruction.op_kind(operand) {
            OpKind::Memory => is_code(memory),
            OpKind::Immediate32to64 | OpKind::Immediate64 => {
                is_code(instruction.immediate(operand))
            }
            _ => false,
        })
    }

    /// Whether the instruction accesses memory in any case: a repeated one may have a count of
    /// zero. As all registers have values computed from zero, that is a fault.
    fn accesses_memory(&mut self, instruction: &Instruction) -> bool {
        let info = self.info.info(instruction);
        info.used_memory().iter().any(|memory| {
            matches!(
                memory.access(),
                OpAccess::Read | OpAccess::Write | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        })
    }
}

/// Whether an instruction does more than compute, or is unknown.
fn changes_the_machine(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    instruction.code() == Code::INVALID
        || instruction.is_privileged()
        || matches!(
            instruction.mnemonic(),
            M::Syscall
                | M::Sysenter
                | M::Sysret
                | M::Sysexit
                | M::Iretq
                | M::Iretd
                | M::Iret
                | M::Hlt
                | M::Monitor
                | M::Mwait
                | M::Monitorx
                | M::Mwaitx
                | M::Swapgs
                | M::Clac
                | M::Stac
                | M::Vmcall
                | M::Vmmcall
                | M::Pause
                | M::Popf
                | M::Popfd
                | M::Popfq
        )
        || (0..instruction.op_count()).any(|operand| {
            let register = instruction.op_register(operand);
            register.is_cr() || register.is_dr() || register.is_segment_register()
        })
}
