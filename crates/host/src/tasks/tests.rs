use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// `schedstat`, `status`, `stat` and `comm` of a thread `CPU 0/TCG` of QEMU 10.0, Linux 6.18;
/// `status` without most of its lines.
const STATUS: &str = "Name:\tCPU 0/TCG\nState:\tS (sleeping)\nTgid:\t28197\nPid:\t28202\n\
                      Threads:\t7\nvoluntary_ctxt_switches:\t860\n\
                      nonvoluntary_ctxt_switches:\t1573\n";
const STAT: &str = "28202 (CPU 0/TCG) S 1 28196 28196 0 -1 4194368 9 0 0 0 150 49 0 0 20 0 7 0 ";

fn thread(root: &Path, directory: &str, schedstat: &str, started: u64) {
    let directory = root.join("proc").join(directory);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("schedstat"), schedstat).unwrap();
    fs::write(directory.join("status"), STATUS).unwrap();
    fs::write(directory.join("stat"), format!("{STAT}{started} 1 1\n")).unwrap();
    fs::write(directory.join("comm"), "CPU 0/TCG\n").unwrap();
}

fn process(root: &Path) -> Procfs {
    thread(root, "70", "1 2 3\n", 500);
    thread(root, "70/task/70", "1 2 3\n", 500);
    thread(root, "70/task/71", "1997381374 1348353431 2433\n", 501);
    Procfs::below(root)
}

#[test]
fn threads_have_their_counters_in_order() {
    let root = tempfile::tempdir().unwrap();
    let found = process(root.path()).tasks(70, None).unwrap();
    assert_eq!((found.pid, found.start_ticks), (70, 500));
    let tids: Vec<_> = found.tasks.iter().map(|task| task.tid).collect();
    assert_eq!(tids, [70, 71]);
    let expected = Task {
        tid: 71,
        name: "CPU 0/TCG".into(),
        start_ticks: 501,
        schedule: Schedule {
            on_cpu: 1_997_381_374,
            waiting: 1_348_353_431,
            timeslices: 2433,
        },
        switches: Switches {
            voluntary: 860,
            involuntary: 1573,
        },
    };
    assert_eq!(found.tasks[1], expected);
}

#[test]
fn the_start_of_a_known_thread_is_not_read_again_unless_it_is_another() {
    let root = tempfile::tempdir().unwrap();
    let proc = process(root.path());
    let before = proc.tasks(70, None).unwrap();
    let stat = root.path().join("proc/70/task/71/stat");
    fs::write(&stat, format!("{STAT}900 1 1\n")).unwrap();
    let started = |known| proc.tasks(70, known).unwrap().tasks[1].start_ticks;
    assert_eq!(started(Some(&before)), 501);
    assert_eq!(started(None), 900);
    // A counter went backwards: another thread with that number.
    let mut ahead = before.clone();
    ahead.tasks[1].schedule.on_cpu += 1;
    assert_eq!(started(Some(&ahead)), 900);
    let mut ahead = before.clone();
    ahead.tasks[1].schedule.timeslices -= 1;
    ahead.tasks[1].switches.voluntary += 1;
    assert_eq!(started(Some(&ahead)), 900);
    // Another process with that number.
    let mut other = before.clone();
    other.start_ticks -= 1;
    assert_eq!(started(Some(&other)), 900);
}

#[test]
fn of_a_thread_that_did_not_run_only_the_time_is_read() {
    let root = tempfile::tempdir().unwrap();
    let proc = process(root.path());
    let before = proc.tasks(70, None).unwrap();
    for file in ["status", "stat"] {
        fs::remove_file(root.path().join("proc/70/task/71").join(file)).unwrap();
    }
    let after = proc.tasks(70, Some(&before)).unwrap();
    assert_eq!(after, before);
    // One that ran is read in full; here it looks as if it had ended.
    let mut ran = before;
    ran.tasks[1].schedule.timeslices -= 1;
    assert_eq!(proc.tasks(70, Some(&ran)).unwrap().tasks.len(), 1);
}

#[test]
fn escaped_names_are_read_back() {
    let tail = STATUS.split_once('\n').unwrap().1;
    let name = |name: &str| {
        Status::parse(&format!("Name:\t{name}\n{tail}"))
            .unwrap()
            .name
    };
    assert_eq!(name("CPU 0/KVM"), "CPU 0/KVM");
    assert_eq!(name("a\\nb"), "a\nb");
    assert_eq!(name("a\\\\b"), "a\\b");
    assert_eq!(name("a\\\\n"), "a\\n");
    assert_eq!(name(" x \\"), " x \\");
    assert!(Status::parse(tail).is_none() && Status::parse("Name:\tx\n").is_none());
}

