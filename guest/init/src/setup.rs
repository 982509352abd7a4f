//! Execution of the script: mounts, network, environment.

use crate::job::{Job, RELEASES, Trouble};
use crate::mounts;
use crate::network;
use crate::port::Port;
use crate::prepared::Relay;
use crate::protocol::{Kind, MAX_CONFIG, Stage};
use crate::random::Generator;
use crate::relay;
use crate::script::{Op, Script};
use crate::spare;
use crate::spawn;
use crate::sys::{self, Text};
use crate::trace::Trace;

/// Most words of a command, and most variables: no script has more, as each takes seven bytes
/// and its text there. Pages of it that are not used are not taken from memory.
const WORDS: usize = MAX_CONFIG / 7;
const MS_MOVE: usize = 8192;
/// Default search path of commands.
const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0";

/// Executes the script up to the command itself.
pub(crate) fn carry_out(
    script: &'static [u8],
    port: &mut Port,
    trace: Trace,
) -> Result<Job<'static>, Trouble<'static>> {
    let mut job = Job {
        argv: pointers()?,
        argc: 1,
        envp: pointers()?,
        envc: 0,
        program: Text::new(b"\0"),
        path: Text::new(PATH),
        terminal: None,
        user: None,
        ports: 0,
        init: false,
        spare: None,
        random: None,
        relay: None,
        release: [None; RELEASES],
    };
    let mut script = Script::new(script);
    loop {
        match script.next_op() {
            Ok(Some(Op::Pause)) => {
                // What stays comes first, so that what is made again has the same numbers.
                job.random = job.random.or_else(|| Generator::open().ok());
                job.relay = job.relay.or_else(|| Relay::prepare().ok());
                // Without it the command gets one when it is known.
                job.spare = spare::prepare().ok();
                port.send(Kind::Paused, &[]);
                script = Script::new(port.receive_script()?);
            }
            Ok(Some(Op::WarmUp)) => {
                warm_up(&mut job, port, trace);
                job.forget();
            }
            Ok(Some(Op::SendFile { path })) => send_file(path, port),
            Ok(Some(Op::Readahead { path })) => read(path),
            Ok(Some(op)) => match title(&op) {
                Some((what, subject)) => {
                    trace.begin(what, subject);
                    job.step(op)?;
                    trace.end(what, subject);
                }
                None => job.step(op)?,
            },
            Ok(None) => return Ok(job),
            Err(_) => return Err(malformed()),
        }
    }
}

/// Runs a warm-up. A root without the command does without it.
fn warm_up(job: &mut Job<'static>, port: &mut Port, trace: Trace) {
    if let Ok(child) = spawn::spawn(job) {
        relay::relay(port, &child, job, trace);
        while sys::reap().is_some() {}
        child.close();
    }
}

/// Sends a file, which one read has all of. What is no file, as a pipe that nobody writes to, is
/// nothing.
fn send_file(path: &[u8], port: &mut Port) {
    let flags = sys::O_RDONLY | sys::O_NONBLOCK;
    let Ok(file) = sys::open(Text::new(path), flags, 0) else {
        return;
    };
    port.drain();
    let _ = port.frame(Kind::Stdout, |buffer| sys::read(file, buffer));
    sys::close(file);
}

/// Reads a file into the page cache.
fn read(path: &[u8]) {
    let Ok(file) = sys::open(Text::new(path), sys::O_RDONLY, 0) else {
        return;
    };
    let mut buffer = [0; 16 << 10];
    while sys::read(file, &mut buffer).is_ok_and(|count| count > 0) {}
    sys::close(file);
}

/// Name in a trace of an operation that may take time.
fn title<'a>(op: &Op<'a>) -> Option<(&'static [u8], &'a [u8])> {
    Some(match *op {
        Op::Mount { target, .. } => (b"mount", target),
        Op::Wait { path, .. } => (b"wait", path),
        Op::Root { path } => (b"root", path),
        Op::Loopback => (b"network", b"lo"),
        Op::Address { interface, .. } => (b"network", interface),
        _ => return None,
    })
}

/// The script, if it is in the initramfs instead of coming from the host.
pub(crate) fn packed_script() -> Result<Option<&'static [u8]>, Trouble<'static>> {
    let Ok(file) = sys::open(Text::new(b"/script\0"), sys::O_RDONLY, 0) else {
        return Ok(None);
    };
    let trouble = |errno| Trouble {
        stage: Stage::Config,
        errno,
        subject: b"script",
    };
    let script = sys::pages(MAX_CONFIG).map_err(trouble)?;
    let mut len = 0;
    loop {
        match sys::read(file, &mut script[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(sys::EINTR) => {}
            Err(errno) => return Err(trouble(errno)),
        }
    }
    sys::close(file);
    Ok(Some(&script[..len]))
}

fn malformed() -> Trouble<'static> {
    Trouble {
        stage: Stage::Config,
        errno: sys::EINVAL,
        subject: b"script",
    }
}

