//! Words and operators of a script of GRUB, as `grub-core/script/yylex.l` has them.

use super::script::{Piece, Word};

/// An operator, a line's end, or a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// End of a line.
    Newline,
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
    /// A word.
    Word(Word),
    /// What GRUB's grammar has no use for, such as `&&`, or a quote without an end.
    Bad,
}

/// A token with the line that it begins at, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) line: usize,
}

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Vec<Lexeme> {
    let mut lexer = Lexer {
        rest: text,
        line: 0,
    };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let line = lexer.line;
        let Some(token) = lexer.token() else {
            return tokens;
        };
        tokens.push(Lexeme { token, line });
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        if next == '\n' {
            self.line += 1;
        }
        Some(next)
    }

    /// White space, lines that are continued, and a comment.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => {
                    self.bump();
                }
                Some('\\') if self.rest[1..].starts_with('\n') => {
                    self.bump();
                    self.bump();
                }
                Some('#') => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Option<Token> {
        let token = match self.peek()? {
            '\n' => Token::Newline,
            ';' => Token::Semicolon,
            '{' => Token::Open,
            '}' => Token::Close,
            '|' | '&' | '<' | '>' => Token::Bad,
            _ => return Some(self.word()),
        };
        self.bump();
        Some(token)
    }

    fn word(&mut self) -> Token {
        let mut word = Pieces::default();
        while let Some(next) = self.peek() {
            let is_whole = match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '{' | '}' | '|' | '&' | '<' | '>' => break,
                '\'' => self.single_quotes(&mut word),
                '"' => self.double_quotes(&mut word),
                '$' if self.rest[1..].starts_with('"') => {
                    self.bump();
                    self.double_quotes(&mut word)
                }
                '$' => self.variable(&mut word, false),
                '\\' => {
                    self.bump();
                    match self.bump() {
                        Some('\n') => {}
                        Some(escaped) => word.push(escaped),
                        None => word.push('\\'),
                    }
                    true
                }
                _ => {
                    self.bump();
                    word.push(next);
                    true
                }
            };
            if !is_whole {
                // A dollar sign is still there.
                self.bump();
                return Token::Bad;
            }
        }
        Token::Word(word.0)
    }

    /// Whether the quote ends.
    fn single_quotes(&mut self, word: &mut Pieces) -> bool {
        self.bump();
        word.quoted();
        while let Some(next) = self.bump() {
            if next == '\'' {
                return true;
            }
            word.push(next);
        }
        false
    }

    fn double_quotes(&mut self, word: &mut Pieces) -> bool {
        self.bump();
        word.quoted();
        while let Some(next) = self.peek() {
            match next {
                '"' => {
                    self.bump();
                    return true;
                }
                '$' => {
                    if !self.variable(word, true) {
                        return false;
                    }
                }
                '\\' => {
                    self.bump();
                    match self.peek() {
                        Some(escaped @ ('$' | '"' | '\\')) => {
                            self.bump();
                            word.push(escaped);
                        }
                        Some('\n') => {
                            self.bump();
                        }
                        _ => word.push('\\'),
                    }
                }
                _ => {
                    self.bump();
                    word.push(next);
                }
            }
        }
        false
    }

    /// Whether a variable's name follows the dollar sign.
    fn variable(&mut self, word: &mut Pieces, is_quoted: bool) -> bool {
        let rest = &self.rest[1..];
        let inside = rest.strip_prefix('{');
        let name = name(inside.unwrap_or(rest));
        let has_end = inside.is_none_or(|inside| inside[name.len()..].starts_with('}'));
        if name.is_empty() || !has_end {
            return false;
        }
        let length = 1 + name.len() + if inside.is_some() { 2 } else { 0 };
        word.0.push(Piece::Variable {
            name: name.to_owned(),
            is_quoted,
        });
        self.rest = &self.rest[length..];
        true
    }
}

/// The name of a variable at the beginning of a text.
fn name(text: &str) -> &str {
    let end = match text.chars().next() {
        Some('?' | '#' | '*' | '@') => 1,
        Some('0'..='9') => text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
        Some('a'..='z' | 'A'..='Z' | '_') => text
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(text.len()),
        _ => 0,
    };
    &text[..end]
}

#[derive(Default)]
struct Pieces(Word);

impl Pieces {
    fn push(&mut self, next: char) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push(next),
            _ => self.0.push(Piece::Text(next.into())),
        }
    }

    /// Quotes make a word, though nothing may be in them.
    fn quoted(&mut self) {
        if !matches!(self.0.last(), Some(Piece::Text(_))) {
            self.0.push(Piece::Text(String::new()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with variables in braces, quoted ones in double braces.
    fn shown(text: &str) -> Vec<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable {
                name,
                is_quoted: false,
            } => format!("{{{name}}}"),
            Piece::Variable {
                name,
                is_quoted: true,
            } => format!("{{{{{name}}}}}"),
        };
        let token = |lexeme: Lexeme| match lexeme.token {
            Token::Word(word) => format!("<{}>", word.iter().map(piece).collect::<String>()),
            other => format!("{other:?}"),
        };
        tokens(text).into_iter().map(token).collect()
    }

    #[test]
    fn quotes_variables_and_escapes() {
        for (text, expected) in [
            ("a b", &["<a>", "<b>"][..]),
            (r#"'a $x\' "b \$x \" \a""#, &[r"<a $x\>", r#"<b $x " \a>"#]),
            ("$x${y}z \"$x ${y}\"", &["<{x}{y}z>", "<{{x}} {{y}}>"]),
            ("$1 ${@} $?", &["<{1}>", "<{@}>", "<{?}>"]),
            ("a''b '' \"\"", &["<ab>", "<>", "<>"]),
            ("a\\ b \\$x", &["<a b>", "<$x>"]),
            ("a\\\nb c \\\n d", &["<ab>", "<c>", "<d>"]),
            ("x # not this\na#b", &["<x>", "Newline", "<a#b>"]),
            (
                "a{b}c;d",
                &["<a>", "Open", "<b>", "Close", "<c>", "Semicolon", "<d>"],
            ),
            ("$\"text\"", &["<text>"]),
            ("'two\nlines'", &["<two\nlines>"]),
            ("'open", &["Bad"]),
            ("a && b", &["<a>", "Bad", "Bad", "<b>"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert_eq!(shown("$ a")[0], "Bad");
        assert_eq!(shown("${a")[0], "Bad");
    }

    #[test]
    fn lines_are_counted_through_quotes() {
        let lines: Vec<_> = tokens("a 'b\nc'\nd").iter().map(|it| it.line).collect();
        assert_eq!(lines, [0, 0, 1, 2]);
    }
}
