//! Published test vectors: what an implementation has to give before it is measured.
//!
//! - CBC, CTR and ECB: NIST SP 800-38A, appendix F.
//! - XTS: IEEE 1619-2007, appendix B, vectors 4 and 10, of which the first 32 bytes.
//! - GCM: "The Galois/Counter Mode of Operation" (McGrew, Viega), test cases 4 and 16.
//! - ChaCha20-Poly1305: RFC 8439, section 2.8.2.
//! - SHA: FIPS 180-2, the message of one block.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::af_alg::{AfAlgError, Direction, Parameters, Transform};
use super::algorithm::{Algorithm, Kind};

/// Input and output of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vector {
    /// Key; empty for a hash.
    pub key: Vec<u8>,
    /// Initialisation vector or nonce.
    pub iv: Vec<u8>,
    /// Associated data of an AEAD.
    pub associated: Vec<u8>,
    /// Plaintext, or message of a hash.
    pub plain: Vec<u8>,
    /// Ciphertext, with the tag of an AEAD after it; or digest.
    pub result: Vec<u8>,
}

const AES_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const AES_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
const AES_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
const BLOCKS: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                      30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
const CBC_IV: &str = "000102030405060708090a0b0c0d0e0f";
const CTR_IV: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
const BYTES: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const GCM_KEY: &str = "feffe9928665731c6d6a8f9467308308";
const GCM_IV: &str = "cafebabefacedbaddecaf888";
const GCM_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const GCM_ASSOCIATED: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const SUNSCREEN: &str = "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
                         73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
                         6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
                         637265656e20776f756c642062652069742e";
const ABC: &str = "616263";

/// The vector of an algorithm.
#[must_use]
pub fn vector(algorithm: &Algorithm) -> Vector {
    let modes = |key, iv, result| of([key, iv, "", BLOCKS, result]);
    let hash = |result| of(["", "", "", ABC, result]);
    match algorithm.name {
        "aes-128-cbc" => modes(
            AES_128,
            CBC_IV,
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
             73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
        ),
        "aes-192-cbc" => modes(
            AES_192,
            CBC_IV,
            "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
             571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
        ),
        "aes-256-cbc" => modes(
            AES_256,
            CBC_IV,
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
             39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
        ),
        "aes-128-ctr" => modes(
            AES_128,
            CTR_IV,
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
             5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
        ),
        "aes-256-ctr" => modes(
            AES_256,
            CTR_IV,
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
             2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
        ),
        "aes-128-ecb" => modes(
            AES_128,
            "",
            "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf\
             43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4",
        ),
        "aes-256-ecb" => modes(
            AES_256,
            "",
            "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870\
             b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
        ),
        "aes-128-xts" => of([
            "2718281828459045235360287471352631415926535897932384626433832795",
            "00000000000000000000000000000000",
            "",
            BYTES,
            "27a7479befa1d476489f308cd4cfa6e2a96e4bbe3208ff25287dd3819616e89c",
        ]),
        "aes-256-xts" => of([
            "2718281828459045235360287471352662497757247093699959574966967627\
             3141592653589793238462643383279502884197169399375105820974944592",
            "ff000000000000000000000000000000",
            "",
            BYTES,
            "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b",
        ]),
        "aes-128-gcm" => of([
            GCM_KEY,
            GCM_IV,
            GCM_ASSOCIATED,
            GCM_PLAIN,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
             5bc94fbc3221a5db94fae95ae7121a47",
        ]),
        "aes-256-gcm" => of([
            &GCM_KEY.repeat(2),
            GCM_IV,
            GCM_ASSOCIATED,
            GCM_PLAIN,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662\
             76fc6ece0f4e1768cddf8853bb2d551b",
        ]),
        "chacha20-poly1305" => of([
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            "070000004041424344454647",
            "50515253c0c1c2c3c4c5c6c7",
            SUNSCREEN,
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
             3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
             92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
             3ff4def08e4b7a9de576d26586cec64b6116\
             1ae10b594f09e26a7e902ecbd0600691",
        ]),
        "sha1" => hash("a9993e364706816aba3e25717850c26c9cd0d89d"),
        "sha256" => hash("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        "sha512" => hash(
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        other => unreachable!("{other} has no vector, as a test would show"),
    }
}

fn of([key, iv, associated, plain, result]: [&str; 5]) -> Vector {
    Vector {
        key: bytes(key),
        iv: bytes(iv),
        associated: bytes(associated),
        plain: bytes(plain),
        result: bytes(result),
    }
}

/// Bytes of hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("the digits are ASCII");
        u8::from_str_radix(text, 16).expect("the constants have only digits")
    };
    pairs.map(byte).collect()
}

