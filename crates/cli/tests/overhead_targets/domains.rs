//! Domains of libvirt as targets, and the ways into their guests.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brisk_testkit::{
    Brisk, Libvirt, agent_initramfs, brisk_of, capture, changed_ratio, missing, script, tool,
    trial, until,
};
use libtest_mimic::Trial;

use super::{
    LOOP, allowed, initramfs, is_counted, kernel, login_initramfs, measure_with, overhead,
    run_script,
};

/// Tests that need libvirt.
pub(super) fn trials() -> Vec<Trial> {
    let of = |name: &str, lacking: Option<String>, test: fn()| {
        let lacking = missing("libvirtd").or_else(Libvirt::forbidden).or(lacking);
        trial(name, lacking, test)
    };
    vec![
        of(
            "a_domain_is_measured_by_its_console_and_left_as_it_was",
            None,
            a_domain_is_measured_by_its_console_and_left_as_it_was,
        ),
        of(
            "what_a_change_of_a_domain_is_worth_is_measured",
            None,
            what_a_change_of_a_domain_is_worth_is_measured,
        ),
        of(
            "a_domain_is_measured_by_its_agent_where_nobody_can_log_in",
            None,
            a_domain_is_measured_by_its_agent_where_nobody_can_log_in,
        ),
        of(
            "a_domain_is_measured_by_its_ssh_server",
            missing("dropbearkey").or_else(|| missing("ssh")),
            a_domain_is_measured_by_its_ssh_server,
        ),
    ]
}

/// A domain of one processor whose kernel writes to its first serial port.
fn definition(name: &str, initramfs: &Path, devices: &str) -> String {
    format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>256</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type><kernel>{}</kernel>\
         <initrd>{}</initrd><cmdline>console=ttyS0 quiet</cmdline></os>\
         <features><acpi/><apic/></features><devices><emulator>{}</emulator>\
         <memballoon model='none'/>{devices}</devices></domain>",
        kernel().display(),
        initramfs.display(),
        tool("qemu-system-x86_64").display(),
    )
}

/// The domain is started in turn as it is and with another cache of its disk.
fn what_a_change_of_a_domain_is_worth_is_measured() {
    let libvirt = Libvirt::start();
    let dir = libvirt.directory();
    let disk = dir.join("disk.raw");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let devices = format!(
        "<console type='pty'/><disk type='file' device='disk'>\
         <driver name='qemu' type='raw' cache='unsafe'/><source file='{}'/>\
         <target dev='vda' bus='virtio'/></disk>",
        disk.display(),
    );
    libvirt.define(&definition("web", &login_initramfs(&dir), &devices));
    let before = libvirt.virsh(&["dumpxml", "--inactive", "web"]);
    let tried = brisk_of!["overhead", "fix", "--domain=web", "--try", "--rounds=1"]
        .args(["--keep-disturbed", "--command", LOOP])
        .env("LIBVIRT_DEFAULT_URI", libvirt.uri())
        .exits(0);
    let text = tried.text();
    assert!(text.contains("cache='writeback'"), "{text}");
    let note = text.lines().find(|line| line.ends_with("[unsafe-cache]"));
    assert!(
        note.unwrap().starts_with("Note: guest: with caveat"),
        "{text}"
    );
    let ratio = changed_ratio(&text, "guest");
    assert!((0.2..5.0).contains(&ratio), "{text}");
    assert_eq!(libvirt.virsh(&["dumpxml", "--inactive", "web"]), before);
    assert_eq!(libvirt.virsh(&["domstate", "web"]), "shut off");
}

/// An initramfs with the guest agent and the programs of busybox, where nobody can log in.
fn initramfs_of_agent(directory: &Path) -> PathBuf {
    let base = directory.join("base");
    let _ = brisk_of!["initramfs", "build", "--root", "none", "--machine", "q35"]
        .arg("--kernel")
        .arg(kernel())
        .arg("--output")
        .arg(&base)
        .exits(0);
    let path = agent_initramfs(&base, directory);
    let script = r#"
mkdir -p "$1/links/tmp"
cd "$1/links"
programs
find . | bin/busybox cpio -o -H newc >>"$2"
"#;
    run_script(script, &[directory, &path], &[]);
    path
}

