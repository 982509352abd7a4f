//! What the user can try, as part of an error's message.

use std::fmt::Display;

use crate::ui::error_text;

/// An error with its causes and with what to try, where something is known.
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

#[cfg(test)]
mod tests {
    use brisk_vm::image::Error;

    use super::*;

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
        let told = "cannot write /x: no storage space";
        assert_eq!(shown(None), told);
        assert_eq!(shown(Some("free some")), format!("{told} (free some)"));
    }
}
