//! The command line of QEMU in a script, or in a message that was wrapped. Pure.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use brisk_vm::qemu::cmdline::{Syntax, spec};

/// Only a shell knows what the command line is.
#[derive(Debug)]
pub(super) struct Expanded;

/// Programs that take a command as one word.
const LAUNCHERS: [&str; 20] = [
    "sh",
    "bash",
    "dash",
    "ash",
    "ksh",
    "zsh",
    "eval",
    "ssh",
    "su",
    "runuser",
    "tmux",
    "screen",
    "script",
    "watch",
    "xterm",
    "konsole",
    "setsid",
    "daemonize",
    "flock",
    "byobu",
];
/// Commands within words of commands, at most: `ssh host "tmux new 'sh -c …'"`.
const NESTED: u32 = 4;

/// The first command of QEMU in a script.
pub(super) fn command_line(script: &str) -> Result<Option<Vec<OsString>>, Expanded> {
    command_line_within(script, NESTED)
}

fn command_line_within(script: &str, nested: u32) -> Result<Option<Vec<OsString>>, Expanded> {
    for line in logical_lines(script) {
        for command in commands(&line) {
            let Some(words) = shlex::split(&command.text) else {
                continue;
            };
            let Some(start) = start_of_guest(&words, command.is_expanded) else {
                let launcher = words.iter().position(|word| is_launcher(word));
                let within = launcher.map_or(&[][..], |launcher| &words[launcher + 1..]);
                for word in within
                    .iter()
                    .filter(|word| word.contains(' ') && nested > 0)
                {
                    match command_line_within(word, nested - 1)? {
                        Some(_) if command.is_expanded => return Err(Expanded),
                        Some(found) => return Ok(Some(found)),
                        None => {}
                    }
                }
                continue;
            };
            if command.is_expanded {
                return Err(Expanded);
            }
            let words = words.into_iter().skip(start);
            return Ok(Some(words.map(OsString::from).collect()));
        }
    }
    Ok(None)
}

/// Words before a command that leave it a command: of the shell, and programs that start the one
/// behind them.
const BEFORE: [&str; 24] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec", "sudo", "doas",
    "pkexec", "env", "nohup", "nice", "ionice", "taskset", "numactl", "chrt", "setsid", "stdbuf",
    "RUN",
];

/// Where in the words of a command QEMU begins that starts a guest. A script also looks for the
/// program, installs it, asks for its version or ends it.
fn start_of_guest(words: &[String], is_expanded: bool) -> Option<usize> {
    let starts = |place: &usize| {
        let arguments = &words[place + 1..];
        let options = arguments.iter().filter_map(|word| {
            let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
            spec(name).map(|_| name)
        });
        let options: Vec<_> = options.collect();
        if options
            .iter()
            .any(|name| ["version", "h", "help"].contains(name))
        {
            return false;
        }
        let has_options = !options.is_empty();
        // Behind other words, options say that a guest is meant: of apt, -y is none of QEMU's.
        let mut before = words[..*place].iter();
        let is_command = before.all(|word| is_assignment(word) || BEFORE.contains(&word.as_str()));
        let is_image = |word: &String| word.contains(['.', '/']) && !word.starts_with('-');
        has_options || is_command && (is_expanded || arguments.first().is_some_and(is_image))
    };
    let places = words.iter().enumerate().filter(|(_, word)| is_qemu(word));
    places.map(|(place, _)| place).find(starts)
}

/// `NAME=VALUE` before a command.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(is_part)
    })
}

