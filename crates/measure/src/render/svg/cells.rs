//! Rows of fields, such as pages of memory, each coloured by what it belongs to.

use std::collections::BTreeMap;

use ::svg::node::element::Group;

use super::drawing::{CHARACTER, Drawing, MARGIN, WIDTH, below_each_other, hint, rectangle, text};
use crate::render::text::shorten;

/// Left end of the fields; names stand before it.
const LEFT: f64 = 130.0;
/// Right end of the fields at most; values stand behind them.
const RIGHT: f64 = WIDTH - 140.0;
/// Height of a row with the space around it.
const ROW: f64 = 30.0;
/// Space above and below a field.
const GAP: f64 = 4.0;
/// Width of a field with the space behind it, at most.
const WIDEST: f64 = 26.0;
/// Fields of a line at most; longer rows go on below.
const MOST: usize = 128;
/// Characters of a name that fit before the fields.
const NAME: usize = 15;
/// Characters of a name in the key.
const KEY_NAME: usize = 40;
/// Number of colours.
const COLOURS: usize = 8;

/// Rows below one another whose fields stand for the same things.
#[derive(Debug, Clone, PartialEq)]
pub struct CellPanel {
    /// Heading.
    pub title: String,
    /// Names of what fields belong to, for the key.
    pub groups: BTreeMap<usize, String>,
    /// The rows, from top to bottom.
    pub rows: Vec<CellRow>,
    /// A line below the rows, such as the way they are to be read.
    pub remark: String,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct CellRow {
    /// Name.
    pub name: String,
    /// What stands behind it.
    pub value: String,
    /// The fields, from left to right.
    pub cells: Vec<Cell>,
}

/// A field.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What pointing at it shows, in lines.
    pub about: String,
    /// What it belongs to, from top to bottom; nothing is drawn where the shares do not fill it.
    pub parts: Vec<CellPart>,
}

/// A part of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellPart {
    /// What it belongs to: a number that decides about its colour.
    pub group: usize,
    /// Share of the field, from 0 to 1.
    pub share: f64,
}

/// The panels below one another.
pub(super) fn draw(panels: &[CellPanel]) -> Option<Drawing> {
    let drawn = panels.iter().filter(|panel| !panel.rows.is_empty());
    below_each_other(drawn.map(panel))
}

fn panel(panel: &CellPanel) -> (Group, f64) {
    let most = panel.rows.iter().map(|row| row.cells.len()).max();
    let most = most.unwrap_or(0);
    let width = ((RIGHT - LEFT) / most.clamp(1, MOST) as f64).min(WIDEST);
    let mut group = Group::new()
        .add(text(MARGIN, 14.0, "head", &panel.title))
        .add(legend(&panel.groups));
    let mut top = 48.0;
    for line in 0..most.div_ceil(MOST).max(1) {
        for row in &panel.rows {
            group = group.add(drawn(row, line, width, top));
            top += ROW;
        }
    }
    group = group.add(text(MARGIN, top + 18.0, "faint", &panel.remark));
    (group, top + 22.0)
}

fn class(group: usize) -> String {
    format!("k{}", group % COLOURS)
}

fn legend(groups: &BTreeMap<usize, String>) -> Group {
    let mut body = Group::new();
    let mut x = MARGIN;
    for (number, name) in groups {
        let name = shorten(name, KEY_NAME);
        let end = x + 35.0 + name.chars().count() as f64 * CHARACTER;
        if end > WIDTH {
            break;
        }
        body = body
            .add(rectangle(x, 27.0, 10.0, 10.0, &class(*number)))
            .add(text(x + 15.0, 36.0, "label", &name));
        x = end;
    }
    body
}

/// A line of a row.
fn drawn(row: &CellRow, line: usize, width: f64, top: f64) -> Group {
    let base = top + ROW / 2.0 + 4.0;
    let mut group = Group::new();
    let end = LEFT + row.cells.len().min(MOST) as f64 * width;
    if line == 0 {
        let name = shorten(&row.name, NAME);
        group = group.add(text(MARGIN, base, "label", &name)).add(text(
            end + 8.0,
            base,
            "faint",
            &row.value,
        ));
    }
    let cells = row.cells.iter().skip(line * MOST).take(MOST);
    for (place, cell) in cells.enumerate() {
        let left = LEFT + place as f64 * width;
        group = group.add(field(cell, left, width * 0.9, top + GAP));
    }
    group
}

fn field(cell: &Cell, left: f64, width: f64, top: f64) -> Group {
    let height = ROW - 2.0 * GAP;
    let mut group = Group::new()
        .add(hint(&cell.about))
        .add(rectangle(left, top, width, height, "band"));
    let mut from = 0.0_f64;
    for part in &cell.parts {
        let share = match part.share.is_finite() {
            true => part.share.clamp(0.0, 1.0 - from),
            false => 0.0,
        };
        let y = top + from * height;
        group = group.add(rectangle(
            left,
            y,
            width,
            share * height,
            &class(part.group),
        ));
        from += share;
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use crate::render::svg_of_cells;

    fn panel_of(cells: Vec<Cell>) -> CellPanel {
        CellPanel {
            title: "Text <1>".into(),
            groups: [(0, "node 0".into()), (9, "node 9".into())].into(),
            rows: vec![CellRow {
                name: "row".into(),
                value: "75 %".into(),
                cells,
            }],
            remark: "remark".into(),
        }
    }

    fn svg(panel: CellPanel) -> String {
        let report = Report::new("ktext draw", "", Default::default());
        svg_of_cells(&report, &[panel])
    }

    #[test]
    fn parts_of_a_field_have_their_shares_and_colours() {
        let part = |group: usize, share: f64| CellPart { group, share };
        let cell = Cell {
            about: "0x0 <&>\nsecond".into(),
            parts: vec![part(0, 0.25), part(9, 0.5)],
        };
        let svg = svg(panel_of(vec![cell]));
        // A field is 22 high: 5.5 of them are node 0's, 11 node 9's, which has the second colour.
        for words in [
            "class=\"k0\" height=\"5.5\"",
            "class=\"k1\" height=\"11\"",
            "class=\"band\" height=\"22\"",
            "0x0 &lt;&amp;&gt;\nsecond",
            "Text &lt;1&gt;",
            "75 %",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }

    #[test]
    fn a_long_row_goes_on_below_and_hostile_shares_stay_inside() {
        let cell = |share: f64| Cell {
            about: String::new(),
            parts: vec![CellPart { group: 0, share }; 2],
        };
        let svg = svg(panel_of(vec![cell(1.0); MOST + 1]));
        assert_eq!(svg.matches("class=\"band\"").count(), MOST + 1);
        // The second part of each has no room left.
        assert_eq!(svg.matches("class=\"k0\" height=\"22\"").count(), MOST + 1);
        for share in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let svg = self::svg(panel_of(vec![cell(share)]));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(!svg.contains("height=\"-"), "{svg}");
        }
        assert!(draw(&[]).is_none());
    }
}
