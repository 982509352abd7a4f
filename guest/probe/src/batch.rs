//! Batches of an operation, until the time for it is over.

use std::io;
use std::time::{Duration, Instant};

/// The fewest batches of an operation that has time.
const FEWEST: usize = 5;
/// The most: what they cost to keep must not count.
const MOST: usize = 10_000;
/// So many batches are to fit into the time, where the operation may choose their size.
const FITTING: u32 = 20;
/// How much larger the next batch is while a fitting size is looked for.
const GROWTH: u64 = 4;

/// How often an operation was done, and how long that took.
pub(crate) struct Batch {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

impl Batch {
    /// Times `count` operations.
    pub(crate) fn of(count: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<Self> {
        let begun = Instant::now();
        work()?;
        let time = begun.elapsed();
        Ok(Self { count, time })
    }

    fn each(&self) -> f64 {
        self.time.as_nanos() as f64 / self.count.max(1) as f64
    }
}

/// Does an operation about so many times; one whose batches have a size of their own does as many
/// as that.
pub(crate) type Work<'a> = dyn FnMut(u64) -> io::Result<Batch> + 'a;

/// Reason why an operation cannot be measured here.
pub(crate) struct Skip(pub(crate) String);

impl From<io::Error> for Skip {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// An operation, ready to be done.
pub(crate) type Prepared = Result<Box<Work<'static>>, Skip>;

/// Nanoseconds per operation.
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) best: f64,
    pub(crate) batches: usize,
}

/// Does batches for so long. The first ones, by which the size of the others is found, do not
/// count. Without time it is one batch.
pub(crate) fn measure(work: &mut Work<'_>, time: Duration) -> io::Result<Figure> {
    let mut wanted = 1;
    loop {
        let batch = work(wanted)?;
        if batch.time >= time / FITTING || batch.count != wanted {
            break;
        }
        wanted *= GROWTH;
    }
    let fewest = if time.is_zero() { 1 } else { FEWEST };
    let begun = Instant::now();
    let mut each = Vec::new();
    while each.len() < fewest || (begun.elapsed() < time && each.len() < MOST) {
        each.push(work(wanted)?.each());
    }
    each.sort_by(f64::total_cmp);
    let (low, high) = (each[(each.len() - 1) / 2], each[each.len() / 2]);
    Ok(Figure {
        median: f64::midpoint(low, high),
        best: each[0],
        batches: each.len(),
    })
}
