//! Helpers of guests by command lines and connections, and what their CPU time becomes.

use std::fs;

use brisk_vm::qemu::cmdline::CommandLine;

use super::*;
use crate::idle::measure::window::GuestWindow;
use crate::idle::measure::{Role, Sampler, Window};

/// A QEMU as libvirt starts it, with a TPM, a shared directory and passt.
const LIBVIRT: &str = "qemu-system-x86_64 -name guest=win11 \
    -chardev socket,id=chrtpm,path=/run/libvirt/qemu/swtpm/1-win11-swtpm.sock \
    -tpmdev emulator,id=tpm-tpm0,chardev=chrtpm -device tpm-crb,tpmdev=tpm-tpm0,id=tpm0 \
    -chardev socket,id=chr-vu-fs0,path=/var/lib/libvirt/qemu/domain-1-win11/fs0-fs.sock \
    -device {\"driver\":\"vhost-user-fs-pci\",\"id\":\"fs0\",\"chardev\":\"chr-vu-fs0\",\"tag\":\"a\"} \
    -netdev {\"type\":\"stream\",\"addr\":{\"type\":\"unix\",\"path\":\"/run/libvirt/qemu/passt/1-win11-net0.socket\"},\"server\":false,\"id\":\"hostnet0\"} \
    -chardev socket,id=charmonitor,path=/var/lib/libvirt/qemu/domain-1-win11/monitor.sock,server=on";
const SWTPM: &str = "/usr/bin/swtpm socket --ctrl \
    type=unixio,path=/run/libvirt/qemu/swtpm/1-win11-swtpm.sock,mode=0600 --tpm2";
const PASST: &str = "/usr/bin/passt.avx2 --one-off --socket \
    /run/libvirt/qemu/passt/1-win11-net0.socket";

/// The user of all processes that are not said to be another's.
const USER: u32 = 64055;
const OTHER: u32 = 65534;

fn qemu(pid: u32, line: &str, sockets: &[u32]) -> Qemu {
    let line: Vec<_> = line.split_whitespace().collect();
    let hardware = GuestHardware::of_arguments(&CommandLine::with_program(&line));
    let (served, paths) = served(&hardware);
    Qemu {
        pid,
        user: Some(USER),
        served,
        paths,
        sockets: sockets.to_vec(),
    }
}

fn process(pid: u32, line: &str, sockets: &[u32]) -> Option<Candidate> {
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    let program = Path::new(&words[0]).file_name().unwrap().to_str().unwrap();
    Some(Candidate {
        helper: Helper {
            pid,
            name: known(program)?.to_owned(),
        },
        user: Some(USER),
        sockets: sockets.to_vec(),
        words,
    })
}

fn names(list: &[Helper]) -> Vec<&str> {
    list.iter().map(|helper| &*helper.name).collect()
}

