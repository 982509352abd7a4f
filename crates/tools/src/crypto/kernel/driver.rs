//! Implementations in `/proc/crypto`.

use std::path::Path;

use serde::Serialize;

use super::flags::Flags;
use super::text;
use crate::crypto::Kind;

/// Implementations that are read at most; kernels have up to about 300.
const MOST: usize = 4096;
/// Characters of a name that are kept; `CRYPTO_MAX_ALG_NAME` is 128.
const NAME: usize = 128;

/// An implementation of an algorithm, as `crypto/proc.c` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Driver {
    /// Algorithm, such as `cbc(aes)`.
    pub name: String,
    /// Name of the implementation, such as `cbc-aes-aesni`.
    pub driver: String,
    /// Module that has it; `kernel` if it is built in.
    pub module: String,
    /// Of several with one name, the highest is used.
    pub priority: i64,
    /// References, 1 without users.
    pub references: u64,
    /// Whether the self-test passed, or there is none. One that failed or still runs is shown as
    /// `unknown` by the kernel.
    pub is_tested: bool,
    /// Whether only other implementations may use it.
    pub is_internal: bool,
    /// Type, such as `skcipher`, `aead`, `shash`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether requests may complete after the call; None where the kernel does not show it.
    #[serde(rename = "async")]
    pub is_async: Option<bool>,
    /// Bytes of a block.
    pub block_size: Option<u32>,
    /// Shortest key, bytes.
    pub min_key: Option<u32>,
    /// Longest key, bytes.
    pub max_key: Option<u32>,
    /// Bytes of the initialisation vector.
    pub iv_size: Option<u32>,
    /// Bytes that requests are best cut at.
    pub chunk_size: Option<u32>,
    /// Longest tag of an AEAD, bytes.
    pub max_tag: Option<u32>,
    /// Bytes of a digest.
    pub digest_size: Option<u32>,
    /// Generator of initialisation vectors, if it has one.
    pub iv_generator: Option<String>,
    /// Flags of `NETLINK_CRYPTO`; None if the kernel did not tell them.
    pub flags: Option<Flags>,
}

impl Driver {
    /// Implementations of the system below `root`; empty if its `/proc/crypto` cannot be read.
    pub(crate) fn below(root: &Path) -> Vec<Self> {
        text::of(root, "proc/crypto").map_or_else(Vec::new, |text| Self::parse(&text))
    }

    /// Implementations in the text of `/proc/crypto`, in its order: one that was registered later
    /// comes first. Entries without a name or a driver are left out.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut all = Vec::new();
        let mut entry: Option<Self> = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "name" {
                let named = Self {
                    name: kept(value),
                    ..Self::default()
                };
                all.extend(entry.replace(named).filter(Self::is_whole));
                if all.len() >= MOST {
                    return all;
                }
            } else if let Some(entry) = &mut entry {
                entry.set(key, value);
            }
        }
        all.extend(entry.filter(Self::is_whole));
        all
    }

    fn is_whole(&self) -> bool {
        !self.name.is_empty() && !self.driver.is_empty()
    }

    fn set(&mut self, key: &str, value: &str) {
        let number = || value.parse().ok();
        match key {
            "driver" => self.driver = kept(value),
            "module" => self.module = kept(value),
            "priority" => self.priority = value.parse().unwrap_or_default(),
            "refcnt" => self.references = value.parse().unwrap_or_default(),
            "selftest" => self.is_tested = value == "passed",
            "internal" => self.is_internal = value == "yes",
            "type" => self.kind = kept(value),
            "async" => self.is_async = Some(value == "yes"),
            "blocksize" => self.block_size = number(),
            "min keysize" => self.min_key = number(),
            "max keysize" => self.max_key = number(),
            "ivsize" => self.iv_size = number(),
            "chunksize" => self.chunk_size = number(),
            "maxauthsize" => self.max_tag = number(),
            "digestsize" => self.digest_size = number(),
            "geniv" => self.iv_generator = Some(kept(value)).filter(|name| name != "<none>"),
            _ => {}
        }
    }

    /// What it does; None for types that brisk does not measure, such as `rng`.
    #[must_use]
    pub fn does(&self) -> Option<Kind> {
        match &*self.kind {
            // With its generator of initialisation vectors, until Linux 4.15: an implementation of
            // the cipher like others.
            "givcipher" => Some(Kind::Cipher),
            "skcipher" | "lskcipher" | "ablkcipher" | "blkcipher" => Some(Kind::Cipher),
            "aead" | "nivaead" => Some(Kind::Aead),
            "shash" | "ahash" => Some(Kind::Hash),
            _ => None,
        }
    }

    /// Whether it takes a key of this many bytes. True where the kernel shows no sizes: for AEADs
    /// and hashes.
    #[must_use]
    pub fn takes_key(&self, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.min_key.is_none_or(|least| least <= bytes)
            && self.max_key.is_none_or(|most| bytes <= most)
    }
}

