//! The book's examples, on the kernel that most of them need.

use std::path::Path;

use brisk_testkit::NumaMachine;

use crate::machine::{kernel, machine, run};

const CHAPTER: &str = include_str!("../../../../docs/src/ktext/index.md");
/// Commands that boot such a kernel themselves, on a host with QEMU: other tests do that.
const OF_A_HOST: [&str; 2] = ["ktext locality", "--emulated"];
/// What takes a minute as it stands, and what is run instead.
const SHORTER: (&str, &str) = ("ktext bench", "ktext bench --rounds 2");

/// A place where anybody may write, with the module, and a user.
const PLACE: &str = "\
    mkdir -p -m 1777 /tmp; mkdir /etc; cp /modules/ktext_cold.ko /tmp; cd /tmp\n\
    echo root:x:0:0::/:/bin/sh > /etc/passwd; echo user:x:1000:1000::/tmp:/bin/sh >> /etc/passwd\n";

/// A command of the book, and the line that it stands in.
struct Example {
    line: usize,
    command: String,
    /// Whether it is written with sudo.
    is_for_root: bool,
}

fn examples() -> Vec<Example> {
    let lines = CHAPTER.lines().enumerate().filter_map(|(index, line)| {
        let command = line.strip_prefix("$ ")?;
        Some(Example {
            line: index + 1,
            command: command.trim_start_matches("sudo ").to_owned(),
            is_for_root: command.starts_with("sudo "),
        })
    });
    let elsewhere = |example: &Example| OF_A_HOST.iter().any(|part| example.command.contains(part));
    lines.filter(|example| !elsewhere(example)).collect()
}

/// Has a shell run an example, say what it printed, and its exit status.
fn section(name: &str, shell: &str, example: &Example) -> String {
    let command = example.command.replace(SHORTER.0, SHORTER.1);
    let line = example.line;
    format!("section {name}{line}; {shell} '{command}' > /tmp/out 2>&1; echo $?; cat /tmp/out\n")
}

pub(super) fn examples_work() {
    let kernel = kernel();
    let machine = NumaMachine {
        // The kernel is then on node 0.
        append: "nokaslr",
        programs: &[Path::new(env!("CARGO_BIN_EXE_brisk"))],
        ..machine(&kernel, 2)
    };
    let examples = examples();
    let mut script = PLACE.to_owned();
    for example in &examples {
        if !example.is_for_root {
            script += &section("user", "su user -c", example);
            // The user's, which root replaces.
            script += "rm -f /tmp/*.svg\n";
        }
        script += &section("root", "sh -c", example);
    }
    let console = run(&machine, &script).unwrap();
    let said = |who: &str, example: &Example| {
        let text = console.section(&format!("{who}{}", example.line));
        let (status, text) = text.split_once('\n').unwrap_or((text, ""));
        (status.to_owned(), text.to_owned())
    };
    let mut only_root = Vec::new();
    for example in &examples {
        let command = &example.command;
        let (status, text) = said("root", example);
        assert_eq!(status, "0", "{command}: {text}");
        if example.is_for_root {
            continue;
        }
        let (status, text) = said("user", example);
        if status != "0" {
            assert!(
                status == "125" && text.contains("root"),
                "{command}: {status} {text}"
            );
            only_root.push(&**command);
        }
    }
    let expected = [
        "brisk ktext info",
        "brisk ktext info -m",
        "brisk ktext verify",
        "brisk ktext draw --svg kernel.svg",
    ];
    assert_eq!(only_root, expected);
}
