//! Operations that the probe of `brisk overhead` measures: the list that the host shares with it.
//!
//! The program itself (`main.rs` and the modules only it names) needs nothing but a Linux kernel;
//! the build script of `brisk-tools` compiles it with `rustc`, linked statically, and embeds it.

/// A step that a program or the kernel takes over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Name, in kebab-case; its first word is what is exercised.
    pub name: &'static str,
    /// What the nanoseconds are of: "per" this.
    pub per: &'static str,
    /// Description, for people.
    pub meaning: &'static str,
}

const fn operation(name: &'static str, per: &'static str, meaning: &'static str) -> Operation {
    Operation { name, per, meaning }
}

/// All operations, in the order in which they are measured.
pub const OPERATIONS: [Operation; 23] = [
    operation(
        "user-integer",
        "step",
        "xorshift of 64 bits, each step of the one before",
    ),
    operation(
        "user-float",
        "step",
        "multiplication and addition of doubles, each step of the one before",
    ),
    operation("user-sort", "number", "sort of 4096 random numbers"),
    operation(
        "memory-copy",
        "4 KiB",
        "copy of 64 MiB from one area to another",
    ),
    operation(
        "memory-chase",
        "load",
        "loads from 16384 pages of 4 KiB, each of the address that the one before gave",
    ),
    operation(
        "memory-chase-huge",
        "load",
        "memory-chase in transparent huge pages",
    ),
    operation("syscall-getppid", "call", "getppid(2)"),
    operation(
        "syscall-open",
        "pair",
        "open(2) and close(2) of a file in the work directory",
    ),
    operation("syscall-read", "call", "read(2) of 64 bytes of /dev/zero"),
    operation("syscall-write", "call", "write(2) of 64 bytes to /dev/null"),
    operation(
        "switch-pipe",
        "round trip",
        "a byte to another process and back, through two pipes",
    ),
    operation(
        "switch-futex",
        "round trip",
        "wake of another thread that waits for a futex, and back",
    ),
    operation(
        "process-exec",
        "process",
        "vfork(2) and execve(2) of the probe, which ends at once, and wait",
    ),
    operation(
        "process-fork",
        "process",
        "fork(2), _exit(2) in the child, and wait",
    ),
    operation(
        "fault-anonymous",
        "fault",
        "first write to a page of anonymous memory",
    ),
    operation(
        "fault-file",
        "fault",
        "first read of a mapped file in the page cache, of every 16th page, since Linux maps 16 \
         around a fault",
    ),
    operation(
        "fault-copy",
        "fault",
        "first write to a page that a child of fork(2) shares (copy on write)",
    ),
    operation(
        "fault-unmap",
        "page",
        "munmap(2) of 2048 pages that are in use",
    ),
    operation(
        "timer-sleep",
        "sleep",
        "how much longer than 50 µs nanosleep(2) takes, with a timer slack of 1 ns",
    ),
    operation(
        "ipi-mprotect",
        "pair",
        "mprotect(2) of a page to read-only and back while a thread of the process runs on \
         another CPU, which has to be interrupted",
    ),
    operation(
        "disk-sync",
        "write",
        "write of 4 KiB in the work directory and fdatasync(2); on a tmpfs there is no disk",
    ),
    operation(
        "disk-create",
        "file",
        "a file made and removed in the work directory",
    ),
    operation(
        "net-loopback",
        "round trip",
        "a byte to another thread and back, through TCP on 127.0.0.1",
    ),
];
