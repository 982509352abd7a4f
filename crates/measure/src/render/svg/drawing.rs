//! Elements of a picture.

use ::svg::node::element::{Element, Group, Rectangle, Text, Title};

use crate::render::text::clean;
use crate::{Series, Unit};

/// Width of every picture.
pub(super) const WIDTH: f64 = 1200.0;

/// Space around what is drawn.
pub(super) const MARGIN: f64 = 24.0;

/// Average width of a character at the size of labels; fonts differ, so a generous one.
pub(super) const CHARACTER: f64 = 6.6;

/// Part of a picture, to be placed below others.
pub(super) struct Drawing {
    pub(super) body: Group,
    pub(super) height: f64,
}

/// Panels below each other, one for each unit: `panel` draws the series of a unit, with their places
/// among all, and gives its height. None without series.
pub(super) fn by_unit(
    series: &[Series],
    panel: impl Fn(Unit, &[(usize, &Series)]) -> (Group, f64),
) -> Option<Drawing> {
    let mut units: Vec<Unit> = Vec::new();
    for one in series {
        if !units.contains(&one.unit) {
            units.push(one.unit);
        }
    }
    below_each_other(units.into_iter().map(|unit| {
        let all = series.iter().enumerate();
        let alike: Vec<_> = all.filter(|(_, one)| one.unit == unit).collect();
        panel(unit, &alike)
    }))
}

/// Panels, each with its height, from top to bottom. None without panels.
pub(super) fn below_each_other(panels: impl IntoIterator<Item = (Group, f64)>) -> Option<Drawing> {
    let mut body = Group::new();
    let mut height = 0.0;
    for (group, group_height) in panels {
        let place = format!("translate(0 {})", px(height));
        body = body.add(group.set("transform", place));
        height += group_height + MARGIN;
    }
    (height > 0.0).then(|| Drawing {
        body,
        height: height - MARGIN,
    })
}

/// A coordinate with as many digits as a screen shows.
pub(super) fn px(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // No -0.
    (rounded + 0.0).to_string()
}

pub(super) fn text(x: f64, y: f64, class: &str, content: &str) -> Text {
    Text::new(clean(content))
        .set("x", px(x))
        .set("y", px(y))
        .set("class", class)
}

pub(super) fn rectangle(x: f64, y: f64, width: f64, height: f64, class: &str) -> Rectangle {
    Rectangle::new()
        .set("x", px(x))
        .set("y", px(y))
        .set("width", px(width))
        .set("height", px(height))
        .set("class", class)
}

pub(super) fn line(x1: f64, y1: f64, x2: f64, y2: f64, class: &str) -> Element {
    let mut line = Element::new("line");
    for (name, value) in [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)] {
        line.get_attributes_mut()
            .insert(name.to_owned(), px(value).into());
    }
    line.get_attributes_mut()
        .insert("class".to_owned(), class.into());
    line
}

/// What pointing at an element shows, in lines.
pub(super) fn hint(content: &str) -> Title {
    let lines: Vec<_> = content.split('\n').map(clean).collect();
    Title::new(lines.join("\n"))
}
