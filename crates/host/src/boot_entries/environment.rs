//! The environment block `grubenv` (`grub-core/lib/envblk.c`).

/// What the block begins with; the comment behind it may be anything.
const SIGNATURE: &str = "# GRUB Environment Block\n";

/// Whether bytes are such a block.
pub(super) fn is_block(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE.as_bytes())
}

/// Variables in the block, in its order; none of a text that is no such block.
pub(super) fn variables(text: &str) -> Vec<(String, String)> {
    let Some(rest) = text.strip_prefix(SIGNATURE) else {
        return Vec::new();
    };
    lines(rest)
        .into_iter()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// A block in which a variable has this value, as `grub_envblk_set` makes it: of the same length, and
/// all else as it was.
///
/// # Errors
/// If its last line has no end, or it has no room.
pub(super) fn with(block: &[u8], name: &str, value: &str) -> Result<Vec<u8>, &'static str> {
    let filling = block.iter().rev().take_while(|byte| **byte == b'#').count();
    let content = &block[..block.len() - filling];
    if content.last() != Some(&b'\n') {
        return Err("the last line of the environment block has no end");
    }
    let start = format!("{name}=");
    let escaped = value.replace('\\', "\\\\").replace('\n', "\\\n");
    let line = format!("{start}{escaped}\n");
    let (mut made, mut is_set) = (Vec::new(), false);
    for old in raw_lines(content) {
        if old.starts_with(start.as_bytes()) {
            made.extend(line.as_bytes());
            is_set = true;
        } else {
            made.extend(old);
        }
    }
    if !is_set {
        made.extend(line.as_bytes());
    }
    if made.len() > block.len() {
        return Err("the environment block has no room left");
    }
    made.resize(block.len(), b'#');
    Ok(made)
}

/// Lines as they are, with their ends. One that a backslash precedes is no end.
fn raw_lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_escaped = false;
    content.split_inclusive(move |byte| {
        let is_end = *byte == b'\n' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Lines, with what follows a backslash as it is. What has no line end is the filling, or broken.
fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let mut characters = text.chars();
    while let Some(next) = characters.next() {
        match next {
            '\n' => lines.push(std::mem::take(&mut line)),
            '\\' => line.extend(characters.next()),
            _ => line.push(next),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_the_filling_is_not() {
        let text = "# GRUB Environment Block\n# WARNING: Do not edit\nsaved_entry=0\nkernelopts=root=/dev/x a\\\\b \nnext_entry=\n########";
        let found = variables(text);
        let found: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(
            found,
            [
                ("saved_entry", "0"),
                ("kernelopts", "root=/dev/x a\\b "),
                ("next_entry", ""),
            ]
        );
        assert!(variables("saved_entry=0\n").is_empty());
    }

    #[test]
    fn a_variable_is_changed_and_all_else_stays() {
        let filled = |lines: &str| format!("{:#<80}", format!("{SIGNATURE}{lines}")).into_bytes();
        let block = filled("a=1\nnext_entry=x\\\ny\n#next_entry=2\nb=\u{e9}\n");
        for (value, lines) in [
            ("", "a=1\nnext_entry=\n#next_entry=2\nb=\u{e9}\n"),
            (
                "long\\er\n>",
                "a=1\nnext_entry=long\\\\er\\\n>\n#next_entry=2\nb=\u{e9}\n",
            ),
        ] {
            let made = with(&block, "next_entry", value).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&made),
                String::from_utf8_lossy(&filled(lines))
            );
            let text = String::from_utf8_lossy(&made);
            let found = variables(&text);
            let found = found.iter().find(|(name, _)| name == "next_entry");
            assert_eq!(found.unwrap().1, value);
        }
        // Not one whose name ends so, and a new one behind all.
        let made = with(&block, "entry", "3").unwrap();
        assert!(String::from_utf8_lossy(&made).contains("b=\u{e9}\nentry=3\n#"));
        let full = with(&block, "next_entry", &"z".repeat(80)).unwrap_err();
        assert!(full.contains("no room"), "{full}");
        assert!(!is_block(b"next_entry=1\n##") && is_block(&block));
        assert!(with(format!("{SIGNATURE}a=1").as_bytes(), "a", "").is_err());
    }
}
