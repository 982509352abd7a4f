//! Windows and results of captured counters.
//!
//! `fixtures/first.txt` and `second.txt` are files of `/proc`, captured 10 s apart on Linux 6.18:
//! a guest that idles in QEMU 10.0 with two iothreads, one of them with a name that is too long
//! (28197); one that spins in QEMU 10.0 with a single thread for its virtual CPUs (28209); one that
//! idles in QEMU 7.2 without `debug-threads` (28216). `status` is without lines that do not matter.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use brisk_measure::{Environment, Unit};
use tempfile::TempDir;

use super::*;

const FIRST: &str = include_str!("fixtures/first.txt");
const SECOND: &str = include_str!("fixtures/second.txt");
const IDLE: u32 = 28197;
const SPIN: u32 = 28209;
const PLAIN: u32 = 28216;

/// Writes the files of a fixture below a directory.
fn unpack(text: &str, root: &Path) {
    for part in text.split("==> ").skip(1) {
        let (path, text) = part.split_once(" <==\n").unwrap();
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = match path.ends_with("cmdline") {
            true => text.replace('\n', "\0"),
            false => text.to_owned(),
        };
        fs::write(path, text).unwrap();
    }
}

/// A host whose counters are those of the first fixture.
struct Host {
    root: TempDir,
    guests: Vec<Guest>,
    sampler: Sampler,
}

impl Host {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// A host to which something is added.
    fn with(add: impl Fn(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        unpack(FIRST, root.path());
        add(root.path());
        let guests = Guest::all(root.path(), &BTreeMap::new()).unwrap();
        let sampler = Sampler::new(root.path(), &guests);
        Self {
            root,
            guests,
            sampler,
        }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join("proc").join(path)
    }

    fn snapshot(&mut self, seconds: u64) -> Snapshot {
        self.sampler.snapshot(Duration::from_secs(seconds)).unwrap()
    }

    /// The 10 s from the first fixture to the second, which `change` changed.
    fn window(&mut self, change: impl Fn(&Self)) -> Window {
        let first = self.snapshot(0);
        unpack(SECOND, self.root.path());
        change(self);
        let second = self.snapshot(10);
        Window::between(&self.guests, &first, &second).unwrap()
    }
}

fn recording(guests: &[Guest], settling: &[Window], measured: &[Window]) -> Recording {
    Recording {
        guests: guests.to_vec(),
        settling: settling.to_vec(),
        measured: measured.to_vec(),
        how: Settling::Settled { after: 15.0 },
    }
}

fn roles(measured: &Measured) -> Vec<String> {
    let threads = measured.threads.iter();
    threads.map(|thread| thread.role.to_string()).collect()
}

#[test]
fn guests_are_found_and_named() {
    let host = Host::new();
    let found: Vec<_> = host
        .guests
        .iter()
        .map(|guest| (guest.pid, guest.label(), guest.kind, &*guest.accelerator))
        .collect();
    let expected = [
        (IDLE, "idle".to_owned(), Kind::Qemu, "tcg"),
        (SPIN, "spin".to_owned(), Kind::Qemu, "tcg"),
        (PLAIN, "QEMU 28216".to_owned(), Kind::Qemu, "tcg"),
    ];
    assert_eq!(found, expected);
    let vms = BTreeMap::from([(PLAIN, "db1".to_owned())]);
    let vm = Guest::of_process(host.root.path(), PLAIN, &vms).unwrap();
    assert_eq!((vm.label(), vm.kind), ("db1".to_owned(), Kind::Vm));
    assert!(Guest::of_process(host.root.path(), 1, &vms).is_err());
}

#[test]
fn a_domain_is_known_by_what_libvirt_gives_it() {
    let host = Host::new();
    let line = "/usr/bin/kvm\0-name\0guest=web,debug-threads=on\0-object\0\
                {\"qom-type\":\"secret\",\"id\":\"masterKey0\"}\0";
    fs::write(host.path("28216/cmdline"), line).unwrap();
    let guest = Guest::of_process(host.root.path(), PLAIN, &BTreeMap::new()).unwrap();
    assert_eq!(
        (guest.label(), guest.kind),
        ("web".to_owned(), Kind::Domain)
    );
    assert!(guest.uses_kvm(), "{guest:?}");
}

#[test]
fn threads_have_their_roles_and_rates() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let result = recording(&host.guests, &[], &[window]).result(&[]);
    let [idle, spin, plain] = &result.guests[..] else {
        panic!("{result:?}")
    };
    // The second iothread's name does not fit, so that QEMU leaves it without one.
    let expected = [
        "vCPU 0",
        "vCPU 1",
        "main",
        "iothread io0",
        "display",
        "RCU",
        "unnamed",
    ];
    assert_eq!(roles(idle), expected);
    assert_eq!(roles(spin), ["all vCPUs", "main", "RCU"]);
    assert_eq!(roles(plain), ["main", "unnamed", "unnamed"]);
    assert!(idle.has_roles() && spin.has_roles() && !plain.has_roles());
    insta::assert_debug_snapshot!("signatures", [idle, spin, plain].map(Measured::signature));
    // By hand: (second - first) / 10 s.
    let counters = |text: &str, path: &str| -> Vec<u64> {
        let (_, rest) = text.split_once(&format!("==> proc/{path} <==\n")).unwrap();
        let line = rest.lines().next().unwrap();
        line.split(' ').map(|word| word.parse().unwrap()).collect()
    };
    let path = format!("{SPIN}/task/28211/schedstat");
    let ns = counters(SECOND, &path)[0] - counters(FIRST, &path)[0];
    let vcpu = &spin.threads[0];
    assert!(
        (vcpu.cpu_percent - ns as f64 / 1e8).abs() < 1e-9,
        "{vcpu:?}"
    );
    let hours = spin.cpu_hours_per_day();
    assert!((hours - spin.cpu_percent * 0.24).abs() < 1e-9, "{hours}");
}

