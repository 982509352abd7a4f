//! Images on file systems that are full, or read-only.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made fails the test"
)]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brisk_image::{
    Control, Description, Error, MIN_CHUNK, Options, Recipient, Report, Source, host_key,
    host_key_path, write,
};
use brisk_testkit::{Brisk, Mount, brisk_of, lacks, trial};
use libtest_mimic::Arguments;
use rustix::mount::{MountFlags, mount_remount};
use tempfile::TempDir;

const PAGE: usize = 4096;
const PAGES: usize = 800;

fn main() {
    let trials = vec![
        trial(
            "a_full_disk_is_refused_before_or_survived_after",
            lacks("CAP_SYS_ADMIN", 21),
            full,
        ),
        trial(
            "rekey_on_a_full_or_read_only_disk_keeps_the_image",
            lacks("CAP_SYS_ADMIN", 21),
            rekeyed,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A memory half of which cannot be compressed, and a directory with the host's key.
struct Memory {
    dir: TempDir,
    file: File,
    bytes: Vec<u8>,
    recipients: Vec<Recipient>,
}

impl Memory {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut random = File::open("/dev/urandom").unwrap();
        let mut bytes = vec![0; PAGES * PAGE];
        for page in bytes.chunks_mut(2 * PAGE) {
            random.read_exact(&mut page[..PAGE]).unwrap();
        }
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let key = host_key(&host_key_path(dir.path()), true).unwrap();
        Self {
            dir,
            file,
            bytes,
            recipients: vec![Recipient::Host(key.to_public())],
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, path: &Path) -> Result<Report, Error> {
        let description = Description::default();
        let source = Source {
            memory: &self.file,
            size: self.bytes.len() as u64,
            leave_out: None,
            state: b"device state",
            description: &description,
            base: None,
            kept: None,
            working_set: &[],
        };
        let options = Options {
            threads: 2,
            chunk_size: Some(MIN_CHUNK),
            ..Options::default()
        };
        write(path, &source, &self.recipients, &options, Control::none())
    }

    /// Bytes of an image.
    fn image_bytes(&self) -> u64 {
        let whole = self.path("whole.brisk");
        self.write(&whole).unwrap();
        whole.metadata().unwrap().len()
    }

    fn brisk(&self, words: &[&str], image: &Path) -> Brisk {
        brisk_of!["image"]
            .args(words)
            .arg(image)
            .env("BRISK_STATE_DIR", self.dir.path())
    }

    /// An image has all of the memory.
    fn is_in(&self, image: &Path) {
        let raw = self.path("raw");
        let words = ["extract", "--replace", "--raw", raw.to_str().unwrap()];
        let _ = self.brisk(&words, image).exits(0);
        assert!(fs::read(raw).unwrap() == self.bytes);
    }
}

fn full() {
    let memory = Memory::new();
    let whole = memory.image_bytes();
    let mounted = |name: &str, bytes: u64| {
        Mount::tmpfs(memory.path(name), &format!("size={}k", bytes / 1024))
    };
    let small = mounted("small", 64 << 10);
    // Too small by a little, which cannot be known before.
    let tight = mounted("tight", whole - 3 * PAGE as u64);
    let free = [small.free(), tight.free()];
    let error = memory.write(&small.path().join("a.brisk")).unwrap_err();
    assert!(matches!(error, Error::Space { .. }), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    let error = memory.write(&tight.path().join("a.brisk")).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("free some space"), "{hint}");
    for mount in [&small, &tight] {
        assert!(mount.names().is_empty(), "{:?}", mount.names());
    }
    let left = "nothing is left without a name either";
    assert_eq!([small.free(), tight.free()], free, "{left}");
    let wide = mounted("wide", 2 * whole);
    let image = wide.path().join("a.brisk");
    memory.write(&image).unwrap();
    memory.is_in(&image);
}

fn rekeyed() {
    let memory = Memory::new();
    let size = memory.image_bytes() * 3 / 2 / 1024;
    let disk = Mount::tmpfs(memory.path("disk"), &format!("size={size}k"));
    let image = disk.path().join("a.brisk");
    memory.write(&image).unwrap();
    let rekey = || memory.brisk(&["rekey", "--for-host"], &image);
    let _ = rekey().exits(125).explains(&["a.brisk", "free some space"]);
    assert_eq!(disk.names(), ["a.brisk"]);
    memory.is_in(&image);
    mount_remount(disk.path(), MountFlags::RDONLY, c"").unwrap();
    let _ = rekey()
        .exits(125)
        .explains(&["a.brisk", "that you can write"]);
    let error = memory.write(&disk.path().join("b.brisk")).unwrap_err();
    let hint = error.hint().unwrap();
    assert!(hint.contains("that you can write"), "{hint}");
    memory.is_in(&image);
}
