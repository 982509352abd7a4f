//! Boots that really were, explained. The fixtures are guests of brisk's on emulated machines, as
//! [`capture`] makes them.

use std::sync::LazyLock;

use brisk_measure::render::timeline_text;
use brisk_measure::{Environment, Unit};
use proptest::prelude::*;

use super::*;
use crate::boot::{Piece, TimedEvent};

mod capture;

const BOOTS: [(&str, &str); 5] = [
    (
        "6.1-microvm-console",
        include_str!("fixtures/6.1-microvm-console.json"),
    ),
    ("6.1-q35", include_str!("fixtures/6.1-q35.json")),
    ("6.12-microvm", include_str!("fixtures/6.12-microvm.json")),
    (
        "6.12-q35-console",
        include_str!("fixtures/6.12-q35-console.json"),
    ),
    (
        "6.12-pc-no-acpi",
        include_str!("fixtures/6.12-pc-no-acpi.json"),
    ),
];

fn boot(name: &str) -> Observation {
    let (_, text) = BOOTS.iter().find(|(known, _)| *known == name).unwrap();
    serde_json::from_str(text).unwrap()
}

fn markers() -> &'static LogPatterns {
    static MARKERS: LazyLock<LogPatterns> = LazyLock::new(|| LogPatterns::own().unwrap());
    &MARKERS
}

