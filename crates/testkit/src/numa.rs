//! A machine of several NUMA nodes in QEMU, whose kernel `setup/ktext-kernel` has built.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::initramfs::initramfs;
use crate::monitor::monitor;
use crate::program::{capture, tool, unpacked};

/// Processors of each node.
pub const CPUS_OF_NODE: usize = 2;
/// Memory of each node, in MiB.
const MEMORY_OF_NODE: usize = 256;

/// What `setup/ktext-kernel` builds for guests.
const PROGRAMS: [&str; 4] = ["storm", "operations", "lone", "again"];

/// Begins a section of the console.
const SECTION: &str = "@@@ ";

/// A kernel with kernel text replication, and what was built with it.
#[derive(Debug, Clone)]
pub struct NumaKernel {
    directory: PathBuf,
}

impl NumaKernel {
    /// The one of the series as it is, or a variant by its name.
    ///
    /// # Errors
    /// Why there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let directory = unpacked(name, "version");
        let directory = directory.ok_or("setup/ktext-kernel has built no kernel")?;
        Ok(Self { directory })
    }

    /// A variant, which `setup/ktext-kernel` builds in a directory if it is not there. `words` are for
    /// that; paths in them begin in `kernel/ktext`.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn built(directory: &Path, name: &str, words: &[&str]) -> Result<Self, String> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(repository.join("setup/ktext-kernel"));
        for word in words {
            if word.starts_with('-') {
                command.arg(word);
            } else {
                command.arg(repository.join("kernel/ktext").join(word));
            }
        }
        let status = command.args(["--name", name]).arg(directory).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("{name} is not built: {words:?}"));
        }
        let directory = directory.join(name);
        Ok(Self { directory })
    }

    /// Path of a file that was built with it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// A machine to be started.
#[derive(Debug, Clone)]
pub struct NumaMachine<'a> {
    /// What it boots.
    pub kernel: &'a NumaKernel,
    /// Number of its nodes, each of [`CPUS_OF_NODE`] processors.
    pub nodes: usize,
    /// More words of the kernel's command line.
    pub append: &'a str,
    /// Whether processors run at once, each in a thread of QEMU's. Then one of them may translate an
    /// instruction anew while another one writes to it, and go on with what was there before: QEMU
    /// invalidates before it stores. For Linux that is a breakpoint that was removed.
    pub is_parallel: bool,
    /// Programs of the host that its script can run; their libraries come with them.
    pub programs: &'a [&'a Path],
    /// Whether the last node has the first processors, so that the one that boots and suspends the
    /// machine is not on the node where a kernel usually lies.
    pub is_reversed: bool,
    /// Files that are put into its root directory.
    pub files: &'a [PathBuf],
    /// More options of QEMU; `{nodes}` in them becomes `node=FILE` of each node's memory.
    pub options: &'a [&'a str],
    /// After so long without an end it hangs.
    pub limit: Duration,
}

/// What a machine has said until it was off.
#[derive(Debug, Clone)]
pub struct NumaConsole(pub String);

/// What a machine has said, and what QEMU's monitor has meanwhile.
#[derive(Debug, Clone)]
pub struct NumaAsked {
    /// The console.
    pub console: NumaConsole,
    /// The monitor's answers.
    pub answer: String,
}

