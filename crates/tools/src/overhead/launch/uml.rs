//! User-mode Linux. Pure.

use std::collections::BTreeSet;
use std::ffi::OsString;
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
/// has no room, and the kernel takes no part of them (`xstateregs_set` of `arch/x86/kernel/fpu`).
const AMX: &str = "amx_tile";

/// What a processor with these flags has to do with the end of user-mode Linux.
pub(in super::super) fn hint(flags: &BTreeSet<&str>) -> &'static str {
    match flags.contains(AMX) {
        true => {
            "; user-mode Linux that does not know AMX ends so at once on a processor that has it, as \
             this one: measure another target"
        }
        false => "",
    }
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
        files: vec![(init, text, 0o700)],
        channel: Channel::SilentTerminal,
        ..Launch::of(words)
    }
}
