//! The kernel's crypto API from user space: sockets of the family `AF_ALG`
//! (`Documentation/crypto/userspace-if.rst` of the kernel).

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{ALG_OP_DECRYPT, ALG_OP_ENCRYPT};
use nix::sys::socket::{
    AddressFamily, AlgAddr, ControlMessage, MsgFlags, SockFlag, SockType, bind, recvmsg, sendmsg,
    setsockopt, socket, sockopt,
};
use rustix::net::{SocketFlags, accept_with};
use serde::{Deserialize, Serialize};

use super::algorithm::{Algorithm, Kind};

/// Bytes of the longest name of a driver, without the zero after it (`salg_name` of
/// `linux/if_alg.h`).
const LONGEST: usize = 63;

/// Reason why the kernel does not do an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AfAlgError {
    /// `EAFNOSUPPORT`: no such sockets.
    #[error(
        "the kernel has no sockets of the family AF_ALG: it is built without \
         CONFIG_CRYPTO_USER_API, its module af_alg cannot be loaded, or crypto.af_alg_restrict \
         is 2"
    )]
    NoFamily,
    /// `ENOENT`: no such algorithm or driver for AF_ALG.
    #[error(
        "the kernel gives no {0} to AF_ALG: it has no such driver, its self-test failed, the \
         module for the type (algif_skcipher, algif_aead, algif_hash) is missing, or \
         crypto.af_alg_restrict keeps it back"
    )]
    NotOffered(String),
    /// `EPERM` or `EACCES`.
    #[error("{0} needs CAP_NET_ADMIN or CAP_SYS_ADMIN from AF_ALG here: try as root")]
    NotAllowed(String),
    /// The key's length.
    #[error("{driver} takes no key of {bits} bits")]
    Key {
        /// Driver.
        driver: String,
        /// Length of the key.
        bits: usize,
    },
    /// More than a socket takes at once.
    #[error(
        "AF_ALG takes at most {most} bytes of {bytes} at once: raise net.core.wmem_max, or \
         measure as root"
    )]
    TooLarge {
        /// Size of the operation.
        bytes: usize,
        /// Bytes that the socket took.
        most: usize,
    },
    /// The result has another length than it should have.
    #[error("{driver} gave {found} bytes instead of {expected}")]
    Short {
        /// Driver.
        driver: String,
        /// Bytes that came.
        found: usize,
        /// Bytes that should have come.
        expected: usize,
    },
    /// The tag does not match (`EBADMSG`).
    #[error("{0} says that the data do not have this tag")]
    BadTag(String),
    /// Another system call failed.
    #[error("{driver}: {call}: {source}")]
    Call {
        /// Driver.
        driver: String,
        /// System call.
        call: &'static str,
        /// Its error.
        source: Errno,
    },
}

/// Direction of a cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To ciphertext; of a hash: to the digest.
    Encrypt,
    /// To plaintext.
    Decrypt,
}

/// A driver with a key.
#[derive(Debug)]
pub(super) struct Transform {
    socket: OwnedFd,
    driver: String,
    tag: usize,
    is_hash: bool,
}

/// A socket for operations of a [`Transform`], one at a time.
#[derive(Debug)]
pub(super) struct Operations {
    socket: OwnedFd,
    driver: String,
    is_hash: bool,
}

/// Data of an operation besides what is encrypted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters<'a> {
    /// Direction.
    pub direction: Direction,
    /// Initialisation vector or nonce; empty for none.
    pub iv: &'a [u8],
    /// Bytes of associated data, which the input begins with; 0 for what is no AEAD.
    pub associated: usize,
}