fn pointers() -> Result<&'static mut [usize], Trouble<'static>> {
    let bytes = sys::pages(WORDS * size_of::<usize>()).map_err(|errno| Trouble {
        stage: Stage::Internal,
        errno,
        subject: b"memory",
    })?;
    // SAFETY: mmap returns memory aligned to a page; all-zero bytes are valid numbers.
    Ok(unsafe { bytes.align_to_mut::<usize>().1 })
}

impl<'a> Job<'a> {
    fn step(&mut self, op: Op<'a>) -> Result<(), Trouble<'a>> {
        match op {
            Op::MakeDirectory { path } => make_directories(path),
            Op::Mount {
                source,
                target,
                kind,
                data,
                flags,
            } => sys::mount(
                Text::new(source),
                Text::new(target),
                Text::new(kind),
                flags as usize,
                Text::new(data),
            )
            .map_err(trouble(Stage::Mount, target)),
            Op::Symlink { target, path } => {
                match sys::symlink(Text::new(target), Text::new(path)) {
                    Ok(()) | Err(sys::EEXIST) => Ok(()),
                    Err(errno) => Err(trouble(Stage::Prepare, path)(errno)),
                }
            }
            Op::Wait { path, millis } => wait(path, millis),
            Op::Root { path } => enter(path).map_err(trouble(Stage::Enter, path)),
            Op::Loopback => network::up(b"lo").map_err(trouble(Stage::Network, b"lo\0")),
            Op::Address {
                interface,
                address,
                netmask,
                gateway,
            } => network::address(
                Text::new(interface).bytes(),
                address as u32,
                netmask as u32,
                gateway as u32,
            )
            .map_err(trouble(Stage::Network, interface)),
            Op::Write { path, contents } => {
                write_file(path, contents).map_err(trouble(Stage::Prepare, path))
            }
            Op::Argument { text } => self.argument(Text::new(text)),
            Op::Variable { text } => self.variable(Text::new(text)),
            Op::Directory { path } => {
                sys::chdir(Text::new(path)).map_err(trouble(Stage::Enter, path))
            }
            Op::Terminal { rows, columns } => {
                self.terminal = Some((rows as u16, columns as u16));
                Ok(())
            }
            Op::User { user, group } => {
                self.user = Some((user as usize, group as usize));
                Ok(())
            }
            Op::HostName { name } => {
                sys::set_host_name(Text::new(name).bytes()).map_err(trouble(Stage::Prepare, name))
            }
            Op::Release { path } => {
                let free = self.release.iter_mut().find(|slot| slot.is_none());
                *free.ok_or(malformed())? = Some(Text::new(path));
                Ok(())
            }
            Op::Clock { nanos } => {
                sys::set_clock(nanos);
                Ok(())
            }
            Op::Entropy { bytes } => {
                let trouble = trouble(Stage::Prepare, b"/dev/urandom");
                let opened = self.random.take().map_or_else(Generator::open, Ok);
                let random = self.random.insert(opened.map_err(&trouble)?);
                random.add(bytes).map_err(trouble)
            }
            // Taken care of where the script is read.
            Op::Pause | Op::WarmUp | Op::SendFile { .. } | Op::Readahead { .. } => Ok(()),
            Op::Serve { ports } => {
                self.ports = ports as usize;
                Ok(())
            }
            Op::Init => {
                self.init = true;
                Ok(())
            }
            Op::SetMac { from, to } => {
                network::card(from, to).map_err(trouble(Stage::Network, b"the network card"))
            }
            Op::Stop => sys::kill(1, sys::SIGINT).map_err(trouble(Stage::Internal, b"PID 1")),
        }
    }

    fn argument(&mut self, text: Text<'a>) -> Result<(), Trouble<'a>> {
        if self.argc + 1 >= WORDS {
            return Err(malformed());
        }
        if self.argc == 1 {
            self.program = text;
        }
        self.argv[self.argc] = text.ptr();
        self.argc += 1;
        Ok(())
    }

    /// Forgets the command of a warm-up.
    fn forget(&mut self) {
        self.argv[..self.argc].fill(0);
        self.envp[..self.envc].fill(0);
        (self.argc, self.envc) = (1, 0);
        (self.terminal, self.user) = (None, None);
        self.path = Text::new(PATH);
    }

    fn variable(&mut self, text: Text<'a>) -> Result<(), Trouble<'a>> {
        if self.envc + 1 >= WORDS {
            return Err(malformed());
        }
        if text.bytes().starts_with(b"PATH=") {
            self.path = Text::new(&text_with_nul(text)[5..]);
        }
        self.envp[self.envc] = text.ptr();
        self.envc += 1;
        Ok(())
    }

    /// Syncs and unmounts the file systems that outlive the guest.
    pub(crate) fn release(&self) {
        if self.release.iter().all(Option::is_none) {
            return;
        }
        self.unmount();
    }

    /// Kills all processes, and syncs and unmounts as [`Self::release`] does.
    pub(crate) fn unmount(&self) {
        let _ = sys::kill(-1, sys::SIGKILL);
        while sys::reap().is_some() {}
        let _ = sys::chdir(Text::new(b"/\0"));
        if self.release.iter().any(Option::is_some) {
            disks();
        }
        for path in self.release.iter().flatten() {
            unmount(*path);
        }
        sys::sync();
    }
}

/// Unmounts a file system, or makes it read-only where that is impossible, as for the root.
fn unmount(path: Text<'_>) {
    const MS_RDONLY_REMOUNT: usize = 1 | 32;
    let none = Text::new(b"\0");
    if sys::unmount(path).is_err() {
        let _ = sys::mount(none, path, none, MS_RDONLY_REMOUNT, none);
    }
}

/// Unmounts disks that a command has mounted and left so, the last first.
fn disks() {
    const MOST: usize = 64 * 1024;
    let Ok(file) = sys::open(Text::new(b"/proc/self/mounts\0"), sys::O_RDONLY, 0) else {
        return;
    };
    let Ok(bytes) = sys::pages(MOST) else {
        return;
    };
    let mut len = 0;
    while let Ok(count @ 1..) = sys::read(file, &mut bytes[len..]) {
        len += count;
    }
    sys::close(file);
    for line in bytes[..len].rsplit_mut(|&byte| byte == b'\n') {
        if let Some(point) = mounts::point_of_device(line) {
            unmount(Text::new(point));
        }
    }
}

fn text_with_nul(text: Text<'_>) -> &[u8] {
    let bytes = text.bytes();
    // SAFETY: a Text is a slice that ends in NUL, one byte behind what bytes() shows.
    unsafe { core::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) }
}

fn trouble<'a>(stage: Stage, subject: &'a [u8]) -> impl Fn(i32) -> Trouble<'a> {
    let subject = subject.strip_suffix(b"\0").unwrap_or(subject);
    move |errno| Trouble {
        stage,
        errno,
        subject,
    }
}

