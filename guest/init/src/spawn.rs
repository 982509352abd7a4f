//! Start of the command, on pipes or on a terminal.

use crate::job::{Job, Trouble};
use crate::protocol::Stage;
use crate::spare::Spare;
use crate::sys::{self, Text};

const TIOCSPTLCK: usize = 0x4004_5431;
const TIOCGPTPEER: usize = 0x5441;
const TIOCSCTTY: usize = 0x540e;
const TIOCSWINSZ: usize = 0x5414;

/// A running command.
pub(crate) struct Child {
    pub(crate) pid: i32,
    /// Time right before it was executed.
    pub(crate) started: u64,
    /// Descriptor of its standard input.
    pub(crate) stdin: i32,
    /// Descriptor of its standard output, or of its terminal.
    pub(crate) stdout: i32,
    /// Descriptor of its standard error; `None` on a terminal.
    pub(crate) stderr: Option<i32>,
    /// Pipe for the signal to begin, if it was started in advance.
    go: Option<i32>,
}

impl Child {
    /// Closes the descriptors: it has ended, and its output was read.
    pub(crate) fn close(self) {
        if let Some(go) = self.go {
            sys::close(go);
        }
        sys::close(self.stdout);
        // A terminal's two ends are one descriptor.
        if let Some(stderr) = self.stderr {
            sys::close(self.stdin);
            sys::close(stderr);
        }
    }
}

/// `struct winsize`.
#[repr(C)]
struct WindowSize {
    rows: u16,
    columns: u16,
    pixels: [u16; 2],
}

/// Sets a terminal's size.
pub(crate) fn resize(terminal: i32, rows: u16, columns: u16) {
    let mut size = WindowSize {
        rows,
        columns,
        pixels: [0; 2],
    };
    let _ = sys::ioctl_with(terminal, TIOCSWINSZ, &mut size);
}

/// Starts the command of `job`.
pub(crate) fn spawn(job: &mut Job<'static>) -> Result<Child, Trouble<'static>> {
    let internal = |errno| Trouble {
        stage: Stage::Internal,
        errno,
        subject: b"pipes",
    };
    let begun = match (job.spare.take(), job.terminal) {
        (Some(spare), None) => {
            let started = sys::now();
            spare.run(job).map_err(internal)?;
            Begun {
                pid: spare.pid,
                started,
                ours: spare.ends,
                status_in: spare.status_in,
                go: Some(spare.go),
            }
        }
        (spare, terminal) => {
            // A terminal made here is not the other process's.
            spare.into_iter().for_each(Spare::dismiss);
            let streams = match terminal {
                Some((rows, columns)) => self::terminal(rows, columns)?,
                None => pipes().map_err(internal)?,
            };
            begin(job, streams).map_err(internal)?
        }
    };
    let Begun {
        pid,
        started,
        ours,
        status_in,
        go,
    } = begun;
    let mut errno = [0u8; 4];
    // Ends without a byte when the command has taken over.
    let failed = loop {
        match sys::read(status_in, &mut errno) {
            Err(sys::EINTR) => {}
            other => break other == Ok(4),
        }
    };
    sys::close(status_in);
    if failed {
        let errno = i32::from_le_bytes(errno);
        let stage = match errno {
            sys::ENOENT | sys::ENOTDIR => Stage::NotFound,
            _ => Stage::Execute,
        };
        return Err(Trouble {
            stage,
            errno,
            subject: job.program.bytes(),
        });
    }
    let [stdin, stdout, stderr] = ours;
    let stderr = job.terminal.is_none().then_some(stderr);
    Ok(Child {
        pid,
        started,
        stdin,
        stdout,
        stderr,
        go,
    })
}

/// Executes the command in place of init, with the console as its streams; returns the error if
/// that fails.
pub(crate) fn become_command(job: &mut Job<'_>) -> i32 {
    sys::unblock_signals();
    if let Ok(console) = sys::open(Text::new(b"/dev/console\0"), sys::O_RDWR | sys::O_NOCTTY, 0) {
        for target in 0..3 {
            let _ = sys::dup2(console, target);
        }
    }
    attempt(job, job.program)
}

/// A process that is about to execute the command.
struct Begun {
    pid: i32,
    started: u64,
    ours: Ends,
    /// Descriptor from which the error is read if it cannot be executed.
    status_in: i32,
    /// See [`Child`].
    go: Option<i32>,
}

/// Task of the child.
struct Task<'j> {
    job: &'j mut Job<'static>,
    ends: Ends,
    /// Descriptor to which it writes the error if it cannot execute the command.
    status_out: i32,
}

