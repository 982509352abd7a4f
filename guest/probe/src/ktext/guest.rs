//! The program as the init of a guest, whose initial RAM disk has nothing but it and modules.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;

use crate::sys;

/// Mounts what the steps look at.
pub(super) fn prepare() -> io::Result<()> {
    for directory in ["/proc", "/sys", "/dev"] {
        fs::create_dir_all(directory)?;
    }
    sys::mount_kernel(c"proc", c"/proc")?;
    sys::mount_kernel(c"sysfs", c"/sys")?;
    sys::mount_kernel(c"devtmpfs", c"/dev")?;
    // A kernel without it says so when a step needs its files.
    let _ = sys::mount_kernel(c"debugfs", c"/sys/kernel/debug");
    Ok(())
}

fn path(name: &str) -> String {
    format!("/modules/{name}.ko")
}

/// Loads a module of the initial RAM disk.
pub(super) fn load(name: &str) -> io::Result<()> {
    sys::load_module(&File::open(path(name))?)
}

/// Unloads a module, and loads it, if the initial RAM disk has it.
pub(super) fn reload(name: &str) -> io::Result<()> {
    let Ok(file) = File::open(path(name)) else {
        return Ok(());
    };
    // For the first time it is not loaded.
    let _ = sys::unload_module(&CString::new(name.replace('-', "_"))?);
    sys::load_module(&file)
}
