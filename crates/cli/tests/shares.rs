//! Directories of the host in the guest.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use brisk_testkit::{Signal, brisk, virtiofsd_keeps_nothing};
use tempfile::tempdir;

#[test]
fn a_share_can_be_written_unless_it_is_read_only() {
    let home = tempdir().unwrap();
    let [open, closed] = ["open", "closed"].map(|name| home.path().join(name));
    for directory in [&open, &closed] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("mark"), "of the host\n").unwrap();
    }
    let script = "cat /open/mark /a/b/closed/mark
        echo guest > /open/mark && mkdir /open/new
        echo guest > /a/b/closed/mark; echo $?
        rm /a/b/closed/mark; echo $?
        # Not only the mount refuses: the server does as well.
        mount -o remount,rw /a/b/closed 2>/dev/null; touch /a/b/closed/new; echo $?";
    let run = brisk!["--root", "none", "--share"]
        .arg(format!("{}:/open", open.display()))
        .arg("--share")
        .arg(format!("{}:/a/b/closed:ro", closed.display()))
        .script(script)
        .exits(0)
        .explains(&["Read-only file system"]);
    assert_eq!(run.text(), "of the host\nof the host\n1\n1\n1\n");
    assert_eq!(fs::read(open.join("mark")).unwrap(), b"guest\n");
    assert!(open.join("new").is_dir());
    assert_eq!(fs::read(closed.join("mark")).unwrap(), b"of the host\n");
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 1);
}

/// Not the one whose name is what is left of the bytes that are no text.
#[test]
fn a_name_that_is_no_text_shows_no_other_directory() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = tempdir().unwrap();
    let named = |name: &[u8]| home.path().join(OsStr::from_bytes(name));
    let (one, other) = (named(b"\xff"), named("\u{fffd}".as_bytes()));
    for directory in [&one, &other] {
        fs::create_dir(directory).unwrap();
    }
    let run = brisk!["--root", "none", "--share", ".:/mnt"].command(["true"]);
    let _ = run.current_dir(&one).exits(125).explains(&["is not UTF-8"]);
}

/// Tries every way to make files that give rights on the host; prints what worked.
const WAYS: &str = r#"
    cd /open || exit 9
    umask 0
    : > a; chmod 4755 a 2>/dev/null && echo chmod
    : > b; chmod 2755 b 2>/dev/null && echo setgid
    perl -e 'use Fcntl; sysopen(F, "c", O_CREAT|O_WRONLY, 04755) and print "open\n"'
    # syscall takes no constant.
    perl -e '$d = "d"; syscall(133, $d, 0104755, 0) == 0 and print "mknod\n"'
    mknod e b 8 0 2>/dev/null && echo block
    mknod f c 1 1 2>/dev/null && echo char
    perl -e '$g = "g"; sysopen(F, ".", 020200002, 04755) and $f = "/proc/self/fd/".fileno(F)
        and syscall(265, -100, $f, -100, $g, 0x400) == 0 and print "tmpfile\n"'
    perl -e '($a, $n) = ("a", "security.capability"); $v = pack("V5", 0x02000001, 0xffffffff, 0, 0, 0);
        syscall(188, $a, $n, $v, 20, 0) == 0 and print "capability\n"'
    echo more >> old; perl -e 'open(F, "+<", "old"); syswrite(F, "x")'
    ln old linked; mv linked renamed
    # What gives no rights is done.
    mkdir dir && chmod 1777 dir && mkfifo pipe && chmod 755 a && chown 5:6 a && echo usual
"#;

/// Modes of the files below a directory that give rights, and devices.
fn rights(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let wrong = entries.filter(|entry| {
        let mode = entry.metadata().unwrap().mode();
        mode & 0o6000 != 0 || [0o020_000, 0o060_000].contains(&(mode & 0o170_000))
    });
    let mut names: Vec<_> = wrong
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn tried(directory: &Path, option: &str) -> String {
    fs::write(directory.join("old"), "old").unwrap();
    fs::set_permissions(directory.join("old"), fs::Permissions::from_mode(0o4755)).unwrap();
    let run = brisk!["--root", "host", "--share"]
        .arg(format!("{}:/open{option}", directory.display()))
        .script(WAYS)
        .exits(0);
    run.text()
}

#[test]
fn a_guest_leaves_no_set_id_bits_and_no_devices() {
    let home = tempdir().unwrap();
    assert_eq!(tried(home.path(), ""), "usual\n");
    // A write to a file that had the bit clears it.
    assert_eq!(rights(home.path()), [""; 0]);
    assert_eq!(fs::metadata(home.path().join("a")).unwrap().uid(), 5);
}

#[test]
fn a_guest_whose_virtiofsd_is_gone_ends() {
    let home = tempdir().unwrap();
    let mut run = brisk!["--root", "none", "--share"]
        .arg(format!("{}:/open", home.path().display()))
        .script("echo up; while ls /open > /dev/null; do :; done")
        .spawn();
    run.shows("up\n");
    run.process("virtiofsd").signal(Signal::KILL);
    let ended = run.wait().exited(120);
    let _ = ended.explains(&["virtiofsd", "was ended by signal 9"]);
}

#[test]
fn set_id_bits_are_made_where_they_were_asked_for() {
    let home = tempdir().unwrap();
    let done = tried(home.path(), ",suid");
    for way in ["chmod\n", "setgid\n", "open\n", "mknod\n", "usual\n"] {
        assert!(done.contains(way), "{way} in {done}");
    }
    assert!(!done.contains("block") && !done.contains("char"), "{done}");
}

#[test]
fn a_directory_of_somebody_else_is_written_to_as_its_owner() {
    let home = tempdir().unwrap();
    let directory = home.path().join("theirs");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = std::os::unix::fs::chown(&directory, Some(12345), Some(12345)).is_ok();
    let run = || {
        let script = "echo text > /open/new; mkdir /open/dir; cat /open/new; chown 0:0 /open/new";
        brisk!["--root", "none", "--share"]
            .arg(format!("{}:/open", directory.display()))
            .script(script)
            .output()
    };
    // That of QEMU 7.2 serves as root only.
    let as_root = is_root && virtiofsd_keeps_nothing().is_some();
    if as_root {
        let refused = run().exited(125);
        let _ = refused.explains(&["belongs to the user 12345", "always root", "chmod go= DIR"]);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let run = run();
    assert!(run.stdout.starts_with(b"text\n"), "{}", run.stderr);
    let owner = if as_root {
        0
    } else if is_root {
        12345
    } else {
        directory.metadata().unwrap().uid()
    };
    for name in ["new", "dir"] {
        assert_eq!(
            directory.join(name).metadata().unwrap().uid(),
            owner,
            "{name}"
        );
    }
}
