//! Options that measuring commands share.

use std::time::Duration;

use anyhow::{Context, bail};
use brisk_host::interrupt::Interrupt;
use brisk_tools::crypto::{
    ALGORITHMS, Algorithm, Direction, Implementation, Options, Remote, Worker,
};

use super::machine::this_machine;
use crate::parse::duration;
use crate::ui::Ui;

/// Options of a measurement.
#[derive(Debug, clap::Args)]
pub(super) struct MeasureArgs {
    /// Algorithm, by its name in OpenSSL, such as aes-128-cbc, or in the kernel, such as cbc(aes).
    /// Default: aes-128-cbc, or what files are about.
    #[arg(value_parser = algorithm)]
    pub(super) algorithm: Option<&'static Algorithm>,

    /// Implementation to measure: openssl, openssl-no-aesni (libcrypto without the CPU's
    /// instructions for AES, SHA and carry-less multiplication), engine:NAME, provider:NAME,
    /// openssl-conf:FILE (as OPENSSL_CONF), af-alg (what the kernel prefers), af-alg:DRIVER, dm-crypt
    /// or dm-crypt:DRIVER (as root, on a device of zeros), ktls (TLS records on a loopback
    /// connection) or tcp (the connection without TLS, for comparison). May be repeated. Default:
    /// openssl, with and without those instructions, and every driver of the kernel.
    #[arg(long = "impl", value_name = "IMPLEMENTATION")]
    pub(super) implementations: Vec<Implementation>,

    /// Sizes of the data of an operation: a list such as 16,1024,4096, or a range such as 16..64K,
    /// which has every power of 4 times its begin.
    #[arg(long, value_name = "BYTES", default_value = "16..64K", value_parser = sizes)]
    pub(super) sizes: Sizes,

    /// Measure decryption.
    #[arg(long)]
    pub(super) decrypt: bool,

    /// Length of a run. openssl speed takes whole seconds.
    #[arg(long, value_parser = run_time, value_name = "SECONDS", default_value = "1")]
    pub(super) seconds: Duration,

    /// Rounds, after one that does not count. An interval of 95 % needs six.
    #[arg(long, short = 'n', default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,

    /// Begin no round after so long.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(super) budget: Option<Duration>,

    /// Seed of the order of the runs.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,

    /// Measure on another machine, by a command that runs brisk there, such as 'ssh host brisk' or
    /// 'brisk run --module virtio_crypto -- brisk'. If it is a guest that this command starts, the CPU
    /// time of its QEMU is measured, too.
    #[arg(long, value_name = "COMMAND")]
    pub(super) through: Option<String>,
}

/// Bytes, ascending, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<usize>);

/// Longest run.
const LONGEST: Duration = Duration::from_secs(3600);

fn run_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        longer if longer > LONGEST => Err("a run takes an hour at most".to_owned()),
        time => Ok(time),
    }
}
/// Bytes of the largest operation.
const LARGEST: usize = 64 << 20;

fn algorithm(text: &str) -> Result<&'static Algorithm, String> {
    Algorithm::find(text).ok_or_else(|| {
        let names = ALGORITHMS.iter().map(|algorithm| algorithm.name);
        let names = names.collect::<Vec<_>>().join(", ");
        format!("brisk can measure {names}")
    })
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let mut list = match text.split_once("..") {
        Some((from, to)) => {
            let (from, to) = (size(from)?, size(to)?);
            if from > to {
                return Err(format!("{from} is more than {to}"));
            }
            let next = |bytes: &usize| bytes.checked_mul(4);
            std::iter::successors(Some(from), next)
                .take_while(|bytes| *bytes <= to)
                .collect()
        }
        None => text.split(',').map(size).collect::<Result<Vec<_>, _>>()?,
    };
    list.sort_unstable();
    list.dedup();
    Ok(Sizes(list))
}

fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1 << 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| (1..=LARGEST).contains(bytes))
        .ok_or_else(|| format!("\"{text}\" is no size from 1 to 64M, such as 4096 or 16K"))
}

impl MeasureArgs {
    /// The algorithm that is measured.
    pub(super) fn algorithm(&self) -> &'static Algorithm {
        self.algorithm.unwrap_or(&ALGORITHMS[0])
    }

    /// Options of the measurement.
    pub(super) fn options(&self, threads: usize) -> anyhow::Result<Options> {
        let blocks = ["cbc", "ecb", "xts"];
        let needs_blocks = blocks
            .iter()
            .any(|mode| self.algorithm().kernel.starts_with(mode));
        if needs_blocks {
            if let Some(bytes) = self.sizes.0.iter().find(|bytes| *bytes % 16 != 0) {
                bail!(
                    "--sizes: {} works on blocks of 16 bytes, and {bytes} is no multiple of 16",
                    self.algorithm().name
                );
            }
        }
        Ok(Options {
            algorithm: self.algorithm(),
            direction: if self.decrypt {
                Direction::Decrypt
            } else {
                Direction::Encrypt
            },
            implementations: self.implementations.clone(),
            sizes: self.sizes.0.clone(),
            threads,
            seconds: self.seconds.as_secs_f64(),
            rounds: self.rounds,
            budget: self.budget,
            seed: self.seed,
        })
    }

    /// The machine to measure on.
    pub(super) fn machine(
        &self,
        interrupt: &Interrupt,
        ui: &Ui,
    ) -> anyhow::Result<Box<dyn Worker>> {
        match &self.through {
            None => Ok(Box::new(this_machine(interrupt.clone())?)),
            Some(command) => {
                let _spinner = ui.spinner("starting the machine");
                let remote = Remote::start(command, interrupt);
                let remote = remote.with_context(|| format!("--through \"{command}\""))?;
                Ok(Box::new(remote))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_or_ranges() {
        let of = |text| sizes(text).map(|sizes| sizes.0);
        assert_eq!(of("16..1K"), Ok(vec![16, 64, 256, 1024]));
        assert_eq!(of("4096,16,16"), Ok(vec![16, 4096]));
        assert_eq!(of("1M"), Ok(vec![1 << 20]));
        assert_eq!(of("100..100"), Ok(vec![100]));
        for bad in ["", "0", "16..", "64..16", "1G", "65M", "-1", "k", "16,,"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(of("99999999999999999999M").unwrap_err().contains("no size"));
    }

    #[test]
    fn an_unknown_algorithm_is_answered_by_the_known_ones() {
        assert!(algorithm("des").unwrap_err().contains("aes-128-cbc, "));
        assert_eq!(algorithm("CBC(aes)").unwrap().name, "aes-128-cbc");
        assert_eq!(ALGORITHMS[0].name, "aes-128-cbc");
    }
}
