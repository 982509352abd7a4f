//! QEMU for a rehearsal, and what executes its instructions.

use std::fs::OpenOptions;
use std::path::PathBuf;

use brisk_vm::cache::Cache;
use brisk_vm::qemu::{self, Accelerator, Capabilities, ChoiceError, USUAL};

use crate::guest::{self, Accel, Options, RootOption};

/// A QEMU that was chosen.
#[derive(Debug)]
pub(super) struct Emulator {
    pub(super) path: PathBuf,
    pub(super) capabilities: Capabilities,
    pub(super) accelerator: Accelerator,
}

impl Emulator {
    /// Chooses one. KVM is taken where a guest of brisk's boots with it: that `/dev/kvm` can be
    /// opened says little.
    pub(super) fn choose(
        cache: &Cache,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, ChoiceError> {
        let choice = qemu::choose(USUAL, cache)?;
        Ok(Self {
            path: choice.path,
            capabilities: choice.capabilities,
            accelerator: accelerator(cache, progress),
        })
    }
}

fn accelerator(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Accelerator {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    if opened.is_err() {
        return Accelerator::Tcg;
    }
    let mut options = Options::default();
    options.root.source = RootOption::None;
    options.hardware.accel = Accel::Auto;
    match guest::gather_and_probe(&options, cache, progress) {
        Ok(facts) => facts.accelerator.0,
        // Without a kernel that brisk can boot, it cannot be tried.
        Err(_) => Accelerator::Tcg,
    }
}
