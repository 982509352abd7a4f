//! Expressions of `test` and `[`, as `grub-core/commands/test.c` evaluates them.

use std::cmp::Ordering;

/// Parentheses in parentheses that are followed at most; GRUB 2.14 follows 100.
const DEEPEST: usize = 100;

/// What an expression may ask about files. Paths may begin with a device in parentheses.
pub(super) trait Files {
    /// Size of a file in bytes; none if there is none, or it is a directory.
    fn size(&self, path: &str) -> Option<u64>;
    /// Whether there is such a directory.
    fn is_directory(&self, path: &str) -> bool;
}

/// The value of an expression, without the `]` at its end.
pub(super) fn evaluate(words: &[String], files: &impl Files) -> bool {
    let mut reader = Reader {
        words,
        at: 0,
        depth: 0,
        files,
    };
    reader.expression()
}

struct Reader<'a, F> {
    words: &'a [String],
    at: usize,
    depth: usize,
    files: &'a F,
}

/// What was read of an expression.
struct State {
    and: bool,
    or: bool,
    is_inverted: bool,
}

impl State {
    fn update(&mut self, value: bool) {
        self.and = self.and && value != self.is_inverted;
        self.is_inverted = false;
    }
}

impl<F: Files> Reader<'_, F> {
    fn word(&self, ahead: usize) -> Option<&str> {
        self.words.get(self.at + ahead).map(String::as_str)
    }

    fn expression(&mut self) -> bool {
        let mut state = State {
            and: true,
            or: false,
            is_inverted: false,
        };
        while let Some(first) = self.word(0) {
            if let Some(value) = self.comparison() {
                state.update(value);
                self.at += 3;
                continue;
            }
            if let Some(value) = self.unary() {
                state.update(value);
                self.at += 2;
                continue;
            }
            let first = first.to_owned();
            self.at += 1;
            match &*first {
                ")" => {
                    self.depth = self.depth.saturating_sub(1);
                    break;
                }
                "(" => {
                    self.depth += 1;
                    if self.depth > DEEPEST {
                        break;
                    }
                    let value = self.expression();
                    state.update(value);
                }
                "!" => state.is_inverted = !state.is_inverted,
                "-a" => {}
                "-o" => {
                    state.or = state.or || state.and;
                    state.and = true;
                }
                word => state.update(!word.is_empty()),
            }
        }
        state.or || state.and
    }

    fn comparison(&self) -> Option<bool> {
        let (left, operator, right) = (self.word(0)?, self.word(1)?, self.word(2)?);
        let order = left.cmp(right);
        let numbers = || signed(left).cmp(&signed(right));
        Some(match operator {
            "=" | "==" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            "-eq" => numbers() == Ordering::Equal,
            "-ne" => numbers() != Ordering::Equal,
            "-lt" => numbers() == Ordering::Less,
            "-le" => numbers() != Ordering::Greater,
            "-gt" => numbers() == Ordering::Greater,
            "-ge" => numbers() != Ordering::Less,
            "-pgt" => after_prefix(left, right) == Ordering::Greater,
            "-plt" => after_prefix(left, right) == Ordering::Less,
            // Which of two files is the newer one is not asked by any distribution.
            _ => return None,
        })
    }

    fn unary(&self) -> Option<bool> {
        let (operator, word) = (self.word(0)?, self.word(1)?);
        Some(match operator {
            "-d" => self.files.is_directory(word),
            "-e" => self.files.is_directory(word) || self.files.size(word).is_some(),
            "-f" => self.files.size(word).is_some(),
            "-s" => self.files.size(word).is_some_and(|size| size > 0),
            "-n" => !word.is_empty(),
            "-z" => word.is_empty(),
            _ => return None,
        })
    }
}

fn signed(text: &str) -> i128 {
    match text.strip_prefix('-') {
        Some(rest) => -i128::from(number(rest).unwrap_or(0)),
        None => i128::from(number(text).unwrap_or(0)),
    }
}

/// Compares the numbers behind what two texts begin with: `vmlinuz-2` and `vmlinuz-11`.
fn after_prefix(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let equal = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let digits = left[..equal]
        .iter()
        .rev()
        .take_while(|c| c.is_ascii_digit());
    let start = equal - digits.count();
    let value = |text: &[u8]| number(&String::from_utf8_lossy(&text[start..])).unwrap_or(0);
    value(left).cmp(&value(right))
}

/// The number that a text begins with, as `grub_strtoul` reads it with base 0: decimal, octal after
/// `0`, hexadecimal after `0x`. None if it begins with none, or with one that is too large.
pub(super) fn number(text: &str) -> Option<u64> {
    number_and_rest(text).map(|(number, _)| number)
}

/// The number that a text begins with, and what follows it.
pub(super) fn number_and_rest(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x', ..] => (16, &text[2..]),
        [b'0', b'0'..=b'7', ..] => (8, text),
        _ => (10, text),
    };
    let end = digits
        .find(|c: char| !c.is_digit(base))
        .unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], base).ok()?;
    Some((number, &digits[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree;

    impl Files for Tree {
        fn size(&self, path: &str) -> Option<u64> {
            match path {
                "/empty" => Some(0),
                "/full" => Some(1),
                _ => None,
            }
        }

        fn is_directory(&self, path: &str) -> bool {
            path == "/dir"
        }
    }

    #[test]
    fn expressions() {
        for (text, value) in [
            ("a", true),
            ("", true),
            ("a = a", true),
            ("a == b", false),
            ("a != b", true),
            ("b > a", true),
            ("10 -gt 9", true),
            ("0x10 -eq 16", true),
            ("-1 -lt 0", true),
            ("vmlinuz-2 -plt vmlinuz-11", true),
            ("vmlinuz-12 -pgt vmlinuz-11", true),
            ("-f /full", true),
            ("-f /dir", false),
            ("-d /dir", true),
            ("-e /dir", true),
            ("-s /empty", false),
            ("-f /empty", true),
            ("! -f /no", true),
            ("! a = a", false),
            ("a = a -a b = c", false),
            ("a = b -o b = b", true),
            ("a = b -a a = a -o b = b", true),
            ("a = a -o b = c -o d = e", true),
            ("( a = b -o c = c ) -a d = d", true),
            ("! ( a = a )", false),
            // GRUB takes words that are no test for text.
            ("= y", true),
        ] {
            let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(evaluate(&words, &Tree), value, "{text}");
        }
        let words = ["-z", ""].map(str::to_owned);
        assert!(evaluate(&words, &Tree));
        assert!(!evaluate(&[String::new()], &Tree));
    }

    #[test]
    fn parentheses_are_bounded() {
        let words = vec!["(".to_owned(); 100_000];
        evaluate(&words, &Tree);
    }

    #[test]
    fn numbers_as_grub_reads_them() {
        for (text, number) in [
            ("12>3", Some((12, ">3"))),
            (" 0x1f ", Some((31, " "))),
            ("010", Some((8, ""))),
            ("08", Some((8, ""))),
            ("0", Some((0, ""))),
            ("6.1.0-18", Some((6, ".1.0-18"))),
            ("-1", None),
            ("Debian", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(number_and_rest(text), number, "{text}");
        }
    }
}
