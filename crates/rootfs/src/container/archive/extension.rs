//! Extended headers: PAX records, and GNU sparse maps.

use std::collections::BTreeMap;

use crate::Fault;

/// Additions to a header from the records before it.
#[derive(Debug, Default)]
pub(super) struct Extension {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The length of a sparse file with its holes.
    pub(super) real_size: Option<u64>,
    /// The map of format 0.1: offset and length in turn.
    pub(super) map: Option<Vec<(u64, u64)>>,
    /// Format 1.0 keeps its map at the start of the content.
    pub(super) map_in_content: bool,
}

impl Extension {
    /// Adds the records of a PAX extended header: `LENGTH KEY=VALUE\n`, where LENGTH counts the
    /// whole record.
    pub(super) fn add_pax(&mut self, mut records: &[u8]) -> Result<(), Fault> {
        while !records.is_empty() {
            let damaged = || Fault::Archive("a PAX extended header is damaged".into());
            let space = records
                .iter()
                .take(20)
                .position(|&byte| byte == b' ')
                .ok_or_else(damaged)?;
            let length = number(&records[..space]).ok_or_else(damaged)?;
            let length = usize::try_from(length).map_err(|_| damaged())?;
            if length <= space + 1 || length > records.len() || records[length - 1] != b'\n' {
                return Err(damaged());
            }
            let record = &records[space + 1..length - 1];
            let equals = record
                .iter()
                .position(|&byte| byte == b'=')
                .ok_or_else(damaged)?;
            self.add(&record[..equals], &record[equals + 1..])
                .ok_or_else(damaged)?;
            records = &records[length..];
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => {
                // The name GNU tar gives in `path` is a placeholder once it gave the real one.
                if !self.map_in_content {
                    self.path = Some(value.to_vec());
                }
            }
            b"GNU.sparse.name" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(number(value)?),
            b"uid" => self.uid = Some(number(value)?),
            b"gid" => self.gid = Some(number(value)?),
            b"mtime" => self.mtime = Some(time(value)?),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.real_size = Some(number(value)?),
            b"GNU.sparse.map" => self.map = Some(map(value)?),
            b"GNU.sparse.major" => self.map_in_content = value == b"1",
            // Format 0.0 repeats these keys; GNU tar stopped writing it in 2006.
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => return None,
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.insert(name.to_vec(), value.to_vec());
                }
            }
        }
        Some(())
    }
}

/// A decimal number without sign.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `-1.25` is 1.25 seconds before 1970: second -2, nanosecond 750 000 000.
fn time(value: &[u8]) -> Option<(i64, u32)> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (whole, fraction) = match value.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&value[..dot], &value[dot + 1..]),
        None => (value, &[][..]),
    };
    let seconds = i64::try_from(number(whole)?).ok()?;
    let mut nanoseconds = 0;
    for place in 0..9 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        nanoseconds = nanoseconds * 10 + u32::from(digit - b'0');
    }
    Some(match (negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

fn map(value: &[u8]) -> Option<Vec<(u64, u64)>> {
    let numbers = value
        .split(|&byte| byte == b',')
        .map(number)
        .collect::<Option<Vec<_>>>()?;
    if numbers.len() % 2 != 0 {
        return None;
    }
    Some(numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect())
}
