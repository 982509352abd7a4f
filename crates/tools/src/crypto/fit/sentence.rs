//! The verdict in plain sentences.

use super::crossover::{Crossover, FEWEST};
use super::line::TOLERANCE;
use super::report::Metric;
use super::scatter::ALIKE;
use super::sizes::{Order, Size};
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
                "{offload} {less} than {software} from {} on{}.{}",
                bytes(estimate.bytes),
                self.around(estimate),
                self.outside()
            ),
            Verdict::UpTo(estimate) => format!(
                "{offload} {less} than {software} up to {} only{}.{}",
                bytes(estimate.bytes),
                self.around(estimate),
                self.outside()
            ),
            Verdict::Always { smallest, below } => {
                let first = format!(
                    "{offload} {less} than {software} at every size measured, from {} on.",
                    bytes(*smallest as f64)
                );
                below.map_or(first.clone(), |below| {
                    format!("{first} {}", extrapolation(&below))
                })
            }
            Verdict::Never { largest, beyond } => self.never(*largest, *beyond, metric),
            Verdict::Alike => format!(
                "{offload} and {software} are alike at each of {} common sizes: they differ by less \
                 than {:.0} %.",
                self.sizes.len(),
                ALIKE * 100.0
            ),
            Verdict::Step { up_to, from } => {
                let [more, _] = metric.words();
                let usual = self.sizes.iter().filter(|size| size.bytes <= *up_to);
                let below = match usual.clone().any(|size| size.order == Order::Software) {
                    true => "it costs what software costs, and a little more for the way",
                    false => "the two are alike",
                };
                format!(
                    "{offload} leaves small data to software: up to {up_to} bytes {below}; {more} \
                     than {software} from {from} bytes on. The threshold is between these sizes."
                )
            }
            Verdict::Partly { crossing } => self.partly(*crossing, metric),
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
            Beyond::Open => {
                "Whether it is for larger ones is not known: the lines may cross there, or not. \
                 Measure larger sizes."
                    .to_owned()
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
                text.push(' ');
                match self.bracket {
                    Some(bracket) => {
                        let what = format!("The order changes {}.", between(bracket));
                        text.push_str(&what);
                        text.push_str(&self.outside());
                    }
                    None => text.push_str(&self.segments(metric)),
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

    /// The answer of each size, where there is none for all.
    fn partly(&self, crossing: Option<Estimate>, metric: Metric) -> String {
        let mut text = self.segments(metric);
        if let Some(estimate) = crossing {
            let interval = estimate.interval;
            let interval = interval.map_or_else(String::new, |bounds| {
                format!(" (95 % interval {})", span(bounds))
            });
            let what = format!(" The lines cross at {}{interval}.", bytes(estimate.bytes));
            text.push_str(&what);
        }
        text
    }

    /// The order of the sizes, those with the same one after another together; and what decides the
    /// others.
    fn segments(&self, metric: Metric) -> String {
        let Self {
            software, offload, ..
        } = self;
        let [less, more] = metric.words();
        let runs = self.sizes.chunk_by(|one, other| one.order == other.order);
        let parts = runs.filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            let what = match first.order {
                Order::Software => more,
                Order::Offload => less,
                Order::Alike => "alike",
                Order::Undecided => "not decided",
            };
            Some(match first.bytes == last.bytes {
                true => format!("{what} at {}", first.bytes),
                false => format!("{what} from {} to {}", first.bytes, last.bytes),
            })
        });
        let parts: Vec<String> = parts.collect();
        let undecided = self.of_order(Order::Undecided).count();
        if undecided == self.sizes.len() {
            return format!(
                "Not decided: {offload} and {software} are not told apart at any of {undecided} \
                 common sizes. {}",
                self.remedy()
            );
        }
        let sentence = format!("{offload} against {software}: {} bytes.", parts.join(", "));
        match undecided {
            0 => sentence,
            _ => format!("{sentence} {}", self.remedy()),
        }
    }

    /// What decides more sizes.
    fn remedy(&self) -> &'static str {
        let is_single = |size: &Size| size.is_single();
        match self.sizes.iter().any(is_single) {
            true => {
                "One run does not show what runs differ by: several of each decide more, in turn, \
                 each with its lines in the same file."
            }
            false => "More rounds, on an idle machine, decide more.",
        }
    }

    /// Sizes outside the bracket that are not decided.
    fn outside(&self) -> String {
        let Some(bracket) = self.bracket else {
            return String::new();
        };
        let undecided = self.of_order(Order::Undecided);
        let outside = undecided.filter(|bytes| *bytes < bracket.low || *bytes > bracket.high);
        let outside: Vec<String> = outside.map(|bytes| bytes.to_string()).collect();
        match outside.is_empty() {
            true => String::new(),
            false => format!(
                " By its own times it is not decided at {} bytes. {}",
                outside.join(", "),
                self.remedy()
            ),
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
