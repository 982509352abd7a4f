use brisk_measure::{Environment, Outcome, Phase, Sample, Series};

use super::*;

fn settings(rounds: u32) -> Settings {
    Settings {
        rounds,
        boot: Duration::ZERO,
        settle: Duration::from_secs(1),
        time: Duration::from_secs(1),
        seed: 1,
    }
}

fn words(text: &str) -> Text {
    Text::Arguments(text.split(' ').map(Into::into).collect())
}

#[test]
fn each_rule_that_is_named_is_a_side() {
    let text = words("qemu-system-x86_64 -M pc -append nohz=off -name x,debug-threads=on");
    let context = Context::default();
    let rules = ["hpet", "nohz"].map(str::to_owned);
    let list = sides(&text, &context, &rules).unwrap();
    let names: Vec<_> = list.iter().map(|side| &*side.name).collect();
    assert_eq!(names, ["hpet", "nohz"]);
    assert_ne!(list[0].text, list[1].text);
    let all = sides(&text, &context, &[]).unwrap();
    assert_eq!((all.len(), &*all[0].name), (1, "fixed"));
    let none = sides(&text, &context, &["idle-poll".to_owned()]).unwrap_err();
    assert!(
        none.to_string().contains("rule idle-poll changes nothing"),
        "{none}"
    );
    let plan = plan(&list, &settings(2));
    assert_eq!(plan.series_name(0, CPU), "before: CPU");
    assert_eq!(plan.series_name(3, WAKEUPS), "nohz: wakeups");
}

/// A report of a proof with these wakeups of the guest before, again, and changed.
fn report(rounds: &[[f64; 3]]) -> Report {
    let side = Side {
        name: "hpet".into(),
        text: words("q"),
    };
    let plan = plan(&[side], &settings(rounds.len() as u32));
    let mut report = Report::new("idle-proof", "2026-11-25T00:00:00Z", Environment::default());
    for (metric, unit, scale) in [(CPU, Unit::Percent, 0.01), (WAKEUPS, Unit::PerSecond, 1.0)] {
        for side in 0..3 {
            let mut series = Series::new(plan.series_name(side, metric), unit);
            for (iteration, round) in (0..).zip(rounds) {
                series.push(Sample {
                    iteration,
                    phase: Phase::Measured,
                    outcome: Outcome::from(round[side] * scale),
                });
            }
            report.series.push(series);
        }
    }
    compare(&mut report, &plan);
    report
}

#[test]
fn a_change_that_helps_is_told_from_one_that_does_not() {
    let jitter = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 1.5, 2.5];
    let helps: Vec<_> = jitter
        .iter()
        .map(|by| [265.0 + by, 268.0 - by, 33.0 + by])
        .collect();
    let note = &report(&helps).notes[0];
    assert!(
        note.starts_with("hpet: less: CPU 2.6") && note.contains("(÷ 7."),
        "{note}"
    );
    let placebo: Vec<_> = jitter
        .iter()
        .map(|by| [265.0 + by, 268.0 - by, 266.0 + by])
        .collect();
    let note = &report(&placebo).notes[0];
    assert!(note.starts_with("hpet: no difference"), "{note}");
    let worse: Vec<_> = jitter
        .iter()
        .map(|by| [33.0 + by, 34.0 + by, 265.0 + by])
        .collect();
    let note = &report(&worse).notes[0];
    assert!(note.starts_with("hpet: more: CPU"), "{note}");
}

#[test]
fn a_command_line_that_leaves_or_ends_is_refused() {
    let interrupt = Interrupt::by_signals().unwrap();
    let start = |text: &str| Start::Command.start(&words(text), &interrupt);
    assert!(matches!(start("q -daemonize"), Err(Error::Daemon)));
    let error = start("/nonexistent/qemu -M pc").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/qemu"), "{error}");
    let mut ended = start("false").unwrap();
    let error = ended.wait(Duration::from_secs(60), &interrupt).unwrap_err();
    assert!(error.to_string().contains("exit status: 1"), "{error}");
}

#[test]
fn what_is_compared_is_side_by_side() {
    let side = Side {
        name: "hpet".into(),
        text: words("q"),
    };
    let mut report = Report::new("idle-proof", "2026-11-25T00:00:00Z", Environment::default());
    let put = |report: &mut Report, polls: f64| {
        report.series.clear();
        for name in ["hpet", AGAIN, BEFORE] {
            for (metric, value) in [(WAKEUPS, 1.0), (CPU, 2.0), (IO, polls)] {
                let name = format!("{name}: {metric}");
                let series = Series::of_values(name, Unit::Percent, [value]);
                report.series.push(series);
            }
        }
        arrange(report, std::slice::from_ref(&side));
        let names = report.series.iter().map(|series| series.name.clone());
        names.collect::<Vec<_>>()
    };
    let with_polling = put(&mut report, 50.0);
    assert_eq!(with_polling.len(), 9);
    let without = put(&mut report, 0.0);
    assert_eq!(with_polling[..6], without);
    assert_eq!(
        without,
        [
            "before: CPU",
            "before again: CPU",
            "hpet: CPU",
            "before: wakeups",
            "before again: wakeups",
            "hpet: wakeups",
        ]
    );
}
