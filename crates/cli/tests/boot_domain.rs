//! Domains of libvirt are booted, and left as they were.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use brisk_testkit::{Brisk, Libvirt, Signal, agent_initramfs, brisk_of, tool, trial};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn main() {
    let arguments = Arguments::from_args();
    let forbidden = Libvirt::forbidden();
    let of_domains: [(&str, fn()); 8] = [
        (
            "a_domain_that_crashes_is_not_a_number",
            a_domain_that_crashes_is_not_a_number,
        ),
        (
            "the_doctor_looks_at_a_domain_by_its_name",
            the_doctor_looks_at_a_domain_by_its_name,
        ),
        (
            "a_domain_is_measured_by_each_marker_and_left_as_it_was",
            a_domain_is_measured_by_each_marker_and_left_as_it_was,
        ),
        (
            "an_event_may_come_when_qemu_has_gone",
            an_event_may_come_when_qemu_has_gone,
        ),
        (
            "a_domain_is_explained_by_its_console",
            a_domain_is_explained_by_its_console,
        ),
        (
            "however_brisk_ends_the_domain_is_shut_off",
            however_brisk_ends_the_domain_is_shut_off,
        ),
        (
            "what_cannot_be_booted_says_why_and_what_to_try",
            what_cannot_be_booted_says_why_and_what_to_try,
        ),
        (
            "a_domain_is_ready_when_its_agent_answers_and_shuts_down_when_asked",
            a_domain_is_ready_when_its_agent_answers_and_shuts_down_when_asked,
        ),
    ];
    let mut trials: Vec<_> = of_domains
        .into_iter()
        .map(|(name, test)| trial(name, forbidden.clone(), test))
        .collect();
    trials.push(trial(
        "any_qemu_is_ready_when_its_agent_answers",
        None::<String>,
        any_qemu_is_ready_when_its_agent_answers,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

fn kernel() -> PathBuf {
    let kernels = fs::read_dir("/boot").unwrap();
    kernels
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("/vmlinuz-"))
        .max()
        .unwrap()
}

/// A domain whose kernel, without more, has no root and resets the VM.
fn xml(name: &str, os: &str, devices: &str) -> String {
    format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>512</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type><kernel>{}</kernel>\
         <cmdline>console=ttyS0 panic=-1</cmdline>{os}</os><features><acpi/><apic/></features>\
         <on_reboot>destroy</on_reboot><devices>\
         <emulator>{}</emulator><memballoon model='none'/>{devices}</devices></domain>",
        kernel().display(),
        tool("qemu-system-x86_64").display(),
    )
}

const CONSOLE: &str = "<serial type='pty'/>";
const AGENT: &str =
    "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>";

fn bench(libvirt: &Libvirt, name: &str, home: &TempDir) -> Brisk {
    brisk_of!["boot", "bench", "--output", home.path().join("report.json")]
        .args(["--warmup", "0", "--domain", name])
        .args(["--connect", &libvirt.uri()])
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn values(report: &Value, series: &str) -> Vec<f64> {
    let list = report["series"].as_array().unwrap();
    let found = list.iter().find(|one| one["name"] == series);
    let samples = found.unwrap_or_else(|| panic!("no {series} in {report}"))["samples"]
        .as_array()
        .unwrap();
    samples.iter().filter_map(|s| s["value"].as_f64()).collect()
}

fn a_domain_is_measured_by_each_marker_and_left_as_it_was() {
    let libvirt = Libvirt::start();
    libvirt.define(&xml("it's 1 domain", "", CONSOLE));
    let before = libvirt.virsh(&["dumpxml", "it's 1 domain"]);
    for (words, until) in [
        (["--ready", "console:Linux version"], "ready"),
        (["--ready", "qmp:SHUTDOWN"], "ready"),
        (["--until", "exit"], "exit"),
    ] {
        let home = tempdir().unwrap();
        let run = bench(&libvirt, "it's 1 domain", &home)
            .args(["--runs", "2", "--stop", "destroy"])
            .args(words)
            .exits(0);
        let name = format!("virsh start to {until}");
        assert!(run.text().contains(&name), "{}", run.text());
        let report = read(&home.path().join("report.json"));
        let ends = values(&report, &name);
        let runs = values(&report, "virsh start to the guest runs");
        let began = values(&report, "virsh start to QEMU's process");
        assert_eq!(ends.len(), 2, "{words:?} {report}");
        for ((end, run), began) in ends.iter().zip(&runs).zip(&began) {
            assert!(began < run && run < end, "{began} {run} {end}");
        }
        assert_eq!(report["environment"]["accelerator"], "tcg");
        assert_eq!(report["environment"]["extra"]["domain"], "it's 1 domain");
        assert_eq!(libvirt.virsh(&["domstate", "it's 1 domain"]), "shut off");
    }
    assert_eq!(libvirt.virsh(&["dumpxml", "it's 1 domain"]), before);
}

fn an_event_may_come_when_qemu_has_gone() {
    let libvirt = Libvirt::start();
    libvirt.define(&xml("late", "", CONSOLE));
    // A virsh that reports the end of the guest when the domain is shut off.
    let home = tempdir().unwrap();
    let (virsh, uri) = (tool("virsh").display().to_string(), libvirt.uri());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *qemu-monitor-event*) ;; *) exec {virsh} \"$@\" ;; esac\n\
         mkfifo \"$0.events\"\nwhile IFS= read -r line; do\n\
         case $line in 'event SHUTDOWN'*)\n\
         until {virsh} -c '{uri}' domstate late | grep -q 'shut off'; do :; done ;;\n\
         esac\nprintf '%s\\n' \"$line\"\ndone <\"$0.events\" &\n\
         exec {virsh} \"$@\" >\"$0.events\"\n"
    );
    let program = home.path().join("virsh");
    brisk_testkit::script(&program, &script);
    let path = env::var("PATH").unwrap();
    bench(&libvirt, "late", &home)
        .args(["--ready", "qmp:SHUTDOWN", "--runs", "1"])
        .args(["--stop", "destroy"])
        .env("PATH", format!("{}:{path}", home.path().display()))
        .exits(0);
    let report = read(&home.path().join("report.json"));
    assert_eq!(values(&report, "virsh start to ready").len(), 1, "{report}");
}

