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

    /// The one of a name, of OpenSSL's or of the kernel's; of several with the kernel's name the
    /// first. Upper and lower case are not distinguished.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let mut all = ALGORITHMS.iter();
        all.find(|algorithm| is(algorithm.name) || is(algorithm.kernel))
    }
}
