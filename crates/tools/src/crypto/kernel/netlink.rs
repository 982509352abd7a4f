//! Flags of algorithms by `NETLINK_CRYPTO`: messages as bytes. Pure.
//!
//! `include/uapi/linux/netlink.h` and `include/uapi/linux/cryptouser.h` have the structures, in the
//! byte order of the machine. A dump needs no capability: `crypto_user_rcv_msg` of
//! `crypto/crypto_user.c` checks none for `CRYPTO_MSG_GETALG`.

use super::flags::Flags;

/// `CRYPTO_MSG_GETALG`, of the request and of each answer.
const GET_ALGORITHM: u16 = 0x13;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLMSG_DONE`.
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
const REQUEST_DUMP: u16 = 0x301;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `CRYPTO_MAX_NAME`: bytes of each of the three names.
const NAME: usize = 64;
/// Bytes of `struct crypto_user_alg`: names, type, mask, references, flags.
const ALGORITHM: usize = 3 * NAME + 4 * 4;
/// Where the flags are in it.
const FLAGS: usize = 3 * NAME + 3 * 4;

/// Flags of an implementation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Algorithm. The kernel cuts names at 63 bytes.
    pub name: String,
    /// Name of the implementation.
    pub driver: String,
    /// Its flags.
    pub flags: Flags,
}

/// What a datagram of the kernel has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Implementations.
    pub reported: Vec<Reported>,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Number of the error with which the kernel refuses, such as 1 for `EPERM`.
    pub error: Option<i32>,
}

/// A request for all implementations.
#[must_use]
pub fn request() -> Vec<u8> {
    let length = (HEADER + ALGORITHM) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(GET_ALGORITHM.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    // Sequence number; port, which the kernel fills in; an algorithm without a name.
    bytes.extend(1_u32.to_ne_bytes());
    bytes.resize(HEADER + ALGORITHM, 0);
    bytes
}

/// Parses a datagram. What is cut or of another type is left out.
#[must_use]
pub fn parse(datagram: &[u8]) -> Answer {
    let mut answer = Answer::default();
    let mut rest = datagram;
    while let Some(length) = number(rest, 0) {
        let length = length as usize;
        let (Some(kind), true) = (half(rest, 4), length >= HEADER) else {
            break;
        };
        let Some(payload) = rest.get(HEADER..length) else {
            break;
        };
        match kind {
            DONE => answer.is_last = true,
            ERROR => {
                let code = number(payload, 0).map_or(0, |code| (code as i32).wrapping_neg());
                answer.is_last = true;
                answer.error = Some(code).filter(|code| *code != 0);
            }
            GET_ALGORITHM => answer.reported.extend(reported(payload)),
            _ => {}
        }
        // NLMSG_ALIGN.
        let next = length.next_multiple_of(4);
        rest = rest.get(next..).unwrap_or_default();
    }
    answer
}

fn reported(payload: &[u8]) -> Option<Reported> {
    Some(Reported {
        name: text(payload, 0)?,
        driver: text(payload, NAME)?,
        flags: Flags(number(payload, FLAGS)?),
    })
}

fn text(bytes: &[u8], at: usize) -> Option<String> {
    let field = bytes.get(at..at + NAME)?;
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(NAME);
    Some(String::from_utf8_lossy(&field[..end]).into_owned())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    field.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    field.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::captured::{self, bytes};

    /// A message as the kernel sends it.
    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = (HEADER + payload.len()) as u32;
        let mut bytes = [length.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn algorithm(name: &str, driver: &str, flags: u32) -> Vec<u8> {
        let mut payload = vec![0; ALGORITHM];
        payload[..name.len()].copy_from_slice(name.as_bytes());
        payload[NAME..NAME + driver.len()].copy_from_slice(driver.as_bytes());
        payload[FLAGS..].copy_from_slice(&flags.to_ne_bytes());
        // CRYPTOCFGA_PRIORITY_VAL.
        payload.extend([8, 0, 1, 0, 150, 0, 0, 0]);
        payload
    }

    #[test]
    fn a_request_is_a_dump_of_all() {
        let bytes = request();
        assert_eq!(bytes.len(), 224);
        assert_eq!(
            bytes[..HEADER],
            [224, 0, 0, 0, 0x13, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0]
        );
        assert!(bytes[HEADER..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn answers_go_on_to_the_end() {
        let datagram = [
            message(
                0x13,
                &algorithm("cbc(aes)", "virtio_crypto_aes_cbc", 0x1_0485),
            ),
            message(0x99, b"abcde"),
            message(0x13, &algorithm("sha256", "sha256-ni", 0x40e)),
        ]
        .concat();
        let answer = parse(&datagram);
        assert_eq!((answer.is_last, answer.error), (false, None));
        assert_eq!(
            answer.reported,
            [
                Reported {
                    name: "cbc(aes)".into(),
                    driver: "virtio_crypto_aes_cbc".into(),
                    flags: Flags(0x1_0485)
                },
                Reported {
                    name: "sha256".into(),
                    driver: "sha256-ni".into(),
                    flags: Flags(0x40e)
                },
            ]
        );
        assert!(parse(&message(DONE, &[0; 4])).is_last);
        let refused = parse(&message(ERROR, &(-1_i32).to_ne_bytes()));
        assert_eq!((refused.is_last, refused.error), (true, Some(1)));
    }

    #[test]
    fn a_dump_of_a_kernel_is_read() {
        let answer = parse(&bytes(captured::FLAGS));
        assert!(answer.is_last && answer.error.is_none());
        let found: Vec<_> = answer
            .reported
            .iter()
            .map(|one| (&*one.name, &*one.driver, one.flags.names()))
            .collect();
        assert_eq!(
            found,
            [
                ("xts(aes)", "xts(ecb(aes-generic))", vec!["TESTED"]),
                ("cbc(aes)", "cbc(aes-generic)", vec!["TESTED"]),
                (
                    "cbc(aes)",
                    "virtio_crypto_aes_cbc",
                    vec!["ASYNC", "TESTED", "ALLOCATES_MEMORY"]
                ),
            ]
        );
    }

    #[test]
    fn what_is_cut_is_left_out() {
        let whole = message(0x13, &algorithm("a", "b", 1));
        for length in 0..whole.len() {
            let cut = parse(&whole[..length]);
            assert!(cut.reported.is_empty(), "{length}");
        }
        assert_eq!(parse(&[0; 64]), Answer::default());
        let short = message(0x13, &[7; 100]);
        assert!(parse(&short).reported.is_empty());
        let unended = message(0x13, &[b'x'; ALGORITHM]);
        assert_eq!(parse(&unended).reported[0].name.len(), NAME);
    }

    proptest! {
        #[test]
        fn any_datagram_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
        }
    }
}
