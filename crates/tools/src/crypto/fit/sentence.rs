//! The verdict in plain sentences.

use super::crossover::{Crossover, FEWEST};
use super::line::TOLERANCE;
use super::report::Metric;
use super::sizes::Order;
use super::verdict::{Beyond, Bounds, Bracket, Estimate, Rejection, Verdict};

impl Crossover {
    /// The verdict in one or two sentences, for a quantity. Names are as given: they are to be made
    /// harmless for where they are shown.
    #[must_use]
    pub fn sentence(&self, metric: Metric) -> String {
        let Self {
            software, offload, ..
        } = self;
        let less = metric.less();
        match &self.verdict {
            Verdict::From(estimate) => format!(
                "{offload} {less} than {software} from {} on{}.",
                bytes(estimate.bytes),
                self.around(estimate)
            ),
            Verdict::UpTo(estimate) => format!(
                "{offload} {less} than {software} up to {} only{}.",
                bytes(estimate.bytes),
                self.around(estimate)
            ),
            Verdict::Always { smallest, below } => {
                let differ = self.sizes.iter().all(|size| size.order != Order::Alike);
                let whether = if differ { "" } else { " at which they differ" };
                let first = format!(
                    "{offload} {less} than {software} at every size measured{whether}, from {} on.",
                    bytes(*smallest as f64)
                );
                below.map_or(first.clone(), |below| {
                    format!("{first} {}", extrapolation(&below))
                })
            }
            Verdict::Never { largest, beyond } => self.never(*largest, *beyond, metric),
            Verdict::NoDifference => format!(
                "{offload} and {software} do not differ at any of {} common sizes.",
                self.sizes.len()
            ),
            Verdict::Rejected(rejection) => self.rejected(rejection, metric),
            Verdict::TooFew { sizes } => format!(
                "{offload} and {software} have {sizes} sizes in common, which are too few for a \
                 crossover: measure {} at least.",
                FEWEST
            ),
        }
    }

    fn never(&self, largest: u64, beyond: Beyond, metric: Metric) -> String {
        let Self {
            software, offload, ..
        } = self;
        let beyond = match beyond {
            Beyond::Crosses(estimate) => extrapolation(&estimate),
            Beyond::Parallel => {
                "Larger ones will not change that: a byte costs the offload no less.".to_owned()
            }
            Beyond::Unknown => {
                "Of larger ones nothing can be said: the times are not on lines.".to_owned()
            }
        };
        format!(
            "{offload} {} than {software} at none of the sizes measured, up to {}. {beyond}",
            metric.less(),
            bytes(largest as f64)
        )
    }

    fn rejected(&self, rejection: &Rejection, metric: Metric) -> String {
        match rejection {
            Rejection::Residual {
                name,
                bytes: size,
                residual,
            } => {
                let way = if *residual > 0.0 { "more" } else { "less" };
                let mut text = format!(
                    "The times are not on lines, so that no crossover is computed: at {} {name} \
                     differs by {:.0} % from its line, and takes {way}; up to {:.0} % are accepted.",
                    bytes(*size as f64),
                    residual.abs() * 100.0,
                    TOLERANCE * 100.0
                );
                if let Some(bracket) = self.bracket {
                    let what = format!(" The order changes {}.", between(bracket));
                    text.push_str(&what);
                }
                text
            }
            Rejection::Changes(brackets) => {
                let places: Vec<String> = brackets.iter().map(|one| between(*one)).collect();
                format!(
                    "There is not one crossover: which one {} changes {} times, {}.",
                    metric.less(),
                    brackets.len(),
                    places.join(", ")
                )
            }
            Rejection::Undecided(estimate) => format!(
                "Not decided: the lines cross at {}, and there the two are not told apart: measure \
                 more rounds.",
                bytes(estimate.bytes)
            ),
            Rejection::Contradiction(estimate) => {
                let lines = match estimate.bytes.is_finite() {
                    true => format!("cross at {}", bytes(estimate.bytes)),
                    false => "do not cross that way".to_owned(),
                };
                let bracket = self.bracket.map_or_else(String::new, between);
                format!(
                    "The lines contradict the measured order, so that no crossover is computed: \
                     they {lines}, and the order changes {bracket}."
                )
            }
        }
    }

    /// Interval and bracket of an estimate, in brackets.
    fn around(&self, estimate: &Estimate) -> String {
        let interval = estimate
            .interval
            .map(|bounds| format!("95 % interval {}", span(bounds)));
        let bracket = self
            .bracket
            .map(|bracket| format!("measured {}", between(bracket)));
        let parts: Vec<String> = interval.into_iter().chain(bracket).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!(" ({})", parts.join("; ")),
        }
    }
}

/// A size for a sentence.
fn bytes(number: f64) -> String {
    match number.round() {
        1.0 => "1 byte".to_owned(),
        number => format!("{number:.0} bytes"),
    }
}

fn between(bracket: Bracket) -> String {
    format!("between {} and {} bytes", bracket.low, bracket.high)
}

fn span(bounds: Bounds) -> String {
    match bounds.high {
        Some(high) => format!("{:.0} to {:.0}", bounds.low, high),
        None => format!("from {:.0} up without end", bounds.low),
    }
}

fn extrapolation(estimate: &Estimate) -> String {
    let interval = estimate.interval;
    let interval = interval.map_or_else(String::new, |bounds| {
        format!(", 95 % interval {}", span(bounds))
    });
    format!(
        "The lines cross at {}{interval}; that is an extrapolation: measure sizes there.",
        bytes(estimate.bytes)
    )
}
