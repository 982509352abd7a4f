//! Interfaces: `lo`, and an address for the one that QEMU's user network serves.

use crate::sys::{self, Result};

const SIOCADDRT: usize = 0x890b;
const SIOCGIFNAME: usize = 0x8910;
const SIOCGIFFLAGS: usize = 0x8913;
const SIOCSIFFLAGS: usize = 0x8914;
const SIOCSIFADDR: usize = 0x8916;
const SIOCSIFNETMASK: usize = 0x891c;
const SIOCSIFHWADDR: usize = 0x8924;
const SIOCGIFHWADDR: usize = 0x8927;
/// Highest index at which a network card is searched; it is one of the first interfaces.
const INTERFACES: i32 = 256;
const IFF_UP: u16 = 1;
const RTF_UP_GATEWAY: u16 = 3;
const AF_INET: u16 = 2;

/// `struct ifreq`: a name and a union of 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: [u8; 24],
}

/// `struct rtentry` of x86-64.
#[repr(C)]
struct Route {
    pad1: u64,
    destination: [u8; 16],
    gateway: [u8; 16],
    mask: [u8; 16],
    flags: u16,
    pad2: [u8; 6],
    pad3: u64,
    pad4: u64,
    metric: u16,
    pad5: [u8; 6],
    device: u64,
    mtu: u64,
    window: u64,
    irtt: u64,
}

/// Brings the interface `name` (without NUL) up.
pub(crate) fn up(name: &[u8]) -> Result<()> {
    let socket = sys::socket_inet()?;
    let result = bring_up(socket, name);
    sys::close(socket);
    result
}

fn bring_up(socket: i32, name: &[u8]) -> Result<()> {
    let mut request = request(name);
    sys::ioctl_with(socket, SIOCGIFFLAGS, &mut request)?;
    let flags = u16::from_le_bytes([request.data[0], request.data[1]]) | IFF_UP;
    request.data[..2].copy_from_slice(&flags.to_le_bytes());
    sys::ioctl_with(socket, SIOCSIFFLAGS, &mut request).map(drop)
}

/// Gives `name` an address and a default route.
pub(crate) fn address(name: &[u8], address: u32, netmask: u32, gateway: u32) -> Result<()> {
    let socket = sys::socket_inet()?;
    let result = (|| {
        for (number, value) in [(SIOCSIFADDR, address), (SIOCSIFNETMASK, netmask)] {
            let mut request = request(name);
            request.data[..16].copy_from_slice(&socket_address(value));
            sys::ioctl_with(socket, number, &mut request)?;
        }
        bring_up(socket, name)?;
        let mut route = Route {
            pad1: 0,
            destination: socket_address(0),
            gateway: socket_address(gateway),
            mask: socket_address(0),
            flags: RTF_UP_GATEWAY,
            pad2: [0; 6],
            pad3: 0,
            pad4: 0,
            metric: 0,
            pad5: [0; 6],
            device: 0,
            mtu: 0,
            window: 0,
            irtt: 0,
        };
        sys::ioctl_with(socket, SIOCADDRT, &mut route).map(drop)
    })();
    sys::close(socket);
    result
}

/// Changes the hardware address of the card from `from` to `to`. virtio-net accepts that while it
/// is up, and returns its device.
pub(crate) fn card(from: [u8; 6], to: [u8; 6]) -> Result<()> {
    let socket = sys::socket_inet()?;
    let result = change_card(socket, from, to);
    sys::close(socket);
    result
}

fn change_card(socket: i32, from: [u8; 6], to: [u8; 6]) -> Result<()> {
    for index in 1..=INTERFACES {
        let mut request = request(b"");
        request.data[..4].copy_from_slice(&index.to_le_bytes());
        if sys::ioctl_with(socket, SIOCGIFNAME, &mut request).is_err()
            || sys::ioctl_with(socket, SIOCGIFHWADDR, &mut request).is_err()
        {
            continue;
        }
        // A `struct sockaddr`: the kind of hardware, which stays, and the address.
        if request.data[2..8] == from {
            request.data[2..8].copy_from_slice(&to);
            return sys::ioctl_with(socket, SIOCSIFHWADDR, &mut request).map(drop);
        }
    }
    Err(sys::ENODEV)
}

fn request(name: &[u8]) -> Request {
    let mut request = Request {
        name: [0; 16],
        data: [0; 24],
    };
    let len = name.len().min(15);
    request.name[..len].copy_from_slice(&name[..len]);
    request
}

/// `struct sockaddr_in` without a port.
fn socket_address(address: u32) -> [u8; 16] {
    let mut out = [0; 16];
    out[..2].copy_from_slice(&AF_INET.to_le_bytes());
    out[4..8].copy_from_slice(&address.to_be_bytes());
    out
}
