//! Ends of a run.

use brisk_vm::guest::{Exit, Stage};

/// End of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The command ended.
    Command(Exit),
    /// Init could not execute its script.
    Guest {
        /// The stage.
        stage: Stage,
        /// Number of the error.
        errno: i32,
        /// The file or other object.
        subject: String,
        /// Last lines of the console.
        console: String,
    },
    /// The guest's kernel panicked, or init failed before it could report that on its channel.
    Panic {
        /// Last lines of the console.
        console: String,
    },
    /// QEMU ended by itself.
    QemuEnded {
        /// QEMU's stderr.
        stderr: String,
        /// Last lines of the console.
        console: String,
    },
    /// The time limit passed.
    TimedOut {
        /// Whether the command had been started.
        started: bool,
        /// Last lines of the console.
        console: String,
    },
    /// A signal to brisk ended the session.
    Interrupted(Interrupted),
}

/// The signal that ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted(pub i32);
