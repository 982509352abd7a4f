//! Commands of a script of GRUB, by the grammar in `grub-core/script/parser.y`.

use super::lexer::{Lexeme, Token, tokens};
use super::script::{Block, Command, Piece, Word};

/// Blocks in blocks that are followed at most.
const DEEPEST: usize = 50;

/// A script with the number of lines that are no commands.
///
/// GRUB says what is wrong with such a line, runs nothing of it, and goes on with the next one.
pub(super) fn parse(text: &str) -> (Block, usize) {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
        depth: 0,
    };
    let (mut commands, mut errors) = (Vec::new(), 0);
    // Where the commands of this line begin.
    let mut line = 0;
    loop {
        parser.skip_newlines();
        if parser.is_at_line() {
            line = commands.len();
        }
        if parser.peek().is_none() {
            return (commands.into(), errors);
        }
        match parser.statement() {
            Ok(command) => commands.push(command),
            Err(Wrong) => {
                errors += 1;
                commands.truncate(line);
                parser.next_line();
            }
        }
    }
}

/// The script is not by the grammar.
struct Wrong;

type Parsed<T> = Result<T, Wrong>;

struct Parser {
    tokens: Vec<Lexeme>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|it| &it.token)
    }

    /// The next token, if it is a word that stands there as it is, without quotes.
    fn plain(&self) -> Option<&str> {
        match self.peek()? {
            Token::Word(word) => match &word[..] {
                [Piece::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.plain() == Some(name)
    }

    fn expect(&mut self, name: &str) -> Parsed<()> {
        if !self.is_reserved(name) {
            return Err(Wrong);
        }
        self.at += 1;
        Ok(())
    }

    fn expect_token(&mut self, token: &Token) -> Parsed<()> {
        if self.peek() != Some(token) {
            return Err(Wrong);
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the next token is the first one of a line.
    fn is_at_line(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_none_or(|it| it.token == Token::Newline)
    }

    fn skip_newlines(&mut self) {
        while self.peek() == Some(&Token::Newline) {
            self.at += 1;
        }
    }

    /// One `;` or line end, and further line ends.
    fn delimiter(&mut self) -> Parsed<()> {
        if !matches!(self.peek(), Some(Token::Newline | Token::Semicolon)) {
            return Err(Wrong);
        }
        self.at += 1;
        self.skip_newlines();
        Ok(())
    }

    /// Goes to the line after that of the token that was not expected.
    fn next_line(&mut self) {
        let wrong = self.at.min(self.tokens.len() - 1);
        let line = self.tokens[wrong].line;
        self.depth = 0;
        self.at = wrong;
        while self.tokens.get(self.at).is_some_and(|it| it.line == line) {
            self.at += 1;
        }
    }

    fn statement(&mut self) -> Parsed<Command> {
        let command = if self.is_reserved("function") {
            self.function()?
        } else {
            self.command()?
        };
        if self.peek().is_some() {
            self.delimiter()?;
        }
        Ok(command)
    }

    fn function(&mut self) -> Parsed<Command> {
        self.at += 1;
        let name = self.name()?;
        self.skip_newlines();
        self.expect_token(&Token::Open)?;
        let body = self.commands(Some(&[]))?;
        self.expect_token(&Token::Close)?;
        Ok(Command::Function { name, body })
    }

    fn name(&mut self) -> Parsed<String> {
        let is_name = |text: &&str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let name = self.plain().filter(is_name).ok_or(Wrong)?.to_owned();
        self.at += 1;
        Ok(name)
    }

    /// Commands up to one of these reserved words, or without them up to `}`; at least one. The last
    /// has a delimiter behind it, which may only be left out before the `}` of a block.
    fn commands(&mut self, ends: Option<&[&str]>) -> Parsed<Block> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Wrong);
        }
        let mut commands = Vec::new();
        self.skip_newlines();
        loop {
            commands.push(self.command()?);
            let delimited = self.delimiter().is_ok();
            let is_end = match ends {
                Some([]) | None => self.peek() == Some(&Token::Close),
                Some(ends) => ends.iter().any(|end| self.is_reserved(end)),
            };
            if is_end && (delimited || ends.is_none()) {
                break;
            }
            if !delimited {
                return Err(Wrong);
            }
        }
        self.depth -= 1;
        Ok(commands.into())
    }

    fn command(&mut self) -> Parsed<Command> {
        match self.plain() {
            Some("if") => {
                self.at += 1;
                self.conditional()
            }
            Some("for") => self.repeated(),
            Some("while" | "until") => self.conditional_loop(),
            Some(
                "case" | "do" | "done" | "elif" | "else" | "esac" | "fi" | "in" | "select" | "then"
                | "function" | "[[" | "]]",
            ) => Err(Wrong),
            _ => self.simple(),
        }
    }

    /// What follows `if` or `elif`.
    fn conditional(&mut self) -> Parsed<Command> {
        let condition = self.commands(Some(&["then"]))?;
        self.expect("then")?;
        let then = self.commands(Some(&["elif", "else", "fi"]))?;
        let otherwise = if self.is_reserved("elif") {
            self.at += 1;
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(Wrong);
            }
            let nested = self.conditional()?;
            self.depth -= 1;
            let otherwise: Block = [nested].into();
            return Ok(Command::If {
                condition,
                then,
                otherwise,
            });
        } else if self.is_reserved("else") {
            self.at += 1;
            self.commands(Some(&["fi"]))?
        } else {
            [].into()
        };
        self.expect("fi")?;
        Ok(Command::If {
            condition,
            then,
            otherwise,
        })
    }

    fn repeated(&mut self) -> Parsed<Command> {
        self.at += 1;
        let name = self.name()?;
        self.expect("in")?;
        let words = self.words();
        self.delimiter()?;
        let body = self.body()?;
        Ok(Command::For { name, words, body })
    }

    fn conditional_loop(&mut self) -> Parsed<Command> {
        let is_until = self.is_reserved("until");
        self.at += 1;
        let condition = self.commands(Some(&["do"]))?;
        let body = self.body()?;
        Ok(Command::While {
            condition,
            body,
            is_until,
        })
    }

    fn body(&mut self) -> Parsed<Block> {
        self.expect("do")?;
        let body = self.commands(Some(&["done"]))?;
        self.expect("done")?;
        Ok(body)
    }

    fn words(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
        }
        words
    }

    fn simple(&mut self) -> Parsed<Command> {
        let words = self.words();
        if words.is_empty() {
            return Err(Wrong);
        }
        let mut block = None;
        if self.peek() == Some(&Token::Open) {
            self.at += 1;
            block = Some(self.commands(None)?);
            self.expect_token(&Token::Close)?;
        }
        Ok(Command::Simple { words, block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(command: &Command) -> &str {
        match command {
            Command::Simple { words, .. } => match &words[0][0] {
                Piece::Text(text) => text,
                Piece::Variable { name, .. } => name,
            },
            Command::If { .. } => "if",
            Command::For { .. } => "for",
            Command::While { .. } => "while",
            Command::Function { .. } => "function",
        }
    }

    #[test]
    fn scripts_are_parsed_or_their_lines_left_out() {
        for (text, names, wrong) in [
            ("set a=b; echo c\nif", &["set", "echo"][..], 1),
            (
                "if [ a ]; then b; elif c; then d; else e; fi\nf",
                &["if", "f"],
                0,
            ),
            ("if a\nthen\n\n b\nfi", &["if"], 0),
            ("for x in 1 2; do echo $x; done", &["for"], 0),
            (
                "while a; do b; done; until c; do d; done",
                &["while", "while"],
                0,
            ),
            ("function f {\n a\n b\n}\nf", &["function", "f"], 0),
            ("menuentry 'x' --id y {\n linux /v\n}", &["menuentry"], 0),
            ("menuentry x { linux /v }", &["menuentry"], 0),
            (
                "submenu x {\n menuentry y {\n  true\n }\n}\nz",
                &["submenu", "z"],
                0,
            ),
            // What GRUB's grammar does not know.
            ("menuentry 'empty' {\n}\nafter", &["after"], 1),
            ("a && b\nafter", &["after"], 1),
            ("function f { a }\nafter", &["after"], 1),
            ("echo if then fi", &["echo"], 0),
            (
                "if a; then function f {\n b\n}\nfi\nafter",
                &["b", "after"],
                3,
            ),
        ] {
            let (commands, errors) = parse(text);
            let found: Vec<_> = commands.iter().map(name).collect();
            assert_eq!((&found[..], errors), (names, wrong), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "menuentry x {\n".repeat(10_000);
        let (commands, errors) = parse(&deep);
        assert!(commands.is_empty() && errors > 0, "{errors}");
        let deep = format!("if a; then b; {} fi", "elif a; then b; ".repeat(10_000));
        assert!(parse(&deep).0.is_empty());
    }
}
