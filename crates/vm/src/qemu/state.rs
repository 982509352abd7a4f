//! Device state: a VM without its memory, as QEMU's migration writes it.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::control::{Control, Error};
use super::machine::{Fds, State};

/// Most bytes of device state; some hundred KiB are usual.
pub const STATE_LIMIT: u64 = 256 << 20;

/// Time limit of QEMU between two signs of progress.
const PATIENCE: Duration = Duration::from_secs(30);

/// The capability that leaves out memory in a shared file.
fn without_memory() -> Value {
    let capability = json!({ "capability": "x-ignore-shared", "state": true });
    json!({ "capabilities": [capability] })
}

/// Commands with their arguments for a QEMU that waits for the state in [`Fds::STATE`]; when QEMU
/// has loaded it, the guest runs.
#[must_use]
pub fn loading(state: &State) -> [(&'static str, Value); 2] {
    let uri = format!(
        "file:/proc/self/fd/{},offset={:#x}",
        Fds::STATE,
        state.offset
    );
    [
        ("migrate-set-capabilities", without_memory()),
        ("migrate-incoming", json!({ "uri": uri })),
    ]
}

/// Loads the state in [`Fds::STATE`] into a QEMU that waits for it.
///
/// # Errors
/// If QEMU cannot load it, or ends; QEMU ends itself when the state does not fit the VM.
pub fn load_state(control: &mut Control<'_>, state: &State) -> Result<(), Error> {
    for (command, arguments) in loading(state) {
        control.execute(command, &arguments)?;
    }
    completed(control, "load its devices")
}

/// Prepares a QEMU that waits for a state for a postcopy resume; the inner result says why that is
/// not possible.
///
/// # Errors
/// If QEMU ends or does not answer. That it cannot is no error.
pub fn allow_late_memory(control: &mut Control<'_>) -> Result<Result<(), String>, Error> {
    match control.execute("migrate-set-capabilities", &postcopy(true)) {
        Ok(_) => Ok(Ok(())),
        Err(Error::Refused { reason, .. }) => Ok(Err(reason)),
        Err(error) => Err(error),
    }
}

/// Starts the postcopy resume from `stream`.
///
/// # Errors
/// If QEMU refuses or ends.
pub fn take_late_memory(control: &mut Control<'_>, stream: BorrowedFd<'_>) -> Result<(), Error> {
    control.give("memory", stream)?;
    control.execute("migrate-incoming", &json!({ "uri": "fd:memory" }))?;
    Ok(())
}

/// Ends the postcopy resume after the last page, so that the VM can be suspended again.
///
/// # Errors
/// If QEMU has failed or ends.
pub fn end_late_memory(control: &mut Control<'_>) -> Result<(), Error> {
    completed(control, "take the memory")?;
    control.execute("migrate-set-capabilities", &postcopy(false))?;
    Ok(())
}

fn postcopy(on: bool) -> Value {
    let capability = |name| json!({ "capability": name, "state": on });
    json!({ "capabilities": [capability("postcopy-ram"), capability("events")] })
}

/// Stops the guest; the result is its device state. Its memory must be a shared file: it is not
/// copied, and complete when this returns.
///
/// The guest stays stopped until `cont`. A guest that was running runs where its state is loaded,
/// too: QEMU's migration records that.
///
/// # Errors
/// If QEMU cannot save this VM, or ends.
pub fn save_state(control: &mut Control<'_>) -> Result<Vec<u8>, Error> {
    control.execute("migrate-set-capabilities", &without_memory())?;
    let (ours, theirs) = UnixStream::pair().map_err(Error::Channel)?;
    ours.set_read_timeout(Some(PATIENCE))
        .map_err(Error::Channel)?;
    control.give("state", theirs.as_fd())?;
    drop(theirs);
    // QEMU may write before it answers, and with the lock that it needs to answer: were nobody to read
    // what is more than the socket holds, it would do neither.
    let (started, state) = thread::scope(|scope| {
        let reading = scope.spawn(|| read_limited(&ours));
        let started = control.execute("migrate", &json!({ "uri": "fd:state" }));
        if started.is_err() {
            // Nothing comes. That it fails means that there is no peer any more.
            let _ = ours.shutdown(Shutdown::Both);
        }
        let read = reading.join();
        (started, read.unwrap_or_else(|panic| resume_unwind(panic)))
    });
    started?;
    let state = state.map_err(Error::Channel)?;
    if state.len() as u64 == STATE_LIMIT {
        return Err(Error::Failed {
            what: "save its devices",
            reason: format!("they have more than {STATE_LIMIT} bytes of state"),
        });
    }
    completed(control, "save its devices")?;
    Ok(state)
}

/// Reads until the end, or [`STATE_LIMIT`].
fn read_limited(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut state = Vec::new();
    let _ = stream.take(STATE_LIMIT).read_to_end(&mut state)?;
    Ok(state)
}

/// Waits until the migration has completed: QEMU closes the stream before it reports that.
fn completed(control: &mut Control<'_>, what: &'static str) -> Result<(), Error> {
    loop {
        let answer = control.execute("query-migrate", &json!(null))?;
        match answer["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") | None => {
                let reason = answer["error-desc"].as_str().unwrap_or("no reason given");
                return Err(Error::Failed {
                    what,
                    reason: reason.to_owned(),
                });
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::mem::MaybeUninit;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::super::qmp::Reader;
    use super::*;

    /// More than a socket holds.
    static STATE: [u8; 4 << 20] = [7; 4 << 20];

    /// Next command to a QEMU, and the descriptor that came with it.
    fn command(stream: &UnixStream) -> Option<(Value, Option<File>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; 4096];
        let slice = &mut [io::IoSliceMut::new(&mut buffer)];
        let got = recvmsg(stream, slice, &mut ancillary, RecvFlags::empty()).unwrap();
        let fd = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let text = &buffer[..got.bytes];
        let command = (!text.is_empty()).then(|| serde_json::from_slice(text).unwrap());
        command.map(|command| (command, fd.map(File::from)))
    }

    /// Answers commands, one by one, as a QEMU does whose migration thread is ahead of its main loop.
    fn qemu(stream: &UnixStream, migrates: bool) {
        let mut to = None;
        while let Some((command, fd)) = command(stream) {
            to = fd.or(to);
            let answer = match command["execute"].as_str() {
                Some("migrate") if migrates => {
                    // Fails if nobody reads.
                    let _ = to.take().unwrap().write_all(&STATE);
                    json!({ "return": {}, "id": command["id"] })
                }
                Some("migrate") => json!({ "error": { "desc": "no" }, "id": command["id"] }),
                Some("query-migrate") => {
                    json!({ "return": { "status": "completed" }, "id": command["id"] })
                }
                _ => json!({ "return": {}, "id": command["id"] }),
            };
            // It may have given up.
            let _ = { stream }.write_all(format!("{answer}\n").as_bytes());
        }
    }

    fn saved(migrates: bool) -> Result<Vec<u8>, Error> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let running = scope.spawn(move || qemu(&theirs, migrates));
            let mut control = Control::new(&ours, Reader::default(), Duration::from_secs(10));
            let saved = save_state(&mut control);
            ours.shutdown(Shutdown::Both).unwrap();
            running.join().unwrap();
            saved
        })
    }

    #[test]
    fn a_state_is_read_that_comes_before_the_answer() {
        let state = saved(true).unwrap();
        assert!(state == STATE, "{} bytes", state.len());
    }

    #[test]
    fn a_refused_migration_is_not_waited_for() {
        let begun = std::time::Instant::now();
        let error = saved(false).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
}
