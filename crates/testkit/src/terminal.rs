//! A terminal for brisk, with the test as its user.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, Termios, Winsize, tcflow, tcgetattr, tcsetwinsize};

use crate::brisk::Brisk;
use crate::program::tool;
use crate::running::Running;

/// The user's side of a terminal.
#[derive(Debug)]
pub struct Window {
    keys: File,
    line: PathBuf,
    before: String,
}

impl Window {
    /// Types.
    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size.
    pub fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.keys, size(rows, columns)).unwrap();
    }

    /// Stops taking output, as after Ctrl-S, or takes it again.
    pub fn takes(&self, output: bool) {
        let action = if output { Action::OOn } else { Action::OOff };
        // Not kept open, or its end would not be seen.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&self.line, flags, Mode::empty());
        tcflow(line.unwrap(), action).unwrap();
    }

    /// Whether keys are passed on as they are.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        settings(&self.keys) != self.before
    }
}

impl Brisk {
    /// Starts it on a terminal of this size, as the leader of a session of its own.
    #[must_use]
    pub fn on_terminal(self, rows: u16, columns: u16) -> (Running, Window) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(rows, columns)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line = rustix::fs::open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
        let keys = File::from(master);
        let before = settings(&keys);
        let slot = self.slot();
        // setsid(1) replaces itself with brisk, so the process number stays.
        let mut command = Command::new(tool("setsid"));
        command
            .arg("--ctty")
            .arg(self.command.get_program())
            .args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || Stdio::from(line.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let mut running = Running::new(child.unwrap(), self.guest, slot, None);
        running.collect(keys.try_clone().unwrap());
        let line = name.into_string().unwrap().into();
        (running, Window { keys, line, before })
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// On Linux the settings of the line can be asked for at either end.
fn settings(line: &File) -> String {
    let settings: Termios = tcgetattr(line).unwrap();
    format!("{settings:?}")
}
