//! What starts a target.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where and on what a target runs.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Place<'a> {
    /// A directory of the target alone, on the host.
    pub(in super::super) directory: &'a Path,
    /// Name of the target's containers and groups, unique on the host.
    pub(in super::super) id: &'a str,
    /// Processors of the host.
    pub(in super::super) cpus: &'a [usize],
    /// Processors that a guest is to have, if its options do not say it.
    pub(in super::super) count: usize,
    /// The program brisk.
    pub(in super::super) brisk: &'a Path,
    /// Path of the group that a runtime of containers makes.
    pub(in super::super) group: Option<&'a str>,
    /// Bytes of the host's memory that a file system of its own may take.
    pub(in super::super) limit: Option<u64>,
    /// A directory on a disk of the host that the target is to have as `/var/tmp`; it is made if
    /// the target does not see the host's. None if it is not needed.
    pub(in super::super) disk: Option<&'a Path>,
}

/// How the shell of a target is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Channel {
    /// By pipes to its standard input and output.
    Pipes,
    /// By a terminal that is silent until a shell of brisk's answers the request 0 by itself: what
    /// is written before is lost. The shell sees the host's files, as the terminal of user-mode
    /// Linux stops when much is written to it at once.
    SilentTerminal,
    /// By a console, with messages of a boot and a prompt for a login or of a shell.
    Console,
    /// By a console on which the guest agent starts a shell.
    ConsoleOfAgent,
}

/// What starts a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Launch {
    /// The program and its arguments. The shell reads commands on standard input.
    pub(in super::super) words: Vec<OsString>,
    /// Directories that have to be made before.
    pub(in super::super) directories: Vec<PathBuf>,
    /// Files that have to be written before: path, content and mode.
    pub(in super::super) files: Vec<(PathBuf, Vec<u8>, u32)>,
    /// What removes whatever is left when the target was killed.
    pub(in super::super) cleanup: Option<Vec<OsString>>,
    /// Command that prints, as soon as the target's shell runs, the number of the process that
    /// works for it, with those below it, and the identifier that its control group has in its
    /// name; none: the processes that were started here work for it.
    pub(in super::super) process: Option<Vec<OsString>>,
    /// Whether its program makes the group of [`Place::group`] itself.
    pub(in super::super) makes_group: bool,
    /// How its shell is reached.
    pub(in super::super) channel: Channel,
    /// Whether it does not end by the end of its input.
    pub(in super::super) ends_by_signal: bool,
    /// Whether the kernel is to give its processes no huge pages.
    pub(in super::super) has_small_pages: bool,
    /// Text behind the reason, if it ends by itself.
    pub(in super::super) hint: &'static str,
}

impl Launch {
    /// A program that needs nothing.
    pub(in super::super) fn of(words: Vec<OsString>) -> Self {
        Self {
            words,
            directories: Vec::new(),
            files: Vec::new(),
            cleanup: None,
            process: None,
            makes_group: false,
            channel: Channel::Pipes,
            ends_by_signal: false,
            has_small_pages: false,
            hint: "",
        }
    }
}
