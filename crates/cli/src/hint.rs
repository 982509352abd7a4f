//! Hints: what the user can try, as part of an error's message.

use std::ffi::OsString;
use std::fmt::Display;

use brisk_vm::hardware::process;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::ui::error_text;

/// An error with its causes and its hint, if there is one.
pub(crate) fn with_hint<E>(error: E, hint: Option<impl Display>) -> anyhow::Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    let error = anyhow::Error::new(error);
    match hint {
        Some(hint) => anyhow::anyhow!("{} ({hint})", error_text(&error)),
        None => error,
    }
}

/// A process that cannot be looked at, with what to try.
pub(crate) fn of_process(error: process::Error) -> anyhow::Error {
    let hint = match &error {
        process::Error::Read { .. } => {
            "/proc is mounted with hidepid, or this is a container; ask as its user, or as root"
        }
        process::Error::None(_) => {
            "QEMUs that run: pgrep -a qemu; a container, or a /proc that is mounted with hidepid, \
             hides those of others"
        }
        _ => "QEMUs that run: pgrep -a qemu",
    };
    with_hint(error, Some(hint))
}

/// Adds a hint to an error of the command line if the user wrote a guest's command without `--`, as
/// other programs take it.
pub(crate) fn dashes(mut error: clap::Error, words: impl Iterator<Item = OsString>) -> clap::Error {
    let mut words = words
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let takes_one = match words.next().as_deref() {
        Some("run") => "brisk run",
        Some("vm") if words.next().as_deref() == Some("exec") => "brisk vm exec NAME",
        _ => return error,
    };
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if !word.starts_with('-') => word.clone(),
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument {
        let tip = format!("the command comes after '--': {takes_one} -- {unknown} …");
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

#[cfg(test)]
mod tests {
    use brisk_image::Error;
    use clap::Parser;

    use super::*;
    use crate::Cli;

    #[test]
    fn a_command_without_dashes_is_shown_with_them() {
        let message = |line: &str| {
            let words = || line.split(' ').map(OsString::from);
            let error = Cli::try_parse_from(words()).unwrap_err();
            dashes(error, words()).to_string()
        };
        let run = message("brisk run --root none ls -l");
        assert!(run.contains("brisk run -- ls"), "{run}");
        let exec = message("brisk vm exec web uname");
        assert!(exec.contains("brisk vm exec NAME -- uname"), "{exec}");
        for other in ["brisk run --rot none", "brisk vm stop web now"] {
            let message = message(other);
            assert!(!message.contains("after '--'"), "{message}");
        }
    }

    #[test]
    fn words_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let words = || ["brisk".into(), "run".into(), OsString::from_vec(vec![0xff])].into_iter();
        let error = Cli::try_parse_from(words()).unwrap_err();
        let message = dashes(error, words()).to_string();
        assert!(message.contains("error: "), "{message}");
    }

    fn shown(hint: Option<&str>) -> String {
        let error = Error::Io {
            action: "write",
            path: "/x".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        error_text(&with_hint(error, hint))
    }

    #[test]
    fn each_cause_is_told_once() {
        let message = "cannot write /x: no storage space";
        assert_eq!(shown(None), message);
        assert_eq!(shown(Some("free some")), format!("{message} (free some)"));
    }
}
