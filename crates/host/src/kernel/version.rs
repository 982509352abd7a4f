//! Kernel releases: their order, and reading them out of an image.

use std::cmp::Ordering;
use std::io::{self, Read};
use std::path::Path;

use memchr::memmem;
use object::read::pe::PeFile64;
use object::{Object, ObjectSection};

use crate::files;
use crate::tree::Tree;

/// Bytes from the start of a bzImage that suffice for [`bzimage_version`]: `kernel_version` is a
/// 16-bit offset from 0x200, and the release is at most 64 bytes (`__NEW_UTS_LEN`).
pub const HEADER_LEN: usize = 0x200 + 0xffff + 65;

/// Orders kernel releases: runs of digits as numbers, `~` and `-rcN` before the final release.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (x, y) = (part(&mut a), part(&mut b));
        let order = match (x, y) {
            (Part::End, Part::End) => return Ordering::Equal,
            (Part::Number(x), Part::Number(y)) => x.len().cmp(&y.len()).then_with(|| x.cmp(y)),
            (x, y) => x.rank().cmp(&y.rank()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

enum Part<'a> {
    Before,
    End,
    Byte(u8),
    Number(&'a [u8]),
}

impl Part<'_> {
    fn rank(&self) -> u16 {
        match self {
            Self::Before => 0,
            Self::End => 1,
            Self::Byte(byte) => 2 + u16::from(*byte),
            Self::Number(_) => 2 + u16::from(u8::MAX) + 1,
        }
    }
}

fn part<'a>(rest: &mut &'a [u8]) -> Part<'a> {
    let Some(&first) = rest.first() else {
        return Part::End;
    };
    if first.is_ascii_digit() {
        let end = rest
            .iter()
            .position(|b| !b.is_ascii_digit())
            .unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(end);
        *rest = tail;
        let zeros = digits.iter().take_while(|b| **b == b'0').count();
        return Part::Number(&digits[zeros..]);
    }
    let candidate = rest
        .strip_prefix(b"-rc")
        .filter(|tail| tail.first().is_some_and(u8::is_ascii_digit));
    if let Some(tail) = candidate {
        *rest = tail;
        return Part::Before;
    }
    *rest = &rest[1..];
    if first == b'~' {
        Part::Before
    } else {
        Part::Byte(first)
    }
}

/// The release in the setup header of a bzImage, given at least its first [`HEADER_LEN`] bytes or
/// all of it.
///
/// Source: the fields `header` and `kernel_version` in `Documentation/arch/x86/boot.rst`.
#[must_use]
pub fn bzimage_version(head: &[u8]) -> Option<&str> {
    if head.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let pointer = usize::from(u16::from_le_bytes(head.get(0x20e..0x210)?.try_into().ok()?));
    if pointer == 0 {
        return None;
    }
    first_word(head.get(0x200 + pointer..)?)
}

/// The release of a kernel image: from the header of a bzImage, the `.uname` or `.linux` section
/// of a UKI, the banner in an ELF, or else its file name (`vmlinux-V.xz`).
///
/// # Errors
///
/// If the file cannot be opened or read.
pub fn image_version(path: &Path) -> io::Result<Option<String>> {
    let mut file = files::open_regular(path)?;
    let mut head = Vec::new();
    file.by_ref()
        .take(HEADER_LEN as u64)
        .read_to_end(&mut head)?;
    let found = if let Some(version) = bzimage_version(&head) {
        Some(version.to_owned())
    } else if head.starts_with(b"\x7fELF") || head.starts_with(b"MZ") {
        file.take(1 << 30).read_to_end(&mut head)?;
        uki_version(&head)
            .or_else(|| banner(&head))
            .map(str::to_owned)
    } else {
        None
    };
    Ok(found.or_else(|| {
        path.file_name()
            .and_then(|name| name_version(name.to_str()?))
    }))
}

