//! The reason why a guest would not be suspended in time.

use std::fmt;
use std::time::Duration;

/// Why a guest would not be saved in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Bytes of its memory that are not written.
    pub left: u64,
    /// Bytes a second of all that is being written; `None` if the time is over, or was never there.
    pub rate: Option<f64>,
    /// Time that was left.
    pub time: Duration,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: f64| bytes / 1e6;
        let (left, time) = (megabytes(self.left as f64), self.time.as_secs_f64());
        match self.rate {
            None => write!(f, "the time for that is over, and {left:.0} MB are left")?,
            Some(rate) => write!(
                f,
                "{left:.0} MB are left, {:.1} MB/s are written, and the time for that is over in \
                 {time:.0} s",
                megabytes(rate)
            )?,
        }
        f.write_str("; give it more with --deadline, or deadline in reboot.toml")
    }
}
