//! The commands in README and book do what they say: each block is run as it stands there, by a
//! shell, as root and as an ordinary user.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use brisk_testkit::{
    BackgroundProcesses, capture, copy_program, ext4, qcow2, qemu_is_before, tool, tree, trial,
};
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

/// A user that owns nothing on this host.
const USER: u32 = 64_321;

/// Commands that are not run: a part of them, and why.
const NOT_RUN: [(&str, &str); 32] = [
    (
        "sudo ",
        "changes this machine; see reboot_machine and reboot_quiesce",
    ),
    ("crypto bench aes", "takes minutes; see crypto_guest"),
    ("--through", "needs another machine; see crypto_guest"),
    ("crypto combined", "needs virtio-crypto; see crypto_guest"),
    (
        "crypto config",
        "needs an offload; see crypto_guest and crypto_config",
    ),
    (
        "overhead run",
        "takes minutes, and needs its targets; see overhead",
    ),
    ("curl https://", "needs the Internet"),
    ("apt-get update", "needs the Internet"),
    ("--domain", "domains of libvirt: see boot_domain"),
    ("/etc/pve/", "needs Proxmox VE; see corpus"),
    ("qm showcmd", "needs Proxmox VE; see corpus"),
    ("undo --all", "domains of libvirt: see idle_domain"),
    (
        "boot bench --ready",
        "needs an installed system with a login",
    ),
    (
        "--keep-going-on-panic",
        "stays after the panic, for a debugger",
    ),
    ("gdb vmlinux", "a debugger, which waits for its user"),
    ("--identity backup.key", "nobody has the key of the example"),
    (
        "idle prove",
        "takes many minutes; see idle_prove and idle_vm",
    ),
    ("--live", "goes on until Ctrl-C; see idle_measure"),
    ("--pid 28197", "no QEMU has that number; see idle_measure"),
    ("--pid 4711", "no QEMU has that number; see doctor"),
    ("boot tune", "takes many minutes; see boot_tools"),
    ("--entry '1>2'", "needs that entry; see reboot_list"),
    (
        "reboot --dry-run --same",
        "needs an entry of the running kernel; see reboot_list",
    ),
    (
        "reboot rehearse",
        "needs a machine that is on disks; see reboot_rehearse",
    ),
    (
        "ktext info",
        "needs a kernel that replicates its text; see ktext",
    ),
    (
        "ktext verify",
        "needs a kernel that replicates its text; see ktext",
    ),
    (
        "ktext draw",
        "needs a kernel that replicates its text; see ktext",
    ),
    (
        "ktext locality",
        "needs a kernel that replicates its text; see ktext_kernel",
    ),
    (
        "ktext bench",
        "needs a kernel that replicates its text; see ktext_kernel",
    ),
    (
        "--bisect",
        "needs a kernel to build; see tools::boot::range",
    ),
    (
        "boot range . v1..v2",
        "needs a kernel to build; see tools::boot::range",
    ),
    (
        "--kernel 6.12",
        "needs that kernel; the line with 6.1 is run",
    ),
];

/// Parts of commands that take a minute or more as they stand, and what is run instead.
const SHORTER: [(&str, &str); 6] = [
    ("idle measure", "idle measure --settle=0 --time=2s"),
    ("--runs 20", "--runs 3"),
    (
        "bench --clock instructions",
        "bench --clock instructions --runs 2",
    ),
    ("boot analyze", "boot analyze --runs 2"),
    ("boot compare --a", "boot compare --runs 6 --a"),
    ("boot range seabios", "boot range seabios --runs 2"),
];

/// A command that is not run, and why.
const ONLY_GUEST: (&str, &str) = (
    "brisk idle measure",
    "measures the only guest of the host; other tests have theirs; see idle_measure",
);

/// Of what only needs time: run as root alone.
const LONG: [&str; 2] = ["boot bench", "boot compare"];

