//! One measurement on this system: threads that encrypt for a while, and what the processors did
//! meanwhile.

mod dm_crypt;
mod kernel;
pub(super) mod ktls;
mod openssl;
mod request;
mod seat;
mod threads;

use std::path::Path;
use std::time::Duration;

pub(super) use self::openssl::environment;
pub use self::request::{Group, GroupRate, Mark, Measured, NotMeasured, Proof, Request};
use self::threads::Threads;
use super::algorithm::Algorithm;
use super::device::{Lines, References};
use super::implementation::Implementation;
use super::window::Watch;
use brisk_host::interrupt::Interrupt;

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
    let before = uses_kernel(request).then(|| References::read(root));
    let threads = Threads::start(request, algorithm)?;
    threads.wait_until_ready(PREPARATION, interrupt)?;
    let mut seen = before.as_ref().map(|before| in_use(root, before));
    let watch = Watch::new(root);
    let begin = watch.begin()?;
    mark(Mark::Begin);
    threads.begin();
    let mut look = || {
        seen = before.as_ref().map(|before| in_use(root, before));
        seen.as_ref().is_none_or(|(drivers, _)| !drivers.is_empty())
    };
    let ended = threads.wait_until_ended(request.seconds, interrupt, &mut look);
    mark(Mark::End);
    let end = watch.end()?;
    ended?;
    let groups = threads.finish(interrupt)?;
    let (drivers, lines) = seen.unzip();
    let window = watch.window(&begin, &end, lines.flatten().as_ref());
    let proof = drivers.map(|drivers| Proof {
        drivers,
        device_interrupts: window.device_interrupts,
        shared_with: window.shared_with.clone(),
    });
    Ok(Measured {
        groups,
        window,
        proof,
    })
}

/// Whether threads of a request use drivers of the kernel, or may do so.
fn uses_kernel(request: &Request) -> bool {
    let mut all = request.groups.iter().map(|group| &group.implementation);
    all.any(|one| !one.is_software() && *one != Implementation::Tcp)
}

/// Drivers that the prepared threads use, and the interrupts of their devices.
fn in_use(root: &Path, before: &References) -> (Vec<String>, Option<Lines>) {
    let now = References::read(root);
    let drivers = now.risen(before);
    let modules = drivers.iter().filter_map(|driver| now.module(driver));
    let lines = modules.filter_map(|module| Lines::of_algorithms(root, module));
    let lines = lines.reduce(Lines::and);
    (drivers, lines)
}
