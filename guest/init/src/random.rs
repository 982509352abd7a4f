//! Randomness of its own for a guest, after a restore from a state that other guests share.

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

/// The kernel's random number generator.
pub(crate) struct Generator {
    device: i32,
}

impl Generator {
    pub(crate) fn open() -> sys::Result<Self> {
        let path = Text::new(b"/dev/urandom\0");
        let device = sys::open(path, sys::O_WRONLY | sys::O_CLOEXEC, 0)?;
        Ok(Self { device })
    }

    /// Adds `bytes`, counted in full as entropy, and reseeds at once: by itself the kernel would
    /// use the key of the shared state for up to minutes.
    pub(crate) fn add(&self, bytes: &[u8]) -> sys::Result<()> {
        let bytes = &bytes[..bytes.len().min(MOST)];
        let mut pool = Pool {
            bits: bytes.len() as i32 * 8,
            size: bytes.len() as i32,
            bytes: [0; MOST],
        };
        pool.bytes[..bytes.len()].copy_from_slice(bytes);
        sys::ioctl_with(self.device, RNDADDENTROPY, &mut pool)?;
        sys::ioctl(self.device, RNDRESEEDCRNG, 0).map(drop)
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        sys::close(self.device);
    }
}
