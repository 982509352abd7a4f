//! A thread that reads or writes through dm-crypt, on a device of zeros that keeps nothing: what
//! takes time is the encryption, and dm-crypt's way to it.
//!
//! dm-crypt encrypts each sector by itself, so that the size of what a driver gets is that of a
//! sector, of at most 4096 bytes, and not that of the read or write.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use brisk_host::program::{Error, Program};
use nix::libc::O_DIRECT;

use super::request::Request;
use super::seat::{Rate, Seat};
use crate::crypto::Algorithm;
use crate::crypto::Implementation;
use crate::crypto::af_alg::Direction;
use crate::crypto::vectors::{digits, vector};

/// Bytes that tables count in, and of the smallest sector.
const SECTOR: usize = 512;
/// Bytes of a device.
const DEVICE: usize = 64 << 20;
/// What buffers of `O_DIRECT` are aligned to, bytes.
const ALIGNMENT: usize = 4096;

/// Number of the next device of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A device of the device mapper, which is removed when dropped.
struct Device {
    name: String,
    /// Number of the device, as `254:0`.
    number: String,
}

impl Device {
    /// Makes a device. The table goes by standard input, since it may have a key.
    fn new(kind: &str, table: &str) -> Result<Self, String> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("brisk-{kind}-{}-{number}", std::process::id());
        let text = |error: Error| {
            if !rustix::process::geteuid().is_root() {
                return "dm-crypt is measured on a device that only root can make: run brisk as root"
                    .to_owned();
            }
            let lines = error.to_string().replace('\n', ";");
            format!("cannot make a device: {lines}")
        };
        let program = dmsetup()?.args(["create", "--noudevsync", "--noudevrules", &name]);
        program.run_with(table.as_bytes()).map_err(text)?;
        let mut device = Self {
            name,
            number: String::new(),
        };
        let words = [
            "info",
            "-c",
            "--noheadings",
            "-o",
            "major,minor",
            "--separator=:",
        ];
        let number = dmsetup()?
            .args(words)
            .arg(&device.name)
            .run()
            .map_err(text)?;
        device.number = String::from_utf8_lossy(&number).trim().to_owned();
        Ok(device)
    }

    /// Its node, which devtmpfs makes. There is a link in `/dev/mapper` only where udev runs.
    fn path(&self) -> PathBuf {
        let minor = self.number.rsplit(':').next().unwrap_or_default();
        PathBuf::from(format!("/dev/dm-{minor}"))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Others, such as a program that looks for file systems, may have it open for a moment.
        if let Ok(program) = dmsetup() {
            let words = [
                "remove",
                "--noudevsync",
                "--noudevrules",
                "--retry",
                &self.name,
            ];
            let _ = program.args(words).run();
        }
    }
}

fn dmsetup() -> Result<Program, String> {
    let places = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    Program::find("dmsetup")
        .or_else(|_| Program::find_in("dmsetup", places))
        .map_err(|_| {
            "dm-crypt is measured by dmsetup, which is missing: install dmsetup".to_owned()
        })
}

/// Table of dm-crypt (`Documentation/admin-guide/device-mapper/dm-crypt.rst` of the kernel) over a
/// device.
fn table(driver: &str, algorithm: &Algorithm, sector: usize, below: &str) -> String {
    let key = digits(&vector(algorithm).key);
    let iv = if algorithm.iv == 0 { "null" } else { "plain64" };
    let sectors = DEVICE / SECTOR;
    let table = format!("0 {sectors} crypt capi:{driver}-{iv} {key} 0 {below} 0");
    match sector {
        SECTOR => table,
        sector => format!("{table} 1 sector_size:{sector}"),
    }
}

/// Bytes of a sector for reads and writes of a size; none if that is no multiple of one.
fn sector(bytes: usize) -> Option<usize> {
    let fits = |sector: &usize| bytes > 0 && bytes % sector == 0;
    [4096, 2048, 1024, 512].into_iter().find(fits)
}

/// Reads or writes from the moment when all threads are ready until the end.
pub(super) fn run(
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
    seat: &Seat,
) -> Result<Rate, String> {
    let Implementation::DmCrypt(driver) = implementation else {
        return Err(format!("{implementation} is not dm-crypt"));
    };
    let bytes = request.bytes;
    let sector = sector(bytes).filter(|_| bytes <= DEVICE).ok_or_else(|| {
        format!(
            "dm-crypt reads and writes multiples of {SECTOR} bytes, up to {DEVICE}: not {bytes}"
        )
    })?;
    let driver = driver.as_deref().unwrap_or(algorithm.kernel);
    let zeros = Device::new("zero", &format!("0 {} zero", DEVICE / SECTOR))?;
    let crypt = Device::new("crypt", &table(driver, algorithm, sector, &zeros.number))?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(O_DIRECT)
        .open(crypt.path())
        .map_err(|error| format!("cannot open {}: {error}", crypt.path().display()))?;
    let mut buffer = Buffer::new(bytes);
    let mut place = 0;
    let mut once = |file: &File| {
        place = if place + bytes * 2 > DEVICE {
            0
        } else {
            place + bytes
        };
        let done = match request.direction {
            Direction::Encrypt => file.write_all_at(buffer.bytes(), place as u64),
            Direction::Decrypt => file.read_exact_at(buffer.bytes(), place as u64),
        };
        done.map_err(|error| format!("{}: {error}", crypt.path().display()))
    };
    once(&file)?;
    seat.repeat(|| once(&file))
}

/// Memory that is aligned as `O_DIRECT` needs it.
struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        Self {
            memory,
            begin,
            length,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_driver_and_its_sector() {
        let of = |name, driver, sector| {
            let algorithm = Algorithm::find(name).unwrap();
            table(driver, algorithm, sector, "254:0")
        };
        assert_eq!(
            of("aes-128-cbc", "cbc-aes-aesni", 4096),
            "0 131072 crypt capi:cbc-aes-aesni-plain64 2b7e151628aed2a6abf7158809cf4f3c 0 \
             254:0 0 1 sector_size:4096"
        );
        let plain = of("aes-128-ecb", "ecb(aes)", 512);
        assert!(plain.contains("capi:ecb(aes)-null "), "{plain}");
        assert!(plain.ends_with("254:0 0"), "{plain}");
    }

    #[test]
    fn sectors_are_as_large_as_the_size_allows() {
        let pairs = [
            (512, Some(512)),
            (3072, Some(1024)),
            (65536, Some(4096)),
            (16, None),
            (0, None),
        ];
        for (bytes, expected) in pairs {
            assert_eq!(sector(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn a_buffer_is_aligned() {
        let mut buffer = Buffer::new(512);
        assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(buffer.bytes().len(), 512);
    }
}
