//! Output of a program that ends when the user interrupts.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{Error, Program, tail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::{Ended, Interrupt, wait_for_child};

/// A program without output.
#[derive(Debug)]
pub enum NoOutput {
    /// It failed.
    Failed(Error),
    /// The user interrupts; the program was killed with all that it had started.
    Interrupted(i32),
}

/// Runs a program to its end without input; what it wrote to standard output.
pub fn output(program: &Program, interrupt: &Interrupt) -> Result<Vec<u8>, NoOutput> {
    output_within(program, None, interrupt)
}

/// Runs a program as [`output`] does. One that takes longer than `limit` is killed with all that it
/// has started, and has failed.
pub fn output_within(
    program: &Program,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Vec<u8>, NoOutput> {
    let cannot = |source| {
        NoOutput::Failed(Error::Start {
            command: program.shell_quoted(),
            source,
        })
    };
    let (mut output, mut messages) = (file().map_err(cannot)?, file().map_err(cannot)?);
    let mut command = program.command();
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(cannot)?)
        .stderr(messages.try_clone().map_err(cannot)?)
        // It can be ended with all that it starts.
        .process_group(0);
    let mut child = command.spawn().map_err(cannot)?;
    let waited = wait_for_child(&child, limit, interrupt);
    let signal = interrupt.signal();
    if signal.is_some() || !matches!(waited, Ok(Ended::Itself)) {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait().map_err(cannot)?;
    let ended = waited.map_err(cannot)?;
    if let Some(signal) = signal {
        return Err(NoOutput::Interrupted(signal));
    }
    if let (Ended::TooLate, Some(limit)) = (ended, limit) {
        return Err(NoOutput::Failed(Error::Failed {
            command: program.shell_quoted(),
            status,
            stderr: format!("killed: no end within {} s", limit.as_secs()),
        }));
    }
    if status.success() {
        return read(&mut output).map_err(cannot);
    }
    let messages = read(&mut messages).map_err(cannot)?;
    let messages = String::from_utf8_lossy(&messages);
    Err(NoOutput::Failed(Error::Failed {
        command: program.shell_quoted(),
        status,
        stderr: tail(&messages),
    }))
}

fn file() -> io::Result<File> {
    tempfile::tempfile()
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, interrupt: &Interrupt) -> Result<Vec<u8>, NoOutput> {
        output(&Program::at("/bin/sh").args(["-c", script]), interrupt)
    }

    #[test]
    fn it_ends_by_itself_or_with_all_its_children_by_an_interrupt() {
        let interrupt = Interrupt::new().unwrap();
        assert_eq!(shell("echo a; echo b >&2", &interrupt).unwrap(), b"a\n");
        let failed = shell("echo a; echo why >&2; exit 3", &interrupt).unwrap_err();
        let NoOutput::Failed(error) = failed else {
            panic!("{failed:?}");
        };
        assert!(
            error.to_string().ends_with("exit status: 3\n  why"),
            "{error}"
        );
        let program = Program::at("/bin/sh").args(["-c", "sleep 4321 & sleep 4321"]);
        let late = output_within(&program, Some(Duration::from_secs(1)), &interrupt).unwrap_err();
        let NoOutput::Failed(error) = late else {
            panic!("{late:?}");
        };
        assert!(
            error.to_string().ends_with("killed: no end within 1 s"),
            "{error}"
        );
        interrupt.trigger().unwrap().pull();
        let ended = output(&program, &interrupt).unwrap_err();
        assert!(matches!(ended, NoOutput::Interrupted(15)), "{ended:?}");
    }
}
