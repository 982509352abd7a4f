//! Errors of a shell in a target.

use std::io;
use std::time::Duration;

use brisk_host::program;

/// A target that does not do what is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// It ended.
    #[error("the target ended: {0}")]
    Ended(String),
    /// It did not answer in time.
    #[error("no answer within {} s{}", after.as_secs(), shown(messages))]
    Silent {
        /// How long it had.
        after: Duration,
        /// Its messages.
        messages: String,
    },
    /// Its files take too much of the host's memory.
    #[error("its files fill the host's memory: {0}")]
    Memory(String),
    /// It wrote something else than an answer.
    #[error("its output is no answer: {0:?}; something in the target writes to the shell's output")]
    Answer(String),
    /// It is not known which processes work for it.
    #[error("cannot find the processes of the target, whose CPU time is counted")]
    Process(#[source] program::Error),
    /// They are not processes of this host.
    #[error(
        "no control group of this host is that of the container ({0}): its CPU time cannot be \
         counted; does its engine run on another host, or without control groups?"
    )]
    Elsewhere(String),
    /// A console shows no prompt.
    #[error(
        "no prompt on its serial port within {0} s, after the line {1:?}; the guest needs a shell or \
         a login there, as by console=ttyS0 on its kernel's command line"
    )]
    NoPrompt(u64, String),
    /// A console wants more than brisk has.
    #[error(
        "its console asks for a password: brisk logs in as root without one; have a shell on the \
         serial port, as by agetty --autologin root"
    )]
    LogIn,
    /// The user interrupts.
    #[error("interrupted")]
    Interrupted,
    /// The system cannot do it.
    #[error("cannot talk to the target")]
    Io(#[from] io::Error),
}

/// Messages after a colon, if there are any.
pub(super) fn shown(messages: &str) -> String {
    match messages {
        "" => String::new(),
        messages => format!(": {messages}"),
    }
}
