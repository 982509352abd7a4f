//! What [`run`](super::run()) and [`undo`](super::undo) do things on.

use std::io;

use super::action::Action;
use super::record::Record;

/// A machine whose devices can be released and put back.
pub trait Machine {
    /// Does an action, and waits for its effect, or for an interruption.
    ///
    /// # Errors
    /// Why it failed, and if something holds a device, what that is.
    fn carry_out(&mut self, action: &Action) -> Result<(), String>;

    /// Puts an action back, whatever part of it was done. An interruption does not keep it from that.
    ///
    /// # Errors
    /// Why it failed.
    fn put_back(&mut self, action: &Action) -> Result<(), String>;

    /// Whether the effect of an action is there.
    fn is_done(&mut self, action: &Action) -> bool;

    /// Whether there is nothing of an action to put back.
    fn is_back(&mut self, action: &Action) -> bool;

    /// Writes down what is done, in place of what was written before.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&mut self, record: &Record) -> io::Result<()>;

    /// Removes what was written down.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn forget(&mut self) -> io::Result<()>;

    /// The signal by which somebody asks for the end, if one came.
    fn interrupted(&self) -> Option<i32>;
}
