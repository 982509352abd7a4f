//! A libvirt of a test's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::leftovers::Process;
use crate::program::tool;

/// A session daemon with everything in a directory of its own. It and its domains end when this
/// is dropped.
#[derive(Debug)]
pub struct Libvirt {
    directory: TempDir,
    daemon: Child,
}

/// Runs a program as a user who is not root to itself.
fn in_user_namespace() -> Command {
    let mut command = Command::new(tool("unshare"));
    command.args(["--user", "--map-user=65534", "--map-group=65534"]);
    command
}

/// A search path without the directories of newer programs: a libvirt runs the QEMU that it came
/// with, for that of Debian 12 gives options that QEMU 10 does not have.
fn without_newer(path: OsString) -> OsString {
    let newer: Vec<_> = brisk_host::beside::dirs()
        .into_iter()
        .map(|dir| dir.join("bin"))
        .collect();
    let system = std::env::split_paths(&path).filter(|dir| !newer.contains(dir));
    std::env::join_paths(system).unwrap()
}

impl Libvirt {
    /// Reason why no domain can be started here; `None` if one can, which is found out by starting
    /// one. Old versions of libvirt need more of a system than a container has.
    ///
    /// # Panics
    /// If a program that this needs is not installed.
    #[must_use]
    pub fn forbidden() -> Option<String> {
        if rustix::process::geteuid().is_root() {
            let output = in_user_namespace().arg("true").output().unwrap();
            if !output.status.success() {
                return Some("no user namespaces here, and the daemon must not be root's".into());
            }
        }
        let libvirt = Self::start();
        libvirt.define(
            "<domain type='qemu'><name>probe</name><memory>65536</memory>\
             <os><type arch='x86_64' machine='pc'>hvm</type></os></domain>",
        );
        let output = libvirt.try_virsh(&["start", "probe", "--paused"]);
        if output.status.success() {
            let _ = libvirt.virsh(&["destroy", "probe"]);
            return None;
        }
        let stderr = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        Some(format!("libvirt starts no domain here: {}", stderr.trim()))
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it is not installed, or does not answer.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        // Sockets have short paths, and there are directories in this one.
        let directory = TempDir::with_prefix_in("lv-", "/tmp").unwrap();
        // The daemon of a user needs no rights and no services, but it must not be root's. In a
        // user namespace root has another number.
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = in_user_namespace();
            command.arg(tool("libvirtd"));
            command
        } else {
            Command::new(tool("libvirtd"))
        };
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .env(
                "PATH",
                without_newer(std::env::var_os("PATH").unwrap_or_default()),
            )
            .env_remove("LIBVIRT_DEFAULT_URI");
        for (variable, name) in [
            ("HOME", "home"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            command.env(variable, path);
        }
        let mut libvirt = Self {
            daemon: command.spawn().unwrap(),
            directory,
        };
        crate::until("libvirt answers", || {
            let ended = libvirt.daemon.try_wait().unwrap();
            let log = libvirt.directory.path().join("log");
            assert!(
                ended.is_none(),
                "libvirtd: {ended:?}\n{}",
                std::fs::read_to_string(log).unwrap()
            );
            libvirt.try_virsh(&["uri"]).status.success().then_some(())
        });
        libvirt
    }

    /// URI to connect to.
    #[must_use]
    pub fn uri(&self) -> String {
        let socket = self.directory.path().join("run/libvirt/libvirt-sock");
        format!("qemu+unix:///session?socket={}", socket.display())
    }

    /// A directory for files of domains.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// QEMU of a domain that runs.
    #[must_use]
    pub fn process(&self, domain: &str) -> Process {
        let file = format!("run/libvirt/qemu/run/{domain}.pid");
        let number = std::fs::read_to_string(self.directory.path().join(file)).unwrap();
        Process {
            pid: number.trim().parse().unwrap(),
            words: Vec::new(),
        }
    }

    /// Defines a domain by its XML.
    #[track_caller]
    pub fn define(&self, xml: &str) {
        let path = self.directory().join("domain.xml");
        std::fs::write(&path, xml).unwrap();
        let _ = self.virsh(&["define", path.to_str().unwrap()]);
    }

    /// A command of virsh that must succeed, and what it printed.
    #[track_caller]
    pub fn virsh(&self, words: &[&str]) -> String {
        let output = self.try_virsh(words);
        assert!(output.status.success(), "virsh {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs `virsh`, which may fail.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn try_virsh(&self, words: &[&str]) -> Output {
        Command::new(tool("virsh"))
            .env("LC_ALL", "C")
            .args(["-q", "-c", &self.uri()])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        let names = self.try_virsh(&["list", "--name"]).stdout;
        for name in String::from_utf8_lossy(&names).split_whitespace() {
            let _ = self.try_virsh(&["destroy", name]);
        }
        if let Some(pid) = Pid::from_raw(self.daemon.id() as i32) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.daemon.wait();
    }
}

/// An initramfs whose init starts the QEMU guest agent of the host, for a kernel with the
/// modules of `base`, an initramfs of brisk's.
///
/// # Panics
/// If the agent, busybox or cpio is not installed.
#[track_caller]
pub fn agent_initramfs(base: &Path, directory: &Path) -> PathBuf {
    let script = r#"
set -e
mkdir tree
cd tree
mkdir -p proc sys dev run tmp var sbin etc
for file in $AGENT $(ldd $AGENT | grep -o '/[^ ]*'); do
    mkdir -p ".${file%/*}"
    cp -L "$file" ".$file"
done
cat > init <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod $module; done < /modules
port=
while [ -z "$port" ]; do
    for name in /sys/class/virtio-ports/*/name; do
        [ "$($b cat $name)" = org.qemu.guest_agent.0 ] || continue
        port=${name%/name}
    done
done
echo "the agent starts"
exec AGENT --method virtio-serial --path /dev/${port##*/} --statedir /run
END
sed -i "s:AGENT:$AGENT:" init
printf '#!/bin/busybox sh\nexec /bin/busybox poweroff -f\n' > sbin/shutdown
chmod 755 init sbin/shutdown
cp "$BASE" ../joined
find . | busybox cpio -o -H newc >> ../joined 2>../cpio.log
"#;
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .env("AGENT", std::fs::canonicalize(tool("qemu-ga")).unwrap())
        .env("BASE", base)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    directory.join("joined")
}
