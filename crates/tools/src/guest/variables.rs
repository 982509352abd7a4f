//! Environment variables of a command in a guest.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use brisk_vm::guest::Step;

/// The search path of a command, as login(1) sets it for root.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of every command, and `more`, which override them. TERM is this process's where the
/// command has a `terminal`.
pub(crate) fn variables(
    home: &str,
    terminal: bool,
    more: impl IntoIterator<Item = OsString>,
) -> impl Iterator<Item = Step> {
    let kind = std::env::var_os("TERM").filter(|_| terminal);
    let mut term = OsString::from("TERM=");
    term.push(kind.unwrap_or_else(|| "linux".into()));
    let mut all: Vec<OsString> = vec![PATH.into(), format!("HOME={home}").into(), term];
    all.extend(more);
    last_of_each(all).into_iter().map(|text| Step::Variable {
        text: text.into_vec(),
    })
}

/// Removes earlier values of variables that are set twice.
fn last_of_each(environment: Vec<OsString>) -> Vec<OsString> {
    fn name(text: &OsString) -> Option<&[u8]> {
        text.as_bytes().split(|byte| *byte == b'=').next()
    }
    let mut last: Vec<OsString> = Vec::new();
    for text in environment.into_iter().rev() {
        if !last.iter().any(|later| name(later) == name(&text)) {
            last.push(text);
        }
    }
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(more: &[&str]) -> Vec<String> {
        let steps = variables("/root", false, more.iter().map(OsString::from));
        let text = |step| match step {
            Step::Variable { text } => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        steps.map(text).collect()
    }

    #[test]
    fn each_variable_is_set_once_and_the_later_counts() {
        assert_eq!(set(&[]), [PATH, "HOME=/root", "TERM=linux"]);
        assert_eq!(
            set(&["A=1", "PATH=/opt", "A=2=3", "AB=4", "HOME="]),
            ["TERM=linux", "PATH=/opt", "A=2=3", "AB=4", "HOME="]
        );
    }
}
