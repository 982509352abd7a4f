//! What idle guests cost is measured of real ones, by thread and role.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use brisk_testkit::{Brisk, Libvirt, Machines, brisk_of, busybox, capture, tool, trial};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn main() {
    let arguments = Arguments::from_args();
    let tests: [(&str, fn()); 9] = [
        (
            "a_guest_that_spins_is_told_from_one_that_idles",
            a_guest_that_spins_is_told_from_one_that_idles,
        ),
        ("rates_speak_for_their_causes", rates_speak_for_their_causes),
        (
            "threads_without_names_are_said_to_be_so",
            threads_without_names_are_said_to_be_so,
        ),
        (
            "a_brisk_vm_is_measured_by_its_name",
            a_brisk_vm_is_measured_by_its_name,
        ),
        ("a_live_view_ends_with_ctrl_c", a_live_view_ends_with_ctrl_c),
        (
            "an_interrupted_measurement_prints_what_there_is",
            an_interrupted_measurement_prints_what_there_is,
        ),
        (
            "a_guest_that_ends_meanwhile_has_numbers",
            a_guest_that_ends_meanwhile_has_numbers,
        ),
        (
            "pictures_reports_and_formats_agree",
            pictures_reports_and_formats_agree,
        ),
        (
            "what_cannot_be_measured_says_why_and_what_to_try",
            what_cannot_be_measured_says_why_and_what_to_try,
        ),
    ];
    let mut trials: Vec<_> = tests
        .into_iter()
        .map(|(name, test)| trial(name, None::<String>, test))
        .collect();
    trials.push(trial(
        "a_domain_is_measured_by_its_name",
        Libvirt::forbidden(),
        a_domain_is_measured_by_its_name,
    ));
    trials.push(trial(
        "guests_that_proc_hides_are_said_to_be_missing",
        no_mounts(),
        guests_that_proc_hides_are_said_to_be_missing,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A QEMU of the test's own whose guest runs busybox.
struct Guest {
    qemu: Child,
    _files: TempDir,
}

const INIT: &str = "#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc
$b mount -t proc proc /proc
for n in 1 2 3; do echo; echo init-runs; done
if $b grep -q spin /proc/cmdline; then while :; do :; done; fi
$b sleep 1000000
";

fn kernel() -> PathBuf {
    let kernels = fs::read_dir("/boot").unwrap();
    kernels
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("/vmlinuz-"))
        .max()
        .unwrap()
}

fn initramfs(directory: &Path) -> PathBuf {
    let tree = directory.join("tree");
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::copy(busybox(), tree.join("bin/busybox")).unwrap();
    fs::write(tree.join("init"), INIT).unwrap();
    let script = "cd $0 && chmod 755 init && find . | $1 cpio -o -H newc >../initramfs";
    let words = [tree.to_str().unwrap(), busybox().to_str().unwrap()].map(str::to_owned);
    let _ = capture(&tool("sh"), &["-c", script, &words[0], &words[1]]);
    directory.join("initramfs")
}

impl Guest {
    /// Starts it and waits until its init runs. `does` is `spin` or `idle`.
    fn start(does: &str, words: &[&str]) -> Self {
        let files = tempdir().unwrap();
        let mut qemu = Command::new(tool("qemu-system-x86_64"))
            .args(["-display", "none", "-nodefaults"])
            .args(["-serial", "stdio", "-m", "128", "-append"])
            .arg(format!("console=ttyS0 quiet {does}"))
            .arg("-kernel")
            .arg(kernel())
            .arg("-initrd")
            .arg(initramfs(files.path()))
            .args(words)
            // The first accelerator that is there is taken.
            .args(["-accel", "tcg"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let console = BufReader::new(qemu.stdout.as_mut().unwrap());
        let mut lines = console.lines().map_while(Result::ok);
        // Of several, since the kernel may write into one.
        assert!(lines.any(|line| line.contains("init-runs")), "no init");
        Self {
            qemu,
            _files: files,
        }
    }

    fn pid(&self) -> String {
        self.qemu.id().to_string()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Without waiting: what the guest does is known.
fn measure(time: &str) -> Brisk {
    brisk_of!["idle", "measure", "--settle", "0", "--time", time]
}

fn json(run: Brisk) -> Value {
    let text = run.args(["--format", "json"]).exits(0).text();
    serde_json::from_str(&text).unwrap()
}

/// Place of a guest in the ranking, and what was measured of it.
fn guest<'a>(value: &'a Value, pid: &str) -> (usize, &'a Value) {
    let guests = value["guests"].as_array().unwrap();
    let is_it = |guest: &Value| guest["pid"].as_u64() == pid.parse().ok();
    let place = guests.iter().position(is_it);
    let place = place.unwrap_or_else(|| panic!("no {pid} in {value}"));
    (place, &guests[place])
}

/// CPU time of a role's threads, and the time in which they could have run, in percent: a host with
/// other work gives them less.
fn role(guest: &Value, role: &Value) -> (f64, f64) {
    let threads = guest["threads"].as_array().unwrap();
    let with_role = threads.iter().filter(|thread| thread["role"] == *role);
    let number = |thread: &Value, name: &str| thread[name].as_f64().unwrap();
    let of = |thread: &Value| {
        let cpu = number(thread, "cpu_percent");
        (cpu, cpu + number(thread, "waiting_percent"))
    };
    let sum = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let found = with_role.map(of).reduce(sum);
    found.unwrap_or_else(|| panic!("no thread is {role} in {guest}"))
}

fn a_guest_that_spins_is_told_from_one_that_idles() {
    // One with a thread for each virtual CPU, one with a single thread for both.
    let idle = Guest::start(
        "idle",
        &[
            "-name",
            "sleeper,debug-threads=on",
            "-smp",
            "2",
            "-object",
            "iothread,id=io0",
        ],
    );
    let spin = Guest::start(
        "spin",
        &[
            "-name",
            "spinner,debug-threads=on",
            "-smp",
            "2",
            "-accel",
            "tcg,thread=single",
        ],
    );
    let value = json(measure("4").arg("--all"));
    let (idle_place, idle_found) = guest(&value, &idle.pid());
    let (spin_place, spin_found) = guest(&value, &spin.pid());
    assert!(spin_place < idle_place, "{spin_place} {idle_place}");
    assert_eq!(
        [&spin_found["name"], &idle_found["name"]],
        ["spinner", "sleeper"]
    );
    let (spinning, runnable) = role(spin_found, &"all-vcpus".into());
    assert!(runnable > 50.0, "{spin_found}");
    // Attributed to the thread that spins.
    assert!(
        spinning > role(spin_found, &"main".into()).0,
        "{spin_found}"
    );
    let vcpu = |index: u32| serde_json::json!({ "vcpu": index });
    for name in [vcpu(0), vcpu(1), "main".into()] {
        let (cpu, _) = role(idle_found, &name);
        assert!(cpu < 50.0 && cpu < spinning, "{name}: {idle_found}");
    }
    let iothread = serde_json::json!({ "iothread": "io0" });
    assert!(role(idle_found, &iothread).0 < 1.0, "{idle_found}");
    // A guest with a tick is woken; the total is that of its threads.
    assert!(idle_found["wakeups_per_second"].as_f64().unwrap() > 1.0);
    let signature = &idle_found["signature"];
    assert_eq!(signature["vcpu_cpu"].as_array().unwrap().len(), 2);
    assert!(signature["main_wakeups"].as_f64().unwrap() > 0.0);
    let hours = idle_found["cpu_hours_per_day"].as_f64().unwrap();
    let cpu = idle_found["cpu_percent"].as_f64().unwrap();
    assert!((hours - cpu * 0.24).abs() < 1e-6, "{hours} {cpu}");
    // As a table, ranked, with a total. Other guests run meanwhile.
    let text = measure("1").arg("--all").exits(0).text();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("\nspinner ") < at("\nsleeper ") && at("\nsleeper ") < at("\ntotal "));
}

/// A kernel that ticks on wakes its vCPU at once, however busy the host is.
fn rates_speak_for_their_causes() {
    let guest = Guest::start(
        "idle nohz=off",
        &["-M", "pc,hpet=off", "-name", "ticker,debug-threads=on"],
    );
    let value = json(measure("3").args(["--pid", &guest.pid()]));
    let likely = value["guests"][0]["likely"].as_array().unwrap();
    let rules: Vec<_> = likely.iter().map(|one| &one["rule"]).collect();
    assert_eq!(rules, ["nohz"], "{value}");
    let evidence = likely[0]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("a vCPU wakes "), "{evidence}");
    let text = measure("3").args(["--pid", &guest.pid()]).exits(0).text();
    for part in [
        "\nLikely: nohz: a vCPU wakes ".to_owned(),
        "\n        fix: -append ".to_owned(),
        format!("\nbrisk idle fix --pid {} shows", guest.pid()),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    // Beside another one that has nothing of the kind.
    let quiet = Guest::start("idle", &["-M", "pc,hpet=off", "-name", "quiet"]);
    let text = measure("1").arg("--all").exits(0).text();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("ticker").ends_with("nohz"), "{text}");
    assert!(!row("quiet").contains("nohz"), "{text}");
    let lint = |measured: &[&str]| {
        let run = brisk_of!["idle", "lint", "--format", "json", "--pid"];
        let run = run.arg(guest.pid()).args(measured);
        let text = run.exits(1).text();
        serde_json::from_str::<Value>(&text).unwrap()["guests"][0]["findings"][0].take()
    };
    let measured = lint(&["--measure", "--settle", "0", "--time", "3"]);
    let evidence = measured["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("a vCPU wakes "), "{measured}");
    assert_eq!(lint(&[])["evidence"], Value::Null);
    drop(quiet);
}

fn threads_without_names_are_said_to_be_so() {
    let guest = Guest::start("idle", &["-name", "plain"]);
    let text = measure("1").args(["--pid", &guest.pid()]).exits(0).text();
    for part in [
        "plain (QEMU, process ",
        "unnamed",
        "main",
        "Note: plain has unnamed threads",
        "-name plain,debug-threads=on",
        "exits: not known: tcg does not count exits",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

fn a_brisk_vm_is_measured_by_its_name() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let run = |words: &[&str]| {
        measure("1")
            .args(words)
            .env("BRISK_CONFIG_DIR", all.dir().join("config"))
            .env("BRISK_STATE_DIR", all.dir().join("state"))
            .env("BRISK_RUNTIME_DIR", all.memory().join("run"))
    };
    let _ = all.does(&["create", "a", "--memory", "128M"]);
    let _ = run(&["--vm", "a"])
        .exits(125)
        .explains(&["VM a is off", "brisk vm start a"]);
    let _ = all.does(&["start", "a"]);
    let value = json(run(&["--vm", "a"]));
    let found = &value["guests"][0];
    assert_eq!([&found["name"], &found["kind"]], ["a", "vm"]);
    // Whether or not its threads have names.
    let _ = role(found, &serde_json::json!({ "vcpu": 0 }));
    // Measuring leaves it as it is.
    assert_eq!(all.doing("a"), "running");
    let _ = run(&["--vm", "b"]).exits(125).explains(&["no VM b"]);
}

fn a_domain_is_measured_by_its_name() {
    let libvirt = Libvirt::start();
    libvirt.define(&format!(
        "<domain type='qemu'><name>calm</name><memory unit='MiB'>128</memory>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/><apic/></features>\
         <devices><emulator>{}</emulator>\
         </devices></domain>",
        tool("qemu-system-x86_64").display()
    ));
    let uri = libvirt.uri();
    let run = |name: &str| measure("1").args(["--domain", name, "--connect", &uri]);
    let _ = run("calm")
        .exits(125)
        .explains(&["is shut off", "virsh start"]);
    let _ = run("none").exits(125).explains(&["has no domain none"]);
    let _ = libvirt.virsh(&["start", "calm"]);
    let value = json(run("calm"));
    let found = &value["guests"][0];
    assert_eq!([&found["name"], &found["kind"]], ["calm", "domain"]);
    let pid = libvirt.process("calm").pid;
    assert_eq!(found["pid"], pid);
    // libvirt has QEMU name its threads.
    let _ = role(found, &serde_json::json!({ "vcpu": 0 }));
    // By its number it is a domain, too.
    let value = json(measure("1").args(["--pid", &pid.to_string()]));
    assert_eq!(value["guests"][0]["kind"], "domain");
    let _ = libvirt.virsh(&["destroy", "calm"]);
}

/// A measurement without an end on a terminal, after its first window.
fn watched(words: &[&str], guest: &Guest) -> (brisk_testkit::Running, brisk_testkit::Window) {
    let run = brisk_of!["idle", "measure", "--settle", "0", "--pid", guest.pid()];
    let (mut run, window) = run.args(words).on_terminal(40, 120);
    run.shows("vCPU 0");
    (run, window)
}

fn a_live_view_ends_with_ctrl_c() {
    let guest = Guest::start("idle", &["-name", "calm,debug-threads=on"]);
    let (run, mut window) = watched(&["--live"], &guest);
    window.types("\x03");
    let text = run.wait().exited(0).text();
    let end = text.rfind("calm (QEMU").unwrap();
    assert!(text[end..].contains("measured"), "{text}");
}

fn an_interrupted_measurement_prints_what_there_is() {
    let guest = Guest::start("idle", &["-name", "calm,debug-threads=on"]);
    let (run, mut window) = watched(&["--time", "1h"], &guest);
    window.types("\x03");
    let text = run.wait().exited(130).text();
    assert!(text.contains("interrupted after"), "{text}");
    let end = text.rfind("calm (QEMU").unwrap();
    assert!(text[end..].contains("main"), "{text}");
}

fn a_guest_that_ends_meanwhile_has_numbers() {
    let guest = Guest::start("idle", &["-name", "calm,debug-threads=on"]);
    let (run, _window) = watched(&["--time", "1h"], &guest);
    drop(guest);
    let text = run.wait().exited(0).text();
    assert!(text.contains("calm ended meanwhile"), "{text}");
}

fn pictures_reports_and_formats_agree() {
    let guest = Guest::start("spin", &["-name", "busy,debug-threads=on"]);
    let home = tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    let run = brisk_of![
        "idle",
        "measure",
        "--pid",
        guest.pid(),
        "--settle",
        "3",
        "--time",
        "2"
    ];
    let text = run
        .args(["--format", "csv"])
        .arg("--svg")
        .arg(file("picture.svg"))
        .arg("--output")
        .arg(file("report.json"))
        .exits(0)
        .text();
    let first = "guest,kind,pid,tid,thread,role,cpu_percent,wakeups_per_second,\
                 preemptions_per_second,waiting_percent\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("\"CPU 0/TCG\",\"vCPU 0\","), "{text}");
    let picture = fs::read_to_string(file("picture.svg")).unwrap();
    assert!(picture.contains("vCPU 0") && picture.contains("</svg>"));
    let report: Value = serde_json::from_slice(&fs::read(file("report.json")).unwrap()).unwrap();
    assert_eq!(report["kind"], "idle-measure");
    let series = report["series"].as_array().unwrap();
    let vcpu = series
        .iter()
        .find(|one| one["name"] == "busy: vCPU 0: CPU")
        .unwrap();
    assert_eq!(vcpu["unit"], "percent");
    let samples = vcpu["samples"].as_array().unwrap();
    let phases: Vec<_> = samples.iter().map(|sample| &sample["phase"]).collect();
    assert_eq!(phases.last().unwrap().as_str(), Some("measured"));
    assert_eq!(phases.iter().filter(|phase| **phase == "warmup").count(), 3);
}

fn what_cannot_be_measured_says_why_and_what_to_try() {
    let not_qemu = std::process::id().to_string();
    let _ = measure("1")
        .args(["--pid", &not_qemu])
        .exits(125)
        .explains(&["not a QEMU", "pgrep -a qemu"]);
    let _ = measure("1")
        .args(["--pid", "4294967295"])
        .exits(125)
        .explains(&["there is no process 4294967295"]);
    let _ = measure("1")
        .args(["--all", "--pid", "1"])
        .exits(2)
        .explains(&["cannot be used with"]);
    let _ = measure("0")
        .arg("--all")
        .exits(2)
        .explains(&["--time", "not a duration"]);
    let [one, other] = ["one", "other"].map(|name| Guest::start("idle", &["-name", name]));
    // A container sees its own processes only.
    for (words, says) in [
        (&["--pid", &one.pid()][..], "a container"),
        (&["--all"], "a container"),
    ] {
        let mut command = Command::new(tool("unshare"));
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--mount-proc"]);
        command.args([env!("CARGO_BIN_EXE_brisk"), "idle", "measure"]);
        let output = command.args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
    let lines = [&one, &other].map(|guest| format!("--pid {}  ", guest.pid()));
    let _ = measure("1").exits(125).explains(&[
        "guests run; choose one with --pid, --domain or --vm, or --all",
        &lines[0],
        &lines[1],
    ]);
}

/// Mounts a /proc that hides processes of other users, and goes on as nobody.
const HIDING: &str = "mount -t proc -o hidepid=2 proc /proc && \
                      exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";

fn hiding(words: &[&str]) -> Command {
    let mut command = Command::new(tool("unshare"));
    command.args(["--mount", "sh", "-c", HIDING, "sh"]);
    command.args(words);
    command
}

/// Why there can be no such /proc here.
fn no_mounts() -> Option<&'static str> {
    let works = hiding(&["true"])
        .output()
        .is_ok_and(|output| output.status.success());
    (!works).then_some("this user may not mount /proc")
}

fn guests_that_proc_hides_are_said_to_be_missing() {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = dir.path().join("brisk");
    brisk_testkit::copy_program(Path::new(env!("CARGO_BIN_EXE_brisk")), &binary);
    let run = |script: &str| {
        let words = ["bash", "-c", script, binary.to_str().unwrap()];
        let output = hiding(&words).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let none = run("\"$0\" idle lint --all --fail-on never");
    assert!(
        none.contains("where /proc is mounted with hidepid only root"),
        "{none}"
    );
    // One of the user's own does not say that there are no others.
    let own = "(exec -a qemu-system-x86_64 sleep 600) & \
               until grep -q qemu /proc/$!/cmdline; do :; done; \
               \"$0\" idle lint --all --fail-on never; \
               \"$0\" idle measure --all --settle 0 --time 1s; kill $!";
    let told = run(own);
    let parts = told.split("QEMUs of other users are left out");
    assert_eq!(parts.count(), 3, "{told}");
}
