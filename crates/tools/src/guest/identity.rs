//! What a guest that goes on from a state must be told, because it is not as it was.

use std::fs::File;
use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_vm::guest::Step;

/// Sets its clock to now.
pub(crate) fn clock() -> Step {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Step::Clock {
        nanos: now.map_or(0, |now| now.as_nanos() as u64),
    }
}

/// What it must have of its own if others have its state, too.
pub(crate) fn identity() -> io::Result<Vec<Step>> {
    let mut bytes = vec![0; 64];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(vec![clock(), Step::Entropy { bytes }])
}

/// A command for a guest that goes on, and before it what must be its own.
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
                Step::Clock { nanos: told },
                Step::Entropy { bytes },
                Step::Pause,
            ] = &steps[..]
            else {
                panic!("{steps:?}");
            };
            assert!((before..=nanos()).contains(told));
            assert_eq!(bytes.len(), 64);
            assert!(!seen.contains(bytes));
            seen.push(bytes.clone());
        }
    }
}
