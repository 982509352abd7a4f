//! Prompts on a console, and what is written there to get a shell. Pure.

/// What a console waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    /// A name, by login(1) or agetty(8).
    Login,
    /// A password.
    Password,
    /// A command.
    Shell,
}

impl Prompt {
    /// The prompt at the end of what a console shows, if it is one.
    pub(super) fn at_end(line: &[u8]) -> Option<Self> {
        let text = without_escapes(&String::from_utf8_lossy(line));
        let text = text.rsplit('\r').find(|part| !part.trim().is_empty())?;
        let text = text.trim_end();
        if text.to_ascii_lowercase().ends_with("login:") {
            return Some(Self::Login);
        }
        if text.to_ascii_lowercase().ends_with("password:") {
            return Some(Self::Password);
        }
        // Of zsh, sh, bash and ksh, and of fish; a part of the echo of what was typed is none.
        let is_shell = text.ends_with(['%', '#', '$', '>']) && !text.contains("stty raw");
        is_shell.then_some(Self::Shell)
    }
}

/// Whether a line is this text. An interactive bash ends bracketed paste (`ESC [ ? 2004 l`, CR) on
/// the line of the first output.
pub(super) fn is_line(line: &str, text: &str) -> bool {
    without_escapes(line).trim_matches('\r') == text
}

/// Text without control sequences of terminals (`ESC [ … letter`, ECMA-48).
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        let end = part.find(|c: char| ('@'..='~').contains(&c));
        plain + end.map_or("", |end| &part[end + 1..])
    })
}

/// Command that starts a shell for requests and afterwards leaves the terminal as it was. The shell
/// answers the request 0 with status 0 when it begins and with 1 when it has ended. Neither
/// its standard error nor its output are a terminal, so that no shell takes itself for interactive
/// and edits lines. An interrupt ends that shell and not what follows it; the kernel's messages, which would be between its lines, are held back.
pub(super) fn shell(token: &str, logs_out: bool) -> String {
    let p = "/proc/sys/kernel/printk";
    let end = if logs_out { "; exit" } else { "" };
    format!(
        "stty raw -echo isig; p=$(cat {p}); echo 1 >{p}; sh -c 'echo \"$0-0 0\"; exec sh' {token} \
         2>/dev/null | (trap '' INT; cat); echo \"$p\" >{p}; stty sane; echo {token}-0 1{end}\n"
    )
}

/// Script by which the guest agent starts that shell on the guest's console. A getty there would
/// read what is for the shell: under systemd it is stopped, and started again at the end.
pub(super) fn shell_of_agent(token: &str) -> String {
    let shell = shell(token, false);
    format!(
        "t=$(cat /sys/class/tty/console/active); t=${{t##* }}; g=serial-getty@$t.service; systemctl \
         stop $g 2>/dev/null; cd /; [ -n \"$PATH\" ] || \
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; exec \
         </dev/$t >/dev/$t 2>/dev/null; {}; systemctl start $g",
        shell.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_bash_is_found() {
        assert!(is_line("T-0 0", "T-0 0"));
        assert!(is_line("\u{1b}[?2004l\rT-0 0", "T-0 0"));
        // The echo of what was typed.
        assert!(!is_line("# sh -c 'echo \"$0-0 0\"' T-0 0", "T-0 0"));
    }

    #[test]
    fn prompts_are_told_from_messages() {
        let at_end = |text: &str| Prompt::at_end(text.as_bytes());
        assert_eq!(at_end("debian login: "), Some(Prompt::Login));
        assert_eq!(at_end("Password: "), Some(Prompt::Password));
        for shell in [
            "root@debian:~# ",
            "\r/ # ",
            "~ # \u{1b}[6n",
            "$ ",
            "\u{1b}[01;32mroot@x\u{1b}[00m:\u{1b}[01;34m/\u{1b}[00m# ",
        ] {
            assert_eq!(at_end(shell), Some(Prompt::Shell), "{shell:?}");
        }
        let echo = shell("T", false);
        let echo = &echo[..=echo.find("1 >").unwrap() + 2];
        assert!(echo.ends_with('>'), "{echo}");
        assert_eq!(at_end(&format!("~ # {echo}")), None);
        for message in ["", "  ", "[    1.2] tsc: Detected", "Last login: yesterday"] {
            assert_eq!(at_end(message), None, "{message:?}");
        }
    }
}
