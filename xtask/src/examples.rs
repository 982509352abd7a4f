//! Command lines in the README and the book, and whether brisk would accept them.

use anyhow::Context;
use clap::Command;
use clap::error::ErrorKind;

/// A command line that a document shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    /// Line in the document, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The command lines in the fenced `console` and `sh` blocks of a document: what follows a `$`
/// at the start of a line, with the lines that a backslash continues it on.
pub(crate) fn examples(document: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut inside: Option<bool> = None;
    let mut lines = document.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(info) = trimmed.strip_prefix("```") {
            let language = info.split([',', ' ']).next().unwrap_or_default();
            inside = match inside {
                Some(_) => None,
                None => Some(matches!(language, "console" | "sh")),
            };
            continue;
        }
        let Some(command) = trimmed.strip_prefix("$ ").filter(|_| inside == Some(true)) else {
            continue;
        };
        let mut text = command.to_owned();
        while text.ends_with('\\') {
            text.pop();
            let Some((_, next)) = lines.next() else { break };
            text.push_str(next.trim_start());
        }
        found.push(Example {
            line: index + 1,
            text,
        });
    }
    found
}

/// Tries all of brisk's commands in a command line of a shell.
///
/// # Errors
/// What brisk would say about the first that is wrong.
pub(crate) fn accept(line: &str, command: &Command) -> anyhow::Result<()> {
    let words = shlex::split(line).context("quotes do not match")?;
    let parts = words.split(|word| matches!(word.as_str(), "|" | "&&" | "||" | ";" | "&"));
    for part in parts {
        let mut part = part;
        while let [first, rest @ ..] = part {
            if !is_before_command(first) {
                break;
            }
            part = rest;
        }
        let Some(name) = part.first() else { continue };
        if name != "brisk" && !name.ends_with("/brisk") {
            continue;
        }
        // The shell keeps redirections to itself.
        let redirection = |word: &&String| !word.starts_with(['<', '>']) && !word.starts_with("2>");
        match command
            .clone()
            .try_get_matches_from(part.iter().take_while(redirection))
        {
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
                ) =>
            {
                return Err(anyhow::Error::new(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// `NAME=value`, and programs that run the command after them.
fn is_before_command(word: &str) -> bool {
    let variable = word.split_once('=').is_some_and(|(name, _)| {
        let allowed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        !name.is_empty() && name.chars().all(allowed)
    });
    variable || matches!(word, "sudo" | "time" | "!")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_console_blocks_hold_examples() {
        let document = "$ brisk no\n```rust\n$ brisk no\n```\n```console\n$ brisk \\\n    run\n\
                        output\n$ ls\n```\n$ brisk no\n  ```sh\n  $ brisk list\n  ```\n";
        let found: Vec<_> = examples(document)
            .into_iter()
            .map(|example| (example.line, example.text))
            .collect();
        let expected = [(6, "brisk run"), (9, "ls"), (13, "brisk list")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn every_brisk_of_a_line_is_tried() {
        let command = crate::command();
        for good in [
            "ls | no-brisk --wrong",
            "brisk --version",
            "sudo A=1 target/release/brisk run --cpus 2 -- cat < in > out",
            "brisk run -- sh -c 'exit 3'; echo $?",
        ] {
            accept(good, &command).unwrap();
        }
        for bad in [
            "brisk run --no-such-option",
            "brisk run --timing FILE -- true",
            "echo x | brisk run --cpus 0 -- cat",
            "brisk 'run",
        ] {
            assert!(accept(bad, &command).is_err(), "{bad}");
        }
    }
}
