//! Words, variables and directories reach the command as they are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use brisk_testkit::brisk;

#[test]
fn words_of_any_bytes_number_and_length_arrive() {
    // Longest: MAX_ARG_STRLEN of execve(2) is 128 KiB.
    let long = vec![b'x'; 100_000];
    let mut words: Vec<&[u8]> = vec![b"\xff\xfe bytes", b"", b"a b", b"'\"$\\\n", &long, &long];
    words.extend(std::iter::repeat_n(&b"many"[..], 10_000));
    let variable = OsStr::from_bytes(b"\xf0\x80 value");
    let run = brisk!["--root", "none", "-e", "ODD", "-e", "SET=a=b c"]
        .env("ODD", variable)
        .command(["sh", "-c", "printf '%s\\0' \"$ODD\" \"$SET\" \"$@\"", "sh"])
        .args(words.iter().map(|word| OsStr::from_bytes(word)))
        .exits(0);
    let got: Vec<_> = run.stdout.split(|byte| *byte == 0).collect();
    assert_eq!(got.len(), words.len() + 3, "{} words", got.len());
    assert_eq!(got[0], variable.as_bytes());
    assert_eq!(got[1], b"a=b c");
    assert!(got[2..].iter().zip(&words).all(|(a, b)| a == b));
}

#[test]
fn options_show_in_the_guest() {
    let script = "cat /proc/cmdline; pwd; id -u; id -g; nproc; grep MemTotal /proc/meminfo
        grep dummy /proc/modules";
    let run = brisk![
        "--root",
        "none",
        "--append",
        "brisk.one=1",
        "--append",
        "brisk.two",
        "--workdir",
        "/proc/sys",
        "--user",
        "77:78",
        "--cpus",
        "2",
        "--memory",
        "700M",
        "--module",
        "dummy",
    ];
    let run = run.script(script).exits(0);
    let text = run.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].ends_with(" brisk.one=1 brisk.two"), "{text}");
    assert_eq!(lines[1..5], ["/proc/sys", "77", "78", "2"], "{text}");
    let kilobytes = lines[5].split_whitespace().nth(1).unwrap();
    let megabytes: u32 = kilobytes.parse::<u32>().unwrap() / 1024;
    // What the kernel keeps for itself is not in MemTotal.
    assert!((550..700).contains(&megabytes), "{text}");
    assert!(lines[6].starts_with("dummy "), "{text}");
}

/// Debian's kernels have AppArmor, and it is on unless the list of modules is another.
#[test]
fn security_modules_that_need_a_policy_are_there_for_who_speaks_of_them() {
    let with = |append: &[&str]| {
        let file = "/sys/module/apparmor/parameters/enabled";
        brisk![].args(append).command(["cat", file]).exits(0).text()
    };
    assert_eq!(with(&[]), "N\n");
    assert_eq!(with(&["--append", "apparmor=1"]), "Y\n");
    assert_eq!(with(&["--all-initcalls"]), "Y\n");
}

#[test]
fn a_working_directory_that_the_guest_has_not_is_named() {
    let deep = "/no/such".repeat(100);
    brisk!["--root", "none", "--workdir", &deep]
        .command(["true"])
        .exits(122)
        .explains(&["cannot enter", &deep, "No such file or directory"]);
}

#[test]
fn a_guest_has_a_name() {
    let named = |words: &[&str]| {
        let run = brisk!["--root", "none"].args(words).command(["hostname"]);
        run.exits(0).text()
    };
    assert_eq!(named(&[]), "brisk\n");
    assert_eq!(
        named(&["--hostname", "build-1.example"]),
        "build-1.example\n"
    );
}
