//! Algorithms by the names that OpenSSL and Linux give them.

/// What an algorithm does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Encrypts and decrypts; a symmetric cipher of the kernel's type `skcipher`.
    Cipher,
    /// Encrypts with a tag that proves the data; type `aead`.
    Aead,
    /// Digests; type `shash` or `ahash`.
    Hash,
}

/// An algorithm that can be measured.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    /// Name that users give and OpenSSL knows, such as `aes-128-cbc`.
    pub name: &'static str,
    /// Name in the kernel's crypto API, such as `cbc(aes)`.
    pub kernel: &'static str,
    /// What it does.
    pub kind: Kind,
    /// Bytes of its key; 0 for a hash.
    pub key: usize,
    /// Bytes of its initialisation vector or nonce; 0 for a hash and for ECB.
    pub iv: usize,
    /// Whether libcrypto has it under [`name`](Self::name), for `openssl speed -evp`.
    pub in_openssl: bool,
}

const fn cipher(name: &'static str, kernel: &'static str, key: usize, iv: usize) -> Algorithm {
    Algorithm {
        name,
        kernel,
        kind: Kind::Cipher,
        key,
        iv,
        in_openssl: true,
    }
}

const fn aead(name: &'static str, kernel: &'static str, key: usize) -> Algorithm {
    Algorithm {
        name,
        kernel,
        kind: Kind::Aead,
        key,
        iv: 12,
        in_openssl: true,
    }
}

const fn hash(name: &'static str, kernel: &'static str) -> Algorithm {
    Algorithm {
        name,
        kernel,
        kind: Kind::Hash,
        key: 0,
        iv: 0,
        in_openssl: true,
    }
}

/// All of them; the names are unique.
pub const ALGORITHMS: &[Algorithm] = &[
    cipher("aes-128-cbc", "cbc(aes)", 16, 16),
    cipher("aes-192-cbc", "cbc(aes)", 24, 16),
    cipher("aes-256-cbc", "cbc(aes)", 32, 16),
    cipher("aes-128-ctr", "ctr(aes)", 16, 16),
    cipher("aes-256-ctr", "ctr(aes)", 32, 16),
    cipher("aes-128-ecb", "ecb(aes)", 16, 0),
    cipher("aes-256-ecb", "ecb(aes)", 32, 0),
    // XTS has two keys.
    cipher("aes-128-xts", "xts(aes)", 32, 16),
    cipher("aes-256-xts", "xts(aes)", 64, 16),
    aead("aes-128-gcm", "gcm(aes)", 16),
    aead("aes-256-gcm", "gcm(aes)", 32),
    aead("chacha20-poly1305", "rfc7539(chacha20,poly1305)", 32),
    hash("sha1", "sha1"),
    hash("sha256", "sha256"),
    hash("sha512", "sha512"),
];

impl Algorithm {
    /// Bytes of the authentication tag; 0 unless it is an AEAD.
    #[must_use]
    pub fn tag(&self) -> usize {
        if self.kind == Kind::Aead { 16 } else { 0 }
    }

    /// The one of a name, of OpenSSL's in any of its spellings ([`is_same`]) or of the kernel's; of
    /// several with the kernel's name the first.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let is = |known: &str| known.eq_ignore_ascii_case(name.trim());
        let alias = ALIASES.iter().find(|(alias, _)| is(alias));
        let plain = plain(alias.map_or(name, |(_, name)| name));
        let mut all = ALGORITHMS.iter();
        all.find(|one| self::plain(one.name) == plain || is(one.kernel))
    }
}

/// Further names in OpenSSL: `aes128` is CBC, and 3.0 says `SHA2-256`.
const ALIASES: [(&str, &str); 5] = [
    ("aes128", "aes-128-cbc"),
    ("aes192", "aes-192-cbc"),
    ("aes256", "aes-256-cbc"),
    ("sha2-256", "sha256"),
    ("sha2-512", "sha512"),
];

/// A name without what its spellings differ in: `aes-128 cbc`, `AES-128-CBC`, `id-aes128-CBC`.
fn plain(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("id-").unwrap_or(&name);
    name.replace([' ', '-', '_'], "")
}

/// Whether two names are spellings of one, as OpenSSL's versions and forms have them.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    match (Algorithm::find(one), Algorithm::find(other)) {
        (None, None) => plain(one) == plain(other),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one_algorithm() {
        for (name, known) in [
            ("aes-128 cbc", "aes-128-cbc"),
            ("AES128", "aes-128-cbc"),
            ("aes256", "aes-256-cbc"),
            ("id-aes128-GCM", "aes-128-gcm"),
            ("ChaCha20-Poly1305", "chacha20-poly1305"),
            ("SHA2-256", "sha256"),
            ("SHA-512", "sha512"),
            ("CTR(aes)", "aes-128-ctr"),
        ] {
            assert_eq!(Algorithm::find(name).unwrap().name, known, "{name}");
            assert!(is_same(name, known), "{name}");
        }
        for name in [
            "aes-128",
            "sha512-256",
            "sha3-256",
            "aes-128-cbc-hmac-sha1",
            "des",
            "",
        ] {
            assert_eq!(Algorithm::find(name), None, "{name}");
        }
        assert!(is_same("camellia-128 cbc", "CAMELLIA-128-CBC"));
        for (one, other) in [
            ("aes-128-cbc", "aes-256-cbc"),
            ("aes-128-cbc", "aes-128-gcm"),
            ("sha256", "sha3-256"),
            ("sha256", "sha512"),
            ("camellia-128-cbc", "camellia-256-cbc"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