/// The lines of a script. A backslash continues one, and so does a line below QEMU's that begins
/// with an option, or has the argument of the last one, as mail and wikis wrap them.
fn logical_lines(script: &str) -> Vec<String> {
    let joined = script.replace("\\\r\n", "").replace("\\\n", "");
    let mut lines: Vec<String> = Vec::new();
    for line in joined.lines() {
        let text = line.trim_start();
        let is_option = text.strip_prefix('-').is_some_and(|rest| {
            let rest = rest.trim_start_matches('-');
            rest.starts_with(|c: char| c.is_ascii_lowercase())
        });
        match lines.last_mut() {
            Some(last) if is_open(last) && !text.is_empty() && !is_option => {
                if !last.ends_with(',') {
                    last.push(' ');
                }
                last.push_str(text);
            }
            Some(last) if is_option && last.split_whitespace().any(is_qemu) => {
                last.push(' ');
                last.push_str(text);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Whether a line of QEMU's ends before the argument of an option does.
fn is_open(line: &str) -> bool {
    let mut words = line.split_whitespace().rev();
    let Some(last) = words
        .next()
        .filter(|_| line.split_whitespace().any(is_qemu))
    else {
        return false;
    };
    let name = last.strip_prefix("--").or_else(|| last.strip_prefix('-'));
    let option = name.and_then(spec);
    let mut is_argument = || words.next().is_some_and(|word| word.starts_with('-'));
    option.is_some_and(|option| option.syntax != Syntax::Flag)
        || last.ends_with(',') && is_argument()
}

/// A simple command of a shell, without redirections.
#[derive(Default)]
struct ShellCommand {
    text: String,
    /// Whether the shell puts something in the place of parts of it.
    is_expanded: bool,
}

/// The simple commands of a line. Operators outside quotes end one.
fn commands(line: &str) -> Vec<ShellCommand> {
    let mut all = Vec::new();
    let mut now = ShellCommand::default();
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                now.text.push(c);
                now.text.extend(chars.next());
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('$' | '`', None | Some('"')) => now.is_expanded = true,
            (';' | '|' | '&' | '(' | ')', None) => {
                all.push(std::mem::take(&mut now));
                continue;
            }
            ('<' | '>', None) => {
                // The number of a descriptor before it, and what it leads to.
                let word = now
                    .text
                    .trim_end_matches(|c: char| c.is_ascii_digit())
                    .len();
                if now.text[..word].ends_with([' ', '\t']) {
                    now.text.truncate(word);
                }
                while chars
                    .next_if(|c| matches!(c, '<' | '>' | '&' | '|' | ' '))
                    .is_some()
                {}
                let ends = |c: &char| !matches!(c, ' ' | ';' | '|' | '&' | '<' | '>');
                while chars.next_if(ends).is_some() {}
                now.text.push(' ');
                continue;
            }
            ('#', None) if now.text.is_empty() || now.text.ends_with([' ', '\t']) => break,
            _ => {}
        }
        now.text.push(c);
    }
    all.push(now);
    all
}

fn is_launcher(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| LAUNCHERS.contains(&name))
}

fn is_qemu(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(OsStr::to_str);
    let name = name.unwrap_or_default();
    let is_system = name.starts_with("qemu-system-") && !name.contains(char::is_whitespace);
    is_system || matches!(name, "qemu-kvm" | "kvm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<String> {
        let words = command_line(script).unwrap().unwrap();
        words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    #[test]
    fn scripts_have_command_lines() {
        let script = "#!/bin/sh\n# qemu starts here\nset -e\nLC_ALL=C \\\n  exec /usr/bin/qemu-system-x86_64 \
                      \\\n  -name 'my guest' -m 1G > log\necho done\n";
        let expected = [
            "/usr/bin/qemu-system-x86_64",
            "-name",
            "my guest",
            "-m",
            "1G",
        ];
        assert_eq!(words(script), expected);
        assert_eq!(words("sudo kvm -snapshot &"), ["kvm", "-snapshot"]);
        assert_eq!(command_line("echo hello\n").unwrap(), None);
        // A quote that nothing closes.
        assert_eq!(command_line("qemu-system-x86_64 -name 'a\n").unwrap(), None);
        let conditional = "if true; then qemu-system-x86_64 -m 1; fi";
        assert_eq!(words(conditional), ["qemu-system-x86_64", "-m", "1"]);
        let redirected = "kvm -m 1 2>&1 >\"log file\" -snapshot | tee log";
        assert_eq!(
            words(&redirected.replace("\"log file\"", "log")),
            ["kvm", "-m", "1", "-snapshot"]
        );
        assert_eq!(words("kvm -name 'a;b$c' # -m 1"), ["kvm", "-name", "a;b$c"]);
        for unknown in ["kvm -m $MEM", "kvm \"${ARGS[@]}\"", "kvm -m `cat m`"] {
            assert!(matches!(command_line(unknown), Err(Expanded)), "{unknown}");
        }
    }

    #[test]
    fn commands_are_found_within_words_and_on_wrapped_lines() {
        let expected = ["kvm", "-m", "1", "-name", "a b"];
        for script in [
            "tmux new-session -d \"kvm -m 1 -name 'a b'\"",
            "ssh root@host 'kvm -m 1 -name \"a b\"' | tee log",
            "sudo su -c \"exec kvm -m 1 -name 'a b'\" user",
            "ssh host \"tmux new 'kvm -m 1 -name \\\"a b\\\"'\"",
            "kvm -m 1\n  -name 'a b'\n",
            "kvm -m 1 \\\n\n-name 'a b'\n",
            "kvm -m 1 -name\n'a b'\n",
            "kvm \\\n  -m 1 -na\\\nme 'a b'\n",
        ] {
            assert_eq!(words(script), expected, "{script}");
        }
        // Words about QEMU are no commands, and another program's options not QEMU's.
        assert_eq!(command_line("echo 'kvm -m 1'").unwrap(), None);
        assert_eq!(
            command_line("pkill -f 'qemu-system-x86_64 -m 1'").unwrap(),
            None
        );
        assert_eq!(words("kvm -m 1\necho\n-name a\n"), ["kvm", "-m", "1"]);
        let drive = "kvm -drive file=a,\\\nif=virtio -device x,\nid=y";
        assert_eq!(
            words(drive),
            ["kvm", "-drive", "file=a,if=virtio", "-device", "x,id=y"]
        );
        assert_eq!(words("kvm -nographic\necho a"), ["kvm", "-nographic"]);
        let inner = command_line("sh -c 'kvm -m $MEM'");
        assert!(matches!(inner, Err(Expanded)));
    }

    #[test]
    fn only_a_command_of_qemu_is_a_guest() {
        let start = "exec qemu-system-x86_64 -m 1";
        for before in [
            "sudo apt-get install -y qemu-system-x86 ovmf",
            "apt install qemu-kvm qemu-utils virt-manager -y",
            "command -v qemu-system-x86_64 >/dev/null || exit 1",
            "if ! command -v kvm; then echo no; fi",
            "which qemu-system-x86_64",
            "pkill -f qemu-system-x86_64",
            "killall qemu-system-x86_64",
            "[ -x /usr/bin/qemu-system-x86_64 ] || exit",
            "QEMU=/usr/bin/qemu-system-x86_64",
            "qemu-system-x86_64 --version | head -1",
            "modprobe kvm",
            "usermod -aG kvm $USER",
            "chown root:kvm /dev/kvm",
            "qemu-kvm \\\n  libvirt-daemon-system",
        ] {
            let script = format!("{before}\n{start}\n");
            assert_eq!(
                words(&script),
                ["qemu-system-x86_64", "-m", "1"],
                "{before}"
            );
            assert!(matches!(command_line(before), Ok(None)), "{before}");
        }
        for (script, expected) in [
            ("kvm disk.img", vec!["kvm", "disk.img"]),
            ("FOO=1 nohup kvm a/b &", vec!["kvm", "a/b"]),
            ("ip netns exec n kvm -m 1", vec!["kvm", "-m", "1"]),
            (
                "ExecStart=/usr/bin/kvm -m 1",
                vec!["ExecStart=/usr/bin/kvm", "-m", "1"],
            ),
        ] {
            assert_eq!(words(script), expected, "{script}");
        }
    }
}
