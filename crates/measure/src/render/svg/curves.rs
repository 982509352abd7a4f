//! Curves over the size of data, both axes logarithmic: what was measured as dots, what was fitted
//! as lines, and where they cross.

use ::svg::node::element::{Circle, Group, Polyline};

use super::drawing::{Drawing, MARGIN, WIDTH, hint, line, px, rectangle, text};
use super::log_axis::LogAxis;
use crate::render::text::{round_number, shorten};
use crate::{Interval, Unit};

/// Left end of the plot; the numbers of the axis stand before it.
const LEFT: f64 = 104.0;
/// Right end of the plot; the names of the curves stand behind it.
const RIGHT: f64 = WIDTH - 330.0;
/// Upper end of the plot in its panel: below the heading and the size of the crossing.
const TOP: f64 = 52.0;
/// Height of the plot.
const HEIGHT: f64 = 300.0;
/// Characters of a name, and of what is said about it, that fit behind the plot.
const NAME: usize = 40;
/// Most curves of a plot: as many as there are colours.
const CURVES: usize = 8;
/// Height of a name with what is said about it.
const ROW: f64 = 46.0;

/// Curves of one quantity over the size of data.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePanel {
    /// Heading.
    pub title: String,
    /// Unit of the quantity.
    pub unit: Unit,
    /// The curves; of more than eight the first eight are drawn.
    pub curves: Vec<PlottedCurve>,
    /// Whether the lines describe the points; others are drawn as dashes.
    pub holds: bool,
    /// Two neighbouring sizes, in bytes, between which the order of the curves changes.
    pub bracket: Option<Interval>,
    /// Where the lines cross, in bytes.
    pub crossing: Option<f64>,
    /// Its 95 % interval; an end that is not finite is the end of the axis.
    pub interval: Option<Interval>,
    /// A line below the plot.
    pub remark: String,
}

/// A curve: values above 0 over sizes above 0. Others are not drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct PlottedCurve {
    /// Name.
    pub name: String,
    /// A second line below the name, such as the line's parameters.
    pub about: String,
    /// What was measured.
    pub points: Vec<PlottedPoint>,
    /// What was fitted, from the smallest size to the largest.
    pub line: Vec<PlottedPoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlottedPoint {
    /// Size, in bytes.
    pub bytes: f64,
    /// The quantity, in the unit of the panel.
    pub value: f64,
}

impl PlottedPoint {
    fn is_drawn(&self) -> bool {
        let is_above = |number: f64| number.is_finite() && number > 0.0;
        is_above(self.bytes) && is_above(self.value)
    }
}

/// The panels below one another; None without a point.
pub(super) fn draw(panels: &[CurvePanel]) -> Option<Drawing> {
    let mut body = Group::new();
    let mut height = 0.0;
    let has_points = |panel: &&CurvePanel| {
        let mut points = panel.curves.iter().flat_map(|curve| &curve.points);
        points.any(PlottedPoint::is_drawn)
    };
    for one in panels.iter().filter(has_points) {
        let place = format!("translate(0 {})", px(height));
        body = body.add(panel(one).set("transform", place));
        height += TOP + HEIGHT + 48.0 + MARGIN;
    }
    (height > 0.0).then(|| Drawing {
        body,
        height: height - MARGIN,
    })
}

/// Axes of a plot.
struct Plot<'a> {
    size: LogAxis,
    value: LogAxis,
    panel: &'a CurvePanel,
}

fn panel(panel: &CurvePanel) -> Group {
    let shown = || panel.curves.iter().take(CURVES);
    let points = || {
        shown()
            .flat_map(|curve| &curve.points)
            .filter(|point| point.is_drawn())
    };
    let bottom = TOP + HEIGHT;
    let plot = Plot {
        // A crossing outside the measured sizes is to be seen.
        size: LogAxis::around(
            points().map(|point| point.bytes).chain(panel.crossing),
            LEFT,
            RIGHT,
        ),
        value: LogAxis::around(points().map(|point| point.value), bottom, TOP),
        panel,
    };
    let mut group = Group::new()
        .add(text(MARGIN, 14.0, "head", &panel.title))
        .add(plot.bands())
        .add(plot.grid());
    for (colour, curve) in shown().enumerate() {
        let y = TOP + 12.0 + colour as f64 * ROW;
        group = group
            .add(plot.line(curve, colour))
            .add(plot.dots(curve, colour))
            .add(name(curve, colour, y));
    }
    group = group.add(plot.crossing()).add(text(
        f64::midpoint(LEFT, RIGHT),
        bottom + 34.0,
        "faint middle",
        "size of the data of an operation",
    ));
    match &*panel.remark {
        "" => group,
        remark => group.add(text(LEFT, bottom + 52.0, "faint", remark)),
    }
}

