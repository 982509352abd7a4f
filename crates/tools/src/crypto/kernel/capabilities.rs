//! Capabilities of this process (capabilities(7)).

use std::path::Path;

use super::text;

/// `CAP_NET_ADMIN`.
const NET_ADMIN: u32 = 12;
/// `CAP_SYS_ADMIN`.
const SYS_ADMIN: u32 = 21;

/// Effective capabilities, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// `CapEff` of `/proc/self/status`.
    pub(super) fn below(root: &Path) -> Option<Self> {
        let status = text::of(root, "proc/self/status")?;
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }

    /// Whether `af_alg_restrict=1` gives the longer list of algorithms: `CAP_NET_ADMIN` or
    /// `CAP_SYS_ADMIN` (`af_alg_capable` of `crypto/af_alg.c`).
    #[must_use]
    pub const fn is_admin(self) -> bool {
        self.0 & (1 << NET_ADMIN | 1 << SYS_ADMIN) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_capability_is_enough() {
        for (mask, is_admin) in [
            (1 << 12, true),
            (1 << 21, true),
            (1 << 13, false),
            (0, false),
        ] {
            assert_eq!(Capabilities(mask).is_admin(), is_admin, "{mask:x}");
        }
    }
}
