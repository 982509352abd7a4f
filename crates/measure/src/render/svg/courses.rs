//! Series over time: a line for each, the windows before the measurement apart.

use ::svg::node::element::{Circle, Group, Polyline};

use super::axis::Axis;
use super::drawing::{Drawing, MARGIN, WIDTH, by_unit, hint, line, px, rectangle, text};
use super::samples::title;
use crate::render::text::shorten;
use crate::{Phase, Sample, Series, Summary, Unit};

/// Left end of the plot; the numbers of the axis stand before it.
const LEFT: f64 = 104.0;
/// Right end of the plot; the names of the lines stand behind it.
const RIGHT: f64 = WIDTH - 330.0;
/// Height of the plot.
const HEIGHT: f64 = 220.0;
/// Characters of a name that fit behind the plot.
const NAME: usize = 34;
/// Most lines of a plot: as many as there are colours.
const LINES: usize = 8;
/// Height of a name.
const ROW: f64 = 24.0;

/// The pictures: a plot for each unit, of the series with the largest medians. `window` is the time
/// between two samples, in seconds. None without series.
pub(super) fn draw(series: &[Series], window: f64) -> Option<Drawing> {
    by_unit(series, |unit, alike| {
        let alike: Vec<_> = alike.iter().map(|(_, one)| *one).collect();
        plot(unit, &alike, window)
    })
}

fn plot(unit: Unit, series: &[&Series], window: f64) -> (Group, f64) {
    let quantity = common_end(series);
    // A colour belongs to a name, in every plot of the picture.
    let mut shown: Vec<(usize, &Series)> = series.iter().copied().enumerate().collect();
    shown.retain(|(_, one)| one.samples.iter().any(|sample| sample.value() != Some(0.0)));
    shown.sort_by(|a, b| median(b.1).total_cmp(&median(a.1)));
    shown.truncate(LINES);
    let settling = longest(&shown, Phase::Warmup);
    let measured = longest(&shown, Phase::Measured);
    let (top, bottom) = (44.0, 44.0 + HEIGHT);
    let plot = Plot {
        settling: settling as f64,
        window,
        time: Axis::new(
            -(settling as f64) * window,
            measured as f64 * window,
            LEFT,
            RIGHT,
        ),
        value: Axis::new(0.0, high(&shown), bottom, top),
        quantity,
    };
    let head = quantity.unwrap_or_else(|| title(unit));
    let mut group = Group::new().add(text(MARGIN, 14.0, "head", head));
    let begin = plot.time.x(0.0);
    if settling > 0 {
        group = group
            .add(rectangle(LEFT, top, begin - LEFT, HEIGHT, "band"))
            .add(line(begin, top, begin, bottom, "event"));
    }
    group = group
        .add(plot.time.draw(top, bottom, Unit::Seconds))
        .add(plot.value.draw_rows(LEFT, RIGHT, unit));
    for (row, (index, one)) in shown.iter().enumerate() {
        let y = top + 12.0 + row as f64 * ROW;
        group = group
            .add(plot.course(one, index % LINES))
            .add(plot.name(one, index % LINES, y));
    }
    let mut key = vec!["each dot is a window", "behind a name: its median"];
    if settling > 0 {
        key.push("shaded, with rings: before the measurement, cut off at the top");
    }
    if shown.len() < series.len() {
        key.push("without lines that are all 0 or small");
    }
    group = group.add(text(LEFT, bottom + 18.0, "faint", &key.join(" · ")));
    (group, bottom + 22.0)
}

/// End of the axis: a little beyond the largest measured value, or, without one, beyond the largest
/// before. What a guest does while it boots would make all that comes after a flat line.
fn high(shown: &[(usize, &Series)]) -> f64 {
    let all = || shown.iter().flat_map(|(_, one)| &one.samples);
    let largest = |samples: &mut dyn Iterator<Item = &Sample>| {
        let values = samples.filter_map(Sample::value);
        values.fold(0.0, f64::max)
    };
    let measured = largest(&mut all().filter(|sample| sample.phase == Phase::Measured));
    let high = match measured > 0.0 {
        true => measured,
        false => largest(&mut all()),
    };
    if high > 0.0 { high * 1.06 } else { 1.0 }
}

fn median(series: &Series) -> f64 {
    let statistics = Summary::of(series).statistics;
    statistics.map_or(0.0, |statistics| statistics.median)
}

