//! Version of the kernel's source. Pure.

use std::fmt;

/// A version of the kernel's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number, of the stable series; 0 where it is not known.
    pub patch: u32,
}

/// Versions from which on the source has a change.
#[derive(Debug, PartialEq, Eq)]
pub struct Since {
    /// Of the main line.
    pub mainline: Version,
    /// First version of each stable series that got it, too.
    pub stable: &'static [Version],
}

impl Version {
    /// A version.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Reads `/proc/version` and `/proc/version_signature`. The release of Debian's kernels has no
    /// number of the stable series (`6.1.0-56-amd64`); the text behind it has (`Debian 6.1.192-2`).
    /// Ubuntu's is the last word of the signature.
    #[must_use]
    pub fn parse(version: &str, signature: Option<&str>) -> Option<Self> {
        if let Some(last) = signature.and_then(|text| text.split_whitespace().last()) {
            return Self::numbers(last);
        }
        let debian = version.split(" Debian ").nth(1).and_then(Self::numbers);
        let release = || version.split_whitespace().nth(2).and_then(Self::numbers);
        debian.or_else(release)
    }

    fn numbers(text: &str) -> Option<Self> {
        let mut parts = text.split(|c: char| !c.is_ascii_digit());
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next().and_then(|part| part.parse().ok());
        Some(Self::new(major, minor, patch.unwrap_or(0)))
    }

    /// Whether it has a change.
    #[must_use]
    pub fn has(self, since: &Since) -> bool {
        let series = |other: &Version| (self.major, self.minor) == (other.major, other.minor);
        let backport = since.stable.iter().find(|first| series(first));
        self >= since.mainline || backport.is_some_and(|first| self >= *first)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            patch,
        } = self;
        match patch {
            0 => write!(formatter, "{major}.{minor}"),
            _ => write!(formatter, "{major}.{minor}.{patch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_tell_the_version_of_the_source() {
        let debian = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian \
            12.2.0-14+deb12u1) 12.2.0, GNU ld) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-01)";
        let plain = "Linux version 6.18.44-fc-v782 (user@host) (gcc) #1 SMP";
        let ubuntu = "Linux version 6.8.0-40-generic (buildd@x) (gcc) #40-Ubuntu SMP";
        for (version, signature, expected) in [
            (debian, None, Some(Version::new(6, 1, 192))),
            (plain, None, Some(Version::new(6, 18, 44))),
            (
                ubuntu,
                Some("Ubuntu 6.8.0-40.40-generic 6.8.12\n"),
                Some(Version::new(6, 8, 12)),
            ),
            ("Linux version 7.3-rc1", None, Some(Version::new(7, 3, 0))),
            ("Linux version x", None, None),
            ("", None, None),
        ] {
            assert_eq!(Version::parse(version, signature), expected, "{version}");
        }
    }

    #[test]
    fn a_change_is_in_stable_series_too() {
        const SINCE: Since = Since {
            mainline: Version::new(6, 17, 0),
            stable: &[Version::new(6, 1, 149), Version::new(6, 12, 44)],
        };
        for (version, has) in [
            ((6, 17, 0), true),
            ((7, 0, 1), true),
            ((6, 1, 192), true),
            ((6, 1, 148), false),
            ((6, 12, 44), true),
            ((6, 6, 999), false),
        ] {
            let (major, minor, patch) = version;
            let version = Version::new(major, minor, patch);
            assert_eq!(version.has(&SINCE), has, "{version}");
        }
    }
}
