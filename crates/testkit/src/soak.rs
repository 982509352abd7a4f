//! Tests that can run longer than `make test` has time for.

/// Says how much longer; unset: as short as it can be.
const VARIABLE: &str = "BRISK_SOAK";

/// How often a test is to do something: `usual` in `make test`, `long` in `make soak`, and a
/// multiple of that with `BRISK_SOAK=2` and so on.
///
/// # Panics
/// If the variable is no number above zero.
#[must_use]
#[track_caller]
pub fn times(usual: usize, long: usize) -> usize {
    let Ok(text) = std::env::var(VARIABLE) else {
        return usual;
    };
    match text.parse::<usize>() {
        Ok(factor @ 1..) => long * factor,
        _ => panic!("{VARIABLE}={text}: not a number above zero"),
    }
}
