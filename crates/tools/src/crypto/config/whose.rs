//! Whether the machine that is judged is that of the figures. Pure.

use super::Obstacle;
use crate::crypto::Origin;

/// Whether a machine that can be looked at is that of the figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// It is; what to know about that, if there is something.
    Theirs(Option<String>),
    /// It is not, or that is not known.
    NotTheirs(Obstacle),
}

/// Compares what the files say of their machine with a machine: the one that the user named as theirs
/// (`is_named`), or else this one.
#[must_use]
pub fn whose(figures: &Result<Origin, String>, machine: &Origin, is_named: bool) -> Whose {
    let not = |cause: String, fix: &str| Whose::NotTheirs(Obstacle::unknown(cause, fix));
    let there = "run brisk crypto config there, or look at a copy of its files with --sysroot";
    let figures = match figures {
        Ok(figures) => figures,
        Err(both) => {
            let cause = format!("the figures are of several machines: {both}.");
            return not(cause, "measure both sides on one machine, by one OpenSSL");
        }
    };
    // A machine that is named may have got another OpenSSL since.
    let mut compared = figures.clone();
    compared.openssl.take_if(|_| is_named);
    if compared.difference(machine).is_some() {
        let other = if is_named {
            "the tree is of"
        } else {
            "this machine is"
        };
        let cause = format!("the figures are of {figures}, and {other} {machine}.");
        return not(cause, there);
    }
    if is_named {
        return Whose::Theirs(None);
    }
    if !figures.is_of_a_machine() {
        return not(
            "which machine the figures are of is not known, since the files do not say it."
                .to_owned(),
            "if they are of this one, say so with --sysroot /; else run brisk crypto config there, or \
             look at a copy of its files with --sysroot",
        );
    }
    Whose::Theirs(Some(format!(
        "Judged by this machine, of which all is so that the figures name of theirs: {figures}."
    )))
}
