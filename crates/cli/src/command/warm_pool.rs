//! The process that keeps a guest in the warm pool for the next `brisk run --warm=ready`: this
//! program, detached.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;

use brisk_tools::run::start_pool_process;

use super::run::WarmUp;

/// Starts the process, with the options of this one.
pub(super) fn start(warm_up: WarmUp) -> io::Result<()> {
    start_pool_process(&words(env::args_os(), warm_up))
}

/// Arguments of the process: the options before the command, and the warm-up that it is for.
fn words(given: impl Iterator<Item = OsString>, warm_up: WarmUp) -> Vec<OsString> {
    let mut words: Vec<_> = given
        .skip(1)
        .take_while(|word| word != OsStr::new("--"))
        .collect();
    words.push(match warm_up {
        WarmUp::Pipes => "--pool-process=pipes".into(),
        WarmUp::Terminal => "--pool-process=terminal".into(),
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_process_has_the_options_and_not_the_command() {
        let given = ["brisk", "run", "--warm=ready", "--", "sh", "--", "-c"];
        let words = words(given.into_iter().map(OsString::from), WarmUp::Terminal);
        assert_eq!(words, ["run", "--warm=ready", "--pool-process=terminal"]);
    }
}
