//! What single entries do, the hostile ones too.

use super::images::oci;
use super::*;

fn fault_of(members: &[Member]) -> String {
    files_of(&layer(members)).unwrap_err().to_string()
}

fn flattened(layers: &[&[Member]]) -> BTreeMap<String, Seen> {
    let home = tempfile::tempdir().unwrap();
    let tars: Vec<_> = layers.iter().map(|members| layer(members)).collect();
    let root = take(&oci(home.path(), &tars), &home.path().join("cache")).unwrap();
    reading::read(&fs::read(root.image).unwrap())
}

#[test]
fn attributes_are_kept() {
    let mut builder = Builder::new(Vec::new());
    let mut device = header("dev", EntryType::Char, 0);
    device.set_device_major(10).unwrap();
    device.set_device_minor(300).unwrap();
    device.set_mode(0o4711);
    device.set_cksum();
    builder.append(&device, &[][..]).unwrap();
    let capability = b"\x01\x00\x00\x02\x0a\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    builder
        .append_pax_extensions([
            ("SCHILY.xattr.security.capability", &capability[..]),
            ("SCHILY.xattr.user.note", b"hello"),
            ("mtime", b"-1.25"),
            ("uid", b"4000000000"),
        ])
        .unwrap();
    builder
        .append(&header("file", EntryType::Regular, 2), &b"ok"[..])
        .unwrap();
    let files = files_of(&builder.into_inner().unwrap()).unwrap();
    let device = &files["/dev"];
    assert_eq!(
        (device.mode, device.uid, device.gid),
        (0o024_711, 1000, 100)
    );
    assert_eq!(device.mtime, (1_700_000_000, 0));
    // Major 10, minor 0x12c: its low byte, the major number, the rest of the minor number.
    assert_eq!(device.rdev, 0x0010_0a2c);
    let file = &files["/file"];
    assert_eq!((file.uid, file.mtime), (4_000_000_000, (-2, 750_000_000)));
    assert_eq!(
        file.xattrs,
        [
            (6, b"capability".to_vec(), capability.to_vec()),
            (1, b"note".to_vec(), b"hello".to_vec()),
        ]
    );
}

#[test]
fn sparse_files_get_their_holes() {
    let mut builder = Builder::new(Vec::new());
    builder
        .append_pax_extensions([
            ("GNU.sparse.major", &b"1"[..]),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"disk"),
            ("GNU.sparse.realsize", b"20000"),
        ])
        .unwrap();
    let mut stored = b"2\n5000\n3\n9000\n2\n".to_vec();
    stored.resize(512, 0);
    stored.extend(b"abcde");
    let size = stored.len() as u64;
    builder
        .append(
            &header("GNUSparseFile.0/disk", EntryType::Regular, size),
            &stored[..],
        )
        .unwrap();
    let files = files_of(&builder.into_inner().unwrap()).unwrap();
    let mut expected = vec![0; 20000];
    expected[5000..5003].copy_from_slice(b"abc");
    expected[9000..9002].copy_from_slice(b"de");
    assert!(files["/disk"].data == expected);
}

#[test]
fn gnu_sparse_files_get_their_holes() {
    let mut sparse = header("disk", EntryType::GNUSparse, 3);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.set_real_size(10_000);
    gnu.sparse[0].set_offset(9000);
    gnu.sparse[0].set_length(3);
    sparse.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&sparse, &b"abc"[..]).unwrap();
    let files = files_of(&builder.into_inner().unwrap()).unwrap();
    let data = &files["/disk"].data;
    assert_eq!((data.len(), &data[8999..9004]), (10_000, &b"\0abc\0"[..]));
}

#[test]
fn long_names_and_large_directories() {
    let long = "n".repeat(200);
    let mut builder = Builder::new(Vec::new());
    for number in 0..700 {
        let path = format!("many/{long}/{number}-{long}");
        let mut header = Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o600);
        builder.append_data(&mut header, &path, &[][..]).unwrap();
    }
    let files = files_of(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(files.len(), 703);
    assert!(files.contains_key(&format!("/many/{long}/699-{long}")));
}

