//! How the fixtures were made: `cargo test -p brisk-tools capture -- --ignored` with
//! `BRISK_CAPTURE` set to the directory of the fixtures makes them anew.

use std::path::Path;
use std::time::Duration;

use brisk_vm::cache::Cache;

use super::{BOOTS, Observation, Piece, calls};
use crate::boot::bench::boot;
use crate::boot::observation::Ended;
use crate::boot::observe::Limits;
use crate::boot::ready_condition::Until;
use crate::boot::target::{BootTarget, Guest};
use crate::guest::{Accel, Machine, Options};
use brisk_host::interrupt::Interrupt;

/// Initcalls that take less are left out, microseconds.
const SHORT: u64 = 60;

/// What comes within this time is kept as one piece, nanoseconds.
const TOGETHER: u64 = 5_000_000;

#[test]
#[ignore = "makes the fixtures anew, in the directory that BRISK_CAPTURE names"]
fn capture() {
    let dir = std::env::var_os("BRISK_CAPTURE").expect("BRISK_CAPTURE names a directory");
    let cache = Cache::open().unwrap();
    let interrupt = Interrupt::by_signals().unwrap();
    for (name, _) in BOOTS {
        let subject = Guest::prepare(options(name), &cache, &mut |_| {}).unwrap();
        let subject = BootTarget::Guest(Box::new(subject));
        let limits = Limits {
            until: Until::Exit,
            timeout: Duration::from_secs(60),
            keep: true,
        };
        let mut pass = boot(&subject, limits, &interrupt).unwrap();
        assert_eq!(pass.ended, Ended::Reached, "{name}");
        shorten(&mut pass.observation);
        let text = serde_json::to_string_pretty(&pass.observation).unwrap();
        // Indentation is a fifth of it.
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        std::fs::write(
            Path::new(&dir).join(format!("{name}.json")),
            lines.join("\n") + "\n",
        )
        .unwrap();
    }
}

/// Kernel and machine are in the name.
fn options(name: &str) -> Options {
    let (kernel, machine) = name.split_once('-').unwrap();
    let console = machine.ends_with("-console");
    let owned = |text: &str| text.to_owned();
    let mut options = Options {
        trace: true,
        ..Options::default()
    };
    options.kernel.image = Some(owned(match kernel {
        "6.1" => "6.1.0-56-cloud-amd64",
        _ => "6.12.95+deb12-cloud-amd64",
    }));
    options.hardware.machine = match machine.trim_end_matches("-console") {
        "microvm" => Machine::Microvm,
        "q35" => Machine::Q35,
        "pc-no-acpi" => Machine::PcNoAcpi,
        other => panic!("{other}"),
    };
    if console {
        // The driver of serial ports would come late.
        options.kernel.append = vec![owned("earlyprintk=ttyS0,keep"), owned("loglevel=7")];
    }
    options.hardware.accel = Accel::Tcg;
    options.command.words = vec!["true".into()];
    options
}

/// Leaves out initcalls that took little time by the clock of the log: they count it in ticks of the
/// timer before there is a finer one.
fn shorten(observation: &mut Observation) {
    let mut kept: Vec<&str> = Vec::new();
    for line in observation.log.lines() {
        let short = kept.last().is_some_and(|begin| is_short(begin, line));
        if short {
            kept.pop();
        } else {
            kept.push(line);
        }
    }
    observation.log = kept.join("\n") + "\n";
    // Bytes come one by one; a line is where its first byte was.
    let mut console: Vec<Piece> = Vec::new();
    for piece in observation.console.drain(..) {
        match console.last_mut() {
            Some(last) if !last.text.ends_with('\n') && piece.at - last.at < TOGETHER => {
                last.text.push_str(&piece.text);
            }
            _ => console.push(piece),
        }
    }
    observation.console = console;
}

/// Whether two records are beginning and end of an initcall that took little time.
fn is_short(begin: &str, end: &str) -> bool {
    let record = |line: &str| -> Option<(u64, String)> {
        let (head, text) = line.split_once(';')?;
        Some((head.split(',').nth(2)?.parse().ok()?, text.to_owned()))
    };
    let (Some((from, begin)), Some((to, end))) = (record(begin), record(end)) else {
        return false;
    };
    match (calls::Call::parse(&begin), calls::Call::parse(&end)) {
        (Some(calls::Call::Begin { name: begun, .. }), Some(calls::Call::End { name, .. })) => {
            begun == name && to - from < SHORT
        }
        _ => false,
    }
}
