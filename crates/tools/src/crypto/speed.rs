//! Outputs of `openssl speed`: of any version, from any machine, as users paste them. Pure.
//!
//! `openssl speed` runs an algorithm at each size until an alarm ends it, counts, and divides by
//! time. Without `-elapsed` that is the user CPU time of its process, of which an offload takes
//! nearly none: the throughput shown is then many times the real one. The count is right in either
//! case, and so is the time after which the alarm came: the time of an operation is computed from
//! these two wherever the output has them, and from the table only where it has nothing else.

mod collected;
mod command;
mod failure;
mod lines;
mod runs;

use super::Curve;

pub use failure::{RunError, UNACCELERATED, failure};

/// Largest output that is read, in bytes.
pub const LARGEST: usize = 16 << 20;

/// What one or several outputs of `openssl speed` say.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// What was measured, in the order of the text; the names of their curves are unique.
    pub measured: Vec<Measured>,
    /// Remarks about the figures.
    pub remarks: Vec<Remark>,
}

/// An algorithm by one implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Name of the algorithm, as the output has it, or as the command does where rows have names of
    /// their own.
    pub algorithm: String,
    /// What the text says of the implementation, such as `engine afalg`; empty if nothing.
    pub by: String,
    /// What openssl divided by.
    pub clock: Clock,
    /// Whether the seconds of the curve are of the wall clock. If not, they say nothing about an
    /// offload.
    pub is_wall_clock: bool,
    /// Processes that ran it at once; seconds are those of all together for an operation.
    pub processes: usize,
    /// User CPU time of the process as a share of the time that passed, where it is least and there
    /// is much less; None if it is not known or not less.
    pub used: Option<f64>,
    /// Seconds of an operation, over its size.
    pub curve: Curve,
}

/// What openssl divides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The wall clock: with `-elapsed`, and in processes of `-multi`.
    Elapsed,
    /// User CPU time of the process.
    User,
    /// One of them: `-mr` and tables without the lines before them do not say.
    Unknown,
}

/// Something to know about the figures. Its text says what to try.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Remark {
    /// openssl divided by user CPU time that was much less than the time that passed.
    Divided {
        /// Name of the curve.
        name: String,
        /// Size at which it matters most, in bytes.
        bytes: u64,
        /// Throughput shown, divided by the real one.
        times: f64,
        /// Whether it is at least that: the user CPU time is too short to be shown.
        is_least: bool,
    },
    /// Only throughputs by user CPU time, or by a clock that is not known.
    OnlyRates {
        /// Names of the curves.
        names: Vec<String>,
        /// By which clock.
        clock: Clock,
    },
    /// The table says something else than the counts.
    Disagrees {
        /// Name of the curve.
        name: String,
        /// Size, in bytes.
        bytes: u64,
        /// Bytes per second of the table.
        table: f64,
        /// Bytes per second by the count and the time beside it.
        counts: f64,
    },
    /// An engine was wanted and not loaded: openssl measures without it.
    EngineFailed {
        /// Name of the engine.
        engine: String,
    },
    /// An algorithm was run several times, with nothing in the text to tell the runs apart.
    Repeated {
        /// Name of the curve.
        name: String,
        /// Number of runs.
        runs: usize,
        /// Whether each has a command.
        has_commands: bool,
    },
    /// Counts were left out: of lines of processes at once, of which some have no end.
    Mixed,
    /// A run was left out: a library told of an error within it.
    Trouble {
        /// Name of its first algorithm.
        name: String,
        /// The error.
        text: String,
    },
    /// A curve was left out: its time does not depend on the size.
    Flat {
        /// Name of the curve.
        name: String,
    },
    /// A size was left out.
    LeftOut {
        /// Name of the curve.
        name: String,
        /// Size, in bytes.
        bytes: u64,
    },
}

/// A text without results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    /// There is nothing of `openssl speed`.
    #[error(
        "it has no result of openssl speed: lines such as \"Doing aes-128-cbc for 3s on 16 size \
         blocks: …\", \"+R:…\", or the table below \"type 16 bytes\""
    )]
    Nothing,
    /// There are results that are not over a size.
    #[error(
        "its results are not over sizes of data, as those of public keys are; what has a crossover \
         is openssl speed -elapsed -evp aes-128-cbc"
    )]
    NoSizes,
    /// openssl failed.
    #[error("it has no result, but an error of openssl: {0}")]
    Failed(String),
    /// There are results, and none that can be used.
    #[error("it has no result that can be used: {0}")]
    LeftOut(String),
    /// It is the output of another program.
    #[error("it is {0}")]
    Other(&'static str),
    /// The text is too large.
    #[error("it is larger than any output of openssl speed, {} MiB", LARGEST >> 20)]
    TooLarge,
}

impl Speed {
    /// Reads one or several outputs, with any text around them.
    ///
    /// # Errors
    /// If there is no result in it.
    pub fn parse(text: &str) -> Result<Self, SpeedError> {
        if text.len() > LARGEST {
            return Err(SpeedError::TooLarge);
        }
        if let Some(what) = other_program(text) {
            return Err(SpeedError::Other(what));
        }
        let found = runs::read(text);
        let mut speed = collected::collect(&found.runs);
        if found.has_mixed {
            speed.remarks.push(Remark::Mixed);
        }
        if !speed.measured.is_empty() {
            return Ok(speed);
        }
        Err(match (found.error, speed.remarks.first()) {
            (Some(error), _) => SpeedError::Failed(error),
            (None, Some(remark)) => SpeedError::LeftOut(remark.to_string()),
            (None, None) if found.has_others => SpeedError::NoSizes,
            (None, None) => SpeedError::Nothing,
        })
    }
}