/// What all names end with, behind a colon: the quantity.
fn common_end<'a>(series: &[&'a Series]) -> Option<&'a str> {
    let end = |one: &&'a Series| Some(one.name.rsplit_once(": ")?.1);
    let first = end(series.first()?)?;
    let is_common = series.iter().all(|one| end(one) == Some(first));
    is_common.then_some(first)
}

fn longest(series: &[(usize, &Series)], phase: Phase) -> usize {
    let count = |one: &Series| one.samples.iter().filter(|s| s.phase == phase).count();
    series.iter().map(|(_, one)| count(one)).max().unwrap_or(0)
}

/// Axes of a plot.
struct Plot<'a> {
    /// Windows before the measurement.
    settling: f64,
    /// Length of a window, in seconds.
    window: f64,
    time: Axis,
    value: Axis,
    quantity: Option<&'a str>,
}

impl Plot<'_> {
    /// The name of a series behind the plot, without the quantity that is its head.
    fn name(&self, series: &Series, colour: usize, y: f64) -> Group {
        let end = self.quantity.map(|quantity| format!(": {quantity}"));
        let name = end.and_then(|end| series.name.strip_suffix(&end));
        let name = shorten(name.unwrap_or(&series.name), NAME);
        let about = format!("{name} · {}", series.unit.format(median(series)));
        Group::new()
            .add(hint(&shorten(&series.name, 300)))
            .add(rectangle(
                RIGHT + 20.0,
                y - 9.0,
                10.0,
                10.0,
                &format!("k{colour}"),
            ))
            .add(text(RIGHT + 38.0, y, "label", &about))
    }

    /// The line of a series, through the middles of its windows.
    fn course(&self, series: &Series, colour: usize) -> Group {
        let mut points = Vec::new();
        let mut dots = Group::new();
        for sample in &series.samples {
            let Some(number) = sample.value() else {
                continue;
            };
            let (from, class) = match sample.phase {
                Phase::Warmup => (-self.settling, "warmup".to_owned()),
                Phase::Measured => (0.0, format!("k{colour}")),
            };
            let at = (from + f64::from(sample.iteration) + 0.5) * self.window;
            let (x, y) = (self.time.x(at), self.value.x(number));
            points.push(format!("{},{}", px(x), px(y)));
            let name = shorten(&series.name, 200);
            let about = format!("{name}\n{}", series.unit.format(number));
            let circle = Circle::new()
                .set("cx", px(x))
                .set("cy", px(y))
                .set("r", 3)
                .set("class", class);
            dots = dots.add(Group::new().add(hint(&about)).add(circle));
        }
        let line = Polyline::new()
            .set("points", points.join(" "))
            .set("class", format!("line l{colour}"));
        Group::new().add(line).add(dots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::svg_over_time;
    use crate::{Environment, Report};

    /// A guest that boots and then idles.
    fn report() -> Report {
        let mut report = Report::new("idle measure", "", Environment::default());
        let rows: [(&str, f64, &[f64]); 3] = [
            ("vCPU 0: CPU", 60.0, &[0.1, 0.2, 0.1]),
            ("main: CPU", 2.0, &[1.0, 1.1, 0.9]),
            ("RCU <1>: CPU", 0.0, &[0.0, 0.0, 0.0]),
        ];
        for (name, boot, values) in rows {
            let mut series = Series::of_values(name, Unit::Percent, values.iter().copied());
            series.samples.insert(0, Sample::warmup(0, boot));
            report.series.push(series);
        }
        report
    }

    #[test]
    fn windows_over_time_are_drawn() {
        insta::assert_snapshot!("over_time.svg", svg_over_time(&report(), 5.0));
    }

    #[test]
    fn the_boot_does_not_flatten_what_is_measured() {
        let series = report().series;
        let shown: Vec<_> = series.iter().enumerate().collect();
        assert_eq!(high(&shown), 1.1 * 1.06);
        let mut boot = report().series;
        for one in &mut boot {
            one.samples.truncate(1);
        }
        let shown: Vec<_> = boot.iter().enumerate().collect();
        assert_eq!(high(&shown), 60.0 * 1.06);
    }

    #[test]
    fn names_and_samples_may_be_missing() {
        let mut report = report();
        report.series[0].name = "x".into();
        report.series[1].samples.clear();
        report.series[2].samples.truncate(1);
        let svg = svg_over_time(&report, 5.0);
        assert!(svg.contains("Percent") && svg.contains("x · "), "{svg}");
        report.series.clear();
        assert!(svg_over_time(&report, 5.0).contains("</svg>"));
    }
}