/// Implementations of an algorithm that are chosen from: of a type that brisk measures, and not a
/// part of others.
pub(crate) fn of<'a>(all: &'a [Driver], name: &str) -> Vec<&'a Driver> {
    let is_it = |driver: &&Driver| driver.name == name && driver.does().is_some();
    all.iter().filter(is_it).collect()
}

/// The implementation that the kernel takes of some, in the order of `/proc/crypto`: the highest
/// priority, and of several the first (`__crypto_alg_lookup` of `crypto/api.c` goes through the list
/// and wants more than it has).
pub(crate) fn chosen<'a>(from: impl IntoIterator<Item = &'a Driver>) -> Option<&'a Driver> {
    let usable = from
        .into_iter()
        .filter(|driver| driver.is_tested && !driver.is_internal);
    usable.fold(None, |best: Option<&Driver>, next| match best {
        Some(best) if best.priority >= next.priority => Some(best),
        _ => Some(next),
    })
}

fn kept(value: &str) -> String {
    value.chars().take(NAME).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
name         : cbc(aes)
driver       : virtio_crypto_aes_cbc
module       : virtio_crypto
priority     : 150
refcnt       : 1
selftest     : passed
internal     : no
type         : skcipher
async        : yes
blocksize    : 16
min keysize  : 16
max keysize  : 32
ivsize       : 16
chunksize    : 16
walksize     : 16

name         : __cbc(aes)
driver       : __cbc-aes-aesni
module       : aesni_intel
priority     : 400
refcnt       : 1
selftest     : unknown
internal     : yes
type         : skcipher

name         : gcm(aes)
driver       : generic-gcm-aesni
module       : aesni_intel
type         : aead
async        : yes
maxauthsize  : 16
geniv        : <none>

name         : sha256
driver       : sha256-ni
module       : sha256_ssse3
priority     : -1
type         : shash
digestsize   : 32
";

    #[test]
    fn all_fields_are_read() {
        let all = Driver::parse(TEXT);
        let first = Driver {
            name: "cbc(aes)".into(),
            driver: "virtio_crypto_aes_cbc".into(),
            module: "virtio_crypto".into(),
            priority: 150,
            references: 1,
            is_tested: true,
            kind: "skcipher".into(),
            is_async: Some(true),
            block_size: Some(16),
            min_key: Some(16),
            max_key: Some(32),
            iv_size: Some(16),
            chunk_size: Some(16),
            ..Driver::default()
        };
        assert_eq!(all[0], first);
        assert!(all[1].is_internal && !all[1].is_tested);
        assert_eq!((all[2].max_tag, &all[2].iv_generator), (Some(16), &None));
        assert_eq!((all[3].digest_size, all[3].priority), (Some(32), -1));
        assert_eq!(all.len(), 4);
        let kinds: Vec<_> = all.iter().map(Driver::does).collect();
        let (cipher, aead, hash) = (Some(Kind::Cipher), Some(Kind::Aead), Some(Kind::Hash));
        assert_eq!(kinds, [cipher, cipher, aead, hash]);
    }

    #[test]
    fn key_sizes_have_two_ends() {
        let all = Driver::parse(TEXT);
        let takes = [8, 16, 32, 64].map(|bytes| all[0].takes_key(bytes));
        assert_eq!(takes, [false, true, true, false]);
        assert!(all[2].takes_key(16));
    }

    #[test]
    fn the_highest_priority_is_chosen_and_of_several_the_first() {
        let driver = |name: &str, priority, is_tested| Driver {
            driver: name.into(),
            priority,
            is_tested,
            ..Driver::default()
        };
        let all = [
            driver("low", 100, true),
            driver("first", 400, true),
            driver("second", 400, true),
            driver("failed", 500, false),
            Driver {
                is_internal: true,
                ..driver("internal", 600, true)
            },
        ];
        assert_eq!(chosen(&all).map(|one| &*one.driver), Some("first"));
        assert_eq!(chosen(&all[3..]), None);
    }

    #[test]
    fn what_is_cut_or_twice_there_is_no_trouble() {
        let cut = Driver::parse("name : a\ndriver : b\npriority : 99999999999999999999\nblocksize");
        assert_eq!((cut.len(), cut[0].priority), (1, 0));
        assert_eq!(Driver::parse("driver : b\nname : a\n\nname : c\n"), []);
        assert_eq!(Driver::parse(&TEXT.repeat(2)).len(), 8);
        let many = "name : a\ndriver : b\n".repeat(MOST + 10);
        assert_eq!(Driver::parse(&many).len(), MOST);
        let long = format!("name : {}\ndriver : b\n", "é".repeat(9999));
        assert_eq!(Driver::parse(&long)[0].name.chars().count(), NAME);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(name|driver|priority|min keysize|\\PC{0,9}| : |[0-9]{1,30}|\n){0,60}") {
            for driver in Driver::parse(&text) {
                prop_assert!(driver.is_whole());
                let _ = driver.takes_key(16);
            }
        }
    }
}
