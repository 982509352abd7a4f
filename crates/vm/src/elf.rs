//! Facts from the header of an executable.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

/// Header and program headers of any usual program lie within its first bytes.
const HEAD: u64 = 8192;

/// Whether `path` is an ELF program that runs without a dynamic linker.
///
/// # Errors
/// If it cannot be read.
pub fn is_static(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    let data = head.as_slice();
    let Ok(header) = FileHeader64::<Endianness>::parse(data) else {
        return Ok(false);
    };
    let Ok(endian) = header.endian() else {
        return Ok(false);
    };
    let Ok(segments) = header.program_headers(endian, data) else {
        return Ok(false);
    };
    Ok(segments
        .iter()
        .all(|segment| segment.p_type(endian) != PT_INTERP))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn static_of(bytes: &[u8]) -> bool {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        is_static(file.path()).unwrap()
    }

    #[test]
    fn our_init_is_static_and_this_test_is_not() {
        assert!(static_of(crate::guest::INIT));
        assert!(!is_static(Path::new("/proc/self/exe")).unwrap());
    }

    #[test]
    fn what_is_no_program_is_not_static() {
        assert!(!static_of(b"#!/bin/sh\n"));
        assert!(!static_of(b""));
        assert!(!static_of(&crate::guest::INIT[..40]));
    }
}
