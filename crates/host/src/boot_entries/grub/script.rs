//! What a script of GRUB consists of.

use std::rc::Rc;

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Characters as they are. Quotes without any between them are an empty piece.
    Text(String),
    /// A variable; outside of quotes its value is split at white space.
    Variable { name: String, is_quoted: bool },
}

/// A word of a command, before variables are replaced.
pub(super) type Word = Vec<Piece>;

/// Commands, one after the other.
pub(super) type Block = Rc<[Command]>;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Name and arguments, and the block of `menuentry` and `submenu`.
    Simple {
        words: Vec<Word>,
        block: Option<Block>,
    },
    /// `if`; what `elif` begins is the only command of `otherwise`.
    If {
        condition: Block,
        then: Block,
        otherwise: Block,
    },
    /// `for NAME in WORDS`.
    For {
        name: String,
        words: Vec<Word>,
        body: Block,
    },
    /// `while`, or `until`.
    While {
        condition: Block,
        body: Block,
        is_until: bool,
    },
    /// `function NAME`.
    Function { name: String, body: Block },
}
