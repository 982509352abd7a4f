//! Guests of brisk's own: from options and the host's facts to a plan that starts a VM.
//!
//! [`gather`] finds the facts (kernel, QEMU, virtiofsd, root) without booting anything,
//! [`Facts::probe`] tries whether KVM works, and [`plan`] decides from options and facts alone.
//! [`crate::run`], [`crate::boot`], [`crate::vm`] and [`crate::doctor`] are built on this module.

mod accelerator;
pub(crate) mod console;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod identity;
pub(crate) mod initcalls;
mod machine;
pub(crate) mod memory_directory;
pub(crate) mod optimisations;
pub(crate) mod options;
pub(crate) mod parameters;
pub(crate) mod plan;
pub(crate) mod pretranslation;
pub(crate) mod pretranslator;
mod privileges;
mod probe;
mod profile;
pub(crate) mod readahead;
pub(crate) mod root;
mod script;
mod serve;
pub(crate) mod template;
pub(crate) mod user;
mod variables;
mod vm_config;

pub use console::harmless;
pub(crate) use console::{gave_up, last_line};
pub use error::Error;
pub use facts::{Facts, gather};
pub(crate) use identity::{clock, identity};
pub use optimisations::Optimisations;
pub use options::{
    Accel, CommandOptions, ExtraDisk, Firmware, HardwareOptions, KernelOptions, LEAST_MEMORY,
    Machine, Net, Options, Pretranslate, Ram, RootOption, RootOptions, Share, User, Warm,
};
pub(crate) use plan::encoded;
pub use plan::{Part, Plan, plan};
pub(crate) use privileges::unprivileged_for;
pub use probe::gather_and_probe;
pub use profile::{Profile, ProfileError};
pub use root::Root;
pub(crate) use root::backing;
pub(crate) use serve::serve;
pub(crate) use variables::variables;
