//! Additions to a user's QEMU command line for watching it; pure.

use std::ffi::OsString;

use super::cmdline::CommandLine;
use super::machine::Fds;

/// Place of the guest's console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    /// The command line sends it to standard output.
    Stdout,
    /// A serial port was added for it: the command line has none.
    Added,
    /// The command line sends it elsewhere.
    Elsewhere,
}

/// Addition to a command line besides the control channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// A port of the ISA bus whose writes are seen.
    Port(u16),
    /// A port for the guest agent.
    Agent,
    /// The instruction clock, and a port for a debugger, without which the VM does not begin to
    /// run.
    Debugger,
}

/// A command line with the additions for watching it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The words behind the program's name.
    pub words: Vec<OsString>,
    /// Place of the console.
    pub console: Console,
}

/// Adds a control channel, a console where there is none, and the extra.
#[must_use]
pub fn watch(words: &[OsString], extra: Option<Extra>) -> Watched {
    let line = CommandLine::options(words);
    let console = console(&line);
    let mut all = words.to_vec();
    let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
    let socket = |id: &str, fd: i32| format!("socket,id={id},fd={fd}");
    let qmp = socket("brisk-qmp", Fds::QMP);
    add(&["-chardev", &qmp, "-mon", "chardev=brisk-qmp,mode=control"]);
    if console == Console::Added {
        let socket = socket("brisk-console", Fds::CONSOLE);
        add(&["-chardev", &socket, "-serial", "chardev:brisk-console"]);
    }
    let socket = socket("brisk-marker", Fds::GUEST);
    match extra {
        Some(Extra::Port(port)) => {
            let device = format!("isa-debugcon,iobase={port:#x},chardev=brisk-marker");
            add(&["-chardev", &socket, "-device", &device]);
        }
        Some(Extra::Agent) => add(&[
            "-chardev",
            &socket,
            "-device",
            "virtio-serial",
            "-device",
            "virtserialport,chardev=brisk-marker,name=org.qemu.guest_agent.0,id=brisk-agent",
        ]),
        Some(Extra::Debugger) => {
            add(&["-chardev", &socket, "-gdb", "chardev:brisk-marker", "-S"]);
            for (option, value) in [
                ("icount", "shift=0,sleep=off"),
                ("rtc", "base=2000-01-01T00:00:00,clock=vm"),
                ("seed", "1"),
            ] {
                if line.value(option).is_none() {
                    add(&[&format!("-{option}"), value]);
                }
            }
        }
        None => {}
    }
    Watched {
        words: all,
        console,
    }
}

fn console(line: &CommandLine) -> Console {
    let mut console = Console::Added;
    for item in line.items() {
        let text = item.text();
        match &*item.name {
            "nographic" => return Console::Stdout,
            "serial" if matches!(&*text, "stdio" | "mon:stdio") => return Console::Stdout,
            "chardev" if text.starts_with("stdio,") => return Console::Stdout,
            "serial" => console = Console::Elsewhere,
            _ => {}
        }
    }
    console
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn line(watched: &Watched) -> String {
        let words: Vec<_> = watched.words.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_console_on_standard_output_stays_there() {
        for start in [
            "-nographic",
            "-M pc -serial stdio",
            "-serial mon:stdio",
            "--nographic",
        ] {
            let watched = watch(&words(start), None);
            assert_eq!(watched.console, Console::Stdout, "{start}");
            assert!(!line(&watched).contains("brisk-console"), "{start}");
        }
    }

    #[test]
    fn a_command_line_without_console_gets_one() {
        let watched = watch(&words("-M pc -display none"), None);
        assert_eq!(watched.console, Console::Added);
        assert!(line(&watched).ends_with("-serial chardev:brisk-console"));
    }

    #[test]
    fn a_console_elsewhere_is_left_there() {
        let watched = watch(&words("-serial file:/tmp/x"), None);
        assert_eq!(watched.console, Console::Elsewhere);
        assert!(!line(&watched).contains("brisk-console"));
    }

    #[test]
    fn what_is_counted_is_pinned_unless_the_command_line_says_how() {
        let watched = watch(&words("-kernel /boot/vmlinuz"), Some(Extra::Debugger));
        let all = line(&watched);
        assert!(
            all.contains(" -gdb chardev:brisk-marker -S -icount "),
            "{all}"
        );
        assert!(
            all.ends_with(" -rtc base=2000-01-01T00:00:00,clock=vm -seed 1"),
            "{all}"
        );
        let own = words("--icount shift=3 -rtc base=utc -seed 7");
        let all = line(&watch(&own, Some(Extra::Debugger)));
        assert!(all.ends_with("-S"), "{all}");
    }

    #[test]
    fn what_was_asked_for_comes_first_and_unchanged() {
        let own = words("-M q35 -nographic -kernel /boot/vmlinuz");
        let watched = watch(&own, Some(Extra::Port(0xf4)));
        assert_eq!(&watched.words[..own.len()], own);
        let line = line(&watched);
        assert!(line.contains("isa-debugcon,iobase=0xf4"), "{line}");
    }
}
