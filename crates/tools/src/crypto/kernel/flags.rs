//! Flags of an algorithm in the kernel's crypto API.

use serde::{Serialize, Serializer};

/// `cra_flags` of `struct crypto_alg` (`include/linux/crypto.h`), with the type in the lowest four
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// `CRYPTO_ALG_ASYNC`: a request may complete after the call.
    pub const ASYNC: Self = Self(0x80);
    /// `CRYPTO_ALG_NEED_FALLBACK`: it hands some requests to another implementation.
    pub const NEED_FALLBACK: Self = Self(0x100);
    /// `CRYPTO_ALG_TESTED`: its self-test passed, or the kernel has none.
    pub const TESTED: Self = Self(0x400);
    /// `CRYPTO_ALG_KERN_DRIVER_ONLY`: no instruction of the CPU does the same.
    pub const KERN_DRIVER_ONLY: Self = Self(0x1000);
    /// `CRYPTO_ALG_INTERNAL`: only other implementations may use it.
    pub const INTERNAL: Self = Self(0x2000);
    /// `CRYPTO_ALG_ALLOCATES_MEMORY`: it allocates memory for each request, and so may wait for
    /// memory that a disk below it has to free.
    pub const ALLOCATES_MEMORY: Self = Self(0x1_0000);
    /// `CRYPTO_ALG_FIPS_INTERNAL`: not approved by itself, only as a part.
    pub const FIPS_INTERNAL: Self = Self(0x2_0000);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::ASYNC, "ASYNC"),
        (Self::NEED_FALLBACK, "NEED_FALLBACK"),
        (Self::TESTED, "TESTED"),
        (Self::KERN_DRIVER_ONLY, "KERN_DRIVER_ONLY"),
        (Self::INTERNAL, "INTERNAL"),
        (Self::ALLOCATES_MEMORY, "ALLOCATES_MEMORY"),
        (Self::FIPS_INTERNAL, "FIPS_INTERNAL"),
    ];

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Flags that both have.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is any.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Names of those that have a constant here, without `CRYPTO_ALG_`.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let named = Self::NAMES.iter();
        let set = named.filter(|(flag, _)| !self.common(*flag).is_empty());
        set.map(|(_, name)| *name).collect()
    }
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.names().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_their_names() {
        // Of virtio_crypto_aes_cbc on 6.12.
        assert_eq!(
            Flags(0x1_0685).names(),
            ["ASYNC", "TESTED", "ALLOCATES_MEMORY"]
        );
        assert!(Flags(0x685).common(Flags::ALLOCATES_MEMORY).is_empty());
        assert!(Flags(5).names().is_empty());
    }
}
