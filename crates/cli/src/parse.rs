//! Values of options that several commands have: durations, shares, variables, users, host names.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, bail};
use brisk_host::quantity;
use brisk_tools::guest as tool;

/// `90`, `1.5s`, `500ms`, `5m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    quantity::duration(text)
        .ok_or_else(|| "not a duration; write for example 90, 90s, 500ms or 5m".to_owned())
}

/// A duration, or 0.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        text => duration(text),
    }
}

/// A size of memory, in MiB.
pub(crate) fn memory_mib(text: &str) -> Result<u64, String> {
    quantity::memory_mib(text)
        .ok_or_else(|| "not a size; write for example 512M, 2G or 512 (MiB)".to_owned())
}

/// Memory of a guest, in MiB.
pub(crate) fn guest_memory(text: &str) -> Result<u64, String> {
    let mib = memory_mib(text)?;
    if mib < tool::LEAST_MEMORY {
        return Err(format!(
            "a distribution's kernel does not boot in less than {}M",
            tool::LEAST_MEMORY
        ));
    }
    Ok(mib)
}

pub(crate) fn share(text: &str) -> anyhow::Result<tool::Share> {
    let Some(share) = tool::Share::parse(text) else {
        bail!(
            "--share {text}: write HOST:GUEST, HOST:GUEST:ro or HOST:GUEST,suid, GUEST an absolute path"
        );
    };
    let host = std::fs::canonicalize(&share.host)
        .with_context(|| format!("--share {text}: cannot use {}", share.host.display()))?;
    if !host.is_dir() {
        bail!("--share {text}: {} is not a directory", host.display());
    }
    Ok(tool::Share { host, ..share })
}

pub(crate) fn host_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 64 || !text.chars().all(good) {
        return Err("write letters, digits, - and ., up to 64".to_owned());
    }
    Ok(text.to_owned())
}

/// A bare name passes the host's value on; one that is not set here is left out.
pub(crate) fn variable(text: &str) -> Option<OsString> {
    if text.contains('=') {
        return Some(text.into());
    }
    let value = std::env::var_os(text)?;
    let mut variable = OsString::from(text);
    variable.push("=");
    variable.push(value);
    Some(variable)
}

#[cfg(test)]
mod tests {
    use brisk_vm::virtiofs::Access;

    use super::*;

    #[test]
    fn shares_name_both_sides() {
        let dir = std::env::temp_dir();
        let dir = std::fs::canonicalize(dir).unwrap();
        let text = |tail: &str| format!("{}{tail}", dir.display());
        let parsed = share(&text(":/mnt:ro")).unwrap();
        assert_eq!(
            (parsed.host.clone(), &*parsed.guest, parsed.access),
            (dir.clone(), "/mnt", Access::ReadOnly)
        );
        assert_eq!(share(&text(":/mnt")).unwrap().access, Access::Writable);
        assert_eq!(share(&text(":/mnt,suid")).unwrap().access, Access::SetId);
        assert!(share(&text(":/mnt:ro,suid")).is_err());
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
            assert!(host_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_of_guests_is_in_mib() {
        for (text, mib) in [("512", 512), ("512M", 512), ("2G", 2048), ("131072k", 128)] {
            assert_eq!(guest_memory(text).unwrap(), mib, "{text}");
        }
        for text in ["", "M", "-1G", "12Q", "95M", "99999999999999999T"] {
            assert!(guest_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("1.5s", 1500),
            ("500ms", 500),
            ("5m", 300_000),
        ] {
            assert_eq!(
                duration(text).unwrap(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
        for text in ["", "s", "0", "-3s", "5d", "infs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