extern "C" fn child(task: usize) -> ! {
    // SAFETY: `begin` passes a pointer to its own, and stands still meanwhile.
    let task = unsafe { &mut *(task as *mut Task<'_>) };
    lead();
    let errno = execute(task.job, task.ends);
    let _ = sys::write(task.status_out, &errno.to_le_bytes());
    sys::exit(127);
}

fn begin(job: &mut Job<'static>, streams: Streams) -> sys::Result<Begun> {
    let Streams { ours, theirs } = streams;
    let (status_in, status_out) = sys::pipe(sys::O_CLOEXEC)?;
    let started = sys::now();
    let mut task = Task {
        job,
        ends: theirs,
        status_out,
    };
    // SAFETY: `child` changes only what the task refers to, all of which lives on here.
    let pid = unsafe { sys::lend(child, &raw mut task as usize) }?;
    sys::close(status_out);
    for fd in theirs {
        sys::close(fd);
    }
    Ok(Begun {
        pid,
        started,
        ours,
        status_in,
        go: None,
    })
}

pub(crate) type Ends = [i32; 3];

/// Both sides of a command's streams.
pub(crate) struct Streams {
    pub(crate) ours: Ends,
    pub(crate) theirs: Ends,
}

/// Pipes as a command's streams.
pub(crate) fn pipes() -> sys::Result<Streams> {
    let stdin = sys::pipe(sys::O_CLOEXEC)?;
    let stdout = sys::pipe(sys::O_CLOEXEC)?;
    let stderr = sys::pipe(sys::O_CLOEXEC)?;
    let ours = [stdin.1, stdout.0, stderr.0];
    for fd in ours {
        sys::set_nonblocking(fd);
    }
    Ok(Streams {
        ours,
        theirs: [stdin.0, stdout.1, stderr.1],
    })
}

fn terminal(rows: u16, columns: u16) -> Result<Streams, Trouble<'static>> {
    let trouble = |errno| Trouble {
        stage: Stage::Prepare,
        errno,
        subject: b"/dev/ptmx",
    };
    let flags = sys::O_RDWR | sys::O_NOCTTY | sys::O_CLOEXEC;
    let master = sys::open(Text::new(b"/dev/ptmx\0"), flags, 0).map_err(trouble)?;
    let mut unlock = 0i32;
    sys::ioctl_with(master, TIOCSPTLCK, &mut unlock).map_err(trouble)?;
    let slave = sys::ioctl(master, TIOCGPTPEER, flags).map_err(trouble)? as i32;
    resize(master, rows, columns);
    sys::set_nonblocking(master);
    Ok(Streams {
        ours: [master; 3],
        theirs: [slave; 3],
    })
}

/// In the child: makes a process group of its own, which signals are sent to.
pub(crate) fn lead() {
    sys::setsid();
    sys::unblock_signals();
}

/// In the child: executes the command; returns the error if that fails.
pub(crate) fn execute(job: &mut Job<'_>, ends: Ends) -> i32 {
    for (target, end) in ends.into_iter().enumerate() {
        if let Err(errno) = sys::dup2(end, target as i32) {
            return errno;
        }
    }
    if job.terminal.is_some() {
        let _ = sys::ioctl(0, TIOCSCTTY, 0);
    }
    if let Some(Err(errno)) = job.user.map(|(user, group)| sys::set_user(user, group)) {
        return errno;
    }
    let program = job.program;
    if program.bytes().contains(&b'/') {
        return attempt(job, program);
    }
    let mut worst = sys::ENOENT;
    for directory in job.path.bytes().split(|byte| *byte == b':') {
        let mut candidate = [0u8; 4096];
        let Some(path) = join(&mut candidate, directory, program.bytes()) else {
            continue;
        };
        match attempt(job, path) {
            sys::ENOENT | sys::ENOTDIR => {}
            sys::EACCES => worst = sys::EACCES,
            other => return other,
        }
    }
    // An initramfs has no links to busybox's applets: it looks at the name it was called by. Any
    // other root has the commands that it has.
    let busybox = Text::new(b"/bin/busybox\0");
    if worst == sys::ENOENT && sys::is_in_memory(busybox) {
        return attempt(job, busybox);
    }
    worst
}

fn attempt(job: &mut Job<'_>, path: Text<'_>) -> i32 {
    let errno = sys::execve(path, &job.argv[1..], job.envp);
    if errno != sys::ENOEXEC {
        return errno;
    }
    // A script without `#!`, as execvp(3) treats it.
    let shell = Text::new(b"/bin/sh\0");
    job.argv[0] = shell.ptr();
    job.argv[1] = path.ptr();
    sys::execve(shell, job.argv, job.envp)
}

fn join<'b>(buffer: &'b mut [u8; 4096], directory: &[u8], name: &[u8]) -> Option<Text<'b>> {
    let len = directory.len() + 1 + name.len();
    buffer
        .get_mut(..directory.len())?
        .copy_from_slice(directory);
    *buffer.get_mut(directory.len())? = b'/';
    buffer
        .get_mut(directory.len() + 1..len)?
        .copy_from_slice(name);
    *buffer.get_mut(len)? = 0;
    Some(Text::new(&buffer[..=len]))
}
