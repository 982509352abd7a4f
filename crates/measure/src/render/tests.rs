//! What every renderer holds to, and how its output looks.

use base64::Engine as _;
use proptest::prelude::*;
use sha2::Digest as _;

use super::*;
use crate::{
    Change, Clock, Environment, History, Phase, Point, Reading, Report, Sample, Series, Timeline,
    Unit,
};

type Renderer = fn(&Report) -> String;

const ALL: [(&str, Renderer); 7] = [
    ("txt", table),
    ("bars.txt", bars),
    ("json", json),
    ("csv", csv),
    ("svg", svg),
    ("html", html),
    ("trace.json", perfetto),
];

fn bars(report: &Report) -> String {
    let timeline = report.timeline.as_ref();
    timeline.map_or_else(String::new, |timeline| timeline_text(timeline, 100))
}

#[test]
fn lines_keep_to_their_width() {
    let timelines = [example::timeline(), example::long().timeline.unwrap()];
    for (timeline, width) in timelines.iter().zip([80, 160]) {
        for line in timeline_text(timeline, width).lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn the_example_looks_as_it_did() {
    let report = example::report();
    for (name, render) in ALL {
        let text = render(&report);
        if let Some(directory) = std::env::var_os("BRISK_RENDERED") {
            std::fs::write(
                std::path::Path::new(&directory).join(format!("example.{name}")),
                &text,
            )
            .unwrap();
        }
        if name != "html" {
            insta::assert_snapshot!(format!("example.{name}"), text);
        }
    }
}

#[test]
fn a_long_timeline_keeps_to_a_page() {
    let picture = svg(&example::long());
    if let Some(directory) = std::env::var_os("BRISK_RENDERED") {
        std::fs::write(std::path::Path::new(&directory).join("long.svg"), &picture).unwrap();
    }
    assert!(picture.contains("shorter activities and gaps, in the strip above only"));
    let parsed = roxmltree::Document::parse(&picture).unwrap();
    let height: f64 = parsed
        .root_element()
        .attribute("height")
        .unwrap()
        .parse()
        .unwrap();
    assert!(height < 3200.0, "{height}");
}

#[test]
fn a_history_looks_as_it_did() {
    let report = example::history();
    for (name, render) in [("txt", table as Renderer), ("svg", svg), ("html", html)] {
        let text = render(&report);
        if let Some(directory) = std::env::var_os("BRISK_RENDERED") {
            let path = std::path::Path::new(&directory).join(format!("history.{name}"));
            std::fs::write(path, &text).unwrap();
        }
        if name != "html" {
            insta::assert_snapshot!(format!("history.{name}"), text);
        }
    }
}

#[test]
fn an_empty_report_is_drawn() {
    let report = Report::new("", "", Environment::default());
    for (name, render) in ALL {
        let text = render(&report);
        assert!(name.ends_with("txt") || !text.is_empty(), "{name}");
    }
}

#[test]
fn the_page_runs_its_own_script_only() {
    let digest = sha2::Sha256::digest(include_bytes!("html/page.js"));
    let digest = base64::engine::general_purpose::STANDARD.encode(digest);
    let page = html(&example::report());
    assert!(
        page.contains(&format!("script-src 'sha256-{digest}'")),
        "now {digest}"
    );
    assert_eq!(page.matches("<script").count(), 1);
    for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
        let namespace = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!namespace.contains(outside), "{outside}");
    }
}

#[test]
fn a_formula_is_no_formula() {
    for name in [
        "=1+1", " =1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", "|calc",
    ] {
        let mut report = Report::new("", "", Environment::default());
        report
            .series
            .push(Series::of_values(name, Unit::Count, [-1.0]));
        let text = csv(&report);
        let cell = text.lines().nth(1).unwrap();
        assert!(
            cell.starts_with('\'') || cell.starts_with('\u{fffd}'),
            "{cell}"
        );
        assert!(cell.ends_with(",-1,"), "a number stays one: {cell}");
    }
}

/// Text with a preference for what breaks formats.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>&\"'=,;\\x00-\\x1f\\x7f-\\x9f\u{202e}\u{fffe}a-c\\]\\-]{0,40}",
        Just("]]></style></script><script>alert(1)</script><!--".to_owned()),
        Just("长".repeat(200)),
    ]
}

prop_compose! {
    fn sample()(
        iteration in 0..20u32,
        warmup in prop::bool::weighted(0.2),
        value in prop_oneof![4 => -1e3..1e6f64, 1 => any::<f64>()],
        reason in prop::option::weighted(0.2, text()),
    ) -> Sample {
        let phase = if warmup { Phase::Warmup } else { Phase::Measured };
        match reason {
            Some(reason) => Sample::failed(iteration, phase, reason),
            None if warmup => Sample::warmup(iteration, value),
            None => Sample::measured(iteration, value),
        }
    }
}

prop_compose! {
    fn series()(
        name in text(),
        unit in prop::sample::select(vec![
            Unit::Seconds, Unit::Bytes, Unit::BytesPerSecond, Unit::Instructions, Unit::Count,
            Unit::PerSecond, Unit::Ratio,
        ]),
        samples in prop::collection::vec(sample(), 0..8),
    ) -> Series {
        let mut series = Series::new(name, unit);
        series.samples = samples;
        series
    }
}

