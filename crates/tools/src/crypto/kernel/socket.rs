//! Flags of algorithms by `NETLINK_CRYPTO`: the socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::net::netlink::{CRYPTO, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::netlink::{self, Reported};
use super::text;

/// `NETLINK_CRYPTO`.
const PROTOCOL: &str = "21";
/// Datagrams that are read at most.
const MOST: usize = 1024;
/// Longest wait for a datagram.
const PATIENCE: Duration = Duration::from_secs(2);
/// Largest datagram: a dump has pages of up to 32 KiB (`netlink_dump`).
const DATAGRAM: usize = 64 << 10;

/// Whether the kernel has the protocol now: the module `crypto_user` has a socket of its own in
/// each network namespace. A socket of another process would load the module
/// (`netlink_create` of `net/netlink/af_netlink.c`), so that nothing may open one just to see.
pub(super) fn is_there(root: &Path) -> bool {
    let sockets = text::of(root, "proc/net/netlink").unwrap_or_default();
    has_kernel_socket(&sockets)
}

fn has_kernel_socket(sockets: &str) -> bool {
    // sk, protocol, port: the kernel's port is 0.
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(PROTOCOL) && fields.next() == Some("0")
    })
}

/// Flags of all implementations of the kernel that runs.
///
/// # Errors
/// If the kernel has no such socket, refuses, or does not answer within 2 s.
pub(super) fn dump() -> io::Result<Vec<Reported>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(CRYPTO))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &netlink::request(), SendFlags::empty(), &kernel)?;
    let mut all = Vec::new();
    let mut buffer = vec![0; DATAGRAM];
    for _ in 0..MOST {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let answer = netlink::parse(&buffer[..length]);
        all.extend(answer.reported);
        if let Some(error) = answer.error {
            return Err(io::Error::from_raw_os_error(error));
        }
        if answer.is_last {
            return Ok(all);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_the_kernel_is_found() {
        let head = "sk               Eth Pid        Groups   Rmem Wmem Dump Locks Drops Inode\n";
        let kernel = "0000000000000000 21  0          00000000 0 0 0 2 0 12345\n";
        let process = "0000000000000000 21  777        00000000 0 0 0 2 0 12345\n";
        let route = "0000000000000000 0   0          00000000 0 0 0 2 0 12345\n";
        for (sockets, there) in [
            (vec![head, route, kernel], true),
            (vec![head, route, process], false),
            (vec![head], false),
            (vec![], false),
        ] {
            assert_eq!(has_kernel_socket(&sockets.concat()), there, "{sockets:?}");
        }
    }
}
