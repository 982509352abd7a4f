//! Whether an offload is worth it for a consumer, and the configuration that it then needs. Pure.
//!
//! An offload is recommended where it takes less wall-clock time and less CPU time of the whole
//! system, from a size on that the consumer has, and where nothing is in the consumer's way to the
//! driver. Nothing is recommended by what is not known.

pub mod check;
mod gain;
mod obstacle;
mod openssl_cnf;
mod pieces;
mod render;
#[cfg(test)]
mod tests;
mod whose;

use std::fmt;

use super::bench::TOO_BUSY;
use super::explain::Route;
use super::fit::{Crossover, Metric};
use super::list::Consumer;
use super::{Algorithm, Implementation, Machine};

pub use gain::Gain;
pub use obstacle::Obstacle;
pub use pieces::Piece;
pub use render::text;
pub use whose::{Whose, whose};

/// What decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Wall-clock time and CPU time of the whole system.
    Both,
    /// Wall-clock time.
    Time,
    /// CPU time of the whole system.
    Cpu,
}

impl By {
    /// Quantities that have to be less.
    #[must_use]
    pub const fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Both => &[Metric::Time, Metric::WholeSystemCpu],
            Self::Time => &[Metric::Time],
            Self::Cpu => &[Metric::WholeSystemCpu],
        }
    }
}

/// A quantity of both implementations over the size of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Quantity.
    pub metric: Metric,
    /// Comparison.
    pub crossover: Crossover,
}

/// Facts about a measurement besides its figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Where the figures are, such as `report x.json`.
    pub source: String,
    /// OpenSSL that was measured, such as `OpenSSL 3.0.19`.
    pub openssl: Option<String>,
    /// CPUs that other programs used in a run at most.
    pub others: Option<f64>,
    /// What shows that a driver did the offload's work at the largest size.
    pub proof: Option<String>,
}

/// A question: is an offload worth it for a consumer, and what is to be configured?
#[derive(Debug)]
pub struct Question<'a> {
    /// The machine that is to be configured; of one that cannot be looked at, what its figures name.
    pub machine: &'a Machine,
    /// Why it cannot be looked at.
    pub unseen: Option<&'a Obstacle>,
    /// Algorithm.
    pub algorithm: &'static Algorithm,
    /// Consumer.
    pub route: Route,
    /// What was measured as the offload; none if its name is not an implementation's.
    pub offload: Option<&'a Implementation>,
    /// Quantities that were measured.
    pub compared: &'a [Compared],
    /// What decides.
    pub by: By,
    /// What else is known.
    pub facts: &'a Facts,
    /// Permissions of `/dev/crypto`, as in `st_mode`; none if it is not there.
    pub cryptodev_mode: Option<u32>,
}

/// Whether it is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// From a size on, in bytes.
    From(u64),
    /// It is not, or cannot be used.
    Not,
    /// A fact is missing. Nothing is recommended.
    Unknown,
}

impl Worth {
    /// Whether it is worth it.
    #[must_use]
    pub const fn is_from(self) -> bool {
        matches!(self, Self::From(_))
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(bytes) => write!(formatter, "from {bytes} B"),
            Self::Not => formatter.write_str("no"),
            Self::Unknown => formatter.write_str("unknown"),
        }
    }
}

/// Answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// Whether it is worth it.
    pub worth: Worth,
    /// The answer in one sentence.
    pub headline: String,
    /// What to do about what is in the way.
    pub fix: Option<String>,
    /// What each quantity says, in sentences.
    pub reasons: Vec<String>,
    /// Pieces of configuration for it; or, where it is not worth it and the kernel prefers it all the
    /// same, those that leave it out.
    pub pieces: Vec<Piece>,
    /// Remarks on their use and limits.
    pub remarks: Vec<String>,
}

impl Recommendation {
    fn take(&mut self, made: pieces::Pieces) {
        self.pieces = made.pieces;
        self.remarks = made.remarks;
    }
}

/// Most that a consumer hands over at once.
#[derive(Debug, Clone, Copy)]
struct Limit {
    bytes: u64,
    what: &'static str,
}

/// Answers.
#[must_use]
pub fn recommend(question: &Question<'_>) -> Recommendation {
    let sentences = question.compared.iter();
    let reasons = sentences.map(|one| one.crossover.sentence(one.metric));
    let mut answer = Recommendation {
        worth: Worth::Not,
        headline: String::new(),
        fix: None,
        reasons: reasons.collect(),
        pieces: Vec::new(),
        remarks: Vec::new(),
    };
    // What cannot be used is not worth it whatever it takes.
    if let Some(obstacle) = obstacle::of(question) {
        answer.worth = match obstacle.is_certain {
            true => Worth::Not,
            false => Worth::Unknown,
        };
        answer.headline = match obstacle.is_certain {
            true => format!("Do not: {}", obstacle.cause),
            false => format!("No recommendation: {}", obstacle.cause),
        };
        answer.fix = obstacle.fix;
        return answer;
    }
    let from = match from(question) {
        Ok(from) => from,
        Err(no) => {
            answer.worth = no.worth;
            answer.headline = no.headline;
            if no.is_worse {
                answer.take(pieces::against(question));
            }
            return answer;
        }
    };
    if let Some(limit) = limit(question).filter(|limit| limit.bytes < from) {
        answer.headline = format!(
            "Do not: software is better below {from} bytes, and {} hands over {} bytes at most \
             ({}).",
            question.route.name(),
            limit.bytes,
            limit.what
        );
        answer.take(pieces::against(question));
        return answer;
    }
    if let Some(unseen) = question.unseen {
        answer.worth = Worth::Unknown;
        answer.headline = format!(
            "No recommendation: by these figures it would be worth it from {from} bytes on, by {}; \
             {}",
            names(question.by.metrics()),
            unseen.cause
        );
        answer.fix.clone_from(&unseen.fix);
        return answer;
    }
    answer.worth = Worth::From(from);
    answer.headline = format!(
        "Worth it from {from} bytes on, by {}.",
        names(question.by.metrics())
    );
    answer.take(pieces::of(question, from));
    answer
}

