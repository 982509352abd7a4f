mod images;
mod layers;
mod model;
mod room;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::erofs::reading::{self, Seen};
use super::{Container, ContainerRoot, Fault, Form, Limits, unpack};
use crate::Error;

/// A member of a layer, in short.
#[derive(Clone, Debug)]
enum Member {
    File(String, Vec<u8>),
    Directory(String),
    Symlink(String, String),
    HardLink(String, String),
    Whiteout(String),
}

fn file(path: &str, content: &str) -> Member {
    Member::File(path.into(), content.into())
}

/// The tar archive of some members; modes and owners are the same for all.
fn layer(members: &[Member]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        let (path, kind, link, content) = match member {
            Member::File(path, content) => (path, EntryType::Regular, "", &content[..]),
            Member::Whiteout(path) => (path, EntryType::Regular, "", &[][..]),
            Member::Directory(path) => (path, EntryType::Directory, "", &[][..]),
            Member::Symlink(path, link) => (path, EntryType::Symlink, &link[..], &[][..]),
            Member::HardLink(path, link) => (path, EntryType::Link, &link[..], &[][..]),
        };
        let mut header = header(path, kind, content.len() as u64);
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A header with any name: the crate's own way refuses the hostile ones.
fn header(path: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(1000);
    header.set_gid(100);
    header.set_mtime(1_700_000_000);
    header.set_size(size);
    header.set_cksum();
    header
}

fn tarball(path: &Path) -> Container {
    Container {
        path: path.into(),
        form: Form::Tarball,
        name: None,
    }
}

fn take(found: &Container, cache: &Path) -> Result<ContainerRoot, Fault> {
    take_limited(found, cache, Limits::default())
}

fn take_limited(found: &Container, cache: &Path, limits: Limits) -> Result<ContainerRoot, Fault> {
    unpack(found, cache, limits, &mut |done, total| {
        assert!(done <= total)
    })
    .map_err(|error| match error {
        Error::Container { fault, .. } => fault,
        other => panic!("{other}"),
    })
}

/// What the image of a plain tar archive holds.
fn files_of(archive: &[u8]) -> Result<BTreeMap<String, Seen>, Fault> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("root.tar");
    fs::write(&path, archive).unwrap();
    let root = take(&tarball(&path), &home.path().join("cache"))?;
    Ok(reading::read(&fs::read(root.image).unwrap()))
}
