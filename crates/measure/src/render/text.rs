//! Making text from anywhere harmless and fit for its place.

use std::borrow::Cow;

/// The text without what could move a terminal's cursor, hide or reorder other text, or is not
/// allowed in XML 1.0: control characters, directional and other invisible formatting, and
/// noncharacters are each replaced by U+FFFD.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(unsafe_to_show) {
        let shown = |c| if unsafe_to_show(c) { '\u{fffd}' } else { c };
        Cow::Owned(text.chars().map(shown).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// The text as [`clean`] leaves it, in one line: line ends and tabs are spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    clean(&text.replace(['\n', '\t'], " ")).into_owned()
}

/// Trojan Source (Boucher and Anderson, USENIX Security 2023) lists the directional characters;
/// XML 1.0 section 2.2 the ones no document may hold.
fn unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Clean text for element content and quoted attributes of HTML.
pub(crate) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Clean text of at most `limit` characters, the middle left out of a longer one: both ends of a
/// path or of a command say more than its middle.
pub fn shorten(text: &str, limit: usize) -> String {
    let text = clean(text);
    let length = text.chars().count();
    if length <= limit {
        return text.into_owned();
    }
    let kept = limit.saturating_sub(1);
    let tail = kept / 3;
    let head: String = text.chars().take(kept - tail).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

/// A round number without its trailing zeros: `20 ms` for `20.00 ms`.
pub(super) fn round_number(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_short() {
        let cases = [
            ("20.00 ms", "20 ms"),
            ("0.000 s", "0 s"),
            ("4.500 s", "4.5 s"),
            ("100", "100"),
        ];
        for (long, short) in cases {
            assert_eq!(round_number(long), short);
        }
    }

    #[test]
    fn what_moves_a_terminal_is_taken_out() {
        assert_eq!(clean("ok µs"), "ok µs");
        assert_eq!(
            clean("\x1b[2J\u{202e}\u{9b}\n\0"),
            "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            html("<a b='\"'>&\x08"),
            "&lt;a b=&#39;&quot;&#39;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn the_middle_of_long_text_goes() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijk", 7), "abcd…jk");
        assert_eq!(shorten("ab", 1), "…");
        assert_eq!(shorten("ab", 0), "…");
    }
}
