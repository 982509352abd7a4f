//! Directories of the host in the guest.

use std::fs;

use brisk_testkit::brisk;
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