#[test]
fn threads_that_start_and_end_are_told() {
    let mut host = Host::new();
    let window = host.window(|host| {
        // VNC's thread ends, and a worker starts. Open files of a thread that has ended say nothing.
        fs::write(host.path("28197/task/28204/schedstat"), "").unwrap();
        fs::remove_dir_all(host.path("28197/task/28204")).unwrap();
        let new = host.path("28197/task/28300");
        fs::create_dir(&new).unwrap();
        for file in ["schedstat", "stat", "status"] {
            fs::copy(host.path("28197/task/28202").join(file), new.join(file)).unwrap();
        }
        let status = fs::read_to_string(new.join("status")).unwrap();
        fs::write(new.join("status"), status.replace("CPU 0/TCG", "worker")).unwrap();
    });
    let life = |tid| {
        let mut threads = window.guests[0].threads.iter();
        let thread = threads.find(|thread| thread.tid == tid).unwrap();
        (thread.role.to_string(), thread.life)
    };
    assert_eq!(life(28204), ("display".to_owned(), Life::Ended));
    assert_eq!(life(28300), ("worker".to_owned(), Life::Started));
    assert_eq!(life(28197), ("main".to_owned(), Life::Whole));
    // What a new thread used since its start is of this window.
    let started = window.guests[0]
        .threads
        .iter()
        .find(|thread| thread.tid == 28300);
    assert!(started.unwrap().cpu_percent > 0.0);
    let result = recording(&host.guests, &[], &[window]).result(&[]);
    let life = |tid| {
        let mut threads = result.guests[0].threads.iter();
        threads.find(|thread| thread.tid == tid).unwrap().life
    };
    assert_eq!([life(28204), life(28300)], [Life::Ended, Life::Started]);
}

