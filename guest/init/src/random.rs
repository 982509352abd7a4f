//! Randomness that other guests continued from the same state do not have.

use crate::sys::{self, Text};

/// `random(4)`, `linux/random.h`.
const RNDADDENTROPY: usize = 0x4008_5203;
const RNDRESEEDCRNG: usize = 0x5207;
const MOST: usize = 512;

/// `struct rand_pool_info`.
#[repr(C)]
struct Pool {
    bits: i32,
    size: i32,
    bytes: [u8; MOST],
}

/// Gives the kernel's generator `bytes`, counted in full, and has it use them at once: by itself
/// it would go on for up to minutes with a key that the saved state had, too.
pub(crate) fn add(bytes: &[u8]) -> sys::Result<()> {
    let bytes = &bytes[..bytes.len().min(MOST)];
    let mut pool = Pool {
        bits: bytes.len() as i32 * 8,
        size: bytes.len() as i32,
        bytes: [0; MOST],
    };
    pool.bytes[..bytes.len()].copy_from_slice(bytes);
    let device = sys::open(Text::new(b"/dev/urandom\0"), sys::O_WRONLY, 0)?;
    let added = sys::ioctl_with(device, RNDADDENTROPY, &mut pool)
        .and_then(|_| sys::ioctl(device, RNDRESEEDCRNG, 0));
    sys::close(device);
    added.map(drop)
}
