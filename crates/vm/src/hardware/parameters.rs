//! Parameters of a Linux kernel's command line. Pure.

use std::ops::Range;

/// Places of the parameters in a command line, split as the kernel does (`next_arg` in
/// `lib/cmdline.c`): double quotes keep blanks together, and what follows `--` is for init.
pub fn places(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = None;
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        let is_blank = character.is_ascii_whitespace() || character == '\u{b}';
        match (start, is_blank && !is_quoted) {
            (Some(first), true) => {
                places.push(first..at);
                start = None;
            }
            (None, false) => start = Some(at),
            _ => {}
        }
        is_quoted ^= character == '"';
    }
    places.extend(start.map(|first| first..text.len()));
    let end = places.iter().position(|place| &text[place.clone()] == "--");
    places.truncate(end.unwrap_or(places.len()));
    places
}

/// The command line without a parameter, wherever it is, and without the blanks before it, which
/// are those behind it at the beginning. None if it is not there.
#[must_use]
pub fn without(text: &str, parameter: &str) -> Option<String> {
    let mut rest = text.to_owned();
    let mut found = false;
    for place in places(text).into_iter().rev() {
        if &text[place.clone()] == parameter {
            found = true;
            let before = rest[..place.start].trim_end().len();
            let behind = rest.len() - rest[place.end..].trim_start().len();
            match before {
                0 => rest.replace_range(place.start..behind, ""),
                before => rest.replace_range(before..place.end, ""),
            }
        }
    }
    found.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_kernel() {
        for (text, expected) in [
            ("", &[][..]),
            (" a=1\tb\n\u{b}ü ", &["a=1", "b", "ü"]),
            ("x=\"a nohz=off b\" c", &["x=\"a nohz=off b\"", "c"]),
            ("x=\"a b", &["x=\"a b"]),
            ("a -- b", &["a"]),
            ("a=\"--\" b", &["a=\"--\"", "b"]),
        ] {
            let found: Vec<_> = places(text).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn only_the_parameter_goes() {
        for (text, expected) in [
            ("w", Some("")),
            ("a w b", Some("a b")),
            ("w  a  b", Some("a  b")),
            ("a  w", Some("a")),
            ("w a w w -- w", Some("a -- w")),
            ("x=\"a  w b\" w", Some("x=\"a  w b\"")),
            ("x=\"a w b\"", None),
            ("ww", None),
        ] {
            assert_eq!(without(text, "w").as_deref(), expected, "{text}");
        }
    }
}