/// Quantities for a sentence.
fn names(metrics: &[Metric]) -> String {
    let names = metrics.iter().map(|metric| what(*metric));
    names.collect::<Vec<_>>().join(" and ")
}

fn what(metric: Metric) -> &'static str {
    match metric {
        Metric::Time => "wall-clock time",
        Metric::ProcessCpu => "CPU time of the process",
        Metric::SystemCpu => "CPU time of the system",
        Metric::WholeSystemCpu => "CPU time of the whole system",
    }
}

/// Answer without a size from which on the offload is better.
struct NoSize {
    worth: Worth,
    headline: String,
    /// Whether software is better.
    is_worse: bool,
}

/// The size from which on all quantities that decide are less; or what the answer is without one.
fn from(question: &Question<'_>) -> Result<u64, NoSize> {
    let no = |headline, is_worse| {
        Err(NoSize {
            worth: Worth::Not,
            headline,
            is_worse,
        })
    };
    let mut from = 0;
    let mut missing = None;
    for metric in question.by.metrics() {
        let found = question.compared.iter().find(|one| one.metric == *metric);
        let gain = found.map_or(Gain::Nothing, |one| Gain::of(&one.crossover));
        let other_programs = question.facts.others.filter(|used| *used > TOO_BUSY);
        match (gain, other_programs) {
            // Software that is better for the clock is an answer; whatever else is missing.
            (Gain::Nothing, _) => {
                missing = missing.or(Some(format!(
                    "No recommendation: {} is not known, since it is missing in {}. Measure with \
                     brisk crypto config --impl SOFTWARE --impl OFFLOAD on an idle machine.",
                    what(*metric),
                    question.facts.source
                )));
            }
            (_, Some(used)) if *metric == Metric::WholeSystemCpu => {
                missing = missing.or(Some(format!(
                    "No recommendation: CPU time of the whole system is not known, since other \
                     programs used up to {:.0} % of a CPU in a run. End them, and measure again.",
                    used * 100.0
                )));
            }
            (Gain::From(bytes), _) => from = from.max(bytes),
            (Gain::Never { largest }, _) => {
                let text = format!(
                    "Do not: software takes less {} at every size measured, up to {largest} \
                     bytes.",
                    what(*metric)
                );
                return no(text, true);
            }
            (Gain::Alike, _) => {
                let text = format!(
                    "Do not: software and the offload do not differ in {}.",
                    what(*metric)
                );
                return no(text, false);
            }
            (Gain::UpTo { bytes }, _) => {
                let text = format!(
                    "Do not: the offload takes less {} only up to {bytes} bytes.",
                    what(*metric)
                );
                return no(text, true);
            }
            (Gain::Undecided, _) => {
                missing = missing.or(Some(format!(
                    "No recommendation: whether the offload takes less {} is not decided at every \
                     size. Measure more rounds, on an idle machine.",
                    what(*metric)
                )));
            }
            (Gain::Unclear, _) => {
                missing = missing.or(Some(format!(
                    "No recommendation: from which size on the offload takes less {} is not clear. \
                     Measure more sizes, and more rounds.",
                    what(*metric)
                )));
            }
        }
    }
    match missing {
        Some(headline) => Err(NoSize {
            worth: Worth::Unknown,
            headline,
            is_worse: false,
        }),
        None => Ok(from),
    }
}

/// The most that a consumer hands over at once, if that is smaller than what was measured: sizes of
/// dm-crypt itself are those of reads and writes.
fn limit(question: &Question<'_>) -> Option<Limit> {
    let Route::Kernel(consumer) = question.route else {
        return None;
    };
    match (consumer, question.offload?) {
        (Consumer::DmCrypt, Implementation::DmCrypt(_)) => None,
        (Consumer::DmCrypt, _) => Some(Limit {
            bytes: 4096,
            what: "the largest sector of dm-crypt",
        }),
        (Consumer::Fscrypt, _) => Some(Limit {
            bytes: 4096,
            what: "a block of the file system, as large as a page of memory as a rule",
        }),
        (Consumer::Ktls, _) => Some(Limit {
            bytes: 16384,
            what: "the largest record of TLS",
        }),
        (Consumer::Ipsec, _) => Some(Limit {
            bytes: 1500,
            what: "a packet of the usual MTU",
        }),
        (Consumer::AfAlg, _) => None,
    }
}
