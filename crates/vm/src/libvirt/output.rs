//! Output of `virsh`, which may take too long, or be watched meanwhile.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use brisk_host::files::in_memory;
use brisk_host::program;

use super::virsh::Error;

/// Interval at which it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(50);
/// Most bytes of its output that are read.
const MOST: u64 = 4 << 20;

/// Runs `virsh` to its end; the result is its output. `look` is called meanwhile, again and again.
///
/// # Errors
/// If it fails, or takes longer than `limit`.
pub(super) fn of(
    mut command: Command,
    name: &str,
    limit: Option<Duration>,
    look: &mut dyn FnMut(),
) -> Result<Vec<u8>, Error> {
    let failed = |what| move |source| Error::Watch { what, source };
    let memory = || in_memory("virsh", b"").map_err(failed("make memory for its output"));
    let (mut stdout, mut stderr) = (memory()?, memory()?);
    let clone = |file: &File| file.try_clone().map_err(failed("share its output"));
    command
        .stdin(Stdio::null())
        .stdout(clone(&stdout)?)
        .stderr(clone(&stderr)?);
    let mut child = command.spawn().map_err(failed("start virsh"))?;
    let status = wait(&mut child, name, limit, look)?;
    if status.success() {
        return Ok(content(&mut stdout));
    }
    Err(Error::Virsh(program::Error::Failed {
        command: format!("virsh {name}"),
        status,
        stderr: program::tail(&String::from_utf8_lossy(&content(&mut stderr))),
    }))
}

fn wait(
    child: &mut Child,
    name: &str,
    limit: Option<Duration>,
    look: &mut dyn FnMut(),
) -> Result<ExitStatus, Error> {
    let begun = Instant::now();
    loop {
        let ended = child.try_wait().map_err(|source| Error::Watch {
            what: "wait for virsh",
            source,
        })?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            crate::launch::end(child);
            return Err(Error::TimedOut(name.to_owned()));
        }
        look();
        thread::sleep(GLANCE);
    }
}

fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read is missing in a message.
    let _ = file
        .rewind()
        .and_then(|()| file.take(MOST).read_to_end(&mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_messages_are_told_apart() {
        let out = of(shell("echo out; echo err >&2"), "x", None, &mut || {});
        assert_eq!(out.unwrap(), b"out\n");
        let error = of(
            shell("echo out; echo no domain >&2; exit 1"),
            "x",
            None,
            &mut || {},
        );
        let error = error.unwrap_err();
        let Error::Virsh(program::Error::Failed { stderr, .. }) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(stderr, "no domain");
    }

    #[test]
    fn one_that_does_not_answer_is_ended() {
        let mut looked = 0;
        let limit = Some(Duration::from_millis(120));
        let error = of(shell("exec sleep 1000"), "dominfo", limit, &mut || {
            looked += 1
        });
        assert!(matches!(error, Err(Error::TimedOut(name)) if name == "dominfo"));
        assert!(looked > 0);
    }
}