fn a_domain_that_crashes_is_not_a_number() {
    let libvirt = Libvirt::start();
    // Without a kernel it stays in its firmware.
    let still = xml("still", "", CONSOLE);
    let (before, rest) = still.split_once("<kernel>").unwrap();
    let (_, after) = rest.split_once("</cmdline>").unwrap();
    libvirt.define(&format!("{before}{after}"));
    let home = tempdir().unwrap();
    let words = ["--until", "exit", "--runs", "1"];
    let run = bench(&libvirt, "still", &home).args(words).spawn();
    brisk_testkit::until("the domain runs", || {
        (libvirt.virsh(&["domstate", "still"]) == "running").then_some(())
    });
    libvirt.process("still").signal(Signal::KILL);
    let _ = run.wait().exited(125);
    let report = read(&home.path().join("report.json"));
    let sample = &report["series"][0]["samples"][0];
    assert_eq!(sample["reason"], "QEMU crashed", "{report}");
}

fn a_domain_is_explained_by_its_console() {
    let libvirt = Libvirt::start();
    libvirt.define(&xml("plain", "", CONSOLE));
    let home = tempdir().unwrap();
    let run = brisk_of![
        "boot", "analyze", "--passes", "1", "--width", "100", "--domain", "plain"
    ]
    .arg("--output")
    .arg(home.path().join("report.json"))
    .args(["--connect", &libvirt.uri()])
    .exits(0);
    let text = run.text();
    for part in ["libvirt", "QEMU starts", "kernel", "buses and drivers"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// libvirt destroys what it has started for somebody who is gone.
fn however_brisk_ends_the_domain_is_shut_off() {
    let libvirt = Libvirt::start();
    libvirt.define(&xml("plain", "", CONSOLE));
    for (signal, status) in [(Signal::INT, 130), (Signal::KILL, 0)] {
        let home = tempdir().unwrap();
        // The kernel does not say this.
        let words = ["--ready", "console:nothing says so"];
        let run = bench(&libvirt, "plain", &home).args(words).spawn();
        brisk_testkit::until("the domain runs", || {
            (libvirt.virsh(&["domstate", "plain"]) == "running").then_some(())
        });
        run.signal(signal);
        let finished = run.wait();
        if signal == Signal::KILL {
            assert_eq!(finished.signal(), Some(9));
            brisk_testkit::until("libvirt has destroyed the domain", || {
                (libvirt.virsh(&["domstate", "plain"]) == "shut off").then_some(())
            });
        } else {
            let _ = finished.exited(status).explains(&["interrupted"]);
            assert_eq!(libvirt.virsh(&["domstate", "plain"]), "shut off");
        }
    }
}

fn what_cannot_be_booted_says_why_and_what_to_try() {
    let libvirt = Libvirt::start();
    let home = tempdir().unwrap();
    libvirt.define(&xml("mute", "", ""));
    let exit = ["--until", "exit"];
    for (name, words, texts) in [
        (
            "nobody",
            exit,
            &["has no domain nobody", "virsh list --all"][..],
        ),
        ("mute", ["--until", "kernel"], &["--console pty"]),
        (
            "mute",
            ["--ready", "console:x"],
            &["no console", "virt-xml mute"],
        ),
        (
            "mute",
            ["--ready", "agent"],
            &["no port for the guest agent", "virt-xml"],
        ),
        (
            "mute",
            ["--ready", "port:0xf4"],
            &["left as it is", "console:REGEX"],
        ),
    ] {
        bench(&libvirt, name, &home)
            .args(words)
            .exits(125)
            .explains(texts);
    }
    let _ = libvirt.virsh(&["start", "mute", "--paused"]);
    let running = bench(&libvirt, "mute", &home).args(exit);
    running
        .exits(125)
        .explains(&["is paused", "virsh shutdown mute"]);
    let _ = libvirt.virsh(&["managedsave", "mute"]);
    let saved = bench(&libvirt, "mute", &home).args(exit);
    saved
        .exits(125)
        .explains(&["virsh managedsave-remove mute"]);
    let there = ["--connect", "qemu+ssh://nobody@example.invalid/system"];
    brisk_of!["boot", "bench", "--domain", "x", "--until", "exit"]
        .args(there)
        .exits(125)
        .explains(&["another host"]);
    let nowhere = ["--connect", "qemu+unix:///session?socket=/nowhere"];
    brisk_of!["boot", "bench", "--domain", "x", "--until", "exit"]
        .args(nowhere)
        .exits(125)
        .explains(&["no connection to libvirt", "is its daemon running"]);
}

fn with_agent(directory: &Path) -> PathBuf {
    let base = directory.join("base");
    let kernel = kernel();
    let _ = brisk_of!["initramfs", "build", "--root", "none", "--machine", "q35"]
        .arg("--kernel")
        .arg(&kernel)
        .arg("--output")
        .arg(&base)
        .exits(0);
    agent_initramfs(&base, directory)
}

/// The agent shuts the guest down, too: nothing else in it could.
fn a_domain_is_ready_when_its_agent_answers_and_shuts_down_when_asked() {
    let libvirt = Libvirt::start();
    let initrd = with_agent(&libvirt.directory());
    let os = format!("<initrd>{}</initrd>", initrd.display());
    libvirt.define(&xml("agent", &os, &format!("{CONSOLE}{AGENT}")));
    let home = tempdir().unwrap();
    let _ = bench(&libvirt, "agent", &home)
        .args(["--runs", "1", "--ready", "agent"])
        .exits(0);
    let report = read(&home.path().join("report.json"));
    assert_eq!(values(&report, "virsh start to ready").len(), 1);
    let state = libvirt.virsh(&["domstate", "--reason", "agent"]);
    assert_eq!(state, "shut off (shutdown)", "not destroyed");
}

fn any_qemu_is_ready_when_its_agent_answers() {
    let home = tempdir().unwrap();
    let initrd = with_agent(home.path());
    let _ = brisk_of!["boot", "bench", "--runs", "1", "--warmup", "0"]
        .arg("--output")
        .arg(home.path().join("report.json"))
        .args(["--ready", "agent", "--", "qemu-system-x86_64", "-M", "q35"])
        .args(["-nodefaults", "-display", "none", "-m", "512", "-kernel"])
        .arg(kernel())
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", "panic=-1 quiet"])
        .exits(0);
    let report = read(&home.path().join("report.json"));
    assert_eq!(values(&report, "exec to ready").len(), 1);
}

fn the_doctor_looks_at_a_domain_by_its_name() {
    let libvirt = Libvirt::start();
    libvirt.define(
        "<domain type='qemu'><name>old</name><memory>524288</memory>\
         <os><type arch='x86_64' machine='pc'>hvm</type></os><devices>\
         <interface type='user'><model type='e1000'/></interface></devices></domain>",
    );
    let text = brisk_of!["doctor", "--domain", "old", "--connect", libvirt.uri()]
        .output()
        .text();
    assert!(text.contains("emulated hardware (e1000)"), "{text}");
    brisk_of!["doctor", "--domain", "nobody", "--connect", libvirt.uri()]
        .exits(125)
        .explains(&["no domain nobody"]);
}
