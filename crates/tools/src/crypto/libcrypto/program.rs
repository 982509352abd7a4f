//! Output of `openssl`, of a bounded length and within a bounded time.

use std::io::{self, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use brisk_host::program::Program;
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

/// Bytes of output that are read; what follows is left.
const LIMIT: usize = 1 << 20;
/// Longest run of a program that works, also in an emulated guest.
pub(in crate::crypto) const AT_WORK: Duration = Duration::from_secs(60);
/// Longest run of a program.
pub(in crate::crypto) const PATIENCE: Duration = Duration::from_secs(10);

/// Standard output of a program that runs for so long at most, or why there is none.
pub(in crate::crypto) fn output(program: &Program, limit: Duration) -> Result<String, String> {
    let name = program.shell_quoted();
    let mut command = program.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    let read = read(&mut child, Instant::now() + limit);
    // What has not ended by now is not waited for.
    if !matches!(read, Ok(Output { is_whole: true, .. })) {
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    match read {
        Ok(Output { is_late: true, .. }) => {
            Err(format!("{name}: no end within {} s", limit.as_secs()))
        }
        Ok(output) if status.success() || !output.is_whole => {
            Ok(String::from_utf8_lossy(&output.bytes).into_owned())
        }
        Ok(_) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("cannot read the output of {name}: {error}")),
    }
}

struct Output {
    bytes: Vec<u8>,
    /// Whether all of it was read.
    is_whole: bool,
    is_late: bool,
}

fn read(child: &mut Child, until: Instant) -> io::Result<Output> {
    let mut output = Output {
        bytes: Vec::new(),
        is_whole: false,
        is_late: false,
    };
    let Some(stream) = &mut child.stdout else {
        return Ok(output);
    };
    let mut part = [0; 4096];
    while output.bytes.len() < LIMIT {
        let mut waits = [PollFd::new(&*stream, PollFlags::IN)];
        wait_for(&mut waits, Some(until))?;
        if waits[0].revents().is_empty() {
            output.is_late = true;
            return Ok(output);
        }
        match stream.read(&mut part)? {
            0 => {
                output.is_whole = true;
                return Ok(output);
            }
            length => output.bytes.extend(&part[..length]),
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        output(&Program::at("/bin/sh").args(["-c", script]), limit)
    }

    #[test]
    fn output_is_bounded_in_time_and_length() {
        assert_eq!(shell("echo a; echo b >&2", PATIENCE), Ok("a\n".to_owned()));
        let failed = shell("echo a; exit 3", PATIENCE).unwrap_err();
        assert!(failed.ends_with("exit status: 3"), "{failed}");
        let endless = shell("exec yes", PATIENCE).unwrap();
        assert!((LIMIT..LIMIT + 4096).contains(&endless.len()));
        let late = shell("exec sleep 4321", Duration::from_secs(1)).unwrap_err();
        assert!(late.ends_with("no end within 1 s"), "{late}");
        let missing = output(&Program::at("/nonexistent"), PATIENCE).unwrap_err();
        assert!(missing.starts_with("cannot run /nonexistent"), "{missing}");
    }
}
