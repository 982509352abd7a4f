//! Words of the options of `brisk run`.

use std::ffi::OsString;

use anyhow::{Context, bail};
use brisk_tools::guest as tool;

pub(super) fn share(text: &str) -> anyhow::Result<tool::Share> {
    let Some(share) = tool::Share::parse(text) else {
        bail!("--share {text}: write HOST:GUEST or HOST:GUEST:ro, GUEST an absolute path");
    };
    let host = std::fs::canonicalize(&share.host)
        .with_context(|| format!("--share {text}: cannot use {}", share.host.display()))?;
    if !host.is_dir() {
        bail!("--share {text}: {} is not a directory", host.display());
    }
    Ok(tool::Share { host, ..share })
}

pub(super) fn host_name(text: &str) -> anyhow::Result<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 64 || !text.chars().all(good) {
        bail!("--hostname {text:?}: write letters, digits, - and ., up to 64");
    }
    Ok(text.to_owned())
}

/// A bare name passes this machine's value on; one that is not set here is left out.
pub(super) fn variable(text: &str) -> Option<OsString> {
    if text.contains('=') {
        return Some(text.into());
    }
    let value = std::env::var_os(text)?;
    let mut variable = OsString::from(text);
    variable.push("=");
    variable.push(value);
    Some(variable)
}

pub(super) fn user(text: &str) -> tool::User {
    match text.split_once(':') {
        Some((user, group)) => tool::User {
            user: user.into(),
            group: Some(group.into()),
        },
        None => tool::User {
            user: text.into(),
            group: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_name_both_sides() {
        let dir = std::env::temp_dir();
        let dir = std::fs::canonicalize(dir).unwrap();
        let text = |tail: &str| format!("{}{tail}", dir.display());
        let parsed = share(&text(":/mnt:ro")).unwrap();
        assert_eq!(
            (parsed.host.clone(), &*parsed.guest, parsed.writable),
            (dir.clone(), "/mnt", false)
        );
        assert!(share(&text(":/mnt")).unwrap().writable);
        assert!(share(&text("")).is_err());
        assert!(share(&text(":mnt")).is_err());
        assert!(
            share("/does/not/exist:/mnt")
                .unwrap_err()
                .to_string()
                .contains("/does/not/exist")
        );
    }

    #[test]
    fn host_names_are_checked() {
        assert_eq!(host_name("a-1.example").unwrap(), "a-1.example");
        for text in ["", "a b", "a_b", &"a".repeat(65)] {
            let error = host_name(text).unwrap_err().to_string();
            assert!(
                error.contains("--hostname") && error.contains(text),
                "{error}"
            );
        }
    }
}
