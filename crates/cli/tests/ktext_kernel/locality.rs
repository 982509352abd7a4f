//! From which node's memory instructions are fetched, counted by a plugin of QEMU.

use std::fs;
use std::path::Path;
use std::time::Duration;

use brisk_testkit::{CPUS_OF_NODE, NumaMachine};

use crate::machine::{kernel, machine, run};

/// Forks, signals, mmaps, opens and a module, on all processors, with replication and without.
/// Reading `active` ends a section of what the plugin counts.
const WORK: &str = "\
    insmod /modules/lkdtm.ko\n\
    work() {\n\
    for cpu in $(seq 0 $(($(grep -c ^processor /proc/cpuinfo) - 1))); do taskset -c $cpu sh -c '\n\
    for turn in 1 2 3 4 5 6 7 8 9 10; do\n\
    cat /proc/version /proc/meminfo /sys/kernel/debug/provoke-crash/DIRECT >/dev/null\n\
    echo >/dev/$turn; sleep 100 & kill $!\n\
    done'; done\n\
    storm 2\n\
    }\n\
    mark() { cat ktext_repl/active >/dev/null; }\n\
    mark; work; mark\n\
    echo 0 >ktext_repl/active; mark; work; mark";

/// Sections of the plugin's table in which the work is done.
const ON: &str = "1";
const OFF: &str = "3";

/// Instructions of one kind in one section.
#[derive(Debug, Default, Clone, Copy)]
struct Fetches {
    local: u64,
    remote: u64,
}

impl Fetches {
    fn share(self) -> f64 {
        self.local as f64 / (self.local + self.remote) as f64
    }
}

/// Lines of `symbols` for the plugin, for a kernel that is where it was linked.
fn symbols(map: &str) -> String {
    let mut text: Vec<(&str, &str)> = Vec::new();
    let mut end = "";
    for line in map.lines() {
        let mut words = line.split(' ');
        let [Some(address), Some(kind), Some(name)] = [words.next(), words.next(), words.next()]
        else {
            continue;
        };
        if name == "_etext" {
            end = address;
        } else if matches!(kind, "t" | "T") && address >= "ffffffff81000000" {
            text.push((address, name));
        }
    }
    text.retain(|(address, _)| *address < end);
    text.dedup_by_key(|(address, _)| *address);
    let ends = text
        .iter()
        .skip(1)
        .map(|(address, _)| *address)
        .chain([end]);
    let mut lines: String = text
        .iter()
        .zip(ends)
        .map(|((address, name), end)| format!("{address} {end} text {name}\n"))
        .collect();
    lines.push_str("ffffffffc0000000 ffffffffff000000 module modules\n");
    lines
}

fn fetches(table: &str, section: &str, kind: &str) -> Fetches {
    let mut sum = Fetches::default();
    for line in table.lines().skip(1) {
        let row: Vec<_> = line.split('\t').collect();
        if row[0] != section || row[3] != kind {
            continue;
        }
        let cpu: usize = row[1].parse().unwrap();
        let count: u64 = row[5].parse().unwrap();
        if row[2] == (cpu / CPUS_OF_NODE).to_string() {
            sum.local += count;
        } else {
            sum.remote += count;
        }
    }
    sum
}

fn counted(nodes: usize, directory: &Path) -> String {
    let kernel = kernel();
    let map = fs::read_to_string(kernel.file("System.map")).unwrap();
    let (table, list) = (directory.join("table"), directory.join("symbols"));
    fs::write(&list, symbols(&map)).unwrap();
    let plugin = format!(
        "{},out={},symbols={},mark=active_get,{{nodes}}",
        kernel.file("liblocality.so").display(),
        table.display(),
        list.display()
    );
    let machine = NumaMachine {
        append: "nokaslr",
        is_parallel: true,
        options: &["-plugin", &plugin],
        limit: Duration::from_secs(600),
        ..machine(&kernel, nodes)
    };
    run(&machine, WORK).unwrap();
    fs::read_to_string(&table).unwrap()
}

fn of(nodes: usize) {
    let directory = tempfile::tempdir().unwrap();
    let table = counted(nodes, directory.path());
    for kind in ["text", "module"] {
        let (on, off) = (fetches(&table, ON, kind), fetches(&table, OFF, kind));
        println!("{nodes} nodes, {kind}: {on:?} with replication, {off:?} without");
        let least = if kind == "text" { 10_000_000 } else { 1_000 };
        assert!(
            on.local > least && off.local > least / 10,
            "{kind}: {on:?} {off:?}"
        );
        assert!(on.share() >= 0.99, "{kind}: {on:?}");
        // All nodes work alike, and one has the text.
        let fair = 1.0 / nodes as f64;
        assert!((off.share() - fair).abs() < 0.2, "{kind}: {off:?}");
    }
}

pub(super) fn of_two() {
    of(2);
}

pub(super) fn of_four() {
    of(4);
}