fn a_domain_is_measured_by_its_agent_where_nobody_can_log_in() {
    let libvirt = Libvirt::start();
    let initramfs = initramfs_of_agent(&libvirt.directory());
    let define = |name: &str, channel: &str| {
        let devices = format!("<console type='pty'/>{channel}");
        libvirt.define(&definition(name, &initramfs, &devices));
        libvirt.virsh(&["start", name]);
    };
    define(
        "web",
        "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
    );
    define("mute", "");
    let with = |brisk: Brisk| brisk.env("LIBVIRT_DEFAULT_URI", libvirt.uri());
    let words = ["--timeout=100s", "--target=x=libvirt:web,via=agent"];
    let mute = with(overhead(&libvirt.directory(), "true"));
    let mute = mute.arg("--target=x=libvirt:mute,via=agent").exits(125);
    mute.explains(&["target x: ", "agent", "qemu-guest-agent"]);
    libvirt.virsh(&["destroy", "mute"]);
    let ping = ["qemu-agent-command", "web", "{\"execute\":\"guest-ping\"}"];
    until("the agent answers", || {
        libvirt.try_virsh(&ping).status.success().then_some(())
    });
    for _ in 0..2 {
        let measured = measure_with(with, LOOP, &words);
        is_counted(&measured, "x");
    }
    assert_eq!(libvirt.virsh(&["domstate", "web"]), "running");
}

fn a_domain_is_measured_by_its_console_and_left_as_it_was() {
    let libvirt = Libvirt::start();
    let dir = libvirt.directory();
    let initramfs = login_initramfs(&dir);
    let define = |name: &str, devices: &str| {
        libvirt.define(&definition(name, &initramfs, devices));
    };
    define("web", "<console type='pty'/>");
    define("mute", "");
    let with = |brisk: Brisk| brisk.env("LIBVIRT_DEFAULT_URI", libvirt.uri());
    let refused = |target: &str, text: &str| {
        let run = with(overhead(&dir, "true").args(["--target", target]));
        run.exits(125).explains(&["target x: ", text]);
    };
    refused("x=libvirt:web", "virsh start web");
    refused("x=libvirt:none", "has no domain none");
    libvirt.virsh(&["start", "mute"]);
    refused("x=libvirt:mute", "has no console");
    libvirt.virsh(&["destroy", "mute"]);
    libvirt.virsh(&["start", "web"]);
    let qemu = libvirt.process("web").pid;
    let before = allowed(qemu);
    let words = ["--timeout=100s", "--target=x=libvirt:web"];
    let measured = measure_with(with, LOOP, &words);
    is_counted(&measured, "x");
    assert_eq!(measured.fact("x: accelerators"), "tcg");
    assert_eq!(allowed(qemu), before);
    // Its shell has logged out, and another one can log in.
    let measured = measure_with(with, "true", &words);
    assert!(measured.value("x", "time") > 0.0);
    assert_eq!(libvirt.virsh(&["domstate", "web"]), "running");
}

