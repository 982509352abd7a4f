//! Devices by the names that command lines and tables give them.

use std::path::{Path, PathBuf};

/// Path below the root of a device as command lines and tables name it.
pub(super) fn device_path(name: &str) -> Option<PathBuf> {
    if let Some(path) = name.strip_prefix("/dev/") {
        let is_inside = !path.split('/').any(|part| part == "..");
        return is_inside.then(|| Path::new("dev").join(path));
    }
    let (kind, value) = name.split_once('=')?;
    let directory = match kind {
        "UUID" => "by-uuid",
        "PARTUUID" => "by-partuuid",
        "LABEL" => "by-label",
        "PARTLABEL" => "by-partlabel",
        _ => return None,
    };
    let is_name = !value.is_empty() && !value.contains('/') && value != "..";
    is_name.then(|| Path::new("dev/disk").join(directory).join(value))
}
