//! `brisk image`, on images of small memories.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made fails the test"
)]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use brisk_image::{
    Base, Changed, Control, Description, Disk, Image, Keys, MIN_CHUNK, Options, Recipient, Record,
    Secret, Source, host_key, host_key_path, write,
};
use brisk_testkit::{Brisk, Transcript, brisk_of, until};
use tempfile::TempDir;

const PAGE: usize = 4096;

/// A directory with an image for a host key in it, and the memory it is of.
struct Images {
    dir: TempDir,
    memory: Vec<u8>,
}

impl Images {
    fn new() -> Self {
        let mut memory = vec![0; 100 * PAGE];
        for (number, page) in memory.chunks_mut(PAGE).enumerate() {
            if number % 3 != 0 {
                page[number] = number as u8;
            }
        }
        let images = Self {
            dir: tempfile::tempdir().unwrap(),
            memory,
        };
        let key = host_key(&host_key_path(images.dir.path()), true).unwrap();
        images.write("db1.brisk", &[Recipient::Host(key.to_public())]);
        images
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn write(&self, name: &str, recipients: &[Recipient]) {
        self.write_on(name, recipients, None);
    }

    /// An image of what has changed since another one.
    fn write_on(&self, name: &str, recipients: &[Recipient], base: Option<&Image>) {
        let changed = Changed::Compare;
        let base = base.map(|image| Base { image, changed });
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.write_all_at(&self.memory, 0).unwrap();
        let description = Description {
            name: "db1".into(),
            uuid: *b"0123456789abcdef",
            qemu: "10.0.2".into(),
            machine: "pc-i440fx-10.0".into(),
            cpu: "max".into(),
            disks: vec![Disk {
                path: "/srv/db1, \"old\".qcow2".into(),
                size: 7,
                ..Disk::default()
            }],
            definition: "cpus = 2\n".into(),
            ..Description::default()
        };
        let source = Source {
            memory: &file,
            size: self.memory.len() as u64,
            leave_out: None,
            state: b"device state",
            description: &description,
            base,
            kept: None,
            working_set: &[],
        };
        let options = Options {
            chunk_size: Some(MIN_CHUNK),
            ..Options::default()
        };
        write(
            &self.path(name),
            &source,
            recipients,
            &options,
            Control::none(),
        )
        .unwrap();
    }

    fn brisk(&self, words: &[&str]) -> Brisk {
        brisk_of!["image"]
            .args(words)
            .env("BRISK_STATE_DIR", self.dir.path())
            .current_dir(self.dir.path())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

fn damage_chunk(images: &Images, path: &Path, index: usize) {
    let keys = brisk_image::Keys::new();
    let keys = keys
        .with_identity_file(&host_key_path(images.dir.path()))
        .unwrap();
    let image = brisk_image::Image::open(path, &keys).unwrap();
    let Record::Here { offset, .. } = image.records()[index] else {
        panic!("chunk {index} is not here");
    };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, PAGE as u64 + offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], PAGE as u64 + offset)
        .unwrap();
}

#[test]
fn info_with_and_without_a_key() {
    let images = Images::new();
    let run = images.brisk(&["info", "db1.brisk"]).exits(0);
    for line in [
        "state         ready",
        "memory        409600",
        "encrypted to  host key",
        "compression   zstd:1",
        "name          db1",
        "uuid          30313233-3435-3637-3839-616263646566",
        "device state  12",
    ] {
        assert!(
            run.text().lines().any(|shown| shown == line),
            "{line}\n{}",
            run.text()
        );
    }
    let run = images
        .brisk(&["info", "--format", "csv", "db1.brisk"])
        .exits(0);
    let quoted = "disk,\"/srv/db1, \"\"old\"\".qcow2 7\"";
    assert!(
        run.text().lines().any(|line| line == quoted),
        "{}",
        run.text()
    );
    let run = images
        .brisk(&["info", "--format", "json", "db1.brisk"])
        .exits(0);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(json["schema"], "brisk.image/1");
    assert_eq!(json["machine"]["description"]["definition"], "cpus = 2\n");

    fs::rename(images.path("suspend.key"), images.path("away.key")).unwrap();
    let run = images.brisk(&["info", "db1.brisk"]).exits(0);
    let run = run.explains(&["encrypted to a host key", "only what is public"]);
    assert!(run.text().contains("memory        409600"));
    assert!(!run.text().contains("name"), "{}", run.text());
    let run = images
        .brisk(&["info", "--host-key", "away.key", "db1.brisk"])
        .exits(0);
    assert!(run.text().contains("name          db1"));
}

/// Main path of each command; what may fail is in transcripts.rs, too.
#[test]
fn transcript() {
    let images = Images::new();
    fs::write(images.path("phrase"), "open sesame\n").unwrap();
    let mut shell = Transcript::new(|| brisk_of![])
        .hiding(images.dir.path(), "[DIR]")
        .replacing("[0-9a-f]{32}", "[ID]")
        .replacing("(?m)^(size +)[0-9]+", "$1[N]");
    for words in [
        &["info", "db1.brisk"][..],
        &["verify", "db1.brisk"],
        &["extract", "--raw", "memory", "db1.brisk"],
        &["extract", "--raw", "memory", "db1.brisk"],
        &["extract", "--elf", "core", "db1.brisk"],
        &["rekey", "--new-passphrase-file", "phrase", "db1.brisk"],
        &["verify", "db1.brisk"],
        &["verify", "--passphrase-file", "phrase", "db1.brisk"],
        &["info", "db1.brisk"],
    ] {
        shell.given(images.brisk(words), &[&["image"], words].concat());
    }
    insta::assert_snapshot!("image_commands", shell.text());
}

#[test]
fn verify_says_whole_or_names_the_first_bad_place() {
    let images = Images::new();
    let run = images.brisk(&["verify", "db1.brisk"]).exits(0);
    assert!(
        run.text().contains("stored bytes  270336"),
        "{}",
        run.text()
    );
    for index in [9, 4] {
        damage_chunk(&images, &images.path("db1.brisk"), index);
    }
    images
        .brisk(&["verify", "--threads", "2", "db1.brisk"])
        .exits(1)
        .explains(&["db1.brisk is damaged (chunk 4 of the memory)"]);
}

#[test]
fn info_and_verify_count_alike() {
    let mut images = Images::new();
    let key = host_key(&host_key_path(images.dir.path()), false).unwrap();
    let keys = Keys::new().with_identity(key.clone());
    let full = Image::open(&images.path("db1.brisk"), &keys).unwrap();
    // Of 13 chunks, each with pages that are not zero, one changes and one becomes zero.
    images.memory[17 * PAGE] = 1;
    images.memory[40 * PAGE..48 * PAGE].fill(0);
    images.write_on(
        "db2.brisk",
        &[Recipient::Host(key.to_public())],
        Some(&full),
    );
    let rows = |command: &str, image: &str| {
        let run = images.brisk(&[command, image]).exits(0);
        let text = run.text();
        let of_chunks = |line: &&str| line.starts_with("stored") || line.starts_with("parent");
        let rows: Vec<_> = text.lines().filter(of_chunks).map(str::to_owned).collect();
        rows
    };
    let whole = ["stored chunks 13 of 13", "stored bytes  270336"];
    let based = [
        "stored chunks 1 of 13",
        "stored bytes  24576",
        "parent chunks 11",
    ];
    for command in ["info", "verify"] {
        assert_eq!(rows(command, "db1.brisk"), whole, "{command}");
        assert_eq!(rows(command, "db2.brisk"), based, "{command}");
    }
    let json = |command: &str| {
        let run = images.brisk(&[command, "--format", "json", "db2.brisk"]);
        let json: serde_json::Value = serde_json::from_slice(&run.exits(0).stdout).unwrap();
        json
    };
    let (info, verified) = (json("info"), json("verify"));
    for name in ["chunks", "stored_chunks", "stored_bytes", "size"] {
        assert_eq!(info[name], verified[name], "{name}");
    }
    assert_eq!(info["machine"]["parent_chunks"], verified["parent_chunks"]);
    assert_eq!(verified["parent_chunks"], 11);
}

#[test]
fn rekey_to_a_passphrase_and_back() {
    let images = Images::new();
    fs::write(images.path("phrase"), "open sesame\n").unwrap();
    fs::write(images.path("wrong"), "open barley\n").unwrap();
    images.brisk(&["rekey", "db1.brisk"]).exits(2);
    images
        .brisk(&["rekey", "--new-passphrase-file", "phrase", "db1.brisk"])
        .exits(0);
    images
        .brisk(&["verify", "db1.brisk"])
        .exits(125)
        .explains(&["encrypted to a passphrase", "--passphrase-file"]);
    images
        .brisk(&["verify", "--passphrase-file", "wrong", "db1.brisk"])
        .exits(125)
        .explains(&["encrypted to a passphrase"]);
    // By a descriptor, which no other process sees.
    let (image, phrase) = (images.text("db1.brisk"), images.text("phrase"));
    images
        .brisk(&[
            "rekey",
            "--passphrase-file",
            "/dev/fd/7",
            "--for-host",
            &image,
        ])
        .in_shell("", &format!("7< {phrase}"))
        .exits(0);
    images.brisk(&["verify", "db1.brisk"]).exits(0);
    assert_eq!(
        images.names(),
        ["db1.brisk", "phrase", "suspend.key", "wrong"]
    );
}

#[test]
fn a_passphrase_is_asked_for_and_not_shown() {
    let images = Images::new();
    images.write(
        "p.brisk",
        &[Recipient::Passphrase(Secret::new("open sesame"))],
    );
    let image = images.text("p.brisk");
    let (mut run, mut window) = images.brisk(&["verify", &image]).on_terminal(24, 80);
    run.shows("p.brisk: ");
    until("the terminal shows nothing", || {
        window.is_raw().then_some(())
    });
    window.types("open sesame\r");
    let run = run.wait().exited(0);
    assert!(
        run.text().contains("stored bytes  270336"),
        "{}",
        run.text()
    );
    assert!(!run.text().contains("sesame"), "{}", run.text());
    assert!(!window.is_raw());

    let (mut run, mut window) = images.brisk(&["verify", &image]).on_terminal(24, 80);
    run.shows("p.brisk: ");
    window.types("open\x03");
    let _ = run.wait().exited(125);
    assert!(!window.is_raw());
}

#[test]
fn extract_gives_the_memory_to_its_owner() {
    let images = Images::new();
    images.brisk(&["extract", "db1.brisk"]).exits(2);
    images
        .brisk(&["extract", "--raw", "memory", "db1.brisk"])
        .exits(0)
        .explains(&["in clear"]);
    assert!(fs::read(images.path("memory")).unwrap() == images.memory);
    let mode = images
        .path("memory")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    images
        .brisk(&["extract", "--raw", "memory", "db1.brisk"])
        .exits(125)
        .explains(&["memory exists already"]);
    images
        .brisk(&["extract", "--elf", "core", "db1.brisk"])
        .exits(0);
    let core = fs::read(images.path("core")).unwrap();
    assert_eq!(core[..4], *b"\x7fELF");
    assert!(core[core.len() - images.memory.len()..] == images.memory);
    damage_chunk(&images, &images.path("db1.brisk"), 3);
    images
        .brisk(&["extract", "--raw", "memory", "--replace", "db1.brisk"])
        .exits(125)
        .explains(&["chunk 3 of the memory"]);
    assert!(fs::read(images.path("memory")).unwrap() == images.memory);
    assert_eq!(
        images.names(),
        ["core", "db1.brisk", "memory", "suspend.key"]
    );
}
