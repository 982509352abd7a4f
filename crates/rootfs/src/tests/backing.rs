//! qcow2 images and what they read from.

use std::fs;
use std::path::{Path, PathBuf};

use super::fixture::{Home, disk, ext4, gpt_disk, program, repair};
use super::*;

#[test]
fn qcow2_is_read_as_a_guest_would() {
    let home = Home::new();
    let ext4 = ext4();
    let mut image = gpt_disk(16, &[(ROOT, 9, 2, &ext4), (LINUX, 1, 1, b"")]);
    let far = (u64::MAX / 512 - 1).to_le_bytes();
    image[1152 + 32..1152 + 48].copy_from_slice(&[far, far].concat());
    repair(&mut image);
    let raw = home.write("raw", &image);
    let qcow2 = home.path("disk.qcow2");
    program("qemu-img", &["convert", "-O", "qcow2"], &[&raw, &qcow2]);
    let found = disk(&qcow2);
    assert_eq!(
        (found.format, found.device()),
        (Format::Qcow2, "/dev/vda1".into())
    );
    let overlay = home.path("overlay.qcow2");
    let create = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        "disk.qcow2",
    ];
    program("qemu-img", &create, &[&overlay]);
    assert_eq!(disk(&overlay).filesystem, Filesystem::Ext4);
}

#[test]
fn qcow2_may_not_reach_out_of_its_directory() {
    let (home, other) = (Home::new(), Home::new());
    let secret = other.write("secret", &ext4());
    let overlay = home.path("overlay.qcow2");
    let create = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b"];
    program("qemu-img", &create, &[&secret, &overlay]);
    let refused = |path: &Path| matches!(detect(path, None), Err(Error::Backing { .. }));
    assert!(refused(&overlay));
    std::os::unix::fs::symlink(&secret, home.path("link")).unwrap();
    let create = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "link"];
    program("qemu-img", &create, &[&overlay]);
    assert!(refused(&overlay));
    let data = other.path("data");
    let options = format!("data_file={}", data.display());
    let create = ["create", "-q", "-f", "qcow2", "-o", &options];
    program("qemu-img", &create, &[&overlay, Path::new("1M")]);
    assert!(matches!(
        detect(&overlay, None),
        Err(Error::DataFile { .. })
    ));
}

/// An empty qcow2 image that reads from `referred`, of this format if that is recorded.
fn overlay(home: &Home, name: &str, referred: &str, format: Option<&str>) -> PathBuf {
    let mut bytes = vec![0; 65536];
    bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    bytes[100..104].copy_from_slice(&104_u32.to_be_bytes());
    let mut at = 104;
    if let Some(format) = format {
        bytes[at..at + 4].copy_from_slice(&0xe279_2aca_u32.to_be_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&(format.len() as u32).to_be_bytes());
        bytes[at + 8..at + 8 + format.len()].copy_from_slice(format.as_bytes());
        at += 8 + format.len().next_multiple_of(8);
    }
    at += 8;
    bytes[8..16].copy_from_slice(&(at as u64).to_be_bytes());
    bytes[16..20].copy_from_slice(&(referred.len() as u32).to_be_bytes());
    bytes[at..at + referred.len()].copy_from_slice(referred.as_bytes());
    home.write(name, &bytes)
}

#[test]
fn backing_files_are_raw_or_qcow2_and_say_so() {
    let home = Home::new();
    home.write("base", b"raw");
    let chain = |format| qcow2::backing_chain(&overlay(&home, "top.qcow2", "base", format));
    let found = chain(Some("raw")).unwrap();
    let base = fs::canonicalize(home.path("base")).unwrap();
    let raw = Backing {
        path: base,
        format: Format::Raw,
    };
    assert_eq!(found, std::slice::from_ref(&raw));
    for format in ["vmdk", "qed", "vdi", "nbd", "luks", "raw\0", ""] {
        let error = chain(Some(format)).unwrap_err();
        assert!(
            matches!(error, Error::BackingFormat { .. }),
            "{format}: {error}"
        );
    }
    let error = chain(None).unwrap_err().to_string();
    assert!(error.contains("qemu-img rebase -u -F"), "{error}");
    // A disk that is recorded as raw is raw, whatever it looks like.
    overlay(&home, "base", "nowhere", Some("raw"));
    assert_eq!(chain(Some("raw")).unwrap(), [raw]);
    overlay(&home, "base", "top.qcow2", Some("qcow2"));
    assert!(matches!(chain(Some("qcow2")), Err(Error::Damaged { .. })));
    for name in ["json:{}", "nbd://host/x", "fat:rw:.", "nbd:unix:/run/x"] {
        let top = overlay(&home, "top.qcow2", name, Some("raw"));
        let error = qcow2::backing_chain(&top).unwrap_err();
        assert!(matches!(error, Error::Backing { .. }), "{name}: {error}");
    }
}

#[test]
fn a_raw_disk_stays_one_and_names_do_not_lie() {
    let home = Home::new();
    home.write("base", b"raw");
    let format = |name: &str, known| {
        let path = home.path(name);
        let head = fs::read(&path).unwrap();
        let found = detect::decide(&path, false, &head, known);
        found.map_err(|error| error.to_string())
    };
    home.write("disk.img", &ext4());
    assert_eq!(format("disk.img", None), Ok(Format::Raw));
    // The guest has written the header of a qcow2 image.
    overlay(&home, "disk.img", "base", Some("raw"));
    assert_eq!(format("disk.img", Some(Format::Raw)), Ok(Format::Raw));
    let error = format("disk.img", None).unwrap_err();
    assert!(error.contains("format=qcow2 or format=raw"), "{error}");
    assert_eq!(format("disk.img", Some(Format::Qcow2)), Ok(Format::Qcow2));
    home.write("disk.qcow2", &ext4());
    let error = format("disk.qcow2", None).unwrap_err();
    assert!(error.contains("is no qcow2 image"), "{error}");
    assert_eq!(format("disk.qcow2", Some(Format::Raw)), Ok(Format::Raw));
    assert!(format("disk.qcow2", Some(Format::Qcow2)).is_err());
    overlay(&home, "disk.qcow2", "base", Some("raw"));
    assert_eq!(format("disk.qcow2", None), Ok(Format::Qcow2));
    assert_eq!(
        format_of(&home.path("disk.qcow2")).unwrap(),
        Some(Format::Qcow2)
    );
    assert_eq!(format_of(&home.path("not there")).unwrap(), None);
}
