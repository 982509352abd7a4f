//! Library that is loaded into user-mode Linux before the C library (`LD_PRELOAD`), so that it runs
//! on processors with more registers than it has room for, as those with AMX.
//!
//! User-mode Linux before 6.13 keeps a process's registers in a buffer of fixed size. The kernel
//! fills it with what fits (`PTRACE_GETREGSET` of `NT_X86_XSTATE`), but takes registers back only
//! if there is room for all of them: `xstateregs_set` of `arch/x86/kernel/fpu/regset.c` answers
//! `EFAULT`, and user-mode Linux ends. This `ptrace` adds those that did not fit, as they are in the
//! process: they are not in use, for a process may use AMX only after `arch_prctl`, which
//! user-mode Linux does not pass on.
//!
//! `preload.rs` is compiled by the build script of `brisk-tools`, which embeds the result. This
//! library holds what tests can reach.
#![no_std]

pub mod request;
