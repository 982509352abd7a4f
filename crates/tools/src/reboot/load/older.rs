//! The older call, kexec_load(2), made by the program kexec of kexec-tools: the caller of this call
//! takes the image apart and places its parts, as the boot loader would.

use std::fs::File;
use std::os::fd::AsRawFd;

use brisk_host::program::{self, Program};
use rustix::io::Errno;

use super::refusal::Refusal;
use super::{LoadError, Loadable};

/// Has kexec use this call, and no other.
const SYSCALL: &str = "--kexec-syscall";

/// Loads files that the newer call has refused.
pub(super) fn load(files: &Loadable, refusal: Refusal) -> Result<(), LoadError> {
    let words = words(files);
    let loaded = Program::find("kexec").and_then(|program| program.args(words).run());
    loaded.map(drop).map_err(|source| match memory(&source) {
        Some(memory) => LoadError::Refused(memory),
        None => LoadError::Older { refusal, source },
    })
}

/// The want of memory for which kexec failed. It has one exit status for all errors of the call, and
/// prints the text of the C library (`my_load` in `kexec/kexec.c` of kexec-tools 2.0.25).
fn memory(error: &program::Error) -> Option<Refusal> {
    let program::Error::Failed { stderr, .. } = error else {
        return None;
    };
    let texts = [
        ("kexec_load failed: Cannot allocate memory", Errno::NOMEM),
        (
            "kexec_load failed: Cannot assign requested address",
            Errno::ADDRNOTAVAIL,
        ),
    ];
    let mut texts = texts.into_iter();
    texts.find_map(|(text, errno)| stderr.contains(text).then(|| Refusal::new(errno)))
}

/// Unloads what the newer call cannot.
pub(super) fn unload(refusal: Refusal) -> Result<(), LoadError> {
    let program = Program::find("kexec");
    let unloaded = program.and_then(|program| program.args([SYSCALL, "--unload"]).run());
    unloaded.map(drop).map_err(|source| LoadError::Stays {
        refusal,
        source: Some(source),
    })
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
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::reboot::load::Course;
    use crate::reboot::target::Target;

    #[test]
    fn want_of_memory_is_told_from_what_does_not_pass() {
        let of = |stderr: &str| {
            memory(&program::Error::Failed {
                command: "kexec".to_owned(),
                status: ExitStatus::from_raw(0xff00),
                stderr: stderr.to_owned(),
            })
        };
        let entry = "entry       = 0x13fffd770 flags = 0x3e0000\nnr_segments = 7\n";
        for (text, errno) in [
            ("Cannot allocate memory", Errno::NOMEM),
            ("Cannot assign requested address", Errno::ADDRNOTAVAIL),
        ] {
            let refusal = of(&format!("kexec_load failed: {text}\n{entry}")).unwrap();
            assert_eq!(refusal, Refusal::new(errno));
            assert_eq!(refusal.course(), Course::Memory);
        }
        let other = format!("kexec_load failed: Operation not permitted\n{entry}");
        assert_eq!(of(&other), None);
        assert_eq!(of("Cannot determine the file type of /boot/x"), None);
        let missing = program::Error::NotFound {
            name: "kexec".to_owned(),
        };
        assert_eq!(memory(&missing), None);
    }

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