/// The name of a curve, behind the plot.
fn name(curve: &PlottedCurve, colour: usize, y: f64) -> Group {
    let x = RIGHT + 38.0;
    Group::new()
        .add(hint(&shorten(&curve.name, 300)))
        .add(rectangle(
            RIGHT + 20.0,
            y - 9.0,
            10.0,
            10.0,
            &format!("k{colour}"),
        ))
        .add(text(x, y, "label", &shorten(&curve.name, NAME)))
        .add(text(x, y + 16.0, "faint", &shorten(&curve.about, NAME)))
}

impl Plot<'_> {
    /// Lines and numbers along both axes.
    fn grid(&self) -> Group {
        let bottom = TOP + HEIGHT;
        let mut group = Group::new();
        for mark in self.size.marks(Unit::Bytes) {
            group = group
                .add(line(mark.at, TOP, mark.at, bottom, "grid"))
                .add(text(mark.at, bottom + 16.0, "tick", &mark.name));
        }
        for mark in self.value.marks(self.panel.unit) {
            group = group
                .add(line(LEFT, mark.at, RIGHT, mark.at, "grid"))
                .add(text(LEFT - 8.0, mark.at + 4.0, "faint end", &mark.name));
        }
        group
    }

    /// The bracket, and in it the interval.
    fn bands(&self) -> Group {
        let band = |interval: Interval, class: &str, about: &str| {
            let end = |bytes: f64, other: f64| match bytes.is_finite() {
                true => self.size.at(bytes),
                false => other,
            };
            let (left, right) = (end(interval.low, LEFT), end(interval.high, RIGHT));
            Group::new().add(hint(about)).add(rectangle(
                left,
                TOP,
                (right - left).max(1.5),
                HEIGHT,
                class,
            ))
        };
        let bracket = self.panel.bracket.map(|interval| {
            band(
                interval,
                "bracket",
                "measured sizes between which the order changes",
            )
        });
        let interval = self.panel.interval.map(|interval| {
            let about = "95 % interval of where the lines cross";
            band(interval, "change", about)
        });
        let bands = bracket.into_iter().chain(interval);
        bands.fold(Group::new(), Group::add)
    }

    /// Where the lines cross.
    fn crossing(&self) -> Group {
        let Some(bytes) = self.panel.crossing.filter(|bytes| self.size.has(*bytes)) else {
            return Group::new();
        };
        let x = self.size.at(bytes);
        let size = round_number(&Unit::Bytes.format(bytes.round()));
        Group::new()
            .add(hint(&format!("the lines cross at {bytes:.0} bytes")))
            .add(line(x, TOP, x, TOP + HEIGHT, "event"))
            .add(text(x, TOP - 8.0, "middle", &size))
    }

    fn line(&self, curve: &PlottedCurve, colour: usize) -> Polyline {
        let on_axes = |point: &&PlottedPoint| {
            point.is_drawn() && self.size.has(point.bytes) && self.value.has(point.value)
        };
        let points = curve.line.iter().filter(on_axes).map(|point| {
            let (x, y) = (self.size.at(point.bytes), self.value.at(point.value));
            format!("{},{}", px(x), px(y))
        });
        let kind = if self.panel.holds { "" } else { " rejected" };
        Polyline::new()
            .set("points", points.collect::<Vec<_>>().join(" "))
            .set("class", format!("line l{colour}{kind}"))
    }

    fn dots(&self, curve: &PlottedCurve, colour: usize) -> Group {
        let name = shorten(&curve.name, 200);
        let drawn = curve.points.iter().filter(|point| point.is_drawn());
        drawn.fold(Group::new(), |group, point| {
            let size = Unit::Bytes.format(point.bytes);
            let value = self.panel.unit.format(point.value);
            let circle = Circle::new()
                .set("cx", px(self.size.at(point.bytes)))
                .set("cy", px(self.value.at(point.value)))
                .set("r", 4.5)
                .set("class", format!("k{colour}"));
            let about = hint(&format!("{name}\n{size}: {value}"));
            group.add(Group::new().add(about).add(circle))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Report};

    fn points(values: &[(f64, f64)]) -> Vec<PlottedPoint> {
        let point = |(bytes, value): &(f64, f64)| PlottedPoint {
            bytes: *bytes,
            value: *value,
        };
        values.iter().map(point).collect()
    }

    fn panel_of_two() -> CurvePanel {
        let curve = |name: &str, values: &[(f64, f64)]| PlottedCurve {
            name: name.into(),
            about: "1 µs + 1 ns/B".into(),
            points: points(values),
            line: points(values),
        };
        CurvePanel {
            title: "Time of an operation".into(),
            unit: Unit::Seconds,
            curves: vec![
                curve("software", &[(16.0, 1e-6), (256.0, 1e-5), (4096.0, 1e-4)]),
                curve("<hw>", &[(16.0, 1e-5), (256.0, 1.2e-5), (4096.0, 2e-5)]),
            ],
            holds: true,
            bracket: Some(Interval {
                low: 256.0,
                high: 4096.0,
            }),
            crossing: Some(730.4),
            interval: Some(Interval {
                low: 512.0,
                high: 1024.0,
            }),
            remark: "dots: medians".into(),
        }
    }

    fn drawn(panels: &[CurvePanel]) -> String {
        let report = Report::new("crypto-crossover", "", Environment::default());
        crate::render::svg_of_curves(&report, panels)
    }

    #[test]
    fn equal_ratios_are_drawn_equally_long() {
        let svg = drawn(&[panel_of_two()]);
        let sizes = LogAxis::around([16.0, 4096.0].into_iter(), LEFT, RIGHT);
        for bytes in [16.0, 256.0, 4096.0] {
            let x = px(sizes.at(bytes));
            assert_eq!(svg.matches(&format!("cx=\"{x}\"")).count(), 2, "{svg}");
        }
        let (left, right) = (sizes.at(512.0), sizes.at(1024.0));
        let band = format!("width=\"{}\" x=\"{}\"", px(right - left), px(left));
        assert!(svg.contains(&band), "{band} {svg}");
        assert!(svg.contains("730 B") && svg.contains("&lt;hw&gt;"));
        assert_eq!(svg.matches("<polyline").count(), 2);
    }

    #[test]
    fn an_interval_without_an_end_reaches_the_axis() {
        let mut panel = panel_of_two();
        panel.interval = Some(Interval {
            low: 512.0,
            high: f64::INFINITY,
        });
        panel.bracket = None;
        panel.holds = false;
        let sizes = LogAxis::around([16.0, 4096.0].into_iter(), LEFT, RIGHT);
        let width = px(RIGHT - sizes.at(512.0));
        let svg = drawn(&[panel]);
        assert!(svg.contains(&format!("width=\"{width}\"")), "{svg}");
        assert_eq!(svg.matches("rejected\"").count(), 2);
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        assert!(draw(&[]).is_none());
        let mut panel = panel_of_two();
        panel.curves[0].points = points(&[(0.0, 1.0), (16.0, f64::NAN), (16.0, -1.0)]);
        panel.curves[1].points = points(&[(16.0, 5.0)]);
        panel.crossing = Some(f64::INFINITY);
        let svg = drawn(std::slice::from_ref(&panel));
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        panel.curves.truncate(1);
        assert!(draw(&[panel]).is_none());
        let curve = panel_of_two().curves.remove(0);
        let many = CurvePanel {
            curves: vec![curve; 9],
            ..panel_of_two()
        };
        assert_eq!(drawn(&[many]).matches("<polyline").count(), CURVES);
    }
}
