//! The environment block `grubenv` (`grub-core/lib/envblk.c`).

/// What the block begins with; the comment behind it may be anything.
const SIGNATURE: &str = "# GRUB Environment Block\n";

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
}