fn main() {
    let arguments = Arguments::from_args();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![repository.join("README.md")];
    for dir in [
        "docs/src",
        "docs/src/vm",
        "docs/src/idle",
        "docs/src/overhead",
        "docs/src/crypto",
        "docs/src/reboot",
        "docs/src/ktext",
    ] {
        let chapters = fs::read_dir(repository.join(dir)).unwrap();
        files.extend(chapters.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "md"));
    files.sort();
    let mut trials = Vec::new();
    for path in &files {
        for block in blocks(&fs::read_to_string(path).unwrap()) {
            let name = path.strip_prefix(&repository).unwrap();
            trials.extend(of_block(name.to_str().unwrap(), &block));
        }
    }
    assert!(trials.len() > 60, "{} trials", trials.len());
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A static is never dropped.
    if let Some(shared) = SHARED.get() {
        fs::remove_dir_all(shared.dir.path()).unwrap();
    }
    conclusion.exit();
}

/// Commands of one block, with the line that each begins at.
#[derive(Clone)]
struct Block(Vec<(usize, String)>);

/// The blocks that have commands, each with its lines that are continued joined.
fn blocks(text: &str) -> Vec<Block> {
    let mut all = Vec::new();
    let (mut block, mut inside, mut open) = (Block(Vec::new()), false, false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            open = false;
            if !block.0.is_empty() {
                all.push(std::mem::replace(&mut block, Block(Vec::new())));
            }
        } else if let Some(command) = line.trim_start().strip_prefix("$ ").filter(|_| inside) {
            block.0.push((index + 1, command.to_owned()));
            open = command.ends_with('\\');
        } else if open {
            let (_, command) = block.0.last_mut().unwrap();
            command.push('\n');
            command.push_str(line);
            open = line.ends_with('\\');
        }
    }
    all
}

fn of_block(file: &str, block: &Block) -> Vec<Trial> {
    let reason = |command: &str| {
        let found = NOT_RUN.iter().find(|(part, _)| command.contains(part));
        let (alone, others) = ONLY_GUEST;
        let found = found.map(|(_, reason)| *reason);
        found.or_else(|| (command == alone).then_some(others))
    };
    let (left_out, run): (Vec<_>, Vec<_>) = block
        .0
        .iter()
        .cloned()
        .partition(|(_, command)| reason(command).is_some());
    let mut trials: Vec<_> = left_out
        .into_iter()
        .map(|(line, command)| trial(format!("{file}:{line}"), reason(&command), || ()))
        .collect();
    if run.is_empty() {
        return trials;
    }
    let root = rustix::process::geteuid().is_root();
    let needs = |word: &str| run.iter().any(|(_, command)| command.contains(word));
    let old = ["vm ", "--warm", "image "]
        .iter()
        .any(|word| needs(word))
        .then(|| qemu_is_before(8, 2))
        .flatten();
    let long = LONG.iter().any(|word| needs(word));
    for as_root in [true, false] {
        let who = if as_root { "root" } else { "a user" };
        let ignored = match as_root {
            true if !root => Some("not root".to_owned()),
            false if root && long => Some("takes long, and is run as root".to_owned()),
            _ => old.clone(),
        };
        let commands = run.clone();
        let test = move || Place::new(as_root || !root).run(&commands);
        trials.push(trial(
            format!("{file}:{} as {who}", run[0].0),
            ignored,
            test,
        ));
    }
    trials
}