/// What a text of another benchmark is, by words that it has in each of its forms, and what gives a
/// crossover instead.
///
/// Sources: `action_benchmark` in `src/cryptsetup.c` of cryptsetup 2.6,
/// `crypto/tcrypt.c` of Linux 6.1, and the headings of sbc-bench 0.9.
fn other_program(text: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 4] = [
        (
            "Encrypting in chunks of ",
            "the output of cryptodev-linux's tests, which have the device alone; openssl speed \
             -elapsed -evp aes-128-cbc, with and without -engine devcrypto, measures both",
        ),
        ("Tests are approximate using memory only", CRYPTSETUP),
        ("Algorithm |       Key |      Encryption |", CRYPTSETUP),
        (
            "sbc-bench v",
            "a report of sbc-bench, whose table of openssl has a row for each kind of core, by CPU \
             time; run openssl speed -elapsed -evp aes-128-cbc on one core, with taskset -c",
        ),
    ];
    const CRYPTSETUP: &str = "the output of cryptsetup benchmark, which hands over 64 KiB at once and no other size; brisk \
         crypto crossover --impl openssl --impl af-alg measures the kernel's drivers over sizes";
    const TCRYPT: &str = "a log of the kernel's module tcrypt, which has the drivers of the kernel \
         alone, and no software beside them; brisk crypto crossover --impl openssl --impl af-alg \
         measures both";
    let known = OTHERS.iter().find(|(words, _)| text.contains(words));
    let of_kernel = || text.lines().any(is_of_tcrypt);
    known
        .map(|(_, what)| *what)
        .or_else(|| of_kernel().then_some(TCRYPT))
}

/// A heading or a result of tcrypt, behind the marks of a log: `testing speed of async cbc(aes)
/// (DRIVER) encryption`, of which older kernels have `tcrypt:` on a line of its own, and
/// `test 0 (128 bit key, 16 byte blocks): 4861246 operations in 1 seconds (77779936 bytes)`.
fn is_of_tcrypt(line: &str) -> bool {
    let is_result = || {
        let counted = ["operations in", "operation in", "ops/s", "opers/sec"];
        line.contains(" bit key, ")
            && line.contains(" byte blocks)")
            && counted.iter().any(|words| line.contains(words))
    };
    let Some((_, rest)) = line.split_once("testing speed of ") else {
        return is_result();
    };
    let mut words = rest.split_whitespace();
    let kind = words.find(|word| !matches!(*word, "async" | "multibuffer"));
    let driver = words.next().unwrap_or_default();
    let is_driver = driver.starts_with('(') && driver.ends_with(')');
    let end = words.next();
    kind.is_some() && is_driver && matches!(end, None | Some("encryption" | "decryption"))
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mb = |rate: &f64| rate / 1e6;
        match self {
            Self::Divided {
                name,
                bytes,
                times,
                is_least,
            } => write!(
                f,
                "{name}: openssl divided by its user CPU time, not by the time that passed: at \
                 {bytes} bytes the throughput it shows is {}{times:.1} times the real one. The other \
                 time went to an offload, to the kernel, or to other programs. Here times are those \
                 that passed: the seconds of the alarm, divided by the count. Measure with -elapsed.",
                if *is_least { "at least " } else { "" }
            ),
            Self::OnlyRates {
                names,
                clock: Clock::User,
            } => write!(
                f,
                "{}: there are only throughputs by user CPU time, which say nothing about an \
                 offload. Measure with -elapsed, or give the lines that begin with Doing, too.",
                several(names)
            ),
            Self::OnlyRates { names, .. } => write!(
                f,
                "{}: there are only throughputs, by user CPU time unless -elapsed was given; \
                 user CPU time says nothing about an offload. Measure with -elapsed, or give the \
                 lines before the table, too.",
                several(names)
            ),
            Self::Disagrees {
                name,
                bytes,
                table,
                counts,
            } => write!(
                f,
                "{name}: at {bytes} bytes the table has {:.2} MB/s, and count and time beside it \
                 are {:.2} MB/s. The count is used; are the two of the same run?",
                mb(table),
                mb(counts)
            ),
            Self::EngineFailed { engine } => write!(
                f,
                "the engine {engine} was not loaded, and openssl measured without it. OpenSSL 4 has \
                 no engines; before, see openssl engine -t {engine}."
            ),
            Self::Repeated {
                name,
                runs,
                has_commands,
            } => write!(
                f,
                "{name}: taken as {runs} runs of the same implementation, since {}. If they differ, \
                 give each its file.",
                match has_commands {
                    true => "their commands are the same",
                    false => "nothing in the text tells them apart",
                }
            ),
            Self::Mixed => f.write_str(
                "lines of several processes are mixed, and some have no end: their counts are left \
                 out, since it is not sure which size they are of. Give the whole output, or run one \
                 process.",
            ),
            Self::Trouble { name, text } => write!(
                f,
                "{name}: the run is left out, since there is an error within it, and what was \
                 counted may be calls that failed: {text}"
            ),
            Self::Flat { name } => write!(
                f,
                "{name}: left out, since its time does not depend on the size: either every call \
                 failed and nothing was encrypted, or the sizes are too small to tell. Measure \
                 larger sizes, and look for errors in the output."
            ),
            Self::LeftOut { name, bytes } => write!(
                f,
                "{name}: {bytes} bytes are left out, which have no count or no time."
            ),
        }
    }
}

/// Names in a sentence: one or two, or the first and how many more.
fn several(names: &[String]) -> String {
    match names {
        [first, second] => format!("{first} and {second}"),
        [first, _, rest @ ..] => format!("{first} and {} more", rest.len() + 1),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests;
