//! Measures what single operations cost here, by `CLOCK_MONOTONIC` of the target it runs in.
//!
//! `brisk-probe [--time MS] [--only NAME,…]` prints a line for each operation:
//!
//! ```text
//! figure NAME MEDIAN BEST BATCHES      nanoseconds per operation
//! skip NAME REASON                     what cannot be measured here
//! ```
//!
//! `--list` prints the operations with the unit and what is done, separated by tabs. `--ktext` works
//! for `brisk ktext`, as does the program when it is the init of a guest; see [`ktext`].

mod batch;
mod ktext;
mod operations;
mod sys;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use brisk_probe::OPERATIONS;

/// Milliseconds for one operation, unless the command line says otherwise.
const TIME: u64 = 120;

/// What the command line asks for.
struct Wanted {
    list: bool,
    only: Vec<String>,
    time: Duration,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // What `process-exec` starts.
    if words.first().is_some_and(|word| word == "--exit") {
        return ExitCode::SUCCESS;
    }
    let is_init = std::process::id() == 1;
    if is_init || words.first().is_some_and(|word| word == "--ktext") {
        return ktext::run(is_init);
    }
    let result = wanted(&words).map(|wanted| print(&wanted, &mut io::stdout()));
    let problem = match result {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => format!("cannot write: {error}"),
        Err(problem) => problem,
    };
    // Without standard error there is still the status.
    let _ = writeln!(io::stderr(), "brisk-probe: {problem}");
    ExitCode::from(2)
}

fn wanted(words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        list: false,
        only: Vec::new(),
        time: Duration::from_millis(TIME),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match &**word {
            "--list" => wanted.list = true,
            "--only" => wanted.only = value()?.split(',').map(str::to_owned).collect(),
            "--time" => {
                let text = value()?;
                let time = text
                    .parse()
                    .map_err(|_| format!("--time {text}: not a number of milliseconds"))?;
                wanted.time = Duration::from_millis(time);
            }
            _ => {
                let known = "--list, --only NAME,… and --time MS";
                return Err(format!("{word}: no such option; there are {known}"));
            }
        }
    }
    let is_known = |name: &&String| OPERATIONS.iter().all(|known| known.name != **name);
    match wanted.only.iter().find(is_known) {
        Some(name) => Err(format!("{name}: no such operation; see --list")),
        None => Ok(wanted),
    }
}

fn print(wanted: &Wanted, output: &mut dyn Write) -> io::Result<()> {
    for operation in OPERATIONS {
        let name = operation.name;
        if !wanted.only.is_empty() && !wanted.only.iter().any(|only| only == name) {
            continue;
        }
        if wanted.list {
            writeln!(
                output,
                "{name}\tns per {}\t{}",
                operation.per, operation.meaning
            )?;
            continue;
        }
        let measured = operations::prepared(name)
            .and_then(|mut work| Ok(batch::measure(&mut *work, wanted.time)?));
        match measured {
            Ok(figure) => writeln!(
                output,
                "figure {name} {:.3} {:.3} {}",
                figure.median, figure.best, figure.batches
            )?,
            Err(batch::Skip(reason)) => writeln!(output, "skip {name} {reason}")?,
        }
        output.flush()?;
    }
    Ok(())
}
