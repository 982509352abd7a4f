//! Protocol with the guest: the embedded init, its script, its frames.

mod frames;
mod script;

pub use brisk_init::protocol::MAX_PAYLOAD;
pub use brisk_init::protocol::{Exit, GuestTimestamp, Kind, STDIN_WINDOW, Stage};
pub use frames::{Decoder, Event, FrameError, config_frames, frame};
pub use script::{MountFlags, Step, encode};

/// PID 1 of every guest: a static program without a C library.
pub const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));