/// An initramfs with a server of SSH that lets root in with the key `identity`, made in `directory`.
fn initramfs_of_ssh(directory: &Path, identity: &Path) -> PathBuf {
    let host_key = directory.join("host-key");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (program, key) in [("ssh-keygen", identity), ("dropbearkey", &host_key)] {
        let passphrase: &[&str] = match program {
            "ssh-keygen" => &["-q", "-N", ""],
            _ => &[],
        };
        let words = ["-t", "ed25519", "-f", &text(key)];
        let _ = capture(&tool(program), &[passphrase, &words].concat());
    }
    let base = directory.join("base");
    let words = [
        "initramfs",
        "build",
        "--root=none",
        "--machine=q35",
        "--net=user",
    ];
    let _ = brisk_of![]
        .args(words)
        .arg("--kernel")
        .arg(kernel())
        .arg("--output")
        .arg(&base)
        .exits(0);
    let init = "#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
while read -r module; do insmod $module; done </modules
ifconfig eth0 10.0.2.15
exec dropbear -F -E -s -r /etc/host-key
";
    let more = format!(
        "mkdir -p root/.ssh sys var/run && chmod 700 root root/.ssh
         cp '{0}' etc/host-key && cp '{1}.pub' root/.ssh/authorized_keys && cp '{2}' bin/dropbear
         for file in $(ldd '{2}' | grep -o '/[^ ]*'); do
             mkdir -p \".${{file%/*}}\" && cp -L \"$file\" \".$file\"
         done",
        host_key.display(),
        identity.display(),
        tool("dropbear").display(),
    );
    let own = initramfs(directory, init, &more);
    let joined = directory.join("joined");
    // The later part wins.
    let parts = [fs::read(&base).unwrap(), fs::read(own).unwrap()];
    fs::write(&joined, parts.concat()).unwrap();
    joined
}

/// A port of the host that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn a_domain_is_measured_by_its_ssh_server() {
    let libvirt = Libvirt::start();
    let dir = libvirt.directory();
    let identity = dir.join("identity");
    let initramfs = initramfs_of_ssh(&dir, &identity);
    let port = free_port();
    let plain = definition("web", &initramfs, "<console type='pty'/>");
    let plain = plain.replacen(
        "<domain ",
        "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ",
        1,
    );
    let forwarded = format!(
        "<qemu:commandline><qemu:arg value='-netdev'/>\
         <qemu:arg value='user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22'/>\
         <qemu:arg value='-device'/><qemu:arg value='virtio-net-pci,netdev=ssh,addr=0x10'/>\
         </qemu:commandline></domain>"
    );
    libvirt.define(&plain.replace("</domain>", &forwarded));
    libvirt.virsh(&["start", "web"]);
    until("the server answers", || {
        let mut banner = [0; 4];
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.read_exact(&mut banner).ok()?;
        (&banner == b"SSH-").then_some(())
    });
    // As a user's ~/.ssh/config has it.
    let config = dir.join("config");
    let lines = format!(
        "Host web\nHostName 127.0.0.1\nPort {port}\nUser root\nIdentityFile {}\n\
         StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n\
         Host closed\nHostName 127.0.0.1\nPort 1\n",
        identity.display()
    );
    fs::write(&config, lines).unwrap();
    let programs = dir.join("programs");
    fs::create_dir(&programs).unwrap();
    let ssh = format!(
        "#!/bin/sh\nexec {} -F {} \"$@\"\n",
        tool("ssh").display(),
        config.display()
    );
    script(&programs.join("ssh"), &ssh);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let with = |brisk: Brisk| {
        brisk
            .env("LIBVIRT_DEFAULT_URI", libvirt.uri())
            .env("PATH", &path)
    };
    let words = ["--timeout=100s", "--target=x=libvirt:web,via=ssh:web"];
    let measured = measure_with(with, LOOP, &words);
    is_counted(&measured, "x");
    assert_eq!(measured.fact("x: accelerators"), "tcg");
    // By a prefix its QEMU is not known: only ssh itself is counted.
    let longer = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let elsewhere = with(overhead(&dir, longer));
    let words = ["--timeout=100s", "--target=far=command:ssh web"];
    let text = elsewhere.args(words).exits(0).text();
    for rule in ["[works-elsewhere]", "[other-processor]"] {
        assert!(text.contains(rule), "{text}");
    }
    // What ssh says is the reason that is shown.
    let wrong = with(overhead(&dir, "true"));
    let wrong = wrong.arg("--target=x=libvirt:web,via=ssh:closed");
    let text = wrong.exits(125).text();
    let reason = "x: 1 run failed: the target ended: exit status: 255: ssh: connect to \
                  host 127.0.0.1 port 1: Connection refused";
    assert!(text.contains(reason), "{text}");
    assert_eq!(libvirt.virsh(&["domstate", "web"]), "running");
}
