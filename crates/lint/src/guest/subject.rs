//! A guest as rules see it.

use brisk_vm::hardware::{Form, GuestHardware};

/// What became of KVM on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kvm {
    /// There is no `/dev/kvm`.
    Absent,
    /// It may not be opened.
    Forbidden,
    /// A guest does not boot with it in time; what the trial said.
    Useless(String),
    /// A guest boots with it.
    Works,
    /// Nothing could be tried: why.
    Untried(String),
}

/// A guest, and what rules have to know of the host.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The guest's hardware.
    pub hardware: GuestHardware,
    /// What became of KVM.
    pub kvm: Kvm,
    /// Whether there is a firmware that starts kernels without looking for anything else.
    pub has_qboot: bool,
}

impl Guest {
    /// What describes it.
    pub(super) const fn description(&self) -> &'static str {
        match self.hardware.form {
            Form::Xml => "the domain",
            Form::Arguments | Form::Process => "the command line",
        }
    }
}
