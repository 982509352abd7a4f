use crate::Fault;

/// Prefixes that the format stores as a number (EROFS_XATTR_INDEX_*). The two ACLs are whole
/// names.
const PREFIXES: [(&[u8], u8); 5] = [
    (b"user.", 1),
    (b"system.posix_acl_access", 2),
    (b"system.posix_acl_default", 3),
    (b"trusted.", 4),
    (b"security.", 6),
];
/// Size of the header before the attributes of an inode.
const HEADER: usize = 12;

/// The attributes of an inode as they lie behind it; empty if there are none. Attributes of other
/// classes (NFS ACLs, for example) mean nothing to a file system in the guest and are left out.
pub(super) fn encode(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u8>, Fault> {
    let mut out = vec![0; HEADER];
    for (name, value) in xattrs {
        let Some((index, rest)) = split(name) else {
            continue;
        };
        let (Ok(name_length), Ok(value_length)) =
            (u8::try_from(rest.len()), u16::try_from(value.len()))
        else {
            return Err(too_long());
        };
        out.extend([name_length, index]);
        out.extend(value_length.to_le_bytes());
        out.extend_from_slice(rest);
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    if out.len() == HEADER {
        return Ok(Vec::new());
    }
    match u16::try_from(count(out.len())) {
        Ok(_) => Ok(out),
        Err(_) => Err(too_long()),
    }
}

/// The field of the inode that says how long [`encode`]'s result is.
pub(super) fn count(length: usize) -> usize {
    match length {
        0 => 0,
        length => (length - HEADER) / 4 + 1,
    }
}

fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    PREFIXES.iter().find_map(|&(prefix, index)| {
        let rest = name.strip_prefix(prefix)?;
        // Of the others a prefix alone is no name.
        (rest.is_empty() != prefix.ends_with(b".")).then_some((index, rest))
    })
}

fn too_long() -> Fault {
    Fault::TooMuch {
        what: "bytes of extended attributes of one file",
        limit: u64::from(u16::MAX),
    }
}
