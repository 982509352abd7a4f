//! Names in reports.

use brisk_measure::{Report, Series};

/// Name of the metric that is compared: wall-clock time by the host's clock.
pub const TIME: &str = "time";
/// Name of the metric of CPU time, on the host.
pub const CPU: &str = "CPU of the host";
/// Names of the parts of an account, in its order.
pub const PARTS: [&str; 7] = [
    "guest mode",
    "user",
    "system",
    "waiting",
    "idle",
    "steal",
    "rest",
];
/// Name of the metric of the time by the target's own clock.
pub const OWN: &str = "own clock";
/// Name of the metric of by how much the lines of begin and end say another time than the clock of the
/// shell.
pub(super) const OFF: &str = "error of the lines";
/// Name of the metric of pages that were swapped in and out.
pub const SWAPPED: &str = "pages swapped";
/// Name of the metric of times that say little, since other programs had the processors.
pub const DISTURBED: &str = "time of dropped runs";
/// Name of the metric of how long the host takes for a fixed number of instructions, before a run.
pub const SPEED: &str = "speed of the processor";
/// Names of the metrics of what the target's own kernel counts. Page faults and calls are those of
/// the work; processes and context switches are those of all that its kernel runs.
pub const COUNTS: [&str; 5] = [
    "page faults",
    "major page faults",
    "calls of read and write",
    "processes started",
    "context switches",
];
/// Name of the part of an account in which a target waits.
pub(super) const WAITING: &str = PARTS[3];
/// Name of the part that a hypervisor below the host gave to others.
pub(super) const STEAL: &str = PARTS[5];
/// Name of the part that the others leave over.
pub(super) const REST: &str = PARTS[6];
/// Name of the fact of a report that lists the processors.
pub const PROCESSORS: &str = "processors used";

/// Name of the fact that says how its times are taken.
pub(super) const TIMES: &str = "times";
/// By its shell, which has the host's clock.
pub(super) const BY_CLOCK: &str = "by the host's clock, where they happen";
/// By what comes from it.
pub(super) const BY_LINES: &str = "by the host's clock, as its lines of begin and end come";

/// The series of a side and a metric.
pub(super) fn series<'a>(report: &'a Report, side: &str, metric: &str) -> Option<&'a Series> {
    let name = format!("{side}: {metric}");
    report.series.iter().find(|series| series.name == name)
}