#[test]
fn threads_and_processes_that_ended_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let proc = process(root.path());
    // Between the list and its files.
    let thread = root.path().join("proc/70/task/71");
    for file in fs::read_dir(&thread).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(proc.tasks(70, None).unwrap().tasks.len(), 1);
    assert!(has_ended(&proc.tasks(71, None).unwrap_err()));
    let dead = io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error());
    assert!(has_ended(&dead));
}

#[test]
fn a_kernel_that_does_not_count_is_told_from_a_thread_that_ended() {
    let root = tempfile::tempdir().unwrap();
    let proc = process(root.path());
    fs::remove_file(root.path().join("proc/70/task/71/schedstat")).unwrap();
    let error = proc.tasks(70, None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("CONFIG_SCHED_INFO"), "{error}");
}

#[test]
fn threads_of_the_kernel_have_no_command_line() {
    let root = tempfile::tempdir().unwrap();
    let proc = process(root.path());
    fs::write(root.path().join("proc/70/cmdline"), "qemu\0").unwrap();
    thread(root.path(), "9", "7 8 9\n", 3);
    fs::write(root.path().join("proc/9/cmdline"), "").unwrap();
    fs::write(root.path().join("proc/9/comm"), "kvm-pit/70\n").unwrap();
    let found = proc.kernel_threads().unwrap();
    assert_eq!(found, [(9, "kvm-pit/70".to_owned())]);
    let task = proc.kernel_thread(9, None).unwrap();
    assert_eq!((task.tid, task.start_ticks), (9, 3));
    assert_eq!(task.schedule.on_cpu, 7);
}

#[test]
fn this_process_counts_its_own_time() {
    let proc = Procfs::default();
    let me = std::process::id();
    let before = proc.tasks(me, None).unwrap();
    let after = proc.tasks(me, Some(&before)).unwrap();
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let of = |list: &ProcessTasks| {
        let mut tasks = list.tasks.iter();
        tasks.find(|task| task.tid == thread).unwrap().clone()
    };
    let (before, after) = (of(&before), of(&after));
    assert_eq!(before.start_ticks, after.start_ticks);
    assert!(before.schedule.on_cpu < after.schedule.on_cpu);
    assert!(proc.host_times().unwrap().busy > 0);
}

#[test]
fn time_of_the_host_is_busy_idle_or_stolen() {
    let text = "cpu  2132144 1276271 637903 1017452 25658 7 5266 8154 11 0\ncpu0 1 2 3\n";
    let expected = HostTimes {
        busy: 2_132_144 + 1_276_271 + 637_903 + 7 + 5266,
        idle: 1_017_452 + 25_658,
        steal: 8154,
    };
    assert_eq!(HostTimes::parse(text), Some(expected));
    // Before Linux 2.6.11 there was no steal.
    let short = HostTimes::parse("cpu  1 2 3 4 5 6 7\n").unwrap();
    assert_eq!((short.busy, short.steal), (19, 0));
    for text in ["", "cpu0 1 2 3 4 5 6 7", "cpu  1 2 3", "cpu  1 2 3 4 5 x 7"] {
        assert_eq!(HostTimes::parse(text), None, "{text}");
    }
}

#[test]
fn times_of_some_cpus_are_their_sum() {
    let text = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 0 0 10 0 0 0 100\ncpu1 2 0 0 20 0 0 0 200\n\
                cpu10 4 0 0 40 0 0 0 400\nintr 7\n";
    let times = |busy, idle, steal| Some(HostTimes { busy, idle, steal });
    assert_eq!(HostTimes::parse_cpus(text, &[1]), times(2, 20, 200));
    assert_eq!(HostTimes::parse_cpus(text, &[0, 10]), times(5, 50, 500));
    assert_eq!(HostTimes::parse_cpus(text, &[0, 2]), None);
}

proptest! {
    #[test]
    fn counters_are_read_back(on_cpu: u64, waiting: u64, timeslices: u64, more in "[ 0-9\\n]{0,9}") {
        let text = format!("{on_cpu} {waiting} {timeslices}\n{more}");
        let expected = Schedule { on_cpu, waiting, timeslices };
        prop_assert_eq!(Schedule::parse(&text), Some(expected));
    }

    #[test]
    fn switches_are_read_behind_any_name(voluntary: u64, involuntary: u64, name in "[^\\n]{0,20}") {
        let text = format!(
            "Name:\t{name}\nvoluntary_ctxt_switches:\t{voluntary}\n\
             nonvoluntary_ctxt_switches:\t{involuntary}\n"
        );
        let expected = Switches { voluntary, involuntary };
        prop_assert_eq!(Switches::parse(&text), Some(expected));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "(cpu |[a-z_]{0,30}:|[0-9]{0,22}|\\PC| |\\n){0,20}") {
        let _ = (Schedule::parse(&text), Switches::parse(&text), HostTimes::parse(&text));
    }
}