fn clock() -> impl Strategy<Value = Clock> {
    prop::sample::select(vec![
        Clock::HostMonotonic,
        Clock::GuestBoot,
        Clock::Instructions,
    ])
}

prop_compose! {
    fn timeline()(
        own in clock(),
        offsets in prop::collection::btree_map(clock(), any::<i64>(), 0..3),
        events in prop::collection::vec((text(), any::<u64>(), clock()), 0..6),
        activities in prop::collection::vec(
            (text(), text(), prop_oneof![0..100u64, any::<u64>()], 0..90u64, clock()), 0..12),
    ) -> Timeline {
        let mut timeline = Timeline::new(own);
        timeline.offsets = offsets;
        for (name, at, clock) in events {
            timeline.event(name, at, clock);
        }
        for (name, kind, start, length, clock) in activities {
            timeline.activity(name, kind, start, start.saturating_add(length), clock);
        }
        timeline
    }
}

/// Also one whose changes name commits that it does not have.
fn history(series: &[Series], points: Vec<(String, String, usize)>, change: Change) -> History {
    let point = |(id, subject, place): (String, String, usize)| Point {
        id,
        reading: match (series.get(place), place) {
            (Some(series), _) => Reading::Measured {
                series: series.name.clone(),
            },
            (None, 3) => Reading::NotBuilt {
                reason: subject.clone(),
            },
            (None, _) => Reading::NotTried,
        },
        date: subject.clone(),
        subject,
    };
    History {
        points: points.into_iter().map(point).collect(),
        changes: vec![change],
    }
}

prop_compose! {
    fn change()(
        before in 0..6usize,
        after in 0..6usize,
        ratio in any::<f64>(),
        line in text(),
    ) -> Change {
        Change {
            before,
            after,
            // JSON has no other numbers.
            ratio: if ratio.is_finite() { ratio } else { 0.0 },
            p_value: None,
            explanation: vec![line],
        }
    }
}

prop_compose! {
    fn report()(
        kind in text(),
        created in text(),
        notes in prop::collection::vec(text(), 0..2),
        series in prop::collection::vec(series(), 0..3),
        timeline in prop::option::of(timeline()),
        model in prop::option::of(text()),
        points in prop::option::of(prop::collection::vec((text(), text(), 0..5usize), 0..5)),
        change in change(),
    ) -> Report {
        let environment = Environment { cpu_model: model, ..Environment::default() };
        let mut report = Report::new(kind, created, environment);
        if let [a, b, ..] = series.as_slice() {
            let options = crate::CompareOptions::default();
            report.comparisons.push(crate::Comparison::of(a, b, &options));
        }
        (report.series, report.notes, report.timeline) = (series, notes, timeline);
        report.history = points.map(|points| history(&report.series, points, change));
        report.warn();
        report
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_a_report_holds_is_rendered_harmlessly(report in report()) {
        for (name, render) in ALL {
            let text = render(&report);
            let control = |c: char| c.is_control() && c != '\n' && c != '\r';
            // JSON keeps what there was, escaped, and C1 controls are no syntax to it.
            if name != "json" {
                prop_assert!(!text.contains(control), "{name}");
                prop_assert!(!text.contains('\u{202e}'), "{name}");
            }
        }
        let page = html(&report);
        prop_assert_eq!(page.matches("<script").count(), 1);
        prop_assert_eq!(page.matches("</style").count(), page.matches("<style").count());
        let picture = svg(&report);
        let parsed = roxmltree::Document::parse(&picture);
        prop_assert!(parsed.is_ok(), "{:?}", parsed.err());
        let trace: serde_json::Value = serde_json::from_str(&perfetto(&report)).unwrap();
        prop_assert!(trace["traceEvents"].is_array());
    }

    #[test]
    fn json_reads_back_as_the_report(report in report()) {
        let read: Report = serde_json::from_str(&json(&report)).unwrap();
        prop_assert_eq!(read, report);
    }

    #[test]
    fn csv_reads_back_as_the_samples(report in report()) {
        let text = csv(&report);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let read: Vec<(u32, Option<f64>)> = reader
            .records()
            .map(|record| {
                let record = record.unwrap();
                (record[3].parse().unwrap(), record[5].parse().ok())
            })
            .collect();
        let written: Vec<(u32, Option<f64>)> = report
            .series
            .iter()
            .flat_map(|series| &series.samples)
            .map(|sample| (sample.iteration, sample.value()))
            .collect();
        prop_assert_eq!(read, written);
    }
}

#[test]
fn outliers_are_told_once_in_a_report_for_people() {
    let mut report = Report::new("boot", "2025-01-01T12:00:00Z", Environment::default());
    for (name, runs) in [("one", 12), ("two", 12), ("few", 9)] {
        let values = (0..runs).map(|run| match run {
            5 => 9.0,
            run => 1.0 + f64::from(run % 4) / 100.0,
        });
        let values: Vec<f64> = values.collect();
        report
            .series
            .push(Series::of_values(name, Unit::Seconds, values));
    }
    report.warn();
    let line = "(one: 1 of 12; two: 1 of 12)";
    for (render, name) in [(table as Renderer, "text"), (html, "HTML")] {
        let text = render(&report);
        assert_eq!(text.matches("far from the others").count(), 1, "{name}");
        assert!(text.contains(line), "{name}");
    }
    // Each by its series, for programs.
    let text = json(&report);
    assert_eq!(text.matches("outliers-found").count(), 2, "{text}");
}
