//! What the user can try, as part of an error's message.

use std::error::Error;
use std::fmt::Display;

/// An error with what to try, where something is known.
pub(crate) fn with_hint<E>(error: E, hint: Option<impl Display>) -> anyhow::Error
where
    E: Error + Send + Sync + 'static,
{
    match hint {
        Some(hint) => {
            let text = format!("{error} ({hint})");
            anyhow::Error::new(error).context(text)
        }
        None => anyhow::Error::new(error),
    }
}
