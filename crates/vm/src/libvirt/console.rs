//! Console of a running domain: its pseudo-terminal, or `virsh console` where only libvirt may open
//! the pseudo-terminal.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::virsh::Virsh;

/// The console of a running domain, open and not blocking.
#[derive(Debug)]
pub struct Console {
    fd: OwnedFd,
    /// `virsh console`, where brisk may not open the terminal.
    virsh: Option<Child>,
}

impl Console {
    /// Opens the terminal, so that QEMU writes to it.
    pub(super) fn open(path: &Path, virsh: &Virsh, uuid: &str) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, virsh: None }),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => Self::through(virsh, uuid),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the console with `virsh console`, which needs a terminal itself.
    fn through(virsh: &Virsh, uuid: &str) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let ours = openpt(flags | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty())?);
        let mut settings = tcgetattr(&theirs)?;
        settings.make_raw();
        tcsetattr(&theirs, OptionalActions::Now, &settings)?;
        let mut command = virsh.command(&["console", "--force", uuid]);
        command
            .stdin(Stdio::from(theirs.try_clone()?))
            .stdout(Stdio::from(theirs))
            .stderr(Stdio::null());
        let child = command.spawn()?;
        let console = Self {
            fd: ours,
            virsh: Some(child),
        };
        console.greeting()?;
        rustix::io::ioctl_fionbio(&console.fd, true)?;
        Ok(console)
    }

    /// Reads the text that `virsh console` prints before the guest's bytes.
    fn greeting(&self) -> io::Result<()> {
        let mut output = Vec::new();
        let mut byte = [0];
        while !(output.ends_with(b"\n")
            && memchr::memmem::find(&output, b"Escape character").is_some())
        {
            match rustix::io::read(&self.fd, &mut byte) {
                Ok(1) if output.len() < 4096 => output.push(byte[0]),
                Err(rustix::io::Errno::INTR) => {}
                _ => return Err(io::Error::other("virsh console did not connect")),
            }
        }
        Ok(())
    }

    /// Its descriptor.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(child) = &mut self.virsh {
            crate::launch::end(child);
        }
    }
}
