//! Descriptions of guests as they are shown and written.

use std::ffi::OsString;
use std::io::IsTerminal;

use brisk_host::program::quote;
use brisk_tools::idle::text::Text;
use similar::TextDiff;

use crate::output::{printable, printable_line};
use crate::ui::Ui;

/// Lines that are compared: of XML or a definition its own, of a command line an option each.
pub(super) fn shown(text: &Text) -> String {
    match text {
        Text::Xml(text) | Text::Vm { text, .. } => text.clone(),
        Text::Arguments(words) => options(words).join("\n") + "\n",
    }
}

/// Options of a command line with their arguments, as a shell takes them.
fn options(words: &[OsString]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let word = quote(word);
        match options.last_mut() {
            Some(option) if place > 0 && !word.starts_with('-') => {
                option.push(' ');
                option.push_str(&word);
            }
            _ => options.push(word),
        }
    }
    options
}

/// The result as a file: XML or a definition as it is, a command line as a shell takes it.
pub(super) fn whole(text: &Text) -> String {
    match text {
        Text::Xml(text) | Text::Vm { text, .. } => text.clone(),
        Text::Arguments(words) => options(words).join(" \\\n  ") + "\n",
    }
}

/// Prints what a guest's description says: to a terminal only what cannot change it, else each byte.
pub(super) fn print(text: &str, ui: &Ui) -> anyhow::Result<()> {
    match std::io::stdout().is_terminal() {
        true => ui.data(&printable(&text.replace("\r\n", "\n"))),
        false => ui.data(text),
    }
}

pub(super) fn diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let name = printable_line(name);
    let path = name.trim_start_matches('/');
    let diff = TextDiff::from_lines(old, new);
    diff.unified_diff()
        .header(&format!("a/{path}"), &format!("b/{path}"))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_one_of_a_shell_with_each_option_in_a_line() {
        let words = ["kvm", "-name", "a\nb \\", "-m", "1G", "disk"];
        let words: Vec<_> = words.map(OsString::from).into();
        let text = whole(&Text::Arguments(words.clone()));
        assert_eq!(text, "kvm \\\n  -name 'a\nb \\' \\\n  -m 1G disk\n");
        let read = shlex::split(&text.replace(" \\\n  ", " ")).unwrap_or_default();
        assert_eq!(
            read.into_iter().map(OsString::from).collect::<Vec<_>>(),
            words
        );
    }
}
