//! Services of kexec-tools before 2.0.27, as of Debian 12: scripts of `/etc/init.d` that systemd stops
//! at each shutdown.
//!
//! `kexec-load` then loads a kernel, with `LOAD_KEXEC=true` in `/etc/default/kexec` and if the machine
//! is to restart. `kexec` jumps into the kernel that is loaded, whoever loaded it, although other
//! services still stop and file systems are still mounted. A drop-in of systemd.unit(5) takes from them
//! what they do when they are stopped, also if something starts them until then. They are not stopped
//! here: one that jumps could do that at once.

use std::fs;
use std::path::{Path, PathBuf};

use super::drop_in;
use super::live::systemctl;

/// The scripts, of which systemd makes services.
const SCRIPTS: [&str; 2] = ["kexec-load", "kexec"];

const SETTINGS: &str = "[Service]\nExecStop=\n";

/// Has the services do nothing when they are stopped.
///
/// # Errors
/// If systemd does not take that.
pub(super) fn silence() -> Result<(), String> {
    let root = Path::new("/");
    if !write(root)? {
        return Ok(());
    }
    systemctl(&["daemon-reload"])?;
    let names = SCRIPTS.map(|script| format!("{script}.service"));
    let names = names.iter().map(String::as_str);
    let words: Vec<_> = ["show", "--property=ExecStop", "--value"]
        .into_iter()
        .chain(names)
        .collect();
    match systemctl(&words)?.trim() {
        "" => Ok(()),
        _ => Err(
            "kexec-load.service or kexec.service of kexec-tools would start a kernel themselves, and \
             systemd did not take ExecStop=; see systemctl cat kexec.service"
                .to_owned(),
        ),
    }
}

/// Undoes [`silence`].
///
/// # Errors
/// If a drop-in cannot be removed, or systemd does not read its units again.
pub(super) fn restore() -> Result<(), String> {
    match remove(Path::new("/"))? {
        true => systemctl(&["daemon-reload"]).map(drop),
        false => Ok(()),
    }
}

fn path_of(root: &Path, script: &str) -> PathBuf {
    let directory = root.join(format!("run/systemd/system/{script}.service.d"));
    directory.join("50-brisk-reboot.conf")
}

/// Writes drop-ins for the scripts that there are; whether there are any.
fn write(root: &Path) -> Result<bool, String> {
    let mut any = false;
    for script in SCRIPTS {
        if !root.join("etc/init.d").join(script).exists() {
            continue;
        }
        let path = path_of(root, script);
        drop_in::write(&path, SETTINGS)?;
        any = true;
    }
    Ok(any)
}

/// Removes drop-ins; whether there were any.
fn remove(root: &Path) -> Result<bool, String> {
    let mut any = false;
    for script in SCRIPTS {
        let path = path_of(root, script);
        any |= drop_in::remove(&path)?;
        // One that has other files stays.
        path.parent().map(fs::remove_dir);
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_there_have_drop_ins_until_they_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let is_there = |script| path_of(root.path(), script).exists();
        assert_eq!(write(root.path()), Ok(false));
        fs::create_dir_all(root.path().join("etc/init.d")).unwrap();
        fs::write(root.path().join("etc/init.d/kexec"), "").unwrap();
        // Also a second time, as after a load that was put off.
        for _ in 0..2 {
            assert_eq!(write(root.path()), Ok(true));
        }
        assert!(is_there("kexec") && !is_there("kexec-load"));
        let text = fs::read_to_string(path_of(root.path(), "kexec")).unwrap();
        assert!(text.ends_with("[Service]\nExecStop=\n"), "{text}");
        assert_eq!(remove(root.path()), Ok(true));
        assert_eq!(remove(root.path()), Ok(false));
        assert!(
            !root
                .path()
                .join("run/systemd/system/kexec.service.d")
                .exists()
        );
    }
}
