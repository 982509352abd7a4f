//! Requests to measure, and their results.

use serde::{Deserialize, Serialize};

use crate::crypto::af_alg::Direction;
use crate::crypto::implementation::Implementation;
use crate::crypto::window::Window;
use brisk_host::program_output::NoOutput;

/// A measurement: an operation, and threads that do it at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Direction of ciphers and AEADs.
    pub direction: Direction,
    /// Bytes of data of each operation.
    pub bytes: usize,
    /// How long; `openssl speed` takes whole seconds, and so rounds up.
    pub seconds: f64,
    /// Threads that encrypt; none, to measure an idle system.
    pub groups: Vec<Group>,
}

/// Threads that use one implementation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Implementation.
    pub implementation: Implementation,
    /// A processor for each thread; it is pinned to that.
    pub cpus: Vec<usize>,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// One for each group of the request.
    pub groups: Vec<GroupRate>,
    /// What the processors did meanwhile.
    pub window: Window,
    /// What shows which driver was at work; none if no group uses the kernel.
    pub proof: Option<Proof>,
}

/// Seconds, operations and the like beyond which no measurement gets.
const MOST: f64 = 1e18;

impl Measured {
    /// Whether its figures can be those of a measurement: it may come from another machine.
    #[must_use]
    pub(in crate::crypto) fn is_possible(&self) -> bool {
        let window = &self.window;
        let times = [window.idle, window.steal, window.interrupts, window.others];
        let of_threads = window.kernel_threads.values().copied();
        let groups = self.groups.iter();
        let rates = groups.flat_map(|group| [group.operations, group.rate, group.cpu.abs()]);
        let all = times.into_iter().chain(of_threads).chain(rates);
        // Less than a microsecond is not measured.
        (1e-6..MOST).contains(&window.seconds)
            && window.cpus <= 1 << 20
            && all
                .chain(window.joules)
                .all(|value| (0.0..MOST).contains(&value))
    }
}

/// How fast a group was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupRate {
    /// Operations of all threads together.
    pub operations: f64,
    /// Operations a second of all threads together.
    pub rate: f64,
    /// CPU seconds a second of all threads together, in user space and in the kernel for them.
    pub cpu: f64,
}

/// Evidence that a driver of the kernel was at work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Drivers that were used more than before, while the threads had their keys set. A template
    /// uses others, so there may be several.
    pub drivers: Vec<String>,
    /// Interrupts of the devices of these drivers' modules; none if they have no devices.
    pub device_interrupts: Option<u64>,
    /// Others on an interrupt line of these devices; none if all lines are their own.
    #[serde(default)]
    pub shared_with: Option<String>,
}

/// Reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum NotMeasured {
    /// The implementation cannot do it, or failed while it was measured.
    #[error("{0}")]
    Failed(String),
    /// A thread waits for an answer that does not come. It cannot be ended, and what it waits for is
    /// of no use any more.
    #[error("{0}")]
    NoAnswer(String),
    /// A signal came.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// A system call of ours failed.
    #[error("cannot measure: {0}")]
    System(#[from] std::io::Error),
}

impl From<NoOutput> for NotMeasured {
    fn from(error: NoOutput) -> Self {
        match error {
            NoOutput::Failed(error) => Self::Failed(error.to_string()),
            NoOutput::Interrupted(signal) => Self::Interrupted(signal),
        }
    }
}

/// A moment of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Everything is prepared; the threads begin.
    Begin,
    /// They are to end.
    End,
}