/// Hexadecimal digits of bytes, as command lines and tables of devices have keys.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an implementation was checked by published test vectors, and gave their results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// It was.
    Yes,
    /// It could not be; the reason.
    No(String),
}

/// Reason why an implementation is not measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// It does not do the operation.
    #[error(transparent)]
    Refused(#[from] AfAlgError),
    /// It gives something else.
    #[error(
        "{implementation} gives a wrong result for the published test vector of {algorithm}: do \
         not use it"
    )]
    Wrong {
        /// Implementation.
        implementation: String,
        /// Algorithm.
        algorithm: &'static str,
    },
}

impl VectorError {
    /// An implementation gave another result than the published one.
    pub(super) fn wrong(implementation: impl Display, algorithm: &Algorithm) -> Self {
        Self::Wrong {
            implementation: implementation.to_string(),
            algorithm: algorithm.name,
        }
    }
}

/// Has a driver of the kernel encrypt and decrypt the vector, or digest it, by AF_ALG. An AEAD must
/// also refuse a wrong tag.
///
/// # Errors
/// If the result differs, or the kernel does not do it.
pub(super) fn check(driver: &str, algorithm: &Algorithm) -> Result<(), VectorError> {
    let vector = vector(algorithm);
    let wrong = || VectorError::wrong(driver, algorithm);
    let transform = Transform::new(driver, algorithm, &vector.key)?;
    let operations = transform.operations(1 << 12)?;
    let associated = vector.associated.len();
    let run = |direction, input: &[u8], length: usize| {
        let parameters = Parameters {
            direction,
            iv: &vector.iv,
            associated,
        };
        let input = [&vector.associated, input].concat();
        let mut output = vec![0; associated + length];
        operations.run(&parameters, &input, &mut output)?;
        Ok::<_, AfAlgError>(output.split_off(associated))
    };
    let result = run(Direction::Encrypt, &vector.plain, vector.result.len())?;
    if result != vector.result {
        return Err(wrong());
    }
    if algorithm.kind == Kind::Hash {
        return Ok(());
    }
    if run(Direction::Decrypt, &vector.result, vector.plain.len())? != vector.plain {
        return Err(wrong());
    }
    if algorithm.kind == Kind::Aead {
        let mut forged = vector.result.clone();
        *forged.last_mut().expect("a tag is not empty") ^= 1;
        match run(Direction::Decrypt, &forged, vector.plain.len()) {
            Err(AfAlgError::BadTag(_)) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::ALGORITHMS;
    use super::*;

    #[test]
    fn every_algorithm_has_a_vector_of_its_lengths() {
        for algorithm in ALGORITHMS {
            let found = vector(algorithm);
            assert_eq!(found.key.len(), algorithm.key, "{}", algorithm.name);
            assert_eq!(found.iv.len(), algorithm.iv, "{}", algorithm.name);
            if algorithm.kind != Kind::Hash {
                let length = found.plain.len() + algorithm.tag();
                assert_eq!(found.result.len(), length, "{}", algorithm.name);
            }
        }
    }

    /// Against an implementation that is not ours, where there is one among the dependencies.
    #[test]
    fn vectors_agree_with_another_implementation() {
        use sha2::Digest;
        for (name, digest) in [
            ("sha256", sha2::Sha256::digest("abc").to_vec()),
            ("sha512", sha2::Sha512::digest("abc").to_vec()),
        ] {
            let algorithm = Algorithm::find(name).unwrap();
            assert_eq!(vector(algorithm).result, digest);
        }
    }
}
