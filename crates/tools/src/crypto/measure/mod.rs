//! One measurement on this system: threads that encrypt for a while, and what the processors did
//! meanwhile.

mod dm_crypt;
mod kernel;
pub(super) mod ktls;
mod openssl;
mod threads;

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub(super) use self::openssl::WITHOUT_INSTRUCTIONS;
use self::threads::Threads;
use super::af_alg::Direction;
use super::algorithm::Algorithm;
use super::device::{Lines, References};
use super::implementation::Implementation;
use super::window::{Watch, Window};
use crate::interrupt::Interrupt;

/// What is to be measured at once.
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
    /// Who encrypts; nobody, to measure an idle system.
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

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// One for each group of the request.
    pub groups: Vec<GroupRate>,
    /// What the processors did meanwhile.
    pub window: Window,
    /// What shows which driver was at work; none if no group uses the kernel.
    pub proof: Option<Proof>,
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

/// What shows that a driver of the kernel was at work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Drivers that were used more than before, while the threads had their keys set. A template
    /// uses others, so there may be several.
    pub drivers: Vec<String>,
    /// Interrupts of the devices of these drivers' modules; none if they have no devices.
    pub device_interrupts: Option<u64>,
}

/// Reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum NotMeasured {
    /// The implementation cannot do it, or failed while it was measured.
    #[error("{0}")]
    Failed(String),
    /// A signal came.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// A system call of ours failed.
    #[error("cannot measure: {0}")]
    System(#[from] std::io::Error),
}

/// A moment of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Everything is prepared; the threads begin.
    Begin,
    /// They are to end.
    End,
}

/// How long the preparation may take, such as the self-tests of a driver that is loaded for it.
const PREPARATION: Duration = Duration::from_secs(60);

/// Measures on the system below `root`. `mark` is called at its begin and end.
///
/// # Errors
/// If an implementation fails, or a signal comes.
pub(super) fn measure(
    root: &Path,
    request: &Request,
    interrupt: &Interrupt,
    mark: &mut dyn FnMut(Mark),
) -> Result<Measured, NotMeasured> {
    let algorithm = Algorithm::find(&request.algorithm)
        .ok_or_else(|| NotMeasured::Failed(format!("no algorithm {}", request.algorithm)))?;
    let before = References::read(root);
    let threads = Threads::start(request, algorithm)?;
    threads.wait_until_ready(PREPARATION, interrupt)?;
    let (proof, lines) = in_use(root, request, &before);
    let watch = Watch::new(root, lines);
    let begin = watch.begin()?;
    mark(Mark::Begin);
    threads.begin();
    let ended = threads.wait_until_ended(request.seconds, interrupt);
    mark(Mark::End);
    let end = watch.end()?;
    ended?;
    let groups = threads.finish()?;
    let window = watch.window(&begin, &end);
    let proof = proof.map(|drivers| Proof {
        drivers,
        device_interrupts: window.device_interrupts,
    });
    Ok(Measured {
        groups,
        window,
        proof,
    })
}

/// Drivers that the prepared threads use, and the interrupts of their devices; none if no thread
/// uses the kernel.
fn in_use(
    root: &Path,
    request: &Request,
    before: &References,
) -> (Option<Vec<String>>, Option<Lines>) {
    let uses_kernel = |group: &Group| {
        !matches!(
            group.implementation,
            Implementation::OpenSsl | Implementation::OpenSslPlain | Implementation::Tcp
        )
    };
    if !request.groups.iter().any(uses_kernel) {
        return (None, None);
    }
    let now = References::read(root);
    let drivers = now.risen(before);
    let modules = drivers.iter().filter_map(|driver| now.module(driver));
    let lines = modules.filter_map(|module| Lines::of_module(root, module));
    let lines = lines.reduce(Lines::and);
    (Some(drivers), lines)
}

/// CPU time of this thread, seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
