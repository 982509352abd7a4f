//! Reader of images for tests, written from the format's description and not from the writer.

use std::collections::BTreeMap;

use super::BLOCK;

/// A file as it is in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: (i64, u32),
    pub(crate) links: u32,
    pub(crate) nid: u64,
    pub(crate) rdev: u32,
    pub(crate) xattrs: Vec<(u8, Vec<u8>, Vec<u8>)>,
    /// Content of a file, target of a link; a directory's is left out.
    pub(crate) data: Vec<u8>,
}

/// All files of an image by path, the root as the empty path.
pub(crate) fn read(image: &[u8]) -> BTreeMap<String, Seen> {
    let sb = &image[1024..1152];
    assert_eq!(number(sb, 0, 4), 0xe0f5_e1e2);
    assert_eq!(1_usize << sb[12], BLOCK);
    assert_eq!(number(sb, 36, 4) as usize * BLOCK, image.len());
    assert_eq!(number(sb, 40, 4), 0, "inodes are counted from block 0");
    let mut seen = BTreeMap::new();
    let root = number(sb, 14, 2);
    let mut pending = vec![(String::new(), root, root)];
    while let Some((path, nid, parent)) = pending.pop() {
        let (mut file, data) = inode(image, nid);
        if file.mode & 0o170_000 == 0o040_000 {
            let mut last: Option<Vec<u8>> = None;
            let mut inner = 0;
            for (name, child, kind) in data.chunks(BLOCK).flat_map(names) {
                assert!(last.as_ref() < Some(&name), "{path}: sorted names");
                let text = String::from_utf8(name.clone()).unwrap();
                last = Some(name);
                inner += u32::from(kind == 2);
                match text.as_str() {
                    "." => assert_eq!(child, nid),
                    ".." => assert_eq!(child, parent),
                    _ => pending.push((format!("{path}/{text}"), child, nid)),
                }
            }
            assert_eq!(file.links, inner, "{path}: links of a directory");
        } else {
            file.data = data;
        }
        seen.insert(path, file);
    }
    let inodes: std::collections::BTreeSet<u64> = seen.values().map(|file| file.nid).collect();
    assert_eq!(number(sb, 16, 8), inodes.len() as u64);
    for file in seen
        .values()
        .filter(|file| file.mode & 0o170_000 != 0o040_000)
    {
        let names = seen.values().filter(|other| other.nid == file.nid).count();
        assert_eq!(file.links as usize, names);
    }
    seen
}

fn inode(image: &[u8], nid: u64) -> (Seen, Vec<u8>) {
    let at = nid as usize * 32;
    let raw = &image[at..];
    let format = number(raw, 0, 2);
    assert_eq!(format & 1, 1, "an extended inode");
    let size = number(raw, 8, 8) as usize;
    let count = number(raw, 2, 2) as usize;
    let xattr_length = if count == 0 { 0 } else { 12 + 4 * (count - 1) };
    let mut xattrs = Vec::new();
    let mut attributes = raw[64..64 + xattr_length].get(12..).unwrap_or_default();
    while attributes.len() >= 4 && attributes[1] != 0 {
        let (name, value) = (attributes[0] as usize, number(attributes, 2, 2) as usize);
        xattrs.push((
            attributes[1],
            attributes[4..4 + name].to_vec(),
            attributes[4 + name..4 + name + value].to_vec(),
        ));
        attributes = &attributes[(4 + name + value).next_multiple_of(4)..];
    }
    let mode = number(raw, 4, 2) as u16;
    let place = number(raw, 16, 4);
    let mut data = Vec::new();
    if matches!(mode & 0o170_000, 0o040_000 | 0o100_000 | 0o120_000) {
        let start = place as usize * BLOCK;
        match format >> 1 {
            0 => data.extend_from_slice(&image[start..][..size]),
            2 => {
                let tail = at + 64 + xattr_length;
                let length = size % BLOCK;
                assert_eq!(at / BLOCK, (tail + length - 1) / BLOCK, "one block");
                data.extend_from_slice(&image[start..][..size - length]);
                data.extend_from_slice(&image[tail..][..length]);
            }
            other => panic!("layout {other}"),
        }
    }
    let seen = Seen {
        mode,
        uid: number(raw, 24, 4) as u32,
        gid: number(raw, 28, 4) as u32,
        mtime: (number(raw, 32, 8) as i64, number(raw, 40, 4) as u32),
        links: number(raw, 44, 4) as u32,
        nid,
        rdev: place as u32,
        xattrs,
        data: Vec::new(),
    };
    (seen, data)
}

fn names(block: &[u8]) -> Vec<(Vec<u8>, u64, u8)> {
    let count = number(block, 8, 2) as usize / 12;
    (0..count)
        .map(|index| {
            let entry = &block[index * 12..];
            let start = number(entry, 8, 2) as usize;
            let end = match index + 1 < count {
                true => number(entry, 20, 2) as usize,
                false => block.len(),
            };
            let name = &block[start..end];
            let end = name.iter().position(|&byte| byte == 0);
            let name = name[..end.unwrap_or(name.len())].to_vec();
            (name, number(entry, 0, 8), entry[10])
        })
        .collect()
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let field = bytes[at..at + length].iter().rev();
    field.fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
