//! Disks as nodes of QEMU's block layer (docs/interop/qemu-qmp-ref, `blockdev-add`).

use serde_json::{Value, json};

use super::machine::{Backing, Disk, DiskFormat};

/// The node of a disk. QEMU gets the format of each file that it reads from, so that it opens no
/// file that an image names.
pub(super) fn block_node(
    index: usize,
    disk: &Disk,
    fd: i32,
    backing: &[(&Backing, i32)],
) -> String {
    let protocol = if disk.device { "host_device" } else { "file" };
    let file = |protocol, fd| json!({ "driver": protocol, "filename": format!("/dev/fdset/{fd}") });
    if disk.format == DiskFormat::Raw {
        let read_only = if disk.writable { "off" } else { "on" };
        return format!(
            "driver=raw,node-name=disk{index},read-only={read_only},file.driver={protocol},\
             file.filename=/dev/fdset/{fd}"
        );
    }
    // From the last one on; where there is none, that is written, too.
    let chain = backing.iter().rev().fold(Value::Null, |behind, (one, fd)| {
        let mut node = json!({
            "driver": one.format.driver(),
            "read-only": true,
            "file": file("file", *fd),
        });
        if one.format == DiskFormat::Qcow2 {
            node["backing"] = behind;
        }
        node
    });
    let node = json!({
        "driver": "qcow2",
        "node-name": format!("disk{index}"),
        "read-only": !disk.writable,
        "file": file(protocol, fd),
        "backing": chain,
    });
    node.to_string()
}
