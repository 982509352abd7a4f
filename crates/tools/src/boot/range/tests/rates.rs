//! How often a range by the clock is right, on hosts whose noise was recorded.

use super::*;

/// 200 boots to init, one after the other (`brisk boot bench --runs 200`), on a host whose two
/// processors compiled programs meanwhile, which had the smaller share of them.
const SHARED: &str = include_str!("fixtures/noise-shared.json");
/// Noise beside three programs with an equal share of the processors.
const CROWDED: &str = include_str!("fixtures/noise-crowded.json");

/// Commits from `at` on take more time.
struct Stepped {
    noise: Noise,
    at: usize,
    ratio: f64,
    boots: u32,
}

impl Measure for Stepped {
    fn measure(
        &mut self,
        artifacts: &Artifacts,
        runs: u32,
        _: &mut dyn FnMut(&str),
    ) -> Result<Measured, Unbootable> {
        let number = fs::read_to_string(artifacts.get(Role::Kernel).unwrap()).unwrap();
        let late = number.trim().parse::<usize>().unwrap() >= self.at;
        let value = if late { self.ratio } else { 1.0 };
        let values: Vec<f64> = (0..runs).map(|_| self.noise.of(value)).collect();
        self.boots += runs;
        Ok(Measured {
            series: Series::of_values("", Unit::Seconds, values),
            timeline: None,
        })
    }

    fn count(&mut self, _: &Artifacts) -> Option<f64> {
        None
    }
}

/// What came of ranges.
#[derive(Debug, Default, PartialEq)]
struct Rates {
    right: u32,
    /// Another commit was named.
    wrong: u32,
    /// One was named, but not proven.
    unproven: u32,
    unchanged: u32,
    /// Searches that were made twice.
    again: u32,
    boots: u32,
}

/// Bisects `count` ranges of 64 commits.
fn rates(
    fixture: &Fixture,
    name: &str,
    noise: impl Fn(u64) -> Noise,
    ratio: f64,
    count: usize,
) -> Rates {
    let mut rates = Rates::default();
    for number in 0..count {
        let at = 1 + number * 37 % 64;
        let mut measure = Stepped {
            noise: noise(number as u64),
            at,
            ratio,
            boots: 0,
        };
        let options = Options {
            setting: format!("{name} {ratio} {number}"),
            runs: 8,
            fresh: false,
            ..fixture.options(Mode::WallClock, Goal::Bisect)
        };
        let mut engine = Engine::open(options, Interrupt::new().unwrap()).unwrap();
        let mut observe = |event: Event<'_>| {
            rates.again +=
                u32::from(matches!(event, Event::Note(text) if text.contains("searching again")));
        };
        engine.run(&mut measure, &mut observe).unwrap();
        let place = match engine.answer().unwrap() {
            Answer::Unchanged { .. } => &mut rates.unchanged,
            Answer::Changed {
                confirmed: false, ..
            } => &mut rates.unproven,
            Answer::Changed { after, .. } if after == at => &mut rates.right,
            _ => &mut rates.wrong,
        };
        *place += 1;
        rates.boots += measure.boots;
    }
    rates
}

/// Commits that are distinguished by their numbers; each is built once for all ranges.
fn numbered() -> Fixture {
    let numbers: Vec<_> = (0..65).map(|number| number.to_string()).collect();
    Fixture::new(&numbers.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_fifth_is_found_where_a_boot_varies_by_a_tenth() {
    let fixture = numbered();
    let noise = |seed| Noise::recorded(SHARED, seed);
    let found = rates(&fixture, "shared", noise, 1.2, 20);
    assert!(found.right >= 19 && found.wrong == 0, "{found:?}");
    let none = rates(&fixture, "shared", noise, 1.0, 20);
    assert_eq!(none.unchanged, 20, "{none:?}");
}

#[test]
fn a_tenth_is_found_where_a_boot_varies_by_little() {
    let found = rates(&numbered(), "made up", Noise::new, 1.1, 20);
    assert!(found.right >= 19 && found.wrong == 0, "{found:?}");
    assert!(found.boots < 20 * 200, "{found:?}");
}

#[test]
fn a_crowded_machine_raises_no_alarm() {
    let none = rates(
        &numbered(),
        "crowded",
        |seed| Noise::recorded(CROWDED, seed),
        1.0,
        20,
    );
    assert_eq!(none.unchanged, 20, "{none:?}");
}

/// The figures of the book.
#[test]
#[ignore = "takes minutes; shows the rates of errors with --nocapture"]
fn rates_of_errors() {
    let fixture = numbered();
    let count = 60;
    for (name, noise) in [
        ("made up", &Noise::new as &dyn Fn(u64) -> Noise),
        ("shared", &|seed| Noise::recorded(SHARED, seed)),
    ] {
        for ratio in [1.0, 1.05, 1.1] {
            let found = rates(&fixture, name, noise, ratio, count);
            let boots = f64::from(found.boots) / count as f64;
            println!("{name} {ratio}: {found:?}, {boots:.0} boots a range");
        }
    }
}
