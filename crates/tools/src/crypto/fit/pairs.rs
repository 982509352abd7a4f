//! Which curves of some files are compared. Pure.

use crate::crypto::{Curve, is_same};

use super::report::{METRICS, Metric};

/// In the name of a curve whose engine was not loaded.
const WITHOUT: &str = "without engine";
/// Least share of a CPU that software has to have had.
const ITS_OWN: f64 = 0.8;

/// A curve of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Name of the file, for people.
    pub file: String,
    /// Its place among the files, from 0.
    pub place: usize,
    /// Algorithm, where the file says it.
    pub algorithm: Option<String>,
    /// Quantity.
    pub metric: Metric,
    /// CPU time as a share of the time that passed, where it is known to be much less.
    pub used: Option<f64>,
    /// Curve.
    pub curve: Curve,
}

/// Two curves that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Quantity.
    pub metric: Metric,
    /// Curve of the software.
    pub software: Curve,
    /// Curve of the offload; its name differs.
    pub offload: Curve,
}

/// Names that say which curves are the software's and which the offload's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chosen<'a> {
    /// Of the software.
    pub software: Option<&'a str>,
    /// Of the offload.
    pub offload: Option<&'a str>,
}

/// Curves that cannot be paired.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A name is none.
    #[error("there is no {name}, but: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// It is not clear which are meant.
    #[error(
        "it is not clear which two are to be compared; name them with --software and --offload: \
         {known}"
    )]
    Unclear {
        /// Those there are.
        known: String,
    },
    /// There is only one.
    #[error(
        "there is only {0}; give a file of the software, and one of the offload, or one file with \
         both"
    )]
    One(String),
    /// The two did not do the same work.
    #[error("{software} and {offload} are not compared: {what}. Measure both alike{more}")]
    Different {
        /// Name of the software.
        software: String,
        /// Name of the offload.
        offload: String,
        /// What differs.
        what: &'static str,
        /// What else there is.
        more: &'static str,
    },
    /// The software did not have a CPU for itself.
    #[error(
        "{name}: no verdict, since this software had only {:.0} % of a CPU: the time that passed is \
         not what it takes. End other programs, and measure again with -elapsed",
        .used * 100.0
    )]
    Busy {
        /// Its name.
        name: String,
        /// The share of a CPU.
        used: f64,
    },
    /// The offload's engine was not loaded.
    #[error(
        "{0}: no verdict, since openssl did not load the engine and measured its own software: this \
         side is no offload. See openssl engine -t; OpenSSL 4 has no engines"
    )]
    NotLoaded(String),
    /// Those that were named have nothing in common.
    #[error("{software} and {offload} have no algorithm in common")]
    NothingInCommon {
        /// What was chosen as the software.
        software: String,
        /// What was chosen as the offload.
        offload: String,
    },
}

impl Candidate {
    fn is_named(&self, name: &str) -> bool {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        is(&self.curve.name) || is(&self.file)
    }

    fn has_in_name(&self, text: &str) -> bool {
        let name = self.curve.name.to_ascii_lowercase();
        name.contains(&text.to_ascii_lowercase())
    }

    fn is_of_algorithm(&self, other: &Self) -> bool {
        match (&self.algorithm, &other.algorithm) {
            (Some(a), Some(b)) => is_same(a, b),
            _ => true,
        }
    }

    /// What its name says of how many processes it ran in, and in which direction.
    fn manner(&self) -> (Option<&str>, bool) {
        let mut parts = self.curve.name.split(", ");
        let processes = parts.clone().find(|part| part.ends_with(" processes"));
        (processes, parts.any(|part| part == "decryption"))
    }

    /// Whether its name says that it is no software of openssl's own.
    fn is_elsewhere(&self) -> bool {
        let is_of = |word: &&str| self.has_in_name(word);
        !self.has_in_name(WITHOUT) && ["engine", "provider"].iter().any(is_of)
    }
}

/// The pairs of curves that are compared: of the same quantity, and of the same algorithm. Without
/// names the first of two files is the software's; of one file with two curves of an algorithm the
/// first is, unless only that one is of an engine or a provider.
///
/// A name is that of a curve or of a file, or a part of the name of a curve.
///
/// # Errors
/// If it is not clear which curves belong together.
pub fn pairs(candidates: &[Candidate], chosen: Chosen<'_>) -> Result<Vec<Pair>, PairError> {
    let mut pairs = Vec::new();
    for metric in METRICS {
        let of_metric = candidates.iter().filter(|one| one.metric == metric);
        let of_metric: Vec<&Candidate> = of_metric.collect();
        if !of_metric.is_empty() {
            pairs.extend(of_one_metric(&of_metric, chosen)?);
        }
    }
    Ok(pairs)
}

