//! The command of a script, and the reason why a script fails.

use crate::prepared::Relay;
use crate::protocol::Stage;
use crate::random::Generator;
use crate::spare::Spare;
use crate::sys::Text;

/// Most file systems that are released at the end.
pub(crate) const RELEASES: usize = 8;

/// Reason why init fails.
#[derive(Clone, Copy)]
pub(crate) struct Trouble<'a> {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
    pub(crate) subject: &'a [u8],
}

/// The command, with its environment.
pub(crate) struct Job<'a> {
    /// Pointers to the arguments; slot 0 is free, for a shell, and a null pointer ends it.
    pub(crate) argv: &'static mut [usize],
    pub(crate) argc: usize,
    pub(crate) envp: &'static mut [usize],
    pub(crate) envc: usize,
    pub(crate) program: Text<'a>,
    pub(crate) path: Text<'a>,
    pub(crate) terminal: Option<(u16, u16)>,
    pub(crate) user: Option<(usize, usize)>,
    /// Number of further ports for commands.
    pub(crate) ports: usize,
    /// Whether the command becomes PID 1.
    pub(crate) init: bool,
    /// A process for the command that was started in advance.
    pub(crate) spare: Option<Spare>,
    /// The random number generator, opened in advance.
    pub(crate) random: Option<Generator>,
    /// The relay, prepared in advance.
    pub(crate) relay: Option<Relay>,
    pub(crate) release: [Option<Text<'a>>; RELEASES],
}
