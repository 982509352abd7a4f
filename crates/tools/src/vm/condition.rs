//! The conditions that a VM can be in.

/// Activity of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Off,
    /// It is in an image.
    Suspended,
    /// It is in an image that is not where it was.
    Missing,
    /// It has an image that a guest may have run from, and that nobody reads from any more.
    CutOff,
    /// Its processors run.
    Running,
    /// Its processors stand still: a command was ended in the middle, or works on it.
    Paused,
    /// It is there and says nothing: a command talks to it.
    Busy,
}

impl Condition {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Suspended => "suspended",
            Self::Missing => "image missing",
            Self::CutOff => "resume cut off",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Busy => "busy",
        }
    }
}
