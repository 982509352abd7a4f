//! Waiting for descriptors until a point in time.

use std::io;
use std::time::Instant;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of `fds` has what it is waited for, whatever signals come meanwhile, or until
/// `deadline`; without one, for ever. How many have something: none after the deadline.
///
/// # Errors
/// If the system cannot wait for them.
pub fn wait_for(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<usize> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // What is too long for the kernel is for ever.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::PollFlags;
    use rustix::io::write;
    use rustix::pipe::pipe;

    use super::*;

    #[test]
    fn what_has_something_is_counted_and_a_deadline_ends_the_wait() {
        let (reader, writer) = pipe().unwrap();
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(wait_for(&mut fds, Some(soon)).unwrap(), 0);
        assert!(Instant::now() >= soon);
        write(&writer, b"x").unwrap();
        assert_eq!(wait_for(&mut fds, None).unwrap(), 1);
        assert_eq!(wait_for(&mut fds, Some(soon)).unwrap(), 1, "late");
    }
}
