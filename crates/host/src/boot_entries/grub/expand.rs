//! Replacement of variables in words, as `grub_script_arglist_to_argv` in
//! `grub-core/script/execute.c` does it.

use super::script::{Piece, Word};

/// Bytes of all words of one command at most: variables that contain themselves twice grow fast.
const LONGEST: usize = 1 << 20;

/// What variables have as values.
pub(super) trait Values {
    /// The value of a variable by its name.
    fn value(&self, name: &str) -> Option<&str>;
    /// The parameters `$1`, `$2` and so on.
    fn parameters(&self) -> &[String];
}

/// The words of a command with the values of their variables.
pub(super) fn expand(words: &[Word], values: &impl Values) -> Vec<String> {
    let mut expanded = Expanded::default();
    for word in words {
        expanded.end_word();
        for piece in word {
            match piece {
                Piece::Text(text) => expanded.append(text),
                Piece::Variable { name, is_quoted } => {
                    variable(name, *is_quoted, values, &mut expanded)
                }
            }
        }
    }
    expanded.end_word();
    expanded.words
}

fn variable(name: &str, is_quoted: bool, values: &impl Values, expanded: &mut Expanded) {
    let parameters = values.parameters();
    let append = |value: &str, expanded: &mut Expanded| match is_quoted {
        true => expanded.append(value),
        false => expanded.append_split(value),
    };
    match name {
        "#" => expanded.append(&parameters.len().to_string()),
        "*" if is_quoted => expanded.append(&parameters.join(" ")),
        "*" | "@" => {
            for (index, parameter) in parameters.iter().enumerate() {
                if index > 0 {
                    expanded.end_word();
                }
                append(parameter, expanded);
            }
        }
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => {
            let index = name.parse::<usize>().unwrap_or(0);
            let parameter = index.checked_sub(1).and_then(|index| parameters.get(index));
            append(parameter.map_or("", String::as_str), expanded);
        }
        _ => {
            if let Some(value) = values.value(name) {
                append(value, expanded);
            }
        }
    }
}

#[derive(Default)]
struct Expanded {
    words: Vec<String>,
    /// The word that is not ended; none if nothing was appended yet.
    word: Option<String>,
    length: usize,
}

impl Expanded {
    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn append(&mut self, text: &str) {
        let word = self.word.get_or_insert_default();
        if self.length + text.len() <= LONGEST {
            self.length += text.len();
            word.push_str(text);
        }
    }

    fn append_split(&mut self, text: &str) {
        for (index, part) in text.split_ascii_whitespace().enumerate() {
            if index > 0 {
                self.end_word();
            }
            self.append(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::{Token, tokens};
    use super::*;

    struct Fixed(Vec<String>);

    impl Values for Fixed {
        fn value(&self, name: &str) -> Option<&str> {
            match name {
                "x" => Some(" one  two "),
                "empty" => Some(""),
                "path" => Some(r"C:\a"),
                _ => None,
            }
        }

        fn parameters(&self) -> &[String] {
            &self.0
        }
    }

    #[test]
    fn values_are_split_outside_of_quotes_alone() {
        let values = Fixed(vec!["a b".to_owned(), "c".to_owned()]);
        for (text, expected) in [
            ("$x", &["one", "two"][..]),
            ("\"$x\"", &[" one  two "]),
            ("a$x", &["aone", "two"]),
            ("${x}b", &["one", "twob"]),
            ("a $empty $no b", &["a", "b"]),
            ("\"$no\" ''", &["", ""]),
            ("x$no", &["x"]),
            ("$path", &[r"C:\a"]),
            ("$1 \"$1\" $3 $#", &["a", "b", "a b", "2"]),
            ("\"$@\"", &["a b", "c"]),
            ("$@", &["a", "b", "c"]),
            ("\"$*\"", &["a b c"]),
        ] {
            let words: Vec<_> = tokens(text)
                .into_iter()
                .filter_map(|it| match it.token {
                    Token::Word(word) => Some(word),
                    _ => None,
                })
                .collect();
            assert_eq!(expand(&words, &values), expected, "{text}");
        }
    }
}
