//! QEMU: capabilities of a binary, the command line of a VM, and its control channel.

pub mod agent;
mod argv;
mod blockdev;
mod capabilities;
mod choice;
pub mod cmdline;
mod config;
pub mod control;
pub mod debugger;
mod layout;
mod machine;
mod oob;
pub mod qmp;
mod state;
pub mod watch;

pub use argv::{FILESYSTEM, ODD_SLOTS, Part, SANDBOX, argv};
pub use capabilities::{Capabilities, Error as CapabilitiesError, release};
pub use choice::{Choice, ChoiceError, Older, USUAL, choose};
pub use config::{BootPayload, Debugging, Devices, GuestMemory, Processors, VmConfig};
pub use machine::{
    Accelerator, Backing, Channels, Disk, DiskFormat, Fds, Filesystem, Firmware, Machine, Network,
    Parameter, Ram, State, Transport,
};
pub use oob::Urgent;
pub use state::{
    STATE_LIMIT, allow_late_memory, end_late_memory, load_state, loading, save_state,
    take_late_memory,
};