#[test]
fn parents_that_are_symbolic_links_are_followed_inside_the_root() {
    let files = flattened(&[
        &[
            Member::Symlink("bin".into(), "usr/bin".into()),
            Member::Symlink("up".into(), "../../../etc".into()),
            Member::Symlink("abs".into(), "/etc".into()),
        ],
        &[file("bin/sh", "x"), file("up/a", "x"), file("abs/b", "x")],
    ]);
    assert!(files.contains_key("/usr/bin/sh"));
    assert!(files.contains_key("/etc/a") && files.contains_key("/etc/b"));
    assert_eq!(files["/bin"].data, b"usr/bin");
    let around = [Member::Symlink("a".into(), "a".into()), file("a/b", "")];
    assert!(fault_of(&around).contains("too many symbolic links"));
}

#[test]
fn a_whiteout_spares_what_its_own_layer_brings() {
    let files = flattened(&[
        &[file("d/old", ""), file("e/old", ""), file("gone", "")],
        &[
            file("d/new", ""),
            Member::Whiteout("d/.wh..wh..opq".into()),
            file("e/new", ""),
            Member::Whiteout(".wh.e".into()),
            Member::Whiteout(".wh.gone".into()),
            Member::Whiteout("nowhere/.wh.x".into()),
        ],
    ]);
    let paths: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(paths, ["", "/d", "/d/new", "/e", "/e/new"]);
}

/// The dot is no first name: punctuation and digits stand on both sides of it.
#[test]
fn directories_are_sorted_by_bytes() {
    let names = ["!", "#", "+a", "-b", "...", ".a", "0", "a", "~", "\u{e9}"];
    let files = files_of(&layer(&names.map(|name| file(name, name)))).unwrap();
    for name in names {
        assert_eq!(files[&format!("/{name}")].data, name.as_bytes());
    }
}

#[test]
fn an_absolute_path_is_inside_the_root() {
    let files = files_of(&layer(&[file("/etc/passwd", "guest")])).unwrap();
    assert_eq!(files["/etc/passwd"].data, b"guest");
}

#[test]
fn names_that_lead_out_are_refused() {
    assert!(fault_of(&[file("a/../../b", "")]).contains("climbs"));
    assert!(fault_of(&[file("", "")]).contains("root directory"));
    let link = Member::HardLink("a".into(), "../../etc/shadow".into());
    assert!(fault_of(&[link]).contains("climbs"));
    let link = Member::HardLink("a".into(), "etc/shadow".into());
    assert!(fault_of(&[link]).contains("not a file here"));
}

#[test]
fn nesting_is_bounded() {
    // Each link leads further down, so short names make a deep tree.
    let mut builder = Builder::new(Vec::new());
    for at in 0..30 {
        let target = match at {
            0 => "a/".repeat(100),
            _ => format!("{}/{}", at - 1, "a/".repeat(100)),
        };
        let mut link = header("", EntryType::Symlink, 0);
        builder
            .append_link(&mut link, at.to_string(), target)
            .unwrap();
        let inside = format!("{at}/x");
        let inside = header(&inside, EntryType::Regular, 0);
        builder.append(&inside, &[][..]).unwrap();
    }
    let fault = files_of(&builder.into_inner().unwrap()).unwrap_err();
    assert!(fault.to_string().contains("too deeply"), "{fault}");
}

#[test]
fn a_cut_archive_is_refused() {
    let archive = layer(&[file("a", "content"), file("b", "content")]);
    for length in [archive.len() - 1024, 1024, 700, 512, 100] {
        let fault = files_of(&archive[..length]).unwrap_err();
        assert!(matches!(fault, Fault::Truncated), "{length}: {fault}");
    }
}