impl Transform {
    /// Binds `driver`, which is a driver's name or that of an algorithm, and sets the key. The
    /// driver is in use, and its module stays loaded, as long as the value lives.
    ///
    /// # Errors
    /// If the kernel has no such driver for AF_ALG, or it refuses the key.
    pub(super) fn new(driver: &str, algorithm: &Algorithm, key: &[u8]) -> Result<Self, AfAlgError> {
        let call = |call| {
            move |source| AfAlgError::Call {
                driver: driver.to_owned(),
                call,
                source,
            }
        };
        let kind = match algorithm.kind {
            Kind::Cipher => "skcipher",
            Kind::Aead => "aead",
            Kind::Hash => "hash",
        };
        if driver.len() > LONGEST {
            return Err(AfAlgError::NotOffered(driver.to_owned()));
        }
        let socket = socket(
            AddressFamily::Alg,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(|source| match source {
            Errno::EAFNOSUPPORT => AfAlgError::NoFamily,
            source => call("socket")(source),
        })?;
        bind(socket.as_raw_fd(), &AlgAddr::new(kind, driver)).map_err(|source| match source {
            Errno::ENOENT | Errno::ELIBBAD => AfAlgError::NotOffered(driver.to_owned()),
            Errno::EPERM | Errno::EACCES => AfAlgError::NotAllowed(driver.to_owned()),
            Errno::EAFNOSUPPORT => AfAlgError::NoFamily,
            source => call("bind")(source),
        })?;
        let transform = Self {
            socket,
            driver: driver.to_owned(),
            tag: algorithm.tag(),
            is_hash: algorithm.kind == Kind::Hash,
        };
        if !transform.is_hash {
            transform.set_key(key)?;
        }
        if transform.tag > 0 {
            let option = sockopt::AlgSetAeadAuthSize;
            setsockopt(&transform.socket, option, &transform.tag)
                .map_err(call("setsockopt(ALG_SET_AEAD_AUTHSIZE)"))?;
        }
        Ok(transform)
    }

    fn set_key(&self, key: &[u8]) -> Result<(), AfAlgError> {
        let option = sockopt::AlgSetKey::<&[u8]>::default();
        setsockopt(&self.socket, option, &key).map_err(|source| match source {
            Errno::EINVAL => AfAlgError::Key {
                driver: self.driver.clone(),
                bits: key.len() * 8,
            },
            source => AfAlgError::Call {
                driver: self.driver.clone(),
                call: "setsockopt(ALG_SET_KEY)",
                source,
            },
        })
    }

    /// A socket for operations of up to `bytes` bytes each, if the kernel allows so large ones.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub(super) fn operations(&self, bytes: usize) -> Result<Operations, AfAlgError> {
        let accepted = accept_with(&self.socket, SocketFlags::CLOEXEC);
        let socket = accepted.map_err(|source| AfAlgError::Call {
            driver: self.driver.clone(),
            call: "accept4",
            source: Errno::from_raw(source.raw_os_error()),
        })?;
        // Twice, since a socket's own records count, too. What is not allowed shows when it is used.
        let room = bytes.saturating_mul(2).saturating_add(1 << 16);
        if setsockopt(&socket, sockopt::SndBufForce, &room).is_err() {
            let _ = setsockopt(&socket, sockopt::SndBuf, &room);
        }
        if setsockopt(&socket, sockopt::RcvBufForce, &room).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &room);
        }
        Ok(Operations {
            socket,
            driver: self.driver.clone(),
            is_hash: self.is_hash,
        })
    }
}

impl Operations {
    /// Does one operation: one message with `input`, one read of `output`, whose length is that of
    /// the result. For an AEAD both begin with the associated data, and ciphertext ends with the
    /// tag.
    ///
    /// # Errors
    /// If the kernel does not do it, or gives another number of bytes.
    pub(super) fn run(
        &self,
        parameters: &Parameters<'_>,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), AfAlgError> {
        self.send(parameters, input)?;
        let mut parts = [IoSliceMut::new(output)];
        let received = recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, None, MsgFlags::empty());
        let found = match received {
            Ok(message) => message.bytes,
            Err(Errno::EBADMSG) => return Err(AfAlgError::BadTag(self.driver.clone())),
            Err(source) => return Err(self.error("recvmsg", source)),
        };
        let expected = output.len();
        if found == expected {
            return Ok(());
        }
        Err(AfAlgError::Short {
            driver: self.driver.clone(),
            found,
            expected,
        })
    }

    fn send(&self, parameters: &Parameters<'_>, input: &[u8]) -> Result<(), AfAlgError> {
        let operation = match parameters.direction {
            Direction::Encrypt => ALG_OP_ENCRYPT,
            Direction::Decrypt => ALG_OP_DECRYPT,
        };
        let associated = u32::try_from(parameters.associated).unwrap_or(u32::MAX);
        let mut controls = Vec::new();
        if !self.is_hash {
            controls.push(ControlMessage::AlgSetOp(&operation));
            if !parameters.iv.is_empty() {
                controls.push(ControlMessage::AlgSetIv(parameters.iv));
            }
            if parameters.associated > 0 {
                controls.push(ControlMessage::AlgSetAeadAssoclen(&associated));
            }
        }
        // It would wait for ever for somebody to read what fits.
        let flags = if self.is_hash {
            MsgFlags::empty()
        } else {
            MsgFlags::MSG_DONTWAIT
        };
        let parts = [IoSlice::new(input)];
        let sent = sendmsg::<()>(self.socket.as_raw_fd(), &parts, &controls, flags, None);
        let bytes = input.len();
        match sent {
            Ok(sent) if sent == bytes => Ok(()),
            Ok(most) => Err(AfAlgError::TooLarge { bytes, most }),
            Err(Errno::EAGAIN) => Err(AfAlgError::TooLarge { bytes, most: 0 }),
            Err(source) => Err(self.error("sendmsg", source)),
        }
    }

    fn error(&self, call: &'static str, source: Errno) -> AfAlgError {
        AfAlgError::Call {
            driver: self.driver.clone(),
            call,
            source,
        }
    }
}