fn find<'a>(analysis: &'a Analysis, name: &str) -> &'a brisk_measure::Activity {
    let mut activities = analysis.timeline.activities.iter();
    activities
        .find(|activity| activity.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn nearly_all_of_a_boot_is_explained() {
    for (name, _) in BOOTS {
        let analysis = analyze(&boot(name), markers());
        let explained = analysis.timeline.explained_fraction().unwrap();
        let mut gaps = analysis.timeline.gaps();
        gaps.retain(|gap| gap.span.duration() > 2_000_000);
        assert!(explained >= 0.95, "{name}: {explained}, not {gaps:?}");
    }
}

#[test]
fn phases_follow_each_other_from_start_to_end() {
    for (name, _) in BOOTS {
        let observation = boot(name);
        let analysis = analyze(&observation, markers());
        let mut reached = 0;
        for phase in phases::MAIN {
            let found = analysis
                .timeline
                .activities
                .iter()
                .find(|a| a.name == phase);
            let Some(found) = found else { continue };
            assert_eq!(found.start, reached, "{name}: {phase}");
            reached = found.start + found.duration;
        }
        assert_eq!(Some(reached), observation.moment("QEMU ended"), "{name}");
        let span = analysis.timeline.span().unwrap();
        assert_eq!((span.start, span.end), (0, reached as i64), "{name}");
    }
}

#[test]
fn a_timeline_reads_well() {
    let wide = analyze(&boot("6.1-microvm-console"), markers());
    insta::assert_snapshot!("160 columns", timeline_text(&wide.timeline, 160));
    let narrow = analyze(&boot("6.12-q35-console"), markers());
    insta::assert_snapshot!("80 columns", timeline_text(&narrow.timeline, 80));
}

#[test]
fn a_clock_that_stood_still_is_told_of() {
    let stands = |observation: &Observation| {
        let analysis = analyze(observation, markers());
        let mut notes = analysis.notes.iter();
        notes.any(|note| note.contains("stood still"))
    };
    // What reaches the console has its time.
    let mut observation = boot("6.12-microvm");
    assert!(!stands(&observation));
    observation.console.clear();
    assert!(stands(&observation));
    let console = analyze(&boot("6.1-microvm-console"), markers());
    let timed = find(&console, "boot CPU and its APIC timer");
    assert!(timed.duration > 50_000_000, "{timed:?}");
}

/// A boot of a kernel with other texts, except for its initcalls.
fn renamed(observation: &Observation) -> Observation {
    let mut renamed = observation.clone();
    let lines = observation.log.lines().map(|line| {
        // Behind a record may be what devices it is about.
        let Some((head, text)) = line.split_once(';') else {
            return format!("{line}\n");
        };
        let known = calls::Call::parse(text).is_some() || calls::Step::parse(text).is_some();
        let text = if known {
            text.to_owned()
        } else {
            format!("~{text}")
        };
        format!("{head};{text}\n")
    });
    renamed.log = lines.collect();
    renamed.console = observation
        .console
        .iter()
        .map(|piece| Piece {
            at: piece.at,
            text: piece.text.replace("] ", "] ~"),
        })
        .collect();
    for piece in &mut renamed.firmware {
        piece.text = piece.text.to_uppercase().replace("SEABIOS", "FIRMWARE");
    }
    renamed
}

#[test]
fn other_messages_leave_phases_initcalls_and_gaps() {
    for (name, _) in BOOTS {
        let analysis = analyze(&renamed(&boot(name)), markers());
        let kernel = find(&analysis, "kernel");
        assert!(kernel.duration > 0, "{name}");
        find(&analysis, "acpi_init");
        find(&analysis, "command");
        let found = analysis
            .notes
            .iter()
            .any(|note| note.contains("zones and memmap"));
        assert!(found, "{name}");
        assert!(!analysis.timeline.gaps().is_empty(), "{name}");
        let mut events = analysis.timeline.events.iter();
        assert!(events.any(|event| event.name.starts_with("“~")), "{name}");
    }
}

#[test]
fn the_console_ties_clocks_that_nothing_else_does() {
    let known = boot("6.1-microvm-console");
    let mut unknown = known.clone();
    unknown.guest_offset = None;
    let (known, unknown) = (analyze(&known, markers()), analyze(&unknown, markers()));
    let difference = find(&known, "init")
        .start
        .abs_diff(find(&unknown, "init").start);
    assert!(difference < 20_000_000, "{difference} ns");
}

#[test]
fn the_console_alone_is_a_log() {
    let mut observation = boot("6.1-microvm-console");
    observation.log.clear();
    let analysis = analyze(&observation, markers());
    find(&analysis, "patch alternatives");
    assert!(analysis.timeline.explained_fraction().unwrap() > 0.5);
}

#[test]
fn a_machine_of_somebody_else_has_no_init_of_ours() {
    let mut observation = boot("6.1-microvm-console");
    observation.log.clear();
    observation.stamps.clear();
    observation.guest_offset = None;
    let analysis = analyze(&observation, markers());
    find(&analysis, "kernel");
    let note = "Not seen, so that the phases before are larger: init started, command started, \
                command ended.";
    assert!(
        analysis.notes.iter().any(|found| found == note),
        "{:?}",
        analysis.notes
    );
}

#[test]
fn nothing_seen_is_nothing_explained() {
    let analysis = analyze(&empty(), markers());
    assert_eq!(analysis.timeline.explained_fraction(), None);
    assert_eq!(summarize(&[]).median, None);
}

fn empty() -> Observation {
    serde_json::from_str(r#"{"clock":"host-monotonic"}"#).unwrap()
}

fn event(at: u64, name: &str) -> TimedEvent {
    let name = name.to_owned();
    TimedEvent { at, name }
}

#[test]
fn a_decompressor_has_a_phase() {
    let mut observation = empty();
    observation.moments = vec![event(10, "QEMU up"), event(900, "QEMU ended")];
    let piece = |at, text: &str| Piece {
        at,
        text: text.to_owned(),
    };
    observation.console = vec![
        piece(100, "Decompressing Linux... Parsing ELF... done.\n"),
        piece(300, "Booting the kernel.\n"),
        piece(400, "[    0.000000] Linux version 6.1.0\n"),
    ];
    let analysis = analyze(&observation, markers());
    let found = find(&analysis, "decompress the kernel");
    assert_eq!((found.start, found.duration), (100, 200));
}

#[test]
fn passes_are_summed_up() {
    let first = analyze(&boot("6.12-q35-console"), markers());
    let second = analyze(&boot("6.12-microvm"), markers());
    let (report, summary) = report(
        &[first, second],
        "2026-01-01T00:00:00Z",
        Environment::default(),
        "exec to exit",
    );
    assert_eq!(summary.passes, 2);
    let acpi = summary
        .rows
        .iter()
        .find(|row| row.name == "acpi_init")
        .unwrap();
    assert_eq!((acpi.n, acpi.phase), (2, false));
    assert!(acpi.mean > 0.0 && acpi.deviation.unwrap() > 0.0);
    let firmware = summary
        .rows
        .iter()
        .find(|row| row.name == "firmware")
        .unwrap();
    assert_eq!((firmware.n, firmware.phase), (1, true));
    assert!(summary.longest(5).iter().all(|row| !row.phase));
    assert!(summary.text().contains("acpi_init"), "{}", summary.text());
    assert_eq!(report.kind, "boot-analysis");
    assert_eq!(report.series[0].unit, Unit::Seconds);
    let kernel = report.series("kernel").unwrap();
    assert_eq!(kernel.values().len(), 2);
    assert!(report.timeline.is_some());
}

fn error(text: &str) -> String {
    let error = LogPatterns::default().add("mine.toml", text).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    format!("{error}\n{}", source.unwrap_or_default())
}

#[test]
fn a_bad_file_of_markers_says_where() {
    let head = "source = \"kernel\"\nkind = \"kernel\"\n[[marker]]\n";
    let pattern = error(&format!("{head}pattern = '('\nbegins = \"x\""));
    assert!(
        pattern.starts_with("mine.toml, entry 1 (x): the pattern '(' is not"),
        "{pattern}"
    );
    let nameless = error(&format!("{head}pattern = 'a'"));
    assert!(nameless.contains("entry 1 (marker): neither"), "{nameless}");
    let version = error(&format!(
        "{head}pattern = 'a'\nbegins = \"x\"\nmin = \"six\""
    ));
    assert!(
        version.contains("'six' is not a kernel version"),
        "{version}"
    );
    let key = error(&format!("{head}pattern = 'a'\nbegin = \"x\""));
    assert!(
        key.starts_with("mine.toml is not a file of boot markers"),
        "{key}"
    );
    assert!(key.contains("unknown field `begin`"), "{key}");
}

#[test]
fn markers_hold_for_their_versions() {
    let text = "source = \"kernel\"\nkind = \"k\"\n\
                [[marker]]\npattern = 'a'\nbegins = \"old\"\nmax = \"6.11\"\n\
                [[marker]]\npattern = 'a'\nbegins = \"new\"\nmin = \"6.12\"\n";
    let mut markers = LogPatterns::default();
    markers.add("mine.toml", text).unwrap();
    let names = |release: &str| {
        let version = log_patterns::Version::of_release(release);
        let lines = [(1, "a")].into_iter();
        let found = markers.find(
            log_patterns::Source::Kernel,
            version,
            lines,
            &mut Vec::new(),
        );
        let names = found.points.into_iter().filter_map(|point| point.begins);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("6.11.10-amd64 (gcc)"), ["old"]);
    assert_eq!(names("6.12.95+deb12-cloud-amd64"), ["new"]);
    assert_eq!(names("7.0-rc1"), ["new"]);
    assert_eq!(names("who knows"), ["old", "new"]);
}

/// Where the kernel changed what it says, by the sources that the file of markers names.
#[test]
fn messages_mean_what_they_meant_in_their_version() {
    let points = |release: &str, line: &'static str| {
        let version = log_patterns::Version::of_release(release);
        let lines = [(1, line)].into_iter();
        let found = markers().find(
            log_patterns::Source::Kernel,
            version,
            lines,
            &mut Vec::new(),
        );
        found.points
    };
    for (release, begins) in [
        ("6.1.0-56-amd64", true),
        ("6.6.143", true),
        ("6.6.144", false),
        ("6.8.0-31-generic", true),
        ("6.12.94+deb13-amd64", true),
        ("6.12.95+deb12-amd64", false),
        ("6.13.1", true),
        ("6.14.11", true),
        ("6.15.0", false),
        ("7.0-rc1", false),
    ] {
        let found = points(release, "ftrace: allocating 42429 entries in 168 pages");
        let list = Some("ftrace records".to_owned());
        let whole = |point: &log_patterns::Point| match begins {
            true => point.begins == list,
            false => point.ends == list,
        };
        let either = |point: &&log_patterns::Point| point.begins == list || point.ends == list;
        let found: Vec<_> = found.iter().filter(either).map(whole).collect();
        assert_eq!(found, [true], "{release}");
        let memory = points(
            release,
            "Memory: 168948K/261752K available (16384K kernel code",
        );
        let memory = memory
            .into_iter()
            .flat_map(|point| [point.ends, point.begins]);
        let memory: Vec<_> = memory.flatten().collect();
        let late = !matches!(&release[..4], "6.1." | "6.6." | "6.8.");
        let wanted = match late {
            true => ["deferred struct pages", "driver core"],
            false => ["memblock to page allocator", "slab allocator"],
        };
        assert_eq!(memory, wanted, "{release}");
    }
}

prop_compose! {
    fn observation()(
        texts in prop::collection::vec(prop_oneof![
            any::<String>(),
            "\\[ {0,4}[0-9]{1,3}\\.[0-9]{6}\\] (calling  a\\+0 @ 1|Linux version 6.1|x)\n",
            "SeaBIOS \\(version\n",
        ], 0..12),
        records in prop::collection::vec((any::<u64>(), prop_oneof![
            Just("calling  a+0x0/0x1 @ 1".to_owned()),
            Just("initcall a+0x0/0x1 returned 0 after 99999999999999999 usecs".to_owned()),
            Just("probe of a returned 0 after 18446744073709551615 usecs".to_owned()),
            Just("brisk: begin module x".to_owned()),
            Just("brisk: end module x".to_owned()),
            Just("brisk: end command".to_owned()),
            Just("Run /init as init process".to_owned()),
            Just("devtmpfs: initialized".to_owned()),
        ]), 0..30),
        times in prop::collection::vec(any::<u64>(), 12),
        stamps in prop::collection::vec((any::<u64>(), prop::sample::select(vec![
            "init started", "modules loaded", "root ready", "command started", "command ended",
        ])), 0..6),
        moments in prop::collection::vec((any::<u64>(), prop::sample::select(vec![
            "QEMU up", "kernel entry", "exit status received", "QEMU ended",
        ])), 0..5),
        guest_offset in prop::option::of(any::<i64>()),
    ) -> Observation {
        let happenings = |list: Vec<(u64, &str)>| {
            let event = |(at, name): (u64, &str)| TimedEvent { at, name: name.to_owned() };
            list.into_iter().map(event).collect::<Vec<_>>()
        };
        let pieces: Vec<Piece> = texts
            .into_iter()
            .zip(times)
            .map(|(text, at)| Piece { at, text })
            .collect();
        let mut observation = empty();
        observation.log = (0..)
            .zip(records)
            .map(|(number, (micros, text))| format!("6,{number},{micros},-;{text}\n"))
            .collect();
        observation.firmware = pieces.clone();
        observation.console = pieces;
        observation.stamps = happenings(stamps);
        observation.moments = happenings(moments);
        observation.guest_offset = guest_offset;
        observation
    }
}

proptest! {
    #[test]
    fn no_boot_is_too_strange(observation in observation()) {
        let analysis = analyze(&observation, markers());
        let _ = timeline_text(&analysis.timeline, 80);
        let _ = summarize(&[analysis]).text();
    }
}

/// As a kernel without a root did on a QEMU of the user's: nobody but QEMU saw the end.
#[test]
fn what_qemu_reports_of_the_end_is_a_phase() {
    let mut observation = empty();
    observation.moments = vec![
        event(0, "libvirt asked"),
        event(5, "QEMU executed"),
        event(10, "QEMU up"),
        event(900, "QEMU ended"),
    ];
    observation.console = vec![Piece {
        at: 100,
        text: "[    0.000000] Linux version 6.1.0\n".to_owned(),
    }];
    // The firmware resets the machine before it starts a kernel, the kernel when it is done.
    observation.qmp = vec![
        event(50, "RESET"),
        event(400, "RESET"),
        event(600, "POWERDOWN"),
        event(700, "SHUTDOWN"),
    ];
    let analysis = analyze(&observation, markers());
    let span = |name| {
        let found = find(&analysis, name);
        (found.start, found.start + found.duration)
    };
    assert_eq!(span("libvirt"), (0, 5));
    assert_eq!(span("QEMU starts"), (5, 10));
    assert_eq!(span("kernel"), (100, 400));
    assert_eq!(span("boot again"), (400, 600));
    assert_eq!(span("shutdown"), (600, 900));
    assert_eq!(span("QEMU ends"), (700, 900));
    observation.qmp.remove(1);
    let analysis = analyze(&observation, markers());
    assert_eq!(find(&analysis, "kernel").duration, 500);
}

#[test]
fn seabios_on_a_serial_console_ends_where_the_kernel_is_loaded() {
    let mut observation = empty();
    observation.moments = vec![event(10, "QEMU up"), event(900, "QEMU ended")];
    let piece = |at, text: &str| Piece {
        at,
        text: text.to_owned(),
    };
    observation.console = vec![
        piece(
            100,
            "\u{1b}[2J\u{1b}[1;1HSeaBIOS (version 1.16.3-debian-1.16.3-2)\r\n",
        ),
        piece(300, "Booting from ROM..\r\n"),
        piece(400, "[    0.000000] Linux version 6.1.0\r\n"),
    ];
    let analysis = analyze(&observation, markers());
    let span = |name| {
        let found = find(&analysis, name);
        (found.start, found.start + found.duration)
    };
    assert_eq!(span("SeaBIOS device setup"), (100, 300));
    assert_eq!(span("load and enter the kernel"), (300, 400));
}

#[test]
fn what_a_guest_says_without_end_is_not_kept() {
    let mut observation = boot("6.12-microvm");
    let stamps = observation.stamps.clone();
    for at in 0..10_000 {
        observation.add_stamp(at, &stamps[0].name);
        observation.add_event(at, "ACPI_DEVICE_OST".into());
    }
    assert_eq!(observation.stamps, stamps);
    assert!(observation.qmp.len() <= 4096);
}