fn of_one_metric(all: &[&Candidate], chosen: Chosen<'_>) -> Result<Vec<Pair>, PairError> {
    if let [only] = all {
        return Err(PairError::One(only.curve.name.clone()));
    }
    let (software, offload) = sides(all, chosen)?;
    let mut pairs = Vec::new();
    for one in &software {
        let partners = offload.iter().filter(|other| {
            let is_only = software.len() == 1 && offload.len() == 1;
            is_only || one.is_of_algorithm(other)
        });
        let partners: Vec<_> = partners.collect();
        match partners[..] {
            [] => {}
            [partner] => {
                let are_named = chosen.software.is_some() && chosen.offload.is_some();
                if !are_named && !one.is_of_algorithm(partner) {
                    let more = "; or name the two with --software and --offload";
                    return Err(different(one, partner, "the algorithms differ", more));
                }
                pairs.push(pair(one, partner)?);
            }
            _ => return Err(PairError::Unclear { known: known(all) }),
        }
    }
    if pairs.is_empty() {
        return Err(PairError::NothingInCommon {
            software: known(&software),
            offload: known(&offload),
        });
    }
    Ok(pairs)
}

type Sides<'a> = (Vec<&'a Candidate>, Vec<&'a Candidate>);

fn sides<'a>(all: &[&'a Candidate], chosen: Chosen<'_>) -> Result<Sides<'a>, PairError> {
    let others = |mine: &[&'a Candidate]| -> Vec<&'a Candidate> {
        let is_other = |one: &&&Candidate| !mine.iter().any(|other| std::ptr::eq(*other, **one));
        all.iter().filter(is_other).copied().collect()
    };
    let sides = match (chosen.software, chosen.offload) {
        (Some(software), Some(offload)) => (named(all, software)?, named(all, offload)?),
        (Some(software), None) => {
            let software = named(all, software)?;
            let offload = others(&software);
            (software, offload)
        }
        (None, Some(offload)) => {
            let offload = named(all, offload)?;
            (others(&offload), offload)
        }
        (None, None) => unnamed(all)?,
    };
    let is_both = |one: &&Candidate| sides.1.iter().any(|other| std::ptr::eq(*one, *other));
    if sides.0.iter().any(is_both) || sides.0.is_empty() || sides.1.is_empty() {
        return Err(PairError::Unclear { known: known(all) });
    }
    Ok(sides)
}

fn unnamed<'a>(all: &[&'a Candidate]) -> Result<Sides<'a>, PairError> {
    let unclear = || PairError::Unclear { known: known(all) };
    let mut places: Vec<usize> = all.iter().map(|one| one.place).collect();
    places.dedup();
    match places[..] {
        [first, second] => {
            let of = |place| all.iter().filter(move |one| one.place == place).copied();
            Ok((of(first).collect(), of(second).collect()))
        }
        [_] => {
            let mut sides: Sides<'a> = (Vec::new(), Vec::new());
            for one in all {
                let alike = all
                    .iter()
                    .filter(|other| one.is_of_algorithm(other))
                    .copied();
                let alike: Vec<&Candidate> = alike.collect();
                let [first, second] = alike[..] else {
                    return Err(unclear());
                };
                if !std::ptr::eq(first, *one) {
                    continue;
                }
                let is_turned = first.is_elsewhere() && !second.is_elsewhere();
                let (software, offload) = if is_turned {
                    (second, first)
                } else {
                    (first, second)
                };
                sides.0.push(software);
                sides.1.push(offload);
            }
            Ok(sides)
        }
        _ => Err(unclear()),
    }
}

/// Those of a name; without any, those with it in their names.
fn named<'a>(all: &[&'a Candidate], name: &str) -> Result<Vec<&'a Candidate>, PairError> {
    let exact = all.iter().filter(|one| one.is_named(name)).copied();
    let exact: Vec<_> = exact.collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let partly = all.iter().filter(|one| one.has_in_name(name)).copied();
    let partly: Vec<_> = partly.collect();
    if partly.is_empty() {
        return Err(PairError::Unknown {
            name: name.to_owned(),
            known: known(all),
        });
    }
    Ok(partly)
}

fn known(all: &[&Candidate]) -> String {
    let names = all.iter().map(|one| {
        let (name, file) = (&one.curve.name, &one.file);
        format!("\"{name}\" in {file}")
    });
    names.collect::<Vec<_>>().join(", ")
}

fn different(
    software: &Candidate,
    offload: &Candidate,
    what: &'static str,
    more: &'static str,
) -> PairError {
    PairError::Different {
        software: software.curve.name.clone(),
        offload: offload.curve.name.clone(),
        what,
        more,
    }
}

fn pair(software: &Candidate, offload: &Candidate) -> Result<Pair, PairError> {
    let (one, other) = (software.manner(), offload.manner());
    if one.0 != other.0 {
        return Err(different(
            software,
            offload,
            "their numbers of processes differ",
            "",
        ));
    }
    if one.1 != other.1 {
        return Err(different(
            software,
            offload,
            "one encrypts, and the other decrypts",
            "",
        ));
    }
    if offload.has_in_name(WITHOUT) {
        return Err(PairError::NotLoaded(offload.curve.name.clone()));
    }
    if let Some(used) = software.used.filter(|used| *used < ITS_OWN) {
        return Err(PairError::Busy {
            name: software.curve.name.clone(),
            used,
        });
    }
    let mut pair = Pair {
        metric: software.metric,
        software: software.curve.clone(),
        offload: offload.curve.clone(),
    };
    let [a, b] = [&mut pair.software.name, &mut pair.offload.name];
    if is_same(a, b) {
        a.push_str(&format!(" ({})", software.file));
        b.push_str(&format!(" ({})", offload.file));
    }
    Ok(pair)
}

#[cfg(test)]
mod tests;
