//! Domains of libvirt that go down and come up with the host.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::PathBuf;

use brisk_testkit::{Brisk, Libvirt, Machines, Signal, brisk_of, trials, until};
use libtest_mimic::Arguments;
use serde_json::Value;

fn main() {
    let tests: [(&str, fn()); 6] = [
        (
            "domains_are_saved_and_started_with_the_host",
            saved_and_started,
        ),
        ("a_note_about_another_save_is_void", void),
        ("a_save_goes_on_when_brisk_is_killed", killed),
        ("a_domain_that_cannot_be_saved_is_shut_down", refused),
        ("a_libvirt_that_is_not_there_stops_no_other", not_there),
        ("a_configuration_that_is_wrong_stops_no_other", wrong),
    ];
    let all = trials(Libvirt::forbidden(), tests);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

struct Host {
    all: Machines,
    libvirt: Libvirt,
}

impl Host {
    /// A libvirt with two domains, one of which runs; and a configuration that names them and one
    /// that is not defined.
    fn new() -> Self {
        let libvirt = Libvirt::start();
        for name in ["web", "it's 1 domain"] {
            libvirt.define(&format!(
                "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>\
                 <os><type arch='x86_64' machine='pc'>hvm</type></os></domain>"
            ));
        }
        libvirt.virsh(&["start", "web"]);
        let host = Self {
            all: Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR")),
            libvirt,
        };
        let uri = host.libvirt.uri();
        host.configure(&format!(
            "libvirt = ['web', \"it's 1 domain\"]\nuri = '{uri}'\n"
        ));
        host
    }

    fn configure(&self, vms: &str) {
        let config = self.all.dir().join("config");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("reboot.toml"), format!("[vms]\n{vms}")).unwrap();
    }

    /// A command that knows where this libvirt saves domains.
    fn vm(&self, words: &[&str]) -> Brisk {
        let config = self.libvirt.directory().with_file_name("config");
        self.all.vm(words).env("XDG_CONFIG_HOME", config)
    }

    fn states(&self) -> [String; 2] {
        ["web", "it's 1 domain"].map(|name| self.libvirt.virsh(&["domstate", name]))
    }

    fn is_saved(&self) -> bool {
        let info = self.libvirt.virsh(&["dominfo", "web"]);
        let line = info.lines().find(|line| line.starts_with("Managed save:"));
        line.unwrap().ends_with("yes")
    }

    /// Files of notes.
    fn note_files(&self) -> Vec<PathBuf> {
        let list = fs::read_dir(self.all.dir().join("state/domains"));
        let files = list
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        // One that is being written has another name.
        files
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect()
    }

    /// Number of notes.
    fn notes(&self) -> usize {
        self.note_files().len()
    }

    /// What the note says, if there is one.
    fn note(&self) -> Option<Value> {
        let text = fs::read(self.note_files().first()?).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn saved_and_started() {
    let host = Host::new();
    let down = host.vm(&["autostop"]).exits(0);
    let down = down.explains(&["libvirt:web: suspended in"]);
    assert!(!down.stderr.contains("1 domain"), "{}", down.stderr);
    assert_eq!(host.states(), ["shut off", "shut off"]);
    assert!(host.is_saved());
    // The note survives when the host goes down once more, as after brisk reboot.
    let again = host.vm(&["autostop"]).exits(0);
    assert!(!again.stderr.contains("libvirt:"), "{}", again.stderr);
    assert_eq!(host.notes(), 1);
    let up = host.vm(&["autostart"]).exits(0);
    let _ = up.explains(&["libvirt:web: resumed in"]);
    assert_eq!(host.states(), ["running", "shut off"]);
    assert_eq!((host.is_saved(), host.notes()), (false, 0));
    let again = host.vm(&["autostart"]).exits(0);
    assert!(!again.stderr.contains("libvirt:"), "{}", again.stderr);
}

fn void() {
    let host = Host::new();
    let libvirt = &host.libvirt;
    let nothing = |host: &Host| {
        let up = host.vm(&["autostart"]).exits(0);
        assert!(!up.stderr.contains("libvirt:"), "{}", up.stderr);
        assert_eq!(host.notes(), 0);
    };
    // The administrator discards it.
    let _ = host.vm(&["autostop"]).exits(0);
    libvirt.virsh(&["managedsave-remove", "web"]);
    nothing(&host);
    assert_eq!(host.states(), ["shut off", "shut off"]);
    // The administrator starts it, and saves it for another time.
    libvirt.virsh(&["start", "web"]);
    let _ = host.vm(&["autostop"]).exits(0);
    libvirt.virsh(&["start", "web"]);
    libvirt.virsh(&["managedsave", "web"]);
    nothing(&host);
    assert!(host.is_saved());
    // libvirt-guests or its autostart was there before.
    libvirt.virsh(&["start", "web"]);
    let _ = host.vm(&["autostop"]).exits(0);
    libvirt.virsh(&["start", "web"]);
    nothing(&host);
    assert_eq!(host.states(), ["running", "shut off"]);
    // It is gone.
    let _ = host.vm(&["autostop"]).exits(0);
    libvirt.virsh(&["undefine", "--managed-save", "web"]);
    let up = host.vm(&["autostart"]).exits(125);
    let _ = up.explains(&["error: libvirt:web: ", "has no domain"]);
    let _ = host.vm(&["autostart"]).exits(0);
}

fn killed() {
    let host = Host::new();
    let run = host.vm(&["autostop"]).spawn();
    let config = host.libvirt.directory().with_file_name("config");
    let image = config.join("libvirt/qemu/save/web.save");
    until("libvirt saves it", || image.exists().then_some(()));
    run.signal(Signal::KILL);
    let _ = run.wait();
    // libvirt goes on, or has done so.
    let up = host.vm(&["autostart"]).exits(0);
    assert!(!up.stderr.contains("error"), "{}", up.stderr);
    assert_eq!(host.states(), ["running", "shut off"]);
    assert_eq!((host.is_saved(), host.notes()), (false, 0));
    // It was saved, and nothing more could be written.
    let down = host.vm(&["autostop"]).exits(0);
    let _ = down.explains(&["libvirt:web: suspended in"]);
    let mut note = host.note().unwrap();
    note["xml"] = Value::Null;
    note["image"] = Value::Null;
    fs::write(&host.note_files()[0], note.to_string()).unwrap();
    let up = host.vm(&["autostart"]).exits(0);
    let _ = up.explains(&["libvirt:web: resumed in"]);
}

fn refused() {
    let host = Host::new();
    let xml = host.libvirt.virsh(&["dumpxml", "it's 1 domain"]);
    let path = host.all.dir().join("domain.xml");
    fs::write(&path, xml).unwrap();
    // One that is not defined any more when it ends. It has no system that would shut down.
    host.libvirt.virsh(&["undefine", "it's 1 domain"]);
    host.libvirt.virsh(&["create", path.to_str().unwrap()]);
    let down = host.vm(&["autostop", "--timeout", "2s"]).exits(125);
    let _ = down.explains(&[
        "libvirt:web: suspended in",
        "error: libvirt:it's 1 domain: it was not suspended, and did not stop either: ",
        "transient",
    ]);
    assert_eq!(host.states(), ["shut off", "running"]);
    // libvirt leaves domains that run when it ends.
    host.libvirt.virsh(&["destroy", "it's 1 domain"]);
}

fn not_there() {
    let host = Host::new();
    let uri = host.libvirt.uri();
    host.configure(&format!("libvirt = ['gone', 'web']\nuri = '{uri}'\n"));
    let down = host.vm(&["autostop"]).exits(125);
    let _ = down.explains(&[
        "libvirt:web: suspended in",
        "error: libvirt:gone: ",
        "has no domain gone",
    ]);
    host.configure("libvirt = ['web']\nuri = 'qemu+unix:///session?socket=/nonexistent'\n");
    host.all
        .boot("a", &["--autoshutdown", "suspend", "--compression", "lz4"]);
    let down = host.vm(&["autostop"]).exits(125);
    let _ = down.explains(&[
        "a: suspended in",
        "error: libvirt:web: no connection to libvirt",
        "/nonexistent",
    ]);
    // The note says which libvirt it was.
    let up = host.vm(&["autostart"]).exits(0);
    let _ = up.explains(&["a: resumed in", "libvirt:web: resumed in"]);
    let _ = host.all.does(&["kill", "a"]);
}

fn wrong() {
    let host = Host::new();
    host.configure("libvirt = ['-x']\n");
    host.all
        .boot("a", &["--autoshutdown", "suspend", "--compression", "lz4"]);
    let down = host.vm(&["autostop"]).exits(125);
    let _ = down.explains(&["a: suspended in", "reboot.toml: line 2", "virsh list --all"]);
    assert_eq!(host.states(), ["running", "shut off"]);
    let _ = host.all.does(&["discard", "a"]);
}
