//! Tests that are made while the program runs: shown as ignored, with the reason, where they
//! cannot be.

use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::Trial;

use crate::program::{capture, tool, version};

/// A test; with a reason, it is ignored. A panic is a failure with its message in the output.
#[must_use]
pub fn trial(
    name: impl Into<String>,
    ignored: Option<impl Into<String>>,
    test: impl FnOnce() + Send + 'static,
) -> Trial {
    let trial = Trial::test(name, move || {
        test();
        Ok(())
    });
    match ignored {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}

/// Tests that all are ignored for the same reason, if there is one.
#[must_use]
pub fn trials<const N: usize>(
    ignored: Option<String>,
    tests: [(&'static str, fn()); N],
) -> Vec<Trial> {
    tests
        .map(|(name, test)| trial(name, ignored.clone(), test))
        .into()
}

/// The reason not to run what only a later QEMU can, if this one is older.
#[must_use]
pub fn qemu_is_before(major: u32, minor: u32) -> Option<String> {
    let output = capture(&tool("qemu-system-x86_64"), &["--version"]);
    let before = version(&output) < (major, minor);
    before.then(|| format!("QEMU before {major}.{minor}"))
}

/// The QEMU that the distribution installs, if it is before this version, else the reason not to run what
/// needs one that is.
pub fn system_qemu_before(major: u32, minor: u32) -> Result<PathBuf, String> {
    let path = PathBuf::from("/usr/bin/qemu-system-x86_64");
    let output = Command::new(&path).arg("--version").output();
    let said = output.map_err(|_| "no QEMU of the distribution".to_owned())?;
    match version(&String::from_utf8_lossy(&said.stdout)) < (major, minor) {
        true => Ok(path),
        false => Err(format!(
            "the distribution's QEMU is not before {major}.{minor}"
        )),
    }
}

/// The reason not to run what needs a capability (capabilities(7)), if this process lacks it.
#[must_use]
pub fn lacks(name: &str, number: u32) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    (set >> number & 1 == 0).then(|| format!("without {name}"))
}

/// The reason not to run what needs a virtiofsd whose state can be kept, if this one's cannot.
#[must_use]
pub fn virtiofsd_keeps_nothing() -> Option<String> {
    let output = Command::new(tool("virtiofsd")).arg("--help").output();
    let help = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    let keeps = help.contains("--migration-on-error");
    (!keeps).then(|| "virtiofsd before 1.11".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::program::version;

    #[test]
    fn a_version_is_a_number_not_a_text() {
        let text = |version| format!("QEMU emulator version {version} (Debian 1:{version}+x)\n");
        assert_eq!(version(&text("10.0.2")), (10, 0));
        assert!(version(&text("7.2.9")) < version(&text("10.0.2")));
    }
}
