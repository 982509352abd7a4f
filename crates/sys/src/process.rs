//! Children: their end, their view of the system, and their peak memory.
#![expect(
    unsafe_code,
    reason = "runs code between fork and exec, and waits for children"
)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::checked;

/// Has the kernel kill the child when the thread that starts it ends, however it ends.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = rustix::process::getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(
                rustix::io::Errno::SRCH.raw_os_error(),
            ));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Bounds the memory that the child may map and the size of files that it may write, both in bytes,
/// and lets it dump no core (setrlimit(2)).
pub fn bounded(command: &mut Command, memory: u64, file: u64) -> &mut Command {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let prepare = move || {
        let limits = [
            (Resource::As, memory),
            (Resource::Fsize, file),
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            let limit = Rlimit {
                current: Some(most),
                maximum: Some(most),
            };
            setrlimit(resource, limit)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Ends this process with a status, without what is registered for its end. What is in buffers is
/// lost.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: it does not return, and nothing of this process is used any more.
    unsafe { libc::_exit(status) }
}

/// Starts the child in a session of its own, so that no terminal's end or signal reaches it.
pub fn own_session(command: &mut Command) -> &mut Command {
    let prepare = || Ok(rustix::process::setsid().map(drop)?);
    // SAFETY: between fork and exec only one system call is made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Starts the child in a session of its own, to run only when a processor has nothing else to do
/// (`SCHED_IDLE` of sched(7)).
pub fn in_background(command: &mut Command) -> &mut Command {
    let prepare = || {
        rustix::process::setsid()?;
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: a structure that lives for the call; 0 is the calling thread. To have less of the
        // processor is always allowed.
        checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) })
    };
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Has the child give way to others: of the processor it gets what they leave, by the lowest priority
/// of the usual ones (nice(2)).
pub fn nice(command: &mut Command) -> &mut Command {
    let prepare = || {
        // It fails where the child is nicer already than a limit lets it be.
        let _ = rustix::process::setpriority_process(None, 19);
        Ok(())
    };
    // SAFETY: between fork and exec only one system call is made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Gives the child's memory small pages only, whatever the child asks for, if the kernel permits
/// it.
pub fn small_pages(command: &mut Command) -> &mut Command {
    let prepare = || {
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        Ok(())
    };
    // SAFETY: between fork and exec only one system call is made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Gives the child a view of the whole file tree in which nothing can be written, for
/// programs that have no such option. Needs the right to make a mount namespace.
pub fn read_only_view(command: &mut Command) -> &mut Command {
    let prepare = || {
        use rustix::mount::{MountPropagationFlags, mount_change};
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        // SAFETY: the child has one thread; only its mount namespace is new.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        mount_change(
            c"/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )?;
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_RDONLY,
            attr_clr: 0,
            propagation: 0,
            userns_fd: 0,
        };
        // SAFETY: a path that ends in NUL and a structure of the size that is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                c"/".as_ptr(),
                libc::AT_RECURSIVE,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        checked(result as i32)
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// A user and the user's only group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// User ID.
    pub user: u32,
    /// Group ID.
    pub group: u32,
}

/// Makes this process another user without groups besides its own; `locks`: with the right to lock
/// any amount of memory (`CAP_IPC_LOCK` of capabilities(7)) and no other. Needs root, and a process
/// of one thread.
fn become_user(user: Credentials, locks: bool) -> io::Result<()> {
    use rustix::thread::{
        CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
        set_keep_capabilities,
    };
    set_keep_capabilities(locks)?;
    // SAFETY: no groups are read; the process has one thread.
    checked(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: numbers only.
    checked(unsafe { libc::setgid(user.group) })?;
    // SAFETY: numbers only.
    checked(unsafe { libc::setuid(user.user) })?;
    if locks {
        let lock = CapabilitySet::IPC_LOCK;
        let sets = CapabilitySets {
            effective: lock,
            permitted: lock,
            inheritable: lock,
        };
        set_capabilities(None, sets)?;
        configure_capability_in_ambient_set(lock, true)?;
    }
    Ok(())
}

/// Makes the child another user that may lock any amount of memory. Needs root.
pub fn as_user_that_locks(command: &mut Command, user: Credentials) -> &mut Command {
    let prepare = move || become_user(user, true);
    // SAFETY: between fork and exec only system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) }
}

/// Makes the child another user to whom `/dev/userfaultfd` belongs, in a view of the file tree of
/// its own. `devices` is a file system with a `userfaultfd` of that user's; it covers `cover`,
/// which the child cannot see then. `locks`: as of [`as_user_that_locks`]. Needs root. Where there
/// can be no such view, as in a `chroot`, the child is that user without the device.
///
/// Descriptors must be handed to the child after this, for they may take the place of `devices`.
pub fn with_userfaultfd(
    command: &mut Command,
    devices: OwnedFd,
    cover: &Path,
    user: Credentials,
    locks: bool,
) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let text = |path: &Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
    let device = text(&cover.join("userfaultfd"))?;
    let cover = text(cover)?;
    let view = move || {
        use rustix::mount::{
            MountPropagationFlags, MoveMountFlags, mount_bind, mount_change, move_mount,
        };
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        // SAFETY: the child has one thread; only its mount namespace is new.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change(c"/", flags)?;
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&devices, c"", rustix::fs::CWD, &*cover, empty)?;
        mount_bind(&*device, c"/dev/userfaultfd")
    };
    let prepare = move || {
        let _ = view();
        become_user(user, locks)
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

/// What a process took until its end (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Most memory that it ever had, bytes (`ru_maxrss`). That counts everything mapped that was in
    /// memory, shared or not, and what this process had when it started the child.
    pub peak: u64,
    /// Time on CPUs, of programs and of the kernel for them, of all threads and of the children that
    /// it waited for.
    pub cpu: Duration,
}

/// Waits for a child; how it ended and what it took.
pub fn wait_with_usage(mut child: Child) -> io::Result<(ExitStatus, Usage)> {
    // As Child::wait: it may wait for the end of its input.
    drop(child.stdin.take());
    let mut status = 0;
    loop {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both point to what wait4 writes; the child was not waited for before, because
        // this owns it.
        let pid = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
        if pid == -1 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // SAFETY: all bits zero are a rusage, and the kernel has filled it.
        let usage = unsafe { usage.assume_init() };
        let time = |time: libc::timeval| {
            let (seconds, micros) = (time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs());
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        };
        let usage = Usage {
            peak: usage.ru_maxrss.unsigned_abs() * 1024,
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
        };
        return Ok((ExitStatus::from_raw(status), usage));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Stdio;

    use super::*;

    const NOBODY: Credentials = Credentials {
        user: 65534,
        group: 65534,
    };

    #[test]
    fn who_can_have_no_view_of_its_own_is_that_user_all_the_same() {
        let no_mount = File::open("/dev/null").unwrap();
        let mut command = Command::new("id");
        with_userfaultfd(
            &mut command,
            no_mount.into(),
            Path::new("/tmp"),
            NOBODY,
            false,
        )
        .unwrap();
        let output = command.arg("-u").output();
        if rustix::process::geteuid().is_root() {
            assert_eq!(output.unwrap().stdout, b"65534\n");
        } else {
            let error = output.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_user_that_locks_may_do_nothing_else() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        let output = as_user_that_locks(&mut command, NOBODY).output();
        if !rustix::process::geteuid().is_root() {
            assert_eq!(output.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        for line in ["Uid:\t65534\t65534\t65534\t65534", "Groups:\t "] {
            assert!(text.contains(line), "{text}");
        }
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert!(
                text.contains(&format!("{set}:\t0000000000004000\n")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_child_dies_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null());
            die_with_parent(&mut command).spawn().unwrap()
        })
        .join()
        .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }

    #[test]
    fn a_child_in_the_background_waits_for_all_others() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/stat");
        let output = in_background(&mut command).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Fields 6, the session, and 41, the policy, of proc_pid_stat(5).
        let fields: Vec<_> = text.split(' ').collect();
        assert_eq!((fields[5], fields[40]), (fields[0], "5"), "{text}");
    }

    #[test]
    fn a_child_may_be_kept_to_small_pages() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        let output = small_pages(&mut command).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("THP_enabled:\t0\n"), "{text}");
    }

    #[test]
    fn what_a_child_took_is_known_when_it_has_ended() {
        let run = |bytes: usize| {
            let script = format!("x=$(head -c {bytes} /dev/zero | tr '\\0' x); exit 3");
            let mut command = Command::new("sh");
            let child = command.args(["-c", &script]).spawn().unwrap();
            wait_with_usage(child).unwrap()
        };
        let (status, small) = run(1);
        assert_eq!(status.code(), Some(3));
        // The shell has the text at least once.
        let large = run(64 << 20).1;
        assert!(large.peak > small.peak + (48 << 20));
        // And it was written, which takes time.
        assert!(large.cpu > small.cpu, "{large:?} {small:?}");
    }
}
