//! The condition of a VM, asked of itself.

use std::fs;
use std::time::Duration;

use brisk_image::{Header, State};
use brisk_vm::qemu::control::{self, Control};
use brisk_vm::qemu::qmp;
use serde_json::json;

use super::condition::Condition;
use super::disk_error;
use super::ended::{note_end, note_end_if_idle};
use super::error::Error;
use super::kept;
use super::log_size;
use super::page_service::look_after;
use super::paths::VmPaths;
use super::process::{GLANCE, connect_within, end, is_there, pid, wait_for_end};
use super::running::Running;
use super::suspend_record;

/// How long QEMU may take to say what it is doing to a command that depends on it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The condition of a VM now.
///
/// # Errors
/// If its definition is wrong.
pub fn condition(paths: &VmPaths) -> Result<Condition, Error> {
    note_end_if_idle(paths);
    log_size::look_after(paths);
    condition_within(paths, GLANCE)
}

/// The condition of a VM whose QEMU may take so long to say it.
fn condition_within(paths: &VmPaths, limit: Duration) -> Result<Condition, Error> {
    let filling = look_after(paths)?;
    let stream = match connect_within(paths, limit) {
        Err(Error::Control(control::Error::Silent { .. })) => return Ok(Condition::Busy),
        other => other?,
    };
    if let Some(stream) = stream {
        let mut control = Control::new(&stream, qmp::Reader::default(), limit);
        let status = control
            .execute("qmp_capabilities", &json!(null))
            .and_then(|_| control.execute("query-status", &json!(null)));
        match status {
            Ok(status) if status["running"] == json!(true) => {
                let _ = fs::remove_file(paths.disk_error());
                return Ok(Condition::Running);
            }
            // Only a guest that has run stops at an error of a disk.
            Ok(status) if status["status"] == json!("io-error") => {
                disk_error::note(paths, &mut control);
                return Ok(Condition::Paused);
            }
            // A command was ended after the image was durable and before QEMU was, or before
            // QEMU had all of it: what counts is in the image.
            Ok(_) if !filling && in_image(paths, true)? => return Ok(Condition::Suspended),
            Ok(_) => return Ok(Condition::Paused),
            Err(_) if pid(paths).is_some() => return Ok(Condition::Busy),
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    // It has no sockets any more: it is about to end, or they were removed.
    if pid(paths).is_some() && !wait_for_end(paths, limit) {
        return Ok(Condition::Busy);
    }
    suspend_record::check_readable(paths)?;
    Ok(match in_image(paths, pid(paths).is_some())? {
        true => Condition::Suspended,
        false if suspend_record::missing(paths).is_some() => Condition::Missing,
        false if suspend_record::is_cut_off(paths, &paths.image_now()?) => Condition::CutOff,
        false => Condition::Off,
    })
}

/// Whether there is an image that no guest has run from, and that counts for this VM.
fn in_image(paths: &VmPaths, has_qemu: bool) -> Result<bool, Error> {
    let image = paths.image_now()?;
    let there = matches!(
        brisk_image::state(&image),
        Ok(State::Ready | State::Resuming { .. })
    );
    // Where it is not known whose it is, resume will see.
    Ok(there && suspend_record::is_own(paths, &image, has_qemu) != Some(false))
}

/// The condition of a VM, for the command that holds its lock: a QEMU that stands still beside
/// its image is none that counts, and is ended.
pub(super) fn settle(paths: &VmPaths) -> Result<Condition, Error> {
    note_end(paths);
    let now = condition_within(paths, PATIENCE)?;
    if now == Condition::Suspended && is_there(paths)? {
        paths.note("Ending what a command that was killed left standing still");
        end(paths)?;
        note_kept(paths)?;
    }
    if now == Condition::Running {
        suspend_record::SuspendRecord::remove_used(paths);
        let _ = fs::remove_file(paths.in_image());
    }
    if let Some(what) = unready(paths) {
        paths.note(match what {
            Unready::Booting => "Ending what a command that was killed was booting",
            Unready::Nameless => "Ending a clone that a command which was killed gave no identity",
        });
        end(paths)?;
        return condition(paths);
    }
    Ok(now)
}

/// Records again what kept memory of a suspended VM is, whose QEMU was ended beside its image.
pub(super) fn note_kept(paths: &VmPaths) -> Result<(), Error> {
    let image = brisk_image::resumable(&paths.image_now()?);
    let header = image.and_then(|image| Header::read(&image).ok());
    if let Some(header) = header.filter(|header| header.kept) {
        kept::note_kept_again(paths, &header);
    }
    Ok(())
}

/// Reason to let nobody into a VM: the command that makes it works on it, or was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unready {
    /// The guest has not got its script yet.
    Booting,
    /// The guest is a clone that has not got its identity yet.
    Nameless,
}

/// Why nobody may be let into a VM; none if it is ready.
pub(super) fn unready(paths: &VmPaths) -> Option<Unready> {
    let running = Running::of(paths).ok()?;
    match (running.booting, running.nameless) {
        (true, _) => Some(Unready::Booting),
        (false, true) => Some(Unready::Nameless),
        (false, false) => None,
    }
}
