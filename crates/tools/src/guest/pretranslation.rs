//! TB pretranslation of a guest: recorded at the first boot, used at later ones.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use brisk_host::proc::Procfs;
use brisk_vm::cache::{self, Cache, Entry};
use brisk_vm::pretranslation;
use brisk_vm::qemu::Capabilities;

use super::options::{Options, Pretranslate, Warm};

const KIND: &str = "ahead";
/// Kind of the cache entries with ELF files that start a template.
const KIND_WAITING: &str = "ahead-waiting";
/// Most checks for an idle processor.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_micros(300);
/// Oldest QEMU that is supported.
const OLDEST: (u32, u32) = (8, 0);

/// Known facts about a kernel's code.
#[derive(Debug, Clone)]
pub struct Known {
    /// Key in the cache.
    pub key: String,
    /// Result of an earlier boot.
    pub(super) outcome: Outcome,
    /// Whether the host has an idle processor.
    pub(super) spare: bool,
}

/// Result of a recorded boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No boot was recorded yet.
    None,
    /// Pretranslation is impossible with this kernel.
    Impossible,
    /// The ELF file that starts a guest with pretranslation.
    Code(PathBuf),
    /// The ELF file that starts a template, whose second processor waits for its list.
    Waiting(PathBuf),
}

/// Known facts, if they can be used on the host.
pub(super) fn known(
    image: &Path,
    options: &Options,
    capabilities: &Capabilities,
    cache: &Cache,
) -> Option<Known> {
    if options.pretranslate == Pretranslate::Never {
        return None;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if !pretranslation::is_possible() || processors < 2 || capabilities.version < OLDEST {
        return None;
    }
    let load = || Procfs::default().load();
    let busy = || load().is_some_and(|load| is_busy(load.runnable, processors));
    let spare = options.pretranslate == Pretranslate::Always || !remains_busy(busy);
    let identity = format!(
        "{} {} {:?}",
        pretranslation::VERSION,
        image.display(),
        capabilities.version
    );
    let key = cache::key(identity.as_bytes());
    if options.warm != Warm::No {
        let outcome = waiting(image, &key, cache).map_or(Outcome::Impossible, Outcome::Waiting);
        return Some(Known {
            key,
            outcome,
            spare,
        });
    }
    let outcome = match cache.get::<bool>(KIND, &key) {
        None => Outcome::None,
        Some(entry) if entry.meta => Outcome::Code(entry.path),
        Some(_) => Outcome::Impossible,
    };
    Some(Known {
        key,
        outcome,
        spare,
    })
}

/// Whether the host is busy at each of several checks. The process that started brisk is often
/// still at work at the first one: of an idle host every fourth looked busy.
fn remains_busy(mut is_busy: impl FnMut() -> bool) -> bool {
    (0..LOOKS).all(|look| {
        if look > 0 {
            thread::sleep(BETWEEN_LOOKS);
        }
        is_busy()
    })
}

/// Whether a host with this many processors has none for each of a guest's two, where this many
/// threads run or are runnable, this one among them.
const fn is_busy(runnable: usize, processors: usize) -> bool {
    runnable >= processors
}

/// The ELF file that starts a template with a second processor that waits.
fn waiting(image: &Path, key: &str, cache: &Cache) -> Option<PathBuf> {
    let pretranslator = || pretranslation::waiting(&fs::read(image).ok()?);
    let entry = stored(cache, KIND_WAITING, key, pretranslator).ok()?;
    entry.meta.then_some(entry.path)
}

/// An ELF file in the cache, made if it is missing; its description says whether it is possible.
fn stored(
    cache: &Cache,
    kind: &str,
    key: &str,
    pretranslator: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Entry<bool>, cache::Error> {
    cache.get_or_build(kind, key, |file: &mut File| {
        let pretranslator = pretranslator();
        let written = file.write_all(pretranslator.as_deref().unwrap_or_default());
        written
            .map(|()| pretranslator.is_some())
            .map_err(|source| cache::Error::Write {
                path: cache.dir().to_owned(),
                source,
            })
    })
}

/// Saves the result of a recorded boot.
pub(crate) fn keep(
    cache: &Cache,
    key: &str,
    pretranslator: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<(), cache::Error> {
    stored(cache, KIND, key, pretranslator).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_if_one_of_two_processors_would_have_more_to_do() {
        assert!(!is_busy(1, 2));
        assert!(is_busy(2, 2));
        assert!(!is_busy(3, 4));
        assert!(is_busy(4, 4));
        // Between two looks nobody executes, not even this thread.
        assert!(!is_busy(0, 2));
    }

    #[test]
    fn a_machine_is_spared_if_it_is_busy_whenever_one_looks() {
        let mut looks = 0;
        assert!(remains_busy(|| {
            looks += 1;
            true
        }));
        assert_eq!(looks, LOOKS);
        for idle in 1..=LOOKS {
            let mut looks = 0;
            assert!(!remains_busy(|| {
                looks += 1;
                looks < idle
            }));
            assert_eq!(looks, idle, "no more than it takes");
        }
    }
}