/// Release of the image at a path of a system, as [`image_version`] finds it; that of the name when
/// a great many bytes of the system's images were searched.
///
/// # Errors
/// If there is no such file, or it cannot be read.
pub(crate) fn version_in(tree: &Tree, path: &Path) -> io::Result<Option<String>> {
    let size = tree.size(path).ok_or(io::ErrorKind::NotFound)?;
    let host = tree.host(path).ok_or(io::ErrorKind::NotFound)?;
    if tree.may_search(size) {
        return image_version(&host);
    }
    let name = path.file_name().and_then(|name| name.to_str());
    Ok(name.and_then(name_version))
}

fn uki_version(image: &[u8]) -> Option<&str> {
    let pe = PeFile64::parse(image).ok()?;
    let section = |name| pe.section_by_name(name).and_then(|s| s.data().ok());
    section(".uname")
        .and_then(first_word)
        .or_else(|| section(".linux").and_then(bzimage_version))
}

/// `Linux version 6.12.95 (builder) …`: the banner is part of every vmlinux (`init/version.c`).
#[must_use]
pub fn banner(image: &[u8]) -> Option<&str> {
    const START: &[u8] = b"Linux version ";
    memmem::find_iter(image, START)
        .filter_map(|at| first_word(&image[at + START.len()..]))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// The release in a name such as `vmlinuz-6.1.0` or `vmlinux-6.4.0-1-default.xz`.
pub(crate) fn name_version(name: &str) -> Option<String> {
    let rest = name
        .strip_prefix("vmlinuz-")
        .or_else(|| name.strip_prefix("vmlinux-"))?;
    let version = [".xz", ".gz", ".zst"]
        .iter()
        .find_map(|suffix| rest.strip_suffix(suffix))
        .unwrap_or(rest);
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| version.to_owned())
}

fn first_word(bytes: &[u8]) -> Option<&str> {
    let bytes = &bytes[..bytes.len().min(65)];
    let end = bytes
        .iter()
        .position(|b| b.is_ascii_whitespace() || *b == 0)
        .unwrap_or(bytes.len());
    let word = std::str::from_utf8(&bytes[..end]).ok()?;
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic() && c != '/');
    plain.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn releases_sort_as_people_expect() {
        let ascending = [
            "5.10.0-28-amd64",
            "6.1.0-9-amd64",
            "6.1.0-56-cloud-amd64",
            "6.12.0-rc1",
            "6.12.0-rc10",
            "6.12.0",
            "6.12.0-1-amd64",
            "6.12.9+deb12-amd64",
            "6.12.95+deb12-amd64",
            "6.12.95+deb12-cloud-amd64",
            "10.0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
            }
        }
    }

    #[test]
    fn names_give_releases() {
        assert_eq!(
            name_version("vmlinux-6.4.0-1-default.xz").as_deref(),
            Some("6.4.0-1-default")
        );
        assert_eq!(name_version("vmlinuz-6.1.0").as_deref(), Some("6.1.0"));
        assert_eq!(name_version("vmlinuz-linux"), None);
    }

    #[test]
    fn banner_skips_format_strings() {
        let image = b"Linux version %s\0...Linux version 6.12.95+deb12 (x@y)\0";
        assert_eq!(banner(image), Some("6.12.95+deb12"));
    }

    proptest! {
        #[test]
        fn order_is_total(a in "[0-9a-z.~rc-]{0,12}", b in "[0-9a-z.~rc-]{0,12}", c in "[0-9a-z.~rc-]{0,12}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }

        #[test]
        fn hostile_headers_do_not_panic(head in proptest::collection::vec(any::<u8>(), 0..0x400), at in any::<u16>()) {
            let mut head = head;
            if head.len() > 0x210 {
                head[0x202..0x206].copy_from_slice(b"HdrS");
                head[0x20e..0x210].copy_from_slice(&at.to_le_bytes());
            }
            let _ = bzimage_version(&head);
            let _ = uki_version(&head);
        }
    }
}