/// What all places share: the binary where every user may run it, caches, and images.
struct Shared {
    dir: TempDir,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

impl Shared {
    fn get() -> &'static Self {
        SHARED.get_or_init(|| {
            // A short path, for sockets are below it.
            let dir = TempDir::with_prefix_in("ex-", "/tmp").unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
            let bin = dir.path().join("bin");
            fs::create_dir(&bin).unwrap();
            copy_program(Path::new(env!("CARGO_BIN_EXE_brisk")), &bin.join("brisk"));
            let root = dir.path().join("tree");
            tree(&root);
            fs::write(root.join("etc/os-release"), "ID=tree\n").unwrap();
            for applet in ["uptime", "date", "make"] {
                let _ = symlink("busybox", root.join("bin").join(applet));
            }
            // No applet.
            let _ = fs::remove_file(root.join("bin/make"));
            fs::write(root.join("bin/make"), "#!/bin/sh\nexec cat Makefile\n").unwrap();
            fs::set_permissions(root.join("bin/make"), Permissions::from_mode(0o755)).unwrap();
            ext4(&root, &dir.path().join("disk.img"));
            qcow2(&dir.path().join("disk.img"), &dir.path().join("disk.qcow2"));
            Self { dir }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.shell(STOP);
    }
}

/// Ends what an example leaves running.
const STOP: &str = "for vm in $(ls config/vm 2>/dev/null); do brisk vm kill ${vm%.toml} || brisk vm discard ${vm%.toml}; done";

/// A directory with what the examples name.
struct Place {
    /// Guests of the warm pool outlive the command that started them. They go before the
    /// directories that they write to.
    background: BackgroundProcesses,
    dir: TempDir,
    as_caller: bool,
}

impl Place {
    fn new(as_caller: bool) -> Self {
        let shared = Shared::get().dir.path();
        let dir = TempDir::with_prefix_in("ex-", "/tmp").unwrap();
        let path = dir.path();
        let put = |name: &str, content: &str| {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        };
        put("test.sh", "#!/bin/sh\nuname -r\n");
        put("Makefile", "all:\n");
        put("README.md", "An example.\n");
        put("web.xml", include_str!("fixtures/web.xml"));
        put("results.txt", include_str!("fixtures/kernel-compile.txt"));
        put("composite.xml", COMPOSITE);
        put("host.json", &HYPERFINE.replace("SECONDS", "2.0"));
        put("guest.json", &HYPERFINE.replace("SECONDS", "3.0"));
        let software = include_str!("fixtures/openssl-software.txt");
        let offload = include_str!("fixtures/openssl-offload.txt");
        put("software.txt", software);
        put("offload.txt", offload);
        put("both.txt", &format!("{software}{offload}"));
        put("win10.xml", include_str!("fixtures/win10.xml"));
        put(
            "start.sh",
            "exec qemu-system-x86_64 -M pc -usb -device usb-tablet\n",
        );
        put("src/main.c", "int main;\n");
        for name in ["out", "images", "home", "run", "srv"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::set_permissions(path.join("run"), Permissions::from_mode(0o700)).unwrap();
        for name in ["disk.img", "images/db1.img"] {
            fs::copy(shared.join("disk.img"), path.join(name)).unwrap();
        }
        for name in ["disk.qcow2", "debian.qcow2"] {
            fs::copy(shared.join("disk.qcow2"), path.join(name)).unwrap();
        }
        symlink(shared.join("tree"), path.join("srv/debian")).unwrap();
        let place = Self {
            background: BackgroundProcesses::new(),
            dir,
            as_caller,
        };
        let kernel = place.output("brisk kernel list --format csv | sed -n '2s/,.*//p'");
        let kernel = kernel.trim();
        let image = format!("/boot/vmlinuz-{kernel}");
        for name in ["bzImage", "arch/x86/boot/bzImage"] {
            fs::create_dir_all(place.path().join(name).parent().unwrap()).unwrap();
            symlink(&image, place.path().join(name)).unwrap();
        }
        fs::create_dir_all(place.path().join("lib/modules")).unwrap();
        let modules = format!("/lib/modules/{kernel}");
        symlink(modules, place.path().join("lib/modules/6.12.0")).unwrap();
        if !as_caller {
            capture(
                &tool("chown"),
                &["-R", &USER.to_string(), place.path().to_str().unwrap()],
            );
            let group = Some(USER);
            chown(place.path(), group, group).unwrap();
        }
        place
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A directory of a user's that all places have.
    fn lasting(&self, name: &str) -> PathBuf {
        let who = if self.as_caller { "root" } else { "user" };
        let dir = Shared::get().dir.path().join(format!("{name}-{who}"));
        if !dir.exists() && fs::create_dir(&dir).is_ok() && !self.as_caller {
            chown(&dir, Some(USER), Some(USER)).unwrap();
        }
        dir
    }

    /// Runs a script; its status, and all that it wrote.
    fn shell(&self, script: &str) -> (Option<i32>, String) {
        let log = self.path().with_extension("log");
        let output = File::create(&log).unwrap();
        let path = format!(
            "{}:/usr/sbin:/sbin:{}",
            Shared::get().dir.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.path())
            .env("PATH", path)
            .env("HOME", self.path().join("home"))
            .env("BRISK_CONFIG_DIR", self.path().join("config"))
            .env("BRISK_STATE_DIR", self.path().join("state"))
            .env("BRISK_RUNTIME_DIR", self.path().join("run"))
            .env("BRISK_CACHE_DIR", self.lasting("cache"))
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        if !self.as_caller {
            command.uid(USER).gid(USER);
        }
        self.background.include(&mut command);
        let status = command.status().unwrap();
        let text = fs::read(&log).unwrap();
        fs::remove_file(log).unwrap();
        (status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn output(&self, script: &str) -> String {
        let (status, text) = self.shell(script);
        assert_eq!(status, Some(0), "{script}\n{text}");
        text
    }

    /// What has to be there before a block, as the text around it says.
    fn prepare(&self, commands: &[(usize, String)]) {
        let first = &commands[0].1;
        let vm = |name: &str| {
            let _ = self.output(&format!("brisk vm create {name} && brisk vm start {name}"));
        };
        if first.starts_with("brisk idle") || first.starts_with("brisk overhead fix") {
            vm("db1");
        } else if first.starts_with("brisk vm suspend web") {
            vm("web");
        } else if first.starts_with("brisk vm suspend db1") {
            vm("db1");
        } else if first.contains("before.json")
            || commands.iter().any(|(_, c)| c.contains("before.json"))
        {
            for name in ["before", "after"] {
                let _ = self.output(&format!("brisk boot bench --root none -n 3 -o {name}.json"));
            }
        } else if first.starts_with("brisk image") {
            vm("db1");
            let _ = self
                .output("brisk vm set db1 --suspend-path $PWD/db1.brisk && brisk vm suspend db1");
        } else if commands
            .iter()
            .any(|(_, command)| command.contains("seabios"))
        {
            let _ = self.output(SEABIOS);
        }
    }

    fn run(&self, commands: &[(usize, String)]) {
        self.prepare(commands);
        for (line, command) in commands {
            let here = self.path().display();
            let command = command
                .replace(" /srv/debian", &format!(" {here}/srv/debian"))
                .replace(" /images/", &format!(" {here}/images/"))
                .replace("/boot/vmlinuz", "./bzImage");
            let command = SHORTER.iter().fold(command, |command, (part, shorter)| {
                command.replace(part, shorter)
            });
            // Nothing is loaded into the host that runs the tests.
            let command = match command.contains("--no-trial-load") {
                true => command,
                false => command.replace("reboot check", "reboot check --no-trial-load"),
            };
            let (status, text) = self.shell(&command);
            // It has found something.
            let finds = [
                "brisk idle lint",
                "brisk crypto explain",
                "brisk ktext check",
            ];
            let finds = finds.iter().any(|start| command.starts_with(start));
            let is_verdict = command.starts_with("brisk reboot check");
            let decides = is_verdict && matches!(status, Some(10 | 11));
            let found = status == Some(1) && finds || decides;
            assert!(status == Some(0) || found, "line {line}: {command}\n{text}");
        }
    }
}

/// A result as the Phoronix Test Suite writes them; the numbers are made up.
const COMPOSITE: &str = "<PhoronixTestSuite><Result><Title>Timed Linux Kernel Compilation</Title>\
    <Scale>Seconds</Scale><Proportion>LIB</Proportion><Data><Entry><Identifier>KVM</Identifier>\
    <Value>125</Value></Entry><Entry><Identifier>Bare metal</Identifier><Value>100</Value>\
    <RawString>99:101:100</RawString></Entry></Data></Result></PhoronixTestSuite>";

/// A result as hyperfine exports it; the numbers are made up.
const HYPERFINE: &str =
    r#"{"results": [{"command": "make", "median": SECONDS, "times": [SECONDS, SECONDS]}]}"#;

/// A repository whose builds give this host's SeaBIOS.
const SEABIOS: &str = "
    git init -q seabios && cd seabios
    git config user.name a && git config user.email a@example.org
    printf 'all:\\n\\tmkdir -p out && cp /usr/share/seabios/bios-256k.bin out/bios.bin\\n' > Makefile
    git add Makefile && git commit -qm first && git tag rel-1.16.2
    for name in second third; do echo $name > $name && git add $name && git commit -qm $name; done";
