//! Signatures of kernel images that are PE files. Whose they are is not looked at.
//!
//! Source: "Windows Authenticode Portable Executable Signature Format", which Linux follows in
//! `crypto/asymmetric_keys/verify_pefile.c`.

use object::LittleEndian as LE;
use object::pe::{IMAGE_DIRECTORY_ENTRY_SECURITY, ImageDataDirectory};
use object::pe::{ImageNtHeaders64, ImageOptionalHeader64};
use object::read::pe::PeFile64;

/// Bytes before a certificate: its length, revision and type (`WIN_CERTIFICATE`).
const CERTIFICATE: usize = 8;
/// Place of `CheckSum` in the optional header, and its size.
const CHECK_SUM: usize = 64;
const CHECK_SUM_SIZE: usize = 4;

/// The signature of an image, with the parts that it covers.
#[derive(Debug)]
pub struct Signed<'a> {
    /// Parts of the image whose digest is in the signature, in this order.
    pub parts: Vec<&'a [u8]>,
    /// The signature, PKCS #7.
    pub signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// The signature of an image; none if it is no PE file or not signed, or its headers contradict
    /// each other.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let pe = PeFile64::parse(bytes).ok()?;
        let table = pe.data_directories().get(IMAGE_DIRECTORY_ENTRY_SECURITY)?;
        let (at, size) = (table.virtual_address.get(LE), table.size.get(LE));
        let (at, size) = (usize::try_from(at).ok()?, usize::try_from(size).ok()?);
        let end = at.checked_add(size).filter(|_| size > CERTIFICATE)?;
        let signature = bytes.get(at + CERTIFICATE..end)?;

        let optional = pe.dos_header().nt_headers_offset() as usize + size_of::<ImageNtHeaders64>()
            - size_of::<ImageOptionalHeader64>();
        let check_sum = optional + CHECK_SUM;
        let entry = optional
            + size_of::<ImageOptionalHeader64>()
            + IMAGE_DIRECTORY_ENTRY_SECURITY * size_of::<ImageDataDirectory>();
        let header = &pe.nt_headers().optional_header;
        let headers = header.size_of_headers.get(LE) as usize;
        let after_entry = entry + size_of::<ImageDataDirectory>();
        let mut parts = vec![
            bytes.get(..check_sum)?,
            bytes.get(check_sum + CHECK_SUM_SIZE..entry)?,
            bytes.get(after_entry..headers)?,
        ];
        let sections = pe.section_table().iter().map(|section| {
            let at = section.pointer_to_raw_data.get(LE) as usize;
            (at, section.size_of_raw_data.get(LE) as usize)
        });
        let mut sections: Vec<_> = sections.filter(|(_, size)| *size > 0).collect();
        sections.sort_unstable();
        let mut hashed = headers;
        for (at, size) in sections {
            parts.push(bytes.get(at..at.checked_add(size)?)?);
            hashed = hashed.checked_add(size)?;
        }
        // Bytes behind all sections and before the certificates, which are at the end.
        if hashed < at {
            parts.push(bytes.get(hashed..at)?);
        }
        parts.push(bytes.get(end..)?);
        // Sections that overlap make a small file a long one.
        let all: u64 = parts.iter().map(|part| part.len() as u64).sum();
        (all <= bytes.len() as u64).then_some(Self { parts, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PE file of one section with a certificate behind it.
    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[0x3c] = 0x40;
        bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0x44, &0x8664_u16.to_le_bytes());
        // One section; an optional header with 16 directories.
        put(0x46, &1_u16.to_le_bytes());
        put(0x54, &240_u16.to_le_bytes());
        put(0x58, &0x20b_u16.to_le_bytes());
        put(0x58 + 60, &0x200_u32.to_le_bytes());
        put(0x58 + 64, b"\xcc\xcc\xcc\xcc");
        put(0x58 + 108, &16_u32.to_le_bytes());
        let entry = 0x58 + 112 + 4 * 8;
        put(entry, &0x310_u32.to_le_bytes());
        put(entry + 4, &0x20_u32.to_le_bytes());
        let section = 0x58 + 240;
        put(section, b".text\0\0\0");
        put(section + 16, &0x100_u32.to_le_bytes());
        put(section + 20, &0x200_u32.to_le_bytes());
        bytes[0x200..0x300].fill(b't');
        bytes[0x300..0x310].fill(b'p');
        bytes[0x310..0x330].fill(b'c');
        bytes.truncate(0x330);
        bytes
    }

    #[test]
    fn what_the_signature_changes_itself_is_not_signed() {
        let image = image();
        let signed = Signed::parse(&image).unwrap();
        assert_eq!(signed.signature, [b'c'; 0x18]);
        let all = signed.parts.concat();
        // Without the check sum, the entry of the directory, and the certificates.
        assert_eq!(all.len(), image.len() - 4 - 8 - 0x20);
        assert!(!all.contains(&0xcc) && !all.contains(&b'c'));
        assert!(all.ends_with(&[&[b't'; 0x100][..], &[b'p'; 0x10]].concat()));
    }

    #[test]
    fn sections_that_overlap_are_no_signature() {
        let mut image = image();
        // Both are the one section.
        image[0x46] = 2;
        let section = 0x58 + 240;
        image.copy_within(section..section + 40, section + 40);
        assert!(Signed::parse(&image).is_none());
        // The second is empty.
        image[section + 40 + 16..section + 40 + 20].fill(0);
        assert!(Signed::parse(&image).is_some());
    }

    #[test]
    fn damaged_headers_are_no_signature() {
        let image = image();
        let entry = 0x58 + 112 + 4 * 8;
        for (at, value) in [
            (entry, 0xffff_ffff),
            (entry + 4, 0),
            (entry + 4, 0x21),
            (0x58 + 60, 0x5000),
        ] {
            let mut bad = image.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            assert!(Signed::parse(&bad).is_none(), "{at:#x} {value:#x}");
        }
        for end in 0..image.len() {
            let _ = Signed::parse(&image[..end]);
        }
        assert!(Signed::parse(b"\x7fELF").is_none());
    }
}
