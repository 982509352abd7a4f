//! The initial RAM disk: one program, and modules.

use std::io;

use brisk_vm::initramfs::cpio;

use super::kernel::Module;
use crate::overhead::probe::PROGRAM;

/// Packs it.
pub(super) fn initramfs(modules: &[Module]) -> io::Result<Vec<u8>> {
    let mut archive = cpio::Writer::default();
    for directory in ["dev", "modules"] {
        archive.add(directory, cpio::DIR | 0o755, (0, 0), &[])?;
    }
    archive.add("dev/console", cpio::CHARACTER | 0o600, (5, 1), &[])?;
    archive.add("init", cpio::FILE | 0o755, (0, 0), PROGRAM)?;
    for module in modules {
        let path = format!("modules/{}.ko", module.name);
        archive.add(&path, cpio::FILE | 0o644, (0, 0), &module.content)?;
    }
    archive.finish()
}
