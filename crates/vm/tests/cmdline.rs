//! QEMU's own word on its options, and brisk's command lines as they are read again.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_testkit::tool;
use brisk_vm::qemu::cmdline::{Syntax, all, option_name, spec};

/// The QEMU of the system, and a newer one beside it if there is one.
fn qemus() -> BTreeSet<PathBuf> {
    let system = PathBuf::from("/usr/bin/qemu-system-x86_64");
    let all = [tool("qemu-system-x86_64"), system];
    all.into_iter().filter(|path| path.is_file()).collect()
}

fn run(qemu: &Path, words: &[&str]) -> (bool, String) {
    let output = Command::new(qemu).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The names at the beginning of a line of the help: `-h or -help`, `-fda/-fdb file`.
fn names(line: &str) -> Vec<&str> {
    let mut words = line.split(' ');
    let first = words.next().unwrap_or_default();
    let second = (words.next() == Some("or")).then(|| words.next()).flatten();
    let all = first.split('/').chain(second);
    all.filter_map(option_name).collect()
}

#[test]
fn every_option_of_the_help_is_known() {
    for qemu in qemus() {
        let (_, help) = run(&qemu, &["-help"]);
        let names: Vec<_> = help.lines().flat_map(names).collect();
        assert!(names.len() > 100, "{names:?}");
        for name in names {
            assert!(spec(name).is_some(), "{}: {name}", qemu.display());
        }
    }
}

/// Before it does anything else, QEMU looks whether each option has its argument.
#[test]
fn qemu_wants_an_argument_where_one_is_expected() {
    for qemu in qemus() {
        let mut known = 0;
        for option in all() {
            let word = format!("-{}", option.name);
            let (is_well, text) = run(&qemu, &["-version", &word]);
            if text.contains("invalid option") {
                continue;
            }
            known += 1;
            let has_argument = text.contains("requires an argument");
            assert_eq!(is_well, !has_argument, "{word}: {text}");
            let expected = option.syntax != Syntax::Flag;
            assert_eq!(has_argument, expected, "{word}: {text}");
        }
        assert!(known > 100, "{}: {known}", qemu.display());
    }
}
