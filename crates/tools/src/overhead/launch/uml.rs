//! User-mode Linux. Pure.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::start::{Channel, Launch, Place};

/// Memory, unless the command line says otherwise.
const MEMORY: &str = "mem=1G";

/// PID 1 of user-mode Linux: mounts, and a shell on the serial line that brisk reads and writes.
/// Debian's user-mode Linux has no initramfs and mounts devtmpfs by itself. A shell whose standard
/// error is no terminal is not interactive. At its end the kernel panics, and user-mode Linux ends.
const INIT: &str = "\
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TMPDIR=/dev/shm
[ -z \"$disk\" ] || mount -t hostfs -o \"$disk\" none /var/tmp
exec </dev/ttyS0 >/dev/ttyS0 2>/dev/null
stty raw -echo
echo \"$token-0 0\"
exec sh
";

/// Part of `flags` of /proc/cpuinfo: registers of 8 KiB, for which user-mode Linux of Debian 12 and 13
/// has no room.
const AMX: &str = "amx_tile";

/// The library `guest/xstate`, for the dynamic linker of the host.
const XSTATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libxstate.so"));

/// What the dynamic linker does not take for a part of a library's name.
const SPECIAL: [u8; 3] = *b": $";

/// Lets user-mode Linux run on a processor with these flags. The result is what is to be known of that.
pub(in super::super) fn fit(
    launch: &mut Launch,
    directory: &Path,
    flags: &BTreeSet<&str>,
) -> Option<(String, String)> {
    if !flags.contains(AMX) {
        return None;
    }
    let library = directory.join("libxstate.so");
    let bytes = library.as_os_str().as_bytes();
    if bytes.iter().any(|byte| SPECIAL.contains(byte)) {
        launch.hint = "; if it ended at once: before 6.13 it does so on a processor with AMX, as this \
            one, without a library of brisk's, which cannot be in a directory with a space, a colon \
            or a $ in its name: set TMPDIR to another";
        return None;
    }
    launch.hint = "; if it ended at once: before 6.13 it does so on a processor with AMX, as this one, \
        without a library of brisk's; it loads that if it is linked dynamically, as Debian's, and \
        TMPDIR is not mounted noexec";
    let mut variable = OsString::from("LD_PRELOAD=");
    variable.push(&library);
    launch.words.splice(0..0, ["env".into(), variable]);
    launch.files.push((library, XSTATE.to_vec(), 0o600));
    let text = "with AMX: a library of brisk's adds those that it has no room for";
    Some(("registers".to_owned(), text.to_owned()))
}

pub(super) fn launch(options: &[String], place: &Place<'_>) -> Launch {
    let init = place.directory.join("init");
    let mut words: Vec<OsString> = vec!["linux.uml".into(), MEMORY.into()];
    let fixed = [
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "con=null",
        "ssl0=fd:0,fd:1",
        "umid=guest",
    ];
    words.extend(fixed.map(OsString::from));
    let assigned = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push(path);
        word
    };
    words.push(assigned("uml_dir=", place.directory));
    words.push(assigned("init=", &init));
    words.extend(options.iter().map(OsString::from));
    let disk = place.disk.map(Path::to_string_lossy).unwrap_or_default();
    let text = INIT.replace("$token", place.id).replace("$disk", &disk);
    Launch {
        directories: place.disk.map(Path::to_owned).into_iter().collect(),
        files: vec![(init, text.into_bytes(), 0o700)],
        channel: Channel::SilentTerminal,
        ..Launch::of(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(directory: &str, flags: &[&str]) -> Launch {
        let mut launch = Launch::of(vec!["linux.uml".into()]);
        let flags = flags.iter().copied().collect();
        fit(&mut launch, Path::new(directory), &flags);
        launch
    }

    #[test]
    fn a_library_is_loaded_where_the_processor_has_amx() {
        let launch = fitted("/run/place", &["avx2", "amx_tile"]);
        let words = ["env", "LD_PRELOAD=/run/place/libxstate.so", "linux.uml"];
        assert_eq!(launch.words, words);
        let (path, bytes, _) = &launch.files[0];
        assert_eq!(path, Path::new("/run/place/libxstate.so"));
        assert!(bytes.starts_with(b"\x7fELF"));
        assert!(launch.hint.contains("AMX"), "{}", launch.hint);
    }

    #[test]
    fn nothing_is_loaded_elsewhere() {
        let launch = fitted("/run/place", &["avx2"]);
        assert_eq!(launch.words, ["linux.uml"]);
        assert!(launch.files.is_empty() && launch.hint.is_empty());
    }

    #[test]
    fn a_directory_that_the_dynamic_linker_would_split_is_named_when_it_fails() {
        for directory in ["/run/my place", "/run/a:b", "/run/$LIB"] {
            let launch = fitted(directory, &["amx_tile"]);
            assert_eq!(launch.words, ["linux.uml"]);
            assert!(launch.hint.contains("TMPDIR"), "{}", launch.hint);
        }
    }
}
