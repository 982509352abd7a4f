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

/// The kernel's generator, as far as it takes what others have.
pub(crate) struct Generator {
    device: i32,
}

impl Generator {
    pub(crate) fn open() -> sys::Result<Self> {
        let path = Text::new(b"/dev/urandom\0");
        let device = sys::open(path, sys::O_WRONLY | sys::O_CLOEXEC, 0)?;
        Ok(Self { device })
    }

    /// Gives it `bytes`, counted in full, and has it use them at once: by itself it would go on for
    /// up to minutes with a key that the saved state had, too.
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
