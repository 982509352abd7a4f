//! Guests that QEMU has stopped because a disk failed (`werror=enospc` of its block devices).

use brisk_host::files::{self, Durability};
use brisk_vm::qemu::control::Control;
use serde_json::{Value, json};

use super::error::Error;
use super::paths::VmPaths;
use super::running::Running;

/// Finds out why QEMU has stopped the guest, and records it in the log, once.
pub(super) fn note(paths: &VmPaths, qmp: &mut Control<'_>) {
    let Ok(blocks) = qmp.execute("query-block", &json!(null)) else {
        return;
    };
    let disks = Running::of(paths).map_or_else(
        |_| Vec::new(),
        |running| {
            let disks = running.machine.devices.disks.into_iter();
            disks.map(|disk| disk.path.display().to_string()).collect()
        },
    );
    let reason = reason(&blocks, &disks);
    let path = paths.disk_error();
    if files::read_regular_text(&path).is_ok_and(|noted| noted == reason) {
        return;
    }
    paths.note(&format!("VM stands still: {reason}"));
    // Without it the reason is in the log alone.
    let _ = files::replace(&path, reason.as_bytes(), Durability::Atomic);
}

/// What `query-block` reports of disks that failed. The node of the disk at an index is `diskINDEX`.
fn reason(blocks: &Value, disks: &[String]) -> String {
    let failed = |block: &Value| {
        let status = block["io-status"]
            .as_str()
            .filter(|status| *status != "ok")?;
        let node = block["inserted"]["node-name"].as_str()?;
        let index = node.strip_prefix("disk")?.parse::<usize>().ok()?;
        let disk = disks.get(index).map_or(node, String::as_str);
        Some(match status {
            "nospace" => format!("no space is left for its disk {disk}: free some, and resume it"),
            _ => format!(
                "its disk {disk} failed with an input/output error, which the host's kernel log may \
                 explain; resume it when the disk works again"
            ),
        })
    };
    let failed: Vec<_> = blocks
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(failed)
        .collect();
    match failed.is_empty() {
        true => "QEMU stopped it because of a disk's input/output error".to_owned(),
        false => failed.join("; "),
    }
}

/// Why a VM stands still that no command works on, if that is known.
#[must_use]
pub fn standstill(paths: &VmPaths) -> Option<String> {
    memory_error(paths).or_else(|| files::read_regular_text(&paths.disk_error()).ok())
}

/// Why memory of a VM cannot be read from its image, if some cannot.
pub(super) fn memory_error(paths: &VmPaths) -> Option<String> {
    let noted = [paths.damaged(), paths.unreadable()];
    noted
        .iter()
        .find_map(|path| files::read_regular_text(path).ok())
}

/// Checks that a guest that stands still can go on: a failed disk may work again, memory that
/// cannot be read is missing.
///
/// # Errors
/// If memory of it cannot be read from its image.
pub(super) fn check_continuable(paths: &VmPaths) -> Result<(), Error> {
    memory_error(paths).map_or(Ok(()), |reason| {
        Err(Error::state(
            &paths.name,
            format!("stands still: {reason}"),
            "it goes on by itself as soon as its image can be read",
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_that_failed_is_named() {
        let block = |node: &str, status: &str| json!({ "io-status": status, "inserted": { "node-name": node } });
        let blocks = json!([block("disk0", "ok"), block("disk1", "nospace"), { "device": "x" }]);
        let disks = ["/a.raw", "/b.raw"].map(str::to_owned);
        assert_eq!(
            reason(&blocks, &disks),
            "no space is left for its disk /b.raw: free some, and resume it"
        );
        let text = reason(&json!([block("disk7", "failed")]), &disks);
        assert!(
            text.starts_with("its disk disk7 failed with an input/output error"),
            "{text}"
        );
        assert_eq!(
            reason(&json!([]), &disks),
            "QEMU stopped it because of a disk's input/output error"
        );
    }
}