/// Makes directories like `mkdir -p`.
fn make_directories(path: &[u8]) -> Result<(), Trouble<'_>> {
    let mut part = [0u8; 4096];
    if path.len() > part.len() {
        return Err(malformed());
    }
    for end in 1..path.len() {
        if path[end] != b'/' && path[end] != 0 {
            continue;
        }
        part[..end].copy_from_slice(&path[..end]);
        part[end] = 0;
        match sys::mkdir(Text::new(&part[..=end]), 0o755) {
            Ok(()) | Err(sys::EEXIST) => {}
            // A read-only file system says so even of what is there.
            Err(_) if sys::exists(Text::new(&part[..=end])) => {}
            Err(errno) => return Err(trouble(Stage::Prepare, path)(errno)),
        }
    }
    Ok(())
}

fn wait(path: &[u8], millis: u64) -> Result<(), Trouble<'_>> {
    let deadline = sys::now() + millis * 1_000_000;
    let mut pause = 50_000;
    while !sys::exists(Text::new(path)) {
        if sys::now() > deadline {
            return Err(trouble(Stage::Device, path)(sys::ENOENT));
        }
        sys::sleep(pause);
        pause = (pause * 2).min(2_000_000);
    }
    Ok(())
}

/// Enters the new root, which is moved over the initramfs: that cannot be pivoted away.
fn enter(path: &[u8]) -> sys::Result<()> {
    let (dot, root, none) = (Text::new(b".\0"), Text::new(b"/\0"), Text::new(b"\0"));
    sys::chdir(Text::new(path))?;
    sys::mount(dot, root, none, MS_MOVE, none)?;
    sys::chroot(dot)?;
    sys::chdir(root)
}

fn write_file(path: &[u8], contents: &[u8]) -> sys::Result<()> {
    let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_TRUNC;
    let file = sys::open(Text::new(path), flags, 0o644)?;
    let mut rest = contents;
    while !rest.is_empty() {
        match sys::write(file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(sys::EINTR) => {}
            Err(errno) => {
                sys::close(file);
                return Err(errno);
            }
        }
    }
    sys::close(file);
    Ok(())
}