#[test]
fn a_guest_that_ends_and_one_that_takes_its_number_have_no_rates() {
    let mut host = Host::new();
    let window = host.window(|host| {
        fs::remove_dir_all(host.path("28209")).unwrap();
        // Field 22 of 28216's stat: another start.
        let path = host.path("28216/stat");
        let text = fs::read_to_string(&path).unwrap();
        let start = text.split(' ').nth(21).unwrap();
        fs::write(path, text.replace(&format!(" {start} "), " 99999999 ")).unwrap();
        // Its directory is another.
        let (task, old) = (host.path("28216/task"), host.path("28216/old"));
        fs::rename(&task, &old).unwrap();
        fs::create_dir(&task).unwrap();
        for thread in fs::read_dir(&old).unwrap() {
            let thread = thread.unwrap();
            fs::rename(thread.path(), task.join(thread.file_name())).unwrap();
        }
    });
    let ended: Vec<_> = window.guests.iter().map(|guest| guest.has_ended).collect();
    assert_eq!(ended, [false, true, true]);
    assert!(window.guests[1].threads.is_empty() && window.guests[2].threads.is_empty());
    let recording = recording(&host.guests, &[], &[window]);
    assert!(!recording.has_ended());
    let result = recording.result(&[]);
    assert_eq!((result.guests.len(), result.ended.len()), (1, 2));
    let notes = result.notes(Some(2)).join("\n");
    assert!(
        notes.contains("spin ended before it was measured"),
        "{notes}"
    );
}

#[test]
fn numbers_before_the_end_of_a_guest_stay() {
    let mut host = Host::new();
    let whole = host.window(|_| {});
    let mut gone = whole.clone();
    for guest in &mut gone.guests {
        *guest = GuestWindow {
            seconds: 10.0,
            has_ended: true,
            ..GuestWindow::default()
        };
    }
    let recording = recording(&host.guests, &[], &[whole.clone(), gone]);
    assert!(recording.has_ended());
    let result = recording.result(&[]);
    let notes = result.notes(Some(2)).join("\n");
    assert!(notes.contains("spin ended meanwhile"), "{notes}");
    let spin = &result.guests[1];
    assert_eq!((spin.seconds, spin.has_ended), (10.0, true));
    assert!((spin.cpu_percent - whole.guests[1].cpu_percent()).abs() < 1e-9);
}

#[test]
fn threads_of_the_kernel_belong_to_the_guest_in_their_name() {
    // No vhost on the host where the fixture is from: written like the others.
    let add = |root: &Path, ns: u64| {
        for (pid, name) in [
            (61, "vhost-28197"),
            (62, "kvm-pit/28197"),
            (63, "ksmd"),
            (64, "vhost-1"),
        ] {
            let directory = root.join("proc").join(pid.to_string());
            fs::create_dir_all(&directory).unwrap();
            let stat =
                format!("{pid} ({name}) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0");
            let files = [
                ("cmdline", String::new()),
                ("comm", format!("{name}\n")),
                ("stat", stat),
                ("schedstat", format!("{ns} 0 1\n")),
                (
                    "status",
                    format!(
                        "Name:\t{name}\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t0\n",
                        ns / 1000
                    ),
                ),
            ];
            for (file, text) in files {
                fs::write(directory.join(file), text).unwrap();
            }
        }
    };
    let mut host = Host::with(|root| add(root, 0));
    let window = host.window(|host| add(host.root.path(), 100_000_000));
    let kernel: Vec<_> = window.guests[0]
        .threads
        .iter()
        .filter(|thread| thread.tid < 100)
        .map(|thread| (thread.role.to_string(), thread.cpu_percent))
        .collect();
    let expected = [
        ("vhost".to_owned(), 1.0),
        ("kernel: kvm-pit".to_owned(), 1.0),
    ];
    assert_eq!(kernel, expected);
    assert_eq!(window.host.ksmd_percent, Some(1.0));
    assert_eq!(window.host.khugepaged_percent, None);
    let result = recording(&host.guests, &[], &[window]).result(&[]);
    assert_eq!(result.guests[0].signature().vhost_cpu, 1.0);
}

#[test]
fn the_host_s_other_work_is_without_the_guests() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let busy = window.host.busy_percent.unwrap();
    let guests: f64 = window.guests.iter().map(GuestWindow::cpu_percent).sum();
    assert!(guests > 50.0 && busy > guests, "{busy} {guests}");
    assert_eq!(window.host.other_percent, Some(busy - guests));
    let result = recording(&host.guests, &[], std::slice::from_ref(&window)).result(&[]);
    assert_eq!(result.host.other_percent_max, window.host.other_percent);
    let notes = result.notes(Some(2)).join("\n");
    let has_note = notes.contains("the host did other work meanwhile");
    assert_eq!(has_note, busy - guests > 20.0, "{notes}");
}

