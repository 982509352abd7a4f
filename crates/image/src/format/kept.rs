//! Memory that stays in the RAM of the host while its guest is suspended.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::format::description::MAX_TEXT;

/// Place and content of memory that was kept. It is sealed with the image's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The file with the memory.
    pub path: PathBuf,
    /// First physical address of the area that has the file's system.
    pub start: u64,
    /// Bytes of that area.
    pub size: u64,
    /// boot_id of the host when the guest was suspended.
    pub boot: String,
    /// [`digest`](crate::digest()) of the memory.
    pub digest: [u8; 32],
}

impl Kept {
    pub(crate) fn check(&self) -> Result<(), String> {
        let lengths = [self.path.as_os_str().len(), self.boot.len()];
        if lengths.into_iter().any(|length| length > MAX_TEXT) {
            return Err(format!(
                "a name of kept memory longer than {MAX_TEXT} bytes"
            ));
        }
        Ok(())
    }
}
