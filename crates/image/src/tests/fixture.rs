//! Small memories and images of them.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use age::x25519;

use crate::{
    Control, Description, Disk, Error, Image, Keys, MIN_CHUNK, Options, PAGE, Recipient, Report,
    Source, write,
};

/// What must never be found in an image.
pub(super) const MARK: &[u8] = b"in clear on no disk";

/// A memory with some pages, a key, and a directory for images.
pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) memory: File,
    pub(super) bytes: Vec<u8>,
    pub(super) identity: x25519::Identity,
    pub(super) description: Description,
    pub(super) state: Vec<u8>,
}

impl Fixture {
    /// Pages by turns of text, zeroes and noise.
    pub(super) fn new(pages: usize) -> Self {
        let mut bytes = vec![0; pages * PAGE];
        for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
            match number % 5 {
                0 | 1 => text(page, number),
                2 => {}
                3 => noise(page, number as u64),
                _ => page[PAGE - 1] = 1,
            }
        }
        Self::of(bytes)
    }

    pub(super) fn of(bytes: Vec<u8>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(&bytes);
        let description = Description {
            name: String::from_utf8_lossy(MARK).into_owned(),
            uuid: [5; 16],
            qemu: "10.0.2".into(),
            machine: "pc-i440fx-10.0".into(),
            cpu: "max".into(),
            disks: vec![Disk {
                path: "/srv/db1.qcow2".into(),
                size: 1 << 30,
                writable: true,
                ..Disk::default()
            }],
            definition: format!("# {}\n", String::from_utf8_lossy(MARK)),
            ..Description::default()
        };
        Self {
            dir,
            memory,
            bytes,
            identity: x25519::Identity::generate(),
            description,
            state: MARK.repeat(100),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn keys(&self) -> Keys {
        Keys::new().with_identity(self.identity.clone())
    }

    pub(super) fn recipients(&self) -> Vec<Recipient> {
        vec![Recipient::Host(self.identity.to_public())]
    }

    pub(super) fn source(&self) -> Source<'_> {
        Source {
            memory: &self.memory,
            size: self.bytes.len() as u64,
            leave_out: None,
            state: &self.state,
            description: &self.description,
            base: None,
            kept: None,
            working_set: &[],
        }
    }

    pub(super) fn write(&self, path: &Path, options: &Options) -> Result<Report, Error> {
        write(
            path,
            &self.source(),
            &self.recipients(),
            options,
            Control::none(),
        )
    }

    /// Writes an image of small chunks; its path.
    pub(super) fn image(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        self.write(&path, &small()).unwrap();
        path
    }

    pub(super) fn open(&self, path: &Path) -> Result<Image, Error> {
        Image::open(path, &self.keys())
    }

    /// Names in the directory.
    pub(super) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// Chunks of eight pages, by two threads.
pub(super) fn small() -> Options {
    Options {
        threads: 2,
        chunk_size: Some(MIN_CHUNK),
        ..Options::default()
    }
}

/// A file of memory with holes where it is zero.
pub(super) fn memory(bytes: &[u8]) -> File {
    let memory = tempfile::tempfile_in("/dev/shm").unwrap();
    memory.set_len(bytes.len() as u64).unwrap();
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        // Some zeroes are data.
        if page.iter().any(|byte| *byte != 0) || number % 3 == 0 {
            memory.write_all_at(page, (number * PAGE) as u64).unwrap();
        }
    }
    memory
}

/// All of the memory of an image, read chunk by chunk.
pub(super) fn content(image: &Image) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0xee; image.header().memory as usize];
    let chunks = bytes.chunks_mut(image.header().chunk_size as usize);
    for (index, chunk) in (0..).zip(chunks) {
        image.read_chunk(index, chunk)?;
    }
    Ok(bytes)
}

pub(super) fn text(page: &mut [u8], seed: usize) {
    let line = format!("{} {seed} ", String::from_utf8_lossy(MARK));
    for (byte, text) in page.iter_mut().zip(line.bytes().cycle()) {
        *byte = text;
    }
}

/// Bytes that do not compress, the same for each seed (xorshift64).
pub(super) fn noise(page: &mut [u8], seed: u64) {
    let mut state = Dice::new(seed);
    page.fill_with(|| state.next() as u8);
}

/// Numbers that look random and are the same in each run.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    pub(super) fn below(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }
}
