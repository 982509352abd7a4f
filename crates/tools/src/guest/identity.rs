//! New identity of a restored guest: clock, randomness.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_vm::guest::Step;

/// Step that sets the guest's clock to now.
pub(crate) fn clock() -> Step {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Step::Clock {
        nanos: now.map_or(0, |now| now.as_nanos() as u64),
    }
}

/// Steps that give a guest what must differ between guests with one state.
pub(crate) fn identity() -> io::Result<Vec<Step>> {
    let mut bytes = vec![0; 64];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(vec![clock(), Step::Entropy { bytes }])
}

/// The script of a command for a restored guest, with its new identity before it.
pub(crate) fn with_identity(command: Vec<Step>) -> io::Result<Vec<Step>> {
    let mut steps = identity()?;
    steps.extend(command);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_and_randomness_of_its_own_come_before_the_command() {
        let nanos = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos() as u64
        };
        let before = nanos();
        let mut seen = Vec::new();
        for _ in 0..2 {
            let steps = with_identity(vec![Step::Pause]).unwrap();
            let [
                Step::Clock { nanos: sent },
                Step::Entropy { bytes },
                Step::Pause,
            ] = &steps[..]
            else {
                panic!("{steps:?}");
            };
            assert!((before..=nanos()).contains(sent));
            assert_eq!(bytes.len(), 64);
            assert!(!seen.contains(bytes));
            seen.push(bytes.clone());
        }
    }
}