#[test]
fn roles_that_are_known_by_number_take_the_place_of_missing_names() {
    let mut host = Host::new();
    host.guests[2].roles = BTreeMap::from([(28218, Role::Vcpu(0)), (28216, Role::Vcpu(1))]);
    let window = host.window(|_| {});
    let result = recording(&host.guests, &[], &[window]).result(&[]);
    assert_eq!(roles(&result.guests[2]), ["vCPU 0", "main", "unnamed"]);
    assert!(result.guests[2].has_roles());
}

#[test]
fn without_a_measured_window_the_result_is_of_the_settling() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let mut recording = recording(&host.guests, &[window], &[]);
    recording.how = Settling::Unsettled { after: 60.0 };
    let result = recording.result(&[]);
    assert!(result.is_of_settling && result.seconds == 10.0);
    assert_eq!(result.guests[0].windows.len(), 1);
    let notes = result.notes(Some(2)).join("\n");
    assert!(
        notes.contains("interrupted before the guests had settled"),
        "{notes}"
    );
}

#[test]
fn what_limits_the_numbers_is_noted() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let mut recording = recording(
        &host.guests,
        std::slice::from_ref(&window),
        std::slice::from_ref(&window),
    );
    recording.how = Settling::Unsettled { after: 60.0 };
    let result = recording.result(&[]);
    let notes = result.notes(Some(2)).join("\n");
    for part in [
        "10 s are short",
        "idle, spin, QEMU 28216 had not settled after 60 s",
        "QEMU 28216 has unnamed threads",
        "-name NAME,debug-threads=on",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

#[test]
fn a_result_is_read_back_from_json() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let result = recording(
        &host.guests,
        std::slice::from_ref(&window),
        std::slice::from_ref(&window),
    )
    .result(&[]);
    let text = serde_json::to_string(&result).unwrap();
    let read: Measurement = serde_json::from_str(&text).unwrap();
    assert_eq!(read.guests[0].threads[0].role, Role::Vcpu(0));
    assert_eq!(read.guests.len(), 3);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["guests"][0]["name"], "idle");
    assert_eq!(value["guests"][0]["threads"][0]["role"]["vcpu"], 0);
    assert_eq!(value["settling"]["settling"], "settled");
}

#[test]
fn a_report_has_every_window_and_the_settling_as_warm_ups() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    host.guests[1].name = Some("idle".into());
    let windows = [window.clone(), window];
    let result = recording(&host.guests, &windows[..1], &windows).result(&[]);
    let report = report(&result, "2026-11-25T00:00:00Z", Environment::default());
    // Two guests of one name are told apart.
    let cpu = report.series("idle (28209): all vCPUs: CPU").unwrap();
    assert_eq!((cpu.unit, cpu.samples.len()), (Unit::Percent, 3));
    assert_eq!(cpu.values().len(), 2);
    let wakeups = report.series("idle (28197): main: wakeups").unwrap();
    assert_eq!(wakeups.unit, Unit::PerSecond);
    let all = report.series("idle (28197): wakeups").unwrap().values();
    assert!(all[0] > wakeups.values()[0]);
    // Both threads without a name are one series.
    assert_eq!(
        report
            .series("QEMU 28216: unnamed: CPU")
            .unwrap()
            .samples
            .len(),
        3
    );
    assert!(report.series("host: other work").is_some());
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("tcg does not count") || note.contains("not looked for"))
    );
}

#[test]
fn a_picture_has_the_roles_of_one_guest_or_all_guests() {
    let mut host = Host::new();
    let window = host.window(|_| {});
    let windows = [window.clone(), window];
    let mut result = recording(&host.guests, &[], &windows).result(&[]);
    let of_all = picture(&result, "", Environment::default());
    assert!(of_all.contains("spin: CPU") && !of_all.contains("vCPU 0"));
    result.guests.truncate(1);
    let of_one = picture(&result, "", Environment::default());
    assert!(of_one.contains("vCPU 0: wakeups") && of_one.contains("main: CPU"));
}