#[test]
fn helpers_are_known_by_the_path_of_the_socket() {
    let qemus = [qemu(1, LIBVIRT, &[])];
    assert_eq!((qemus[0].served, qemus[0].paths.len()), (3, 3));
    let candidates: Vec<_> = [
        process(10, SWTPM, &[]),
        process(11, PASST, &[]),
        // Another guest's, one whose path only begins so, and one that is none.
        process(
            12,
            "swtpm socket --ctrl type=unixio,path=/run/other.sock",
            &[],
        ),
        process(
            13,
            "passt --socket /run/libvirt/qemu/passt/1-win11-net0.socket2",
            &[],
        ),
        process(
            14,
            "tail -f /run/libvirt/qemu/swtpm/1-win11-swtpm.sock",
            &[],
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    let found = attribute(&qemus, &candidates, &BTreeMap::new());
    assert_eq!(names(&found[&1].own), ["swtpm", "passt"]);
    assert_eq!(found[&1].shared, []);
    assert!(!found[&1].is_missing);
    // Of a user who may not see them, or in another container.
    assert!(attribute(&qemus, &[], &BTreeMap::new())[&1].is_missing);
    let plain = [qemu(1, "qemu-system-x86_64 -netdev user,id=n", &[])];
    assert!(attribute(&plain, &candidates, &BTreeMap::new()).is_empty());
}

#[test]
fn helpers_are_known_by_their_connection() {
    // libvirt and brisk hand virtiofsd a socket without a name on its command line.
    let virtiofsd = "/usr/libexec/virtiofsd --fd=28 --shared-dir /srv";
    let qemus = [qemu(1, LIBVIRT, &[100, 101]), qemu(2, "kvm", &[200])];
    let candidates: Vec<_> = [
        process(10, virtiofsd, &[110, 111]),
        process(11, virtiofsd, &[210]),
        process(12, virtiofsd, &[310]),
        // A manager at the monitor.
        process(13, "/usr/sbin/libvirtd", &[113]),
    ]
    .into_iter()
    .flatten()
    .collect();
    let peers = [(101, 111), (111, 101), (210, 200), (200, 210), (113, 100)];
    let found = attribute(&qemus, &candidates, &BTreeMap::from(peers));
    let pids = |pid: u32| -> Vec<u32> { found[&pid].own.iter().map(|one| one.pid).collect() };
    assert_eq!(pids(1), [10]);
    assert_eq!(pids(2), [11]);
}

#[test]
fn a_process_of_several_guests_is_of_none() {
    let user = |pid, path: &str| {
        let line = format!(
            "qemu-system-x86_64 -chardev socket,id=c,path={path} -netdev \
             vhost-user,id=n,chardev=c -device virtio-net-pci,netdev=n"
        );
        qemu(pid, &line, &[pid])
    };
    let qemus = [user(1, "/run/a"), user(2, "/run/b")];
    let storage = "qemu-storage-daemon --export vhost-user-blk,id=x,addr.path=/run/a --export \
                   vhost-user-blk,id=y,addr.path=/run/b";
    let candidates: Vec<_> = [
        process(10, storage, &[]),
        // A switch may get more guests at any time.
        process(11, "ovs-vswitchd unix:/run/openvswitch/db.sock", &[30]),
    ]
    .into_iter()
    .flatten()
    .collect();
    let found = attribute(&qemus, &candidates, &BTreeMap::from([(30, 1)]));
    assert_eq!(
        names(&found[&1].shared),
        ["qemu-storage-daemon", "ovs-vswitchd"]
    );
    assert_eq!(names(&found[&2].shared), ["qemu-storage-daemon"]);
    assert!(found[&1].own.is_empty() && found[&2].own.is_empty());
}

#[test]
fn what_another_user_writes_on_a_command_line_is_not_believed() {
    let by = |user: u32, mut process: Candidate| {
        process.user = Some(user);
        process
    };
    let qemu_of = |user: u32, pid: u32, sockets: &[u32]| Qemu {
        user: Some(user),
        ..qemu(pid, LIBVIRT, sockets)
    };
    let honest = || process(10, PASST, &[]).unwrap();
    let pids = |found: &BTreeMap<u32, Helpers>, pid: u32| {
        let list = |of: &[Helper]| of.iter().map(|one| one.pid).collect::<Vec<_>>();
        let found = found.get(&pid).cloned().unwrap_or_default();
        (list(&found.own), list(&found.shared))
    };
    let none = BTreeMap::new();
    // One that calls itself passt, and names the socket.
    for user in [USER, 0] {
        let qemus = [qemu_of(user, 1, &[])];
        let fake = by(OTHER, process(11, PASST, &[]).unwrap());
        let found = attribute(&qemus, &[by(user, honest()), fake], &none);
        assert_eq!(pids(&found, 1), (vec![10], vec![]), "{user}");
        let fake = by(OTHER, process(11, PASST, &[]).unwrap());
        assert!(attribute(&qemus, &[fake], &none)[&1].is_missing);
    }
    // One that calls itself a QEMU hides nobody's helper.
    for (user, helper) in [(USER, USER), (USER, 0), (0, 0)] {
        let qemus = [qemu_of(user, 1, &[]), qemu_of(OTHER, 2, &[])];
        let found = attribute(&qemus, &[by(helper, honest())], &none);
        match (user, helper) {
            // Without a connection nothing tells which of the two root's is for.
            (USER, 0) => assert_eq!(pids(&found, 1), (vec![], vec![10])),
            _ => {
                assert_eq!(pids(&found, 1), (vec![10], vec![]));
                assert_eq!(pids(&found, 2), (vec![], vec![]));
            }
        }
    }
    // A connection tells whoever they belong to: swtpm has a user of its own.
    let qemus = [qemu_of(USER, 1, &[100]), qemu_of(OTHER, 2, &[])];
    for helper in [0, 120] {
        let connected = by(helper, process(10, PASST, &[110]).unwrap());
        let found = attribute(&qemus, &[connected], &BTreeMap::from([(110, 100)]));
        assert_eq!(pids(&found, 1), (vec![10], vec![]), "{helper}");
        assert_eq!(pids(&found, 2), (vec![], vec![]), "{helper}");
    }
    // Its user may not be known.
    let mut unknown = honest();
    unknown.user = None;
    assert!(attribute(&qemus, &[unknown], &none)[&1].is_missing);
}

/// A process that has run for so long, in nanoseconds.
fn write(root: &Path, pid: u32, name: &str, line: &str, on_cpu: u64) {
    let task = root.join(format!("proc/{pid}/task/{pid}"));
    fs::create_dir_all(&task).unwrap();
    let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0\n");
    let status = format!(
        "Name:\t{name}\nUid:\t{USER}\t0\t0\t0\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t0\n",
        on_cpu / 1_000_000
    );
    for directory in [root.join(format!("proc/{pid}")), task] {
        fs::write(directory.join("stat"), &stat).unwrap();
        fs::write(directory.join("status"), &status).unwrap();
        fs::write(directory.join("schedstat"), format!("{on_cpu} 0 9\n")).unwrap();
        fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let words = words.join("\0") + "\0";
    fs::write(root.join(format!("proc/{pid}/cmdline")), words).unwrap();
}

#[test]
fn the_cpu_time_of_a_helper_is_its_guests() {
    use std::time::Duration;

    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let at = |qemu: u64, helper: u64| {
        write(root, 41, "qemu-system-x86", LIBVIRT, qemu);
        write(root, 42, "swtpm", SWTPM, helper);
    };
    at(0, 0);
    let mut guests = Guest::all(root, &BTreeMap::new()).unwrap();
    Guest::find_helpers(root, &mut guests);
    let mut sampler = Sampler::new(root, &guests);
    let first = sampler.snapshot(Duration::ZERO).unwrap();
    at(200_000_000, 50_000_000);
    let second = sampler.snapshot(Duration::from_secs(10)).unwrap();
    let window = Window::between(&guests, &first, &second).unwrap();
    let measured = super::super::Measured::of(guests[0].clone(), window.guests);
    assert!((measured.cpu_percent - 2.5).abs() < 1e-9, "{measured:?}");
    let swtpm = Role::Helper("swtpm".to_owned());
    let thread = measured
        .threads
        .iter()
        .find(|one| one.role == swtpm)
        .unwrap();
    assert!((thread.cpu_percent - 0.5).abs() < 1e-9);
    // What speaks for a rule is what QEMU does.
    assert!((measured.signature().cpu - 2.0).abs() < 1e-9);
    let first = measured.windows;
    // It ends, and another process gets its number.
    fs::remove_dir_all(root.join("proc/42")).unwrap();
    let third = sampler.snapshot(Duration::from_secs(20)).unwrap();
    let gone = Window::between(&guests, &second, &third).unwrap();
    at(300_000_000, 900_000_000);
    let fourth = sampler.snapshot(Duration::from_secs(30)).unwrap();
    let window = Window::between(&guests, &third, &fourth).unwrap();
    assert!((window.guests[0].cpu_percent() - 1.0).abs() < 1e-9);
    // What it used in between is missing, and that is said.
    let note = |windows: &[Vec<GuestWindow>]| {
        let measured = super::super::Measured::of(guests[0].clone(), windows.concat());
        measured.notes().join("\n")
    };
    assert!(!note(std::slice::from_ref(&first)).contains("swtpm"));
    let ended = "swtpm (process 42) of win11 ended meanwhile: its ";
    let some = note(&[first, gone.guests.clone(), window.guests]);
    assert!(
        some.contains(&format!("{ended}last CPU time is not counted")),
        "{some}"
    );
    assert_eq!(some.matches("swtpm").count(), 1, "{some}");
    let all = note(&[gone.guests]);
    assert!(
        all.contains(&format!("{ended}CPU time is not counted")),
        "{all}"
    );
    // One that was started again in between has another start.
    let mut again = second.clone();
    again.guests[0].helpers[0].start_ticks += 1;
    again.at = Duration::from_secs(20);
    let window = Window::between(&guests, &second, &again).unwrap();
    assert_eq!(window.guests[0].lost, guests[0].helpers.own);
}
