//! How a run ended.

use brisk_vm::guest::{Exit, Stage};

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The command ended.
    Command(Exit),
    /// Init could not do what it was told.
    Guest {
        /// What it was doing.
        stage: Stage,
        /// Number of the error.
        errno: i32,
        /// What it was working on.
        subject: String,
        /// Last lines of the console.
        console: String,
    },
    /// The guest's kernel panicked, or init gave up before it could say so on its channel.
    Panic {
        /// Last lines of the console.
        console: String,
    },
    /// QEMU ended by itself.
    QemuEnded {
        /// What it wrote to stderr.
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
    /// A signal to brisk ended it.
    Interrupted(Interrupted),
}

/// The signal that ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted(pub i32);
