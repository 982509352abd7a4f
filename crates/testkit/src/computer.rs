//! A Debian machine in QEMU that can be restarted, made by `setup/reboot-machine`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::monitor::monitor;
use crate::program::{capture, tool, unpacked};
use crate::wait::{until, within_time};

/// Time limit of a boot or of a command: a boot without KVM takes a minute, and more beside others.
const LIMIT: Duration = Duration::from_secs(900);

/// The console says that services begin to stop.
pub const STOPPING: &str = "services stop now";
/// The console says that all services are stopped.
pub const STOPPED: &str = "services are stopped";
/// The console says that the root's init runs.
pub const UP: &str = "init is up";

/// Units that have the console say so.
const TELL: &str = "\
    unit() {
        cat >/etc/systemd/system/$1.service
        systemctl enable -q $1
    }
    unit tell-early <<'END'
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=brisk-reboot-early.service
Conflicts=shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=sh -c 'echo services are stopped >/dev/ttyS0'
StandardOutput=null
[Install]
WantedBy=sysinit.target
END
    unit tell-up <<'END'
[Unit]
DefaultDependencies=no
After=brisk-reboot-early.service
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'echo init is up >/dev/ttyS0'
[Install]
WantedBy=sysinit.target
END
    unit tell-late <<'END'
[Unit]
Before=brisk-reboot.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=sh -c 'echo services stop now >/dev/ttyS0'
[Install]
WantedBy=multi-user.target
END
    systemctl start tell-early tell-up tell-late && sync";

/// Makes a disk with a Debian package, which is moved to it, as `brisk.deb`.
#[track_caller]
pub fn package_disk(package: &Path, disk: &Path) {
    let tree = disk.with_extension("tree");
    fs::create_dir(&tree).unwrap();
    fs::rename(package, tree.join("brisk.deb")).unwrap();
    let [tree, disk] = [&tree, disk].map(|path| path.to_str().unwrap());
    capture(
        &tool("mke2fs"),
        &["-q", "-t", "ext4", "-d", tree, disk, "64M"],
    );
}

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
    disk: PathBuf,
    directory: PathBuf,
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
    /// sockets.
    #[must_use]
    pub fn start(disk: &Path, directory: &Path, options: &[&str]) -> Self {
        let [socket, monitor] = ["shell", "monitor"].map(|name| directory.join(name));
        for socket in [&socket, &monitor] {
            let _ = fs::remove_file(socket);
        }
        let mut command = Command::new(tool("qemu-system-x86_64"));
        command
            .args(["-no-user-config", "-accel", "tcg,thread=multi,tb-size=512"])
            .args(["-cpu", "Nehalem", "-smp", "2", "-m", "2G", "-nic", "none"])
            .args(["-display", "none", "-serial", "stdio"])
            .args(["-serial", &listening(&socket)])
            .args(["-monitor", &listening(&monitor)])
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
            disk: disk.to_owned(),
            directory: directory.to_owned(),
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

    /// Installs a package that is on the second disk: [`package_disk`].
    #[track_caller]
    pub fn install(&mut self) {
        self.ok("mount -o ro /dev/vdb /mnt && dpkg -i /mnt/brisk.deb && umount /mnt");
    }

    /// From now on the console says how far systemd is: [`STOPPING`], [`STOPPED`] and [`UP`], each
    /// behind the note that brisk takes of that.
    #[track_caller]
    pub fn tells_how_far_it_is(&mut self) {
        self.ok(TELL);
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
        self.shows_one_of(&[text]);
    }

    /// Waits until the console shows one of these texts; the result is its index.
    #[track_caller]
    pub fn shows_one_of(&self, texts: &[&str]) -> usize {
        let shown = within_time(LIMIT, || {
            let console = self.console();
            let shown = |line: &ConsoleLine| texts.iter().position(|it| line.text.contains(it));
            console.iter().find_map(shown)
        });
        shown.unwrap_or_else(|| panic!("no {texts:?}\n{}", self.tail()))
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

    /// Ends the machine, and keeps it in a file as it is now: memory, devices, and the disk below.
    #[track_caller]
    pub fn keep(mut self, state: &Path) {
        let said = self.monitor(&format!("stop\nmigrate file:{}\nquit\n", state.display()));
        let status = self.qemu.wait().unwrap();
        assert!(status.success() && !said.contains("Error"), "{said}");
    }

    /// Goes on with a machine that was kept, with a disk in qcow2 that has that of the kept one below
    /// it, and the options that it had.
    #[must_use]
    pub fn go_on(state: &Path, disk: &Path, directory: &Path, options: &[&str]) -> Self {
        let incoming = format!("file:{}", state.display());
        let options = [options, &["-incoming", &incoming]].concat();
        let machine = Self::start(disk, directory, &options);
        // A serial port loses words that come before. The machine was stopped when it was kept.
        let status = || machine.monitor("cont\ninfo status\n");
        until("the machine goes on", || {
            status().contains("VM status: running").then_some(())
        });
        machine
    }

    /// What QEMU says to commands of qemu-monitor(7).
    fn monitor(&self, commands: &str) -> String {
        monitor(&self.directory.join("monitor"), commands)
    }

    /// Copies the disk as a power cut at this moment would leave it. The machine goes on.
    #[track_caller]
    pub fn copy_disk(&self, path: &Path) {
        let pid = Pid::from_child(&self.qemu);
        kill_process(pid, Signal::STOP).unwrap();
        // A thread stops when its system call is over.
        let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
        until("all threads of QEMU are stopped", || {
            let mut tasks = fs::read_dir(&tasks).unwrap();
            let is_stopped = |task: io::Result<fs::DirEntry>| {
                // One that has ended has no state.
                let stat = fs::read_to_string(task.unwrap().path().join("stat"));
                stat.map_or(true, |stat| stat.contains(") T "))
            };
            tasks.all(is_stopped).then_some(())
        });
        let copied = fs::copy(&self.disk, path);
        kill_process(pid, Signal::CONT).unwrap();
        copied.unwrap();
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

/// A socket that QEMU makes.
fn listening(socket: &Path) -> String {
    format!("unix:{},server=on,wait=off", socket.display())
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
