//! The process that keeps a guest in the warm pool for the next `brisk run --warm=ready`: this
//! program, detached.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;

use brisk_tools::run::start_keeper;

use super::run::Rehearsal;

/// Starts the process, with the options of this one.
pub(super) fn start(rehearsal: Rehearsal) -> io::Result<()> {
    start_keeper(&words(env::args_os(), rehearsal))
}

/// Arguments of the process: the options before the command, and the warm-up that it is for.
fn words(given: impl Iterator<Item = OsString>, rehearsal: Rehearsal) -> Vec<OsString> {
    let mut words: Vec<_> = given
        .skip(1)
        .take_while(|word| word != OsStr::new("--"))
        .collect();
    words.push(match rehearsal {
        Rehearsal::Pipes => "--keeper=pipes".into(),
        Rehearsal::Terminal => "--keeper=terminal".into(),
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_has_the_options_and_not_the_command() {
        let given = ["brisk", "run", "--warm=ready", "--", "sh", "--", "-c"];
        let words = words(given.into_iter().map(OsString::from), Rehearsal::Terminal);
        assert_eq!(words, ["run", "--warm=ready", "--keeper=terminal"]);
    }
}
