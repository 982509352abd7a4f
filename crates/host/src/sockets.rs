//! Unix sockets of processes, and who is connected to whom.
//!
//! `include/uapi/linux/unix_diag.h`, `sock_diag.h` and `netlink.h` of Linux have the structures, in
//! the byte order of the machine. ss(8) asks the same.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// Longest wait for a datagram.
const PATIENCE: Duration = Duration::from_secs(2);
/// Largest datagram: a dump has pages of up to 32 KiB (`netlink_dump`).
const DATAGRAM: usize = 64 << 10;
/// More datagrams than the sockets of any host need.
const MOST: usize = 1 << 16;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct unix_diag_msg`.
const MESSAGE: usize = 16;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `UDIAG_SHOW_PEER`.
const SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER`.
const PEER: u16 = 2;

/// Unix sockets of this network namespace that are connected, by their inodes, each with its peer.
///
/// # Errors
/// If the kernel has no `unix_diag`, refuses, or does not answer within 2 s.
pub fn peers() -> io::Result<BTreeMap<u32, u32>> {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::RAW;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut peers = BTreeMap::new();
    let mut buffer = vec![0; DATAGRAM];
    for _ in 0..MOST {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if parse(&buffer[..length], &mut peers)? {
            return Ok(peers);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// A dump of all states: `struct nlmsghdr` and `struct unix_diag_req`.
fn request() -> Vec<u8> {
    let length = (HEADER + 24) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::UNIX.as_raw() as u8, 0, 0, 0]);
    for word in [u32::MAX, 0, SHOW_PEER, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// Adds the sockets of a datagram; true if it is the last one.
fn parse(mut datagram: &[u8], peers: &mut BTreeMap<u32, u32>) -> io::Result<bool> {
    while let Some((length, kind)) = pair(datagram, 0) {
        let message = datagram.get(..length).filter(|all| all.len() >= HEADER);
        let Some(message) = message else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let number = word(message, HEADER).unwrap_or_default();
                return Err(io::Error::from_raw_os_error(number.wrapping_neg() as i32));
            }
            BY_FAMILY => peers.extend(connection(&message[HEADER..])),
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// Inodes of a socket and its peer, of `struct unix_diag_msg` and its attributes.
fn connection(message: &[u8]) -> Option<(u32, u32)> {
    let own = word(message, 4)?;
    let mut rest = message.get(MESSAGE..)?;
    loop {
        // `struct rtattr`.
        let length = usize::from(half(rest, 0)?);
        if half(rest, 2)? == PEER {
            return Some((own, word(rest.get(..length)?, 4)?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(part.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let part = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(part.try_into().ok()?))
}

/// Length and kind of the message at the beginning.
fn pair(bytes: &[u8], at: usize) -> Option<(usize, u16)> {
    Some((word(bytes, at)? as usize, half(bytes, at + 4)?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;
    use crate::proc::Procfs;

    fn inode(socket: &UnixStream) -> u32 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let name = link.to_string_lossy();
        let digits = name.strip_prefix("socket:[").unwrap();
        digits.trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_are_found() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (inode(&one), inode(&other));
        let own = Procfs::default().sockets(std::process::id());
        assert!(own.contains(&one) && own.contains(&other));
        // A container may have no such sockets.
        let Ok(peers) = peers() else { return };
        assert_eq!(peers.get(&one), Some(&other));
        assert_eq!(peers.get(&other), Some(&one));
    }

    /// A socket with a name, and one with a peer, as Linux 6.1 answers.
    #[test]
    fn attributes_before_the_peer_are_left_out() {
        let mut message = vec![1, 1, 1, 0];
        message.extend(77_u32.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([7_u16.to_ne_bytes(), 0_u16.to_ne_bytes()].concat());
        message.extend(b"/a\0\0");
        assert_eq!(connection(&message), None);
        message.extend([8_u16.to_ne_bytes(), PEER.to_ne_bytes()].concat());
        message.extend(78_u32.to_ne_bytes());
        assert_eq!(connection(&message), Some((77, 78)));
    }

    proptest! {
        #[test]
        fn any_datagram_is_read(bytes: Vec<u8>) {
            let _ = parse(&bytes, &mut BTreeMap::new());
        }
    }
}