impl NumaMachine<'_> {
    /// Boots, runs a script of busybox as init, and waits until the machine is off. In the script,
    /// `section NAME` begins a section, `storm` is the load, beside what else `setup/ktext-kernel` builds
    /// for guests, and modules are in `/modules`. When it says `look`, commands are given to QEMU's
    /// monitor, and it waits until they are answered.
    ///
    /// # Errors
    /// The last lines of the console, if the machine hangs or its kernel panics.
    pub fn run_and_ask(&self, script: &str, commands: &str) -> Result<NumaAsked, String> {
        let directory = tempfile::tempdir().unwrap();
        let mut qemu = self.start(&directory, script);
        let mut answer = String::new();
        let mut input = qemu.stdin.take().unwrap();
        let look = || {
            answer = monitor(&directory.path().join("monitor"), commands);
            input.write_all(b"\n").unwrap();
        };
        let console = self.console(&mut qemu, look);
        let _ = qemu.kill();
        qemu.wait().unwrap();
        let console = console?;
        Ok(NumaAsked { console, answer })
    }

    fn start(&self, directory: &TempDir, script: &str) -> Child {
        let tree = directory.path().join("tree");
        let modules = tree.join("modules");
        fs::create_dir_all(&modules).unwrap();
        fs::create_dir_all(tree.join("bin")).unwrap();
        for program in PROGRAMS {
            fs::copy(self.kernel.file(program), tree.join("bin").join(program)).unwrap();
        }
        for file in self.files {
            fs::copy(file, tree.join(file.file_name().unwrap())).unwrap();
        }
        for module in fs::read_dir(self.kernel.file("modules")).unwrap() {
            let module = module.unwrap();
            fs::copy(module.path(), modules.join(module.file_name())).unwrap();
        }
        for program in self.programs {
            add_program(&tree, program);
        }
        let script = format!(
            "section() {{ echo \"{SECTION}$1\"; }}\n\
             look() {{ section look; read line; }}\n\
             mount -t debugfs debug /sys/kernel/debug && cd /sys/kernel/debug\n\
             {script}\nsection end\npoweroff -f"
        );
        let initrd = initramfs(directory.path(), &script);
        let threads = if self.is_parallel {
            "tcg,thread=multi"
        } else {
            "tcg,thread=single"
        };
        let mut command = Command::new(tool("qemu-system-x86_64"));
        command
            .args(["-no-user-config", "-nodefaults", "-no-reboot"])
            .args(["-accel", threads, "-machine", "q35"])
            .args(["-cpu", "qemu64,+smep,+smap", "-display", "none"])
            .args(["-serial", "stdio", "-monitor"])
            .arg(format!(
                "unix:{},server=on,wait=off",
                directory.path().join("monitor").display()
            ))
            .arg("-m")
            .arg(format!("{}M", self.nodes * MEMORY_OF_NODE))
            // A socket for each node: Linux warns of caches that two of them share.
            .arg("-smp")
            .arg(format!(
                "{},sockets={}",
                self.nodes * CPUS_OF_NODE,
                self.nodes
            ))
            .arg("-kernel")
            .arg(self.kernel.file("bzImage"))
            .arg("-initrd")
            .arg(initrd)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 panic=-1 oops=panic quiet no_timer_check ktext_repl=on {}",
                self.append
            ));
        let memory = |node: usize| directory.path().join(format!("node{node}"));
        for node in 0..self.nodes {
            let place = if self.is_reversed {
                self.nodes - 1 - node
            } else {
                node
            };
            let (first, path) = (place * CPUS_OF_NODE, memory(node));
            command
                .arg("-object")
                .arg(format!(
                    "memory-backend-file,id=m{node},mem-path={},share=on,size={MEMORY_OF_NODE}M",
                    path.display()
                ))
                .arg("-numa")
                .arg(format!(
                    "node,nodeid={node},memdev=m{node},cpus={first}-{}",
                    first + CPUS_OF_NODE - 1
                ));
        }
        let files = (0..self.nodes).map(|node| format!("node={}", memory(node).display()));
        let files = files.collect::<Vec<_>>().join(",");
        for option in self.options {
            command.arg(option.replace("{nodes}", &files));
        }
        brisk_sys::die_with_parent(&mut command);
        let errors = File::create(directory.path().join("errors")).unwrap();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap()
    }

    /// Reads the console until QEMU ends.
    fn console(&self, qemu: &mut Child, look: impl FnOnce()) -> Result<NumaConsole, String> {
        let lines = lines_of(qemu);
        let mut look = Some(look);
        let deadline = Instant::now() + self.limit;
        let mut text = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                    if line == format!("{SECTION}look") {
                        if let Some(look) = look.take() {
                            look();
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let limit = self.limit.as_secs();
                    return Err(format!("it hangs after {limit} s:\n{}", last(&text)));
                }
            }
        }
        let ended = format!("{SECTION}end");
        if !text.lines().any(|line| line == ended) {
            return Err(format!("it ended too early:\n{}", last(&text)));
        }
        Ok(NumaConsole(text))
    }
}

/// Adds a program without its symbols, and the libraries that it is linked to.
fn add_program(tree: &Path, program: &Path) {
    let name = program.file_name().unwrap();
    let to = tree.join("bin").join(name);
    let mut strip = Command::new("strip");
    let status = strip.arg("-o").arg(&to).arg(program).status().unwrap();
    assert!(status.success(), "strip {}: {status}", program.display());
    let libraries = capture(Path::new("ldd"), &[program.to_str().unwrap()]);
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, and the loader alone.
    for word in libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let to = tree.join(word.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
}

fn lines_of(qemu: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let console = qemu.stdout.take().unwrap();
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if sender.send(line.trim_end_matches('\r').to_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn last(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

impl NumaConsole {
    /// Text of a section.
    ///
    /// # Panics
    /// If there is none of this name.
    #[must_use]
    #[track_caller]
    pub fn section(&self, name: &str) -> &str {
        let begin = format!("{SECTION}{name}\n");
        let at = self.0.find(&begin);
        let at = at.unwrap_or_else(|| panic!("no section {name}:\n{}", last(&self.0)));
        let rest = &self.0[at + begin.len()..];
        rest.find(SECTION).map_or(rest, |end| &rest[..end])
    }

    /// Rows of a table with a line of column names: the values of these columns.
    ///
    /// # Panics
    /// If the section has no such column, or a row is too short.
    #[must_use]
    #[track_caller]
    pub fn rows<const N: usize>(&self, name: &str, columns: [&str; N]) -> Vec<[String; N]> {
        let mut lines = self.section(name).lines();
        let names: Vec<_> = lines.next().unwrap_or_default().split('\t').collect();
        let index = columns.map(|column| {
            let at = names.iter().position(|name| *name == column);
            at.unwrap_or_else(|| panic!("section {name} has {names:?}, not {column}"))
        });
        lines
            .map(|line| {
                let values: Vec<_> = line.split('\t').collect();
                index.map(|at| values[at].to_owned())
            })
            .collect()
    }
}
