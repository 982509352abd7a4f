//! Work on a machine whose kernel may replicate its text, step by step: each line of standard input is
//! a step, and answered by a line on standard output.
//!
//! ```text
//! switch 0|1                 replication off or on
//! mark                       reads the file of the switch, by which a counter of QEMU's begins anew
//! module NAME                loads /modules/NAME.ko
//! show FILE                  lines of a file
//! work CPU,… TIMES           forks, signals, mappings, opens, modules that come and go, on each CPU
//! operation NAME CPU TIMES   one operation; the answer is nanoseconds and ticks of the TSC for each
//! cold 0|1                   caches are flushed at each system call of this process, or not
//! load CPU,…                 memory is copied on these CPUs until the next load
//! off                        ends, as a guest's init by turning the machine off
//! ```
//!
//! Answers begin with [`ANSWER`], since a guest's console has the kernel's messages as well: `ok`, with
//! numbers after it if there are some, or `error REASON`; before it `line TEXT` for each line of a file.
//! The first answer, without a step, says that the program is there.

mod guest;
mod operations;
mod work;

use std::fs;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use crate::sys::{self, Worker};

/// Begins an answer.
const ANSWER: &str = "brisk-ktext: ";
/// Switches replication.
const ACTIVE: &str = "/sys/kernel/debug/ktext_repl/active";
/// Names the process whose system calls flush caches; 0 is none.
const COLD: &str = "/sys/module/ktext_cold/parameters/pid";

/// Works until standard input ends, or a step ends it.
pub(crate) fn run(is_init: bool) -> ExitCode {
    let prepared = if is_init { guest::prepare() } else { Ok(()) };
    // An init's machine ends with it; and to read the switch is a mark.
    let before = (!is_init).then(Settings::read);
    let served = prepared.and_then(|()| serve(&mut io::stdin().lock(), &mut io::stdout()));
    if let Some(before) = before {
        before.restore();
    }
    if let Err(error) = &served {
        // Without standard output there is still the status.
        let _ = writeln!(io::stdout(), "\n{ANSWER}error {error}");
    }
    if is_init {
        sys::power_off();
    }
    ExitCode::from(u8::from(served.is_err()))
}

fn serve(steps: &mut dyn BufRead, answers: &mut dyn Write) -> io::Result<()> {
    sys::handle_signal()?;
    let mut load = Vec::new();
    // A message of the kernel's may be on the console without its end.
    writeln!(answers, "\n{ANSWER}ok")?;
    let mut step = String::new();
    loop {
        step.clear();
        if steps.read_line(&mut step)? == 0 || step.trim() == "off" {
            return Ok(());
        }
        match answered(step.trim(), &mut load, answers) {
            Ok(numbers) => writeln!(answers, "{}", format!("{ANSWER}ok {numbers}").trim_end())?,
            Err(error) => writeln!(answers, "{ANSWER}error {}: {error}", step.trim())?,
        }
        answers.flush()?;
    }
}

/// Settings of the machine, which are to be as before when whoever gives the steps is gone.
struct Settings([(&'static str, Option<String>); 2]);

impl Settings {
    fn read() -> Self {
        Self([ACTIVE, COLD].map(|path| (path, fs::read_to_string(path).ok())))
    }

    fn restore(&self) {
        for (path, before) in &self.0 {
            let now = fs::read_to_string(path).ok();
            if let Some(before) = before
                .as_ref()
                .filter(|before| now.as_ref() != Some(before))
            {
                let _ = fs::write(path, before);
            }
        }
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Numbers separated by commas.
fn cpus(list: &str) -> io::Result<Vec<usize>> {
    let number = |word: &str| word.parse().map_err(|_| invalid("not a list of CPUs"));
    list.split(',').map(number).collect()
}

fn number(word: &str) -> io::Result<u64> {
    word.parse().map_err(|_| invalid("not a number"))
}

fn answered(step: &str, load: &mut Vec<Worker>, answers: &mut dyn Write) -> io::Result<String> {
    let words: Vec<_> = step.split(' ').collect();
    match words[..] {
        ["switch", way @ ("0" | "1")] => fs::write(ACTIVE, way)?,
        ["mark"] => drop(fs::read(ACTIVE)?),
        ["module", name] => guest::load(name)?,
        ["show", path] => {
            for line in fs::read_to_string(path)?.lines() {
                writeln!(answers, "{ANSWER}line {line}")?;
            }
        }
        ["work", list, times] => work::work(&cpus(list)?, number(times)?)?,
        ["operation", name, cpu, times] => {
            let cpu = cpu.parse().map_err(|_| invalid("not a CPU"))?;
            return operations::measure(name, cpu, number(times)?);
        }
        ["cold", "0"] => fs::write(COLD, "0")?,
        ["cold", "1"] => fs::write(COLD, std::process::id().to_string())?,
        ["load"] => load.clear(),
        ["load", list] => *load = work::load(&cpus(list)?)?,
        _ => return Err(invalid("no such step")),
    }
    Ok(String::new())
}
