//! The older call, kexec_load(2), made by the program kexec of kexec-tools: the caller of this call
//! takes the image apart and places its parts, as the boot loader would.

use std::fs::File;
use std::os::fd::AsRawFd;

use brisk_host::program::Program;

use super::refusal::Refusal;
use super::{LoadError, Loadable};

/// Has kexec use this call, and no other.
const SYSCALL: &str = "--kexec-syscall";

/// Loads files that the newer call has refused.
pub(super) fn load(files: &Loadable, refusal: Refusal) -> Result<(), LoadError> {
    let words = words(files);
    let loaded = Program::find("kexec").and_then(|program| program.args(words).run());
    loaded
        .map(drop)
        .map_err(|source| LoadError::Older { refusal, source })
}

/// Unloads what the newer call cannot.
pub(super) fn unload(refusal: Refusal) -> Result<(), LoadError> {
    let program = Program::find("kexec");
    let unloaded = program.and_then(|program| program.args([SYSCALL, "--unload"]).run());
    unloaded
        .map(drop)
        .map_err(|source| LoadError::StaysToo { refusal, source })
}

fn words(files: &Loadable) -> Vec<String> {
    // Files that may be in memory have no other name.
    let name = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let cmdline = files.cmdline.to_string_lossy();
    let mut words = vec![
        SYSCALL.to_owned(),
        "--load".to_owned(),
        name(&files.kernel),
        format!("--command-line={cmdline}"),
    ];
    let initrd = files.initrd.iter();
    words.extend(initrd.map(|file| format!("--initrd={}", name(file))));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::target::Target;

    #[test]
    fn kexec_gets_open_files_and_the_command_line_as_one_word() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["kernel", "initrd"].map(|name| dir.path().join(name));
        for path in &paths {
            std::fs::write(path, "").unwrap();
        }
        let [kernel, initrd] = paths;
        let target = Target {
            release: String::new(),
            kernel: kernel.clone(),
            initrds: vec![initrd.clone()],
            cmdline: "root=/dev/vda quiet".to_owned(),
            is_uki: false,
        };
        let files = Loadable::open(&target).unwrap();
        let words = words(&files);
        assert_eq!(words[..2], ["--kexec-syscall", "--load"]);
        assert_eq!(std::fs::read_link(&words[2]).unwrap(), kernel);
        assert_eq!(words[3], "--command-line=root=/dev/vda quiet");
        let file = words[4].strip_prefix("--initrd=").unwrap();
        assert_eq!(std::fs::read_link(file).unwrap(), initrd);
    }
}