#[test]
fn bounds_hold() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("root.tar");
    let members = [
        file("one", "12345"),
        file("two", "12345"),
        file("three", "12345"),
    ];
    fs::write(&path, layer(&members)).unwrap();
    let try_with = |limits| take_limited(&tarball(&path), &home.path().join("cache"), limits);
    let fair = Limits {
        entries: 3,
        // Three nodes and their names.
        memory: 3 * 256 + 11,
        content: 1 << 20,
        ..Limits::default()
    };
    for limits in [
        Limits { entries: 2, ..fair },
        Limits {
            memory: 3 * 256 + 10,
            ..fair
        },
        Limits {
            content: 14,
            ..fair
        },
    ] {
        let fault = try_with(limits).unwrap_err();
        assert!(matches!(fault, Fault::TooMuch { .. }), "{fault:?}");
    }
    try_with(fair).unwrap();
    let mut sparse = header("hole", EntryType::GNUSparse, 0);
    sparse.as_gnu_mut().unwrap().set_real_size(1 << 50);
    sparse.set_cksum();
    let fault = files_of(sparse.as_bytes()).unwrap_err();
    assert!(fault.to_string().contains("bytes of files"), "{fault}");
    let huge = header("huge", EntryType::Regular, 1 << 62);
    assert!(files_of(huge.as_bytes()).is_err());
    let mut builder = Builder::new(Vec::new());
    let claims = header("x", EntryType::GNULongName, 1 << 40);
    builder.append(&claims, &[][..]).unwrap();
    assert!(matches!(
        files_of(&builder.into_inner().unwrap()),
        Err(Fault::TooMuch { .. })
    ));
}

/// A megabyte that would be a gigabyte in memory.
#[test]
fn what_is_kept_is_in_proportion_to_what_was_read() {
    // Extended headers in any number before a file.
    let value = "x".repeat(60_000);
    let mut builder = Builder::new(Vec::new());
    for number in 0..20 {
        let record = format!(" SCHILY.xattr.user.{number:02}={value}\n");
        let record = format!("{}{record}", record.len() + 5);
        let size = record.len() as u64;
        let extended = header("x", EntryType::XHeader, size);
        builder.append(&extended, record.as_bytes()).unwrap();
    }
    builder
        .append(&header("a", EntryType::Regular, 0), &[][..])
        .unwrap();
    let fault = files_of(&builder.into_inner().unwrap()).unwrap_err();
    assert!(
        fault.to_string().contains("extended headers of a file"),
        "{fault}"
    );
    // Names that are thousands of directories.
    let deep = |number: usize| {
        let mut path = format!("{number}/");
        while path.len() < 4080 {
            path.push_str("a/");
        }
        path + "a"
    };
    let mut builder = Builder::new(Vec::new());
    for number in 0..250 {
        let path = deep(number);
        let long = header("x", EntryType::GNULongName, path.len() as u64);
        builder.append(&long, path.as_bytes()).unwrap();
        builder
            .append(&header("a", EntryType::Regular, 0), &[][..])
            .unwrap();
    }
    let fault = files_of(&builder.into_inner().unwrap()).unwrap_err();
    assert!(fault.to_string().contains("bytes of memory"), "{fault}");
}

/// The format's own checker, which knows nothing of this writer.
#[test]
fn fsck_erofs_finds_no_errors() {
    let home = tempfile::tempdir().unwrap();
    let mut members = vec![Member::Symlink("link".into(), "t".repeat(90))];
    for number in 0..500_usize {
        let content = vec![7; number * 37];
        members.push(Member::File(format!("d{}/f{number}", number % 3), content));
        members.push(Member::HardLink(
            format!("h{number}"),
            format!("d{}/f{number}", number % 3),
        ));
    }
    let path = home.path().join("root.tar");
    fs::write(&path, layer(&members)).unwrap();
    let root = take(&tarball(&path), &home.path().join("cache")).unwrap();
    let output = std::process::Command::new("fsck.erofs")
        .arg("-d5")
        .arg(&root.image)
        .output()
        .expect("fsck.erofs of erofs-utils; `make test` installs what tests need");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("No errors found"), "{text}");
}
