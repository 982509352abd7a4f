//! Text as it was before it was sent by mail: without marks of quoting, and without the encoding
//! quoted-printable (RFC 2045, section 6.7). Pure.

/// The text of a mail, or another text as it is.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = match is_encoded(&text) {
        true => decoded(&text),
        false => text,
    };
    let lines: Vec<_> = text.lines().map(unquoted).collect();
    lines.join("\n")
}

/// A line without `> ` before it, as often as it was quoted.
fn unquoted(line: &str) -> &str {
    let quoted = line.trim_start_matches(['>', ' ']);
    let marks = &line[..line.len() - quoted.len()];
    match marks.rfind('>') {
        Some(last) => line[last + 1..]
            .strip_prefix(' ')
            .unwrap_or(&line[last + 1..]),
        None => line,
    }
}

/// Whether lines are broken by `=`, and each other `=` is a byte.
fn is_encoded(text: &str) -> bool {
    let mut parts = text.split('=');
    parts.next();
    let is_byte = |part: &str| {
        part.get(..2)
            .is_some_and(|two| u8::from_str_radix(two, 16).is_ok())
    };
    text.contains("=\n")
        && parts.all(|part| part.starts_with('\n') || part.is_empty() || is_byte(part))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut parts = text.split('=');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        match part.strip_prefix('\n') {
            Some(rest) => bytes.extend(rest.bytes()),
            None => {
                let (byte, rest) = part.split_at(part.len().min(2));
                bytes.extend(u8::from_str_radix(byte, 16));
                bytes.extend(rest.bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_is_read_as_it_was_written() {
        assert_eq!(plain("> > a  b\n>   c\nd > e\n"), "a  b\n  c\nd > e");
        assert_eq!(plain("x=3D1 =C2=B5s, a l=\nine=20\n"), "x=1 µs, a line ");
        // What is no such encoding stays.
        assert_eq!(plain("A=B\nb=\n"), "A=B\nb=");
    }
}
