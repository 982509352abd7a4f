//! The state of a machine without its memory, as QEMU's migration writes it.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::control::{Control, Error};
use super::machine::{Fds, State};

/// More than any machine's devices have, bytes; some hundred KiB are usual.
pub const STATE_LIMIT: u64 = 256 << 20;

/// How long QEMU may be silent while it writes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The capability that leaves memory out that is a shared file.
fn without_memory() -> Value {
    let capability = json!({ "capability": "x-ignore-shared", "state": true });
    json!({ "capabilities": [capability] })
}

/// Commands with their arguments for a QEMU that waits for the state in [`Fds::STATE`]; when it
/// has it, the guest runs.
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

/// Has a QEMU that waits for the state in [`Fds::STATE`] load it, and returns when it has it.
///
/// # Errors
/// If QEMU cannot load it, or ends; it ends itself when the state does not fit the machine.
pub fn load_state(control: &mut Control<'_>, state: &State) -> Result<(), Error> {
    for (command, arguments) in loading(state) {
        control.execute(command, &arguments)?;
    }
    completed(control, "load its devices")
}

/// Whether a QEMU that waits for a state takes a guest whose memory comes later, page by page; if
/// so, it is set to.
///
/// # Errors
/// If it ends or does not answer. That it cannot is no error, but its reason.
pub fn allow_late_memory(control: &mut Control<'_>) -> Result<Result<(), String>, Error> {
    match control.execute("migrate-set-capabilities", &postcopy(true)) {
        Ok(_) => Ok(Ok(())),
        Err(Error::Refused { reason, .. }) => Ok(Err(reason)),
        Err(error) => Err(error),
    }
}

/// Has it take the machine from `stream`.
///
/// # Errors
/// If QEMU refuses or ends.
pub fn take_late_memory(control: &mut Control<'_>, stream: BorrowedFd<'_>) -> Result<(), Error> {
    control.give("memory", stream)?;
    control.execute("migrate-incoming", &json!({ "uri": "fd:memory" }))?;
    Ok(())
}

/// After the last page: as any other QEMU again, which can be saved.
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

/// Stops the guest and returns the state of its devices. Its memory must be a shared file: it is
/// left where it is, and whole when this returns.
///
/// The guest stays stopped; to have it go on, send `cont`. A guest that was running before runs
/// where its state is loaded, too: QEMU's migration notes that.
///
/// # Errors
/// If QEMU cannot save this machine, or ends.
pub fn save_state(control: &mut Control<'_>) -> Result<Vec<u8>, Error> {
    control.execute("migrate-set-capabilities", &without_memory())?;
    let (mut ours, theirs) = UnixStream::pair().map_err(Error::Channel)?;
    ours.set_read_timeout(Some(PATIENCE))
        .map_err(Error::Channel)?;
    control.give("state", theirs.as_fd())?;
    drop(theirs);
    control.execute("migrate", &json!({ "uri": "fd:state" }))?;
    let mut state = Vec::new();
    let mut limited = (&mut ours).take(STATE_LIMIT);
    limited.read_to_end(&mut state).map_err(Error::Channel)?;
    if state.len() as u64 == STATE_LIMIT {
        return Err(Error::Failed {
            what: "save its devices",
            reason: format!("they have more than {STATE_LIMIT} bytes of state"),
        });
    }
    completed(control, "save its devices")?;
    Ok(state)
}

/// QEMU closes the stream before it says that all is well.
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
