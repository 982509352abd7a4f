//! A Debian machine in QEMU that can be restarted, made by `setup/reboot-machine`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{capture, tool, unpacked};
use crate::wait::until;

/// Time limit of a boot or of a command: a boot without KVM takes a minute, and more beside others.
const LIMIT: Duration = Duration::from_secs(900);

/// A line of the console.
#[derive(Debug, Clone)]
pub struct ConsoleLine {
    /// Time since QEMU's start.
    pub at: Duration,
    /// Text, without its end.
    pub text: String,
}

/// A machine that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Computer {
    qemu: Child,
    begun: Instant,
    console: Arc<Mutex<Vec<ConsoleLine>>>,
    shell: UnixStream,
}

/// What a command gave.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub status: i32,
    /// Standard output and error.
    pub output: String,
}

impl Computer {
    /// The directory of the machine's files, or the reason why there are none.
    ///
    /// # Errors
    /// The reason.
    pub fn files() -> Result<PathBuf, String> {
        unpacked("reboot-machine", "version")
            .ok_or_else(|| "without the machine of setup/reboot-machine".to_owned())
    }

    /// Makes a disk that has another one, whose path is absolute, below it.
    pub fn disk(path: &Path, below: &Path) {
        let (path, below) = (path.to_str().unwrap(), below.to_str().unwrap());
        let words = [
            "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", below, path,
        ];
        capture(&tool("qemu-img"), &words);
    }

    /// Starts a machine with a disk in qcow2, and with more options of QEMU. `directory` is for its
    /// socket.
    #[must_use]
    pub fn start(disk: &Path, directory: &Path, options: &[&str]) -> Self {
        let socket = directory.join("shell");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(tool("qemu-system-x86_64"));
        command
            .args(["-no-user-config", "-accel", "tcg,thread=multi,tb-size=512"])
            .args(["-cpu", "Nehalem", "-smp", "2", "-m", "2G", "-nic", "none"])
            .args(["-display", "none", "-monitor", "none", "-serial", "stdio"])
            .args([
                "-serial",
                &format!("unix:{},server=on,wait=off", socket.display()),
            ])
            .args([
                "-drive",
                &format!("file={},format=qcow2,if=virtio", disk.display()),
            ])
            .args(options);
        brisk_sys::die_with_parent(&mut command);
        let begun = Instant::now();
        let mut qemu = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let console = Arc::new(Mutex::new(Vec::new()));
        let (stdout, lines) = (qemu.stdout.take().unwrap(), Arc::clone(&console));
        thread::spawn(move || keep(stdout, begun, &lines));
        let shell = until("QEMU has made its socket", || {
            UnixStream::connect(&socket).ok()
        });
        shell.set_read_timeout(Some(LIMIT)).unwrap();
        Self {
            qemu,
            begun,
            console,
            shell,
        }
    }

    /// Waits until the machine has booted; the result is its boot_id.
    #[track_caller]
    pub fn booted(&mut self) -> String {
        loop {
            let line = self.line();
            // Firmware and kernels may leave something before it.
            if let Some(at) = line.find("ready ") {
                return line[at + 6..].to_owned();
            }
        }
    }

    /// Runs a command of sh(1) as root.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> Ran {
        self.begin(command);
        self.end()
    }

    /// Begins a command, which may not come to its end.
    #[track_caller]
    pub fn begin(&mut self, command: &str) {
        let sent = write!(self.shell, "{}\n{command}", command.len());
        sent.unwrap_or_else(|error| panic!("{command}: {error}\n{}", self.tail()));
    }

    /// Waits for the end of a command that has begun.
    #[track_caller]
    pub fn end(&mut self) -> Ran {
        let line = self.line();
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("done"), "{line}\n{}", self.tail());
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (status, length) = (number(), number());
        let mut output = vec![0; length];
        self.shell.read_exact(&mut output).unwrap();
        Ran {
            status: status as i32,
            output: String::from_utf8_lossy(&output).into_owned(),
        }
    }

    /// Runs a command that succeeds; the result is what it printed.
    #[track_caller]
    pub fn ok(&mut self, command: &str) -> String {
        let ran = self.run(command);
        assert_eq!(ran.status, 0, "{command}: {}\n{}", ran.output, self.tail());
        ran.output
    }

    /// Time since QEMU's start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The console so far.
    #[must_use]
    pub fn console(&self) -> Vec<ConsoleLine> {
        self.console
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until the console shows a text.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        until(text, || {
            let console = self.console();
            console
                .iter()
                .any(|line| line.text.contains(text))
                .then_some(())
        });
    }

    /// Number of times that the firmware ran.
    #[must_use]
    pub fn firmware_runs(&self) -> usize {
        let console = self.console();
        // GRUB says so, which only firmware starts.
        console
            .iter()
            .filter(|line| line.text.contains("Booting `"))
            .count()
    }

    /// Cuts the power.
    pub fn cut(mut self) {
        self.qemu.kill().unwrap();
        self.qemu.wait().unwrap();
    }

    /// Waits until the machine has powered itself off.
    #[track_caller]
    pub fn off(mut self) {
        let mut rest = Vec::new();
        // The socket ends with QEMU.
        let _ = self.shell.read_to_end(&mut rest);
        let status = self.qemu.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.tail());
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.shell.read(&mut byte) {
                Ok(0) => panic!("QEMU ended\n{}", self.tail()),
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}\n{}", self.tail()),
            }
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Last lines of the console.
    fn tail(&self) -> String {
        let console = self.console();
        let last = console.iter().rev().take(40).rev();
        last.map(|line| format!("{:7.2} {}\n", line.at.as_secs_f64(), line.text))
            .collect()
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Keeps the lines of a console with their times.
fn keep(mut from: impl Read, begun: Instant, lines: &Mutex<Vec<ConsoleLine>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned();
            bytes.drain(..=end);
            let line = ConsoleLine {
                at: begun.elapsed(),
                text,
            };
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    }
}
