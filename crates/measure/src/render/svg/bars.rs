//! Bars: a number for each of some things, or what it is the sum of.

use ::svg::node::element::Group;

use super::axis::Axis;
use super::drawing::{
    CHARACTER, Drawing, MARGIN, WIDTH, below_each_other, hint, line, rectangle, text,
};
use crate::render::text::shorten;
use crate::{Interval, Unit};

/// Left end of the bars; names stand before it.
const LEFT: f64 = 250.0;
/// Right end of the axis; the numbers stand behind the bars.
const RIGHT: f64 = WIDTH - 140.0;
/// Height of a bar with the space around it.
const ROW: f64 = 30.0;
/// Space above and below a bar.
const GAP: f64 = 6.0;
/// Characters of a name that fit before the bars.
const NAME: usize = 34;
/// Number of colours.
const COLOURS: usize = 8;

/// Bars beside one another, on one axis from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct BarPanel {
    /// Heading.
    pub title: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Names of the parts of a bar, for the key. Empty if a bar is one value.
    pub parts: Vec<String>,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
    /// A line below the bars, such as the way they are to be read.
    pub remark: String,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Name.
    pub name: String,
    /// Values of its parts, or its value alone. Empty if nothing is known.
    pub values: Vec<f64>,
    /// The 95 % interval of the whole.
    pub interval: Option<Interval>,
}

impl Bar {
    /// Where its last part ends: those below 0 are not drawn.
    fn end(&self) -> f64 {
        self.values.iter().map(|value| value.max(0.0)).sum()
    }

    fn whole(&self) -> f64 {
        // A sum of nothing is -0.
        self.values.iter().sum::<f64>() + 0.0
    }
}

/// The panels below one another.
pub(super) fn draw(panels: &[BarPanel]) -> Option<Drawing> {
    let drawn = panels.iter().filter(|panel| !panel.bars.is_empty());
    below_each_other(drawn.map(panel))
}

fn panel(panel: &BarPanel) -> (Group, f64) {
    let ends = panel.bars.iter().map(|bar| {
        let high = bar.interval.map_or(0.0, |interval| interval.high);
        bar.end().max(high)
    });
    let high = ends.filter(|end| end.is_finite()).fold(0.0, f64::max);
    let axis = Axis::new(0.0, high, LEFT, RIGHT);
    let key = if panel.parts.is_empty() { 0.0 } else { 24.0 };
    let top = 48.0 + key;
    let bottom = top + panel.bars.len() as f64 * ROW;
    let mut group = Group::new()
        .add(text(MARGIN, 14.0, "head", &panel.title))
        .add(legend(&panel.parts))
        .add(axis.draw(top, bottom, panel.unit));
    for (place, bar) in panel.bars.iter().enumerate() {
        let top = top + place as f64 * ROW;
        group = group.add(drawn(bar, panel, &axis, top));
    }
    if panel.remark.is_empty() {
        return (group, bottom);
    }
    group = group.add(text(MARGIN, bottom + 18.0, "faint", &panel.remark));
    (group, bottom + 22.0)
}

fn legend(parts: &[String]) -> Group {
    let mut group = Group::new();
    let mut x = MARGIN;
    for (place, part) in parts.iter().enumerate() {
        let class = format!("k{}", place % COLOURS);
        let name = shorten(part, NAME);
        group = group.add(rectangle(x, 27.0, 10.0, 10.0, &class)).add(text(
            x + 15.0,
            36.0,
            "label",
            &name,
        ));
        x += 35.0 + name.chars().count() as f64 * CHARACTER;
    }
    group
}

fn drawn(bar: &Bar, panel: &BarPanel, axis: &Axis, top: f64) -> Group {
    let middle = top + ROW / 2.0;
    let mut group = Group::new().add(Group::new().add(hint(&shorten(&bar.name, 300))).add(text(
        MARGIN,
        middle + 4.0,
        "label",
        &shorten(&bar.name, NAME),
    )));
    let mut from = 0.0;
    for (place, value) in bar.values.iter().enumerate() {
        let (left, right) = (axis.x(from), axis.x(from + value.max(0.0)));
        let class = format!("k{}", place % COLOURS);
        let part = panel.parts.get(place).map_or("", String::as_str);
        let about = format!("{} {part}: {}", bar.name, panel.unit.format(*value));
        let drawn = rectangle(left, top + GAP, right - left, ROW - 2.0 * GAP, &class);
        group = group.add(Group::new().add(hint(&about)).add(drawn));
        from += value.max(0.0);
    }
    let mut end = axis.x(from);
    if let Some(interval) = bar.interval {
        let (low, high) = (axis.x(interval.low), axis.x(interval.high));
        group = group
            .add(line(low, middle, high, middle, "median"))
            .add(line(low, middle - 5.0, low, middle + 5.0, "median"))
            .add(line(high, middle - 5.0, high, middle + 5.0, "median"));
        end = end.max(high);
    }
    let number = match &*bar.values {
        [] => "not known".to_owned(),
        _ => panel.unit.format(bar.whole()),
    };
    group.add(text(end + 8.0, middle + 4.0, "faint", &number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_their_parts_are_in_proportion() {
        let bar = |name: &str, values: &[f64]| Bar {
            name: name.into(),
            values: values.to_vec(),
            interval: None,
        };
        let panel = BarPanel {
            title: "Time".into(),
            unit: Unit::Seconds,
            parts: vec!["user".into(), "system".into()],
            bars: vec![
                bar("host", &[1.0, 1.0]),
                bar("box", &[4.0, 0.0]),
                bar("gone<", &[]),
            ],
            remark: String::new(),
        };
        let report = crate::Report::new("overhead", "2026-11-25T00:00:00Z", Default::default());
        let svg = crate::render::svg_of_bars(&report, std::slice::from_ref(&panel));
        // 2 of 4 s reach half of the axis of 810 pixels: two parts of 202.5 each.
        assert_eq!(svg.matches("width=\"202.5\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("width=\"810\"").count(), 1);
        assert!(svg.contains("not known") && svg.contains("gone&lt;"));
        assert!(draw(&[]).is_none());
        // A part below 0 is not drawn, and counts in the number.
        let below = BarPanel {
            bars: vec![bar("box", &[4.0, -1.0])],
            ..panel.clone()
        };
        let svg = crate::render::svg_of_bars(&report, &[below]);
        assert_eq!(svg.matches("width=\"810\"").count(), 1, "{svg}");
        assert!(svg.contains("3.000 s"), "{svg}");
        let of_nothing = BarPanel {
            bars: vec![bar("none", &[0.0])],
            ..panel
        };
        assert!(draw(&[of_nothing]).is_some());
    }
}
