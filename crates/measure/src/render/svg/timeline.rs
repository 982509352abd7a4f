//! A timeline: a strip of everything at once, then a line for each activity and each gap.

use std::collections::BTreeMap;

use ::svg::node::element::Group;

use super::axis::Axis;
use super::drawing::{CHARACTER, Drawing, MARGIN, WIDTH, hint, line, rectangle, text};
use crate::render::text::shorten;
use crate::{Gap, Node, Span, Timeline};

/// Left end of the axis; names stand before it.
const LEFT: f64 = 310.0;
/// Right end of the axis; durations stand after it.
const RIGHT: f64 = WIDTH - 110.0;
/// Height of a line.
const ROW: f64 = 20.0;
/// How far a line is indented for each activity it lies in.
const INDENT: f64 = 14.0;
/// Deepest indentation drawn.
const DEEPEST: usize = 7;
/// At most so many lines; beyond, the shortest activities share one.
const ROWS: usize = 120;
/// Gaps below this share of the whole get no line of their own.
const GAP_SHARE: f64 = 0.01;
/// Gaps below this share of the whole are not drawn.
const DRAWN_SHARE: f64 = 2e-5;
/// Narrower bars would not be seen.
const THINNEST: f64 = 1.5;

/// A line of the picture.
enum Row<'a> {
    Activity(&'a Node),
    Gap(&'a Gap, usize),
}

impl Row<'_> {
    fn span(&self) -> Span {
        match self {
            Self::Activity(node) => node.span,
            Self::Gap(gap, _) => gap.span,
        }
    }
}

struct Picture<'a> {
    timeline: &'a Timeline,
    whole: Span,
    axis: Axis,
    kinds: BTreeMap<&'a str, usize>,
}

/// The line of the strip that each node is drawn on: below the one it lies in, and further down
/// where activities overlap. What is too deep shares the last line.
fn lanes(nodes: &[Node]) -> Vec<usize> {
    let mut ends: Vec<i64> = Vec::new();
    let mut lanes: Vec<usize> = Vec::new();
    for node in nodes {
        let first = node.parent.map_or(0, |parent| lanes[parent] + 1);
        let free = |lane: &usize| ends.get(*lane).is_none_or(|end| *end <= node.span.start);
        let lane = (first..DEEPEST).find(free).unwrap_or(DEEPEST);
        if ends.len() <= lane {
            ends.resize(lane + 1, i64::MIN);
        }
        ends[lane] = ends[lane].max(node.span.end);
        lanes.push(lane);
    }
    lanes
}

/// The picture; none of an empty timeline.
pub(super) fn draw(timeline: &Timeline) -> Option<Drawing> {
    let whole = timeline.span()?;
    let nodes = timeline.nodes();
    let gaps = timeline.gaps();
    // Kinds take their colours in the order they first come up.
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &nodes {
        let next = kinds.len();
        let kind = timeline.activities[node.activity].kind.as_str();
        kinds.entry(kind).or_insert(next);
    }
    let picture = Picture {
        timeline,
        whole,
        axis: Axis::new(
            0.0,
            whole.duration() as f64 * timeline.clock.unit().1,
            LEFT,
            RIGHT,
        ),
        kinds,
    };
    let (rows, hidden) = picture.rows(&nodes, &gaps);
    let mut body = Group::new().add(text(MARGIN, 14.0, "head", &picture.headline()));
    let (legend, legend_height) = picture.legend();
    body = body.add(legend);
    let (events, events_height) = picture.event_names(24.0 + legend_height);
    let strip_top = 24.0 + legend_height + events_height + 22.0;
    let lanes = lanes(&nodes);
    let depth = lanes.iter().copied().max().unwrap_or(0) + 1;
    let rows_top = strip_top + depth as f64 * ROW + 14.0;
    let bottom = rows_top + rows.len() as f64 * ROW;
    for place in (0..rows.len()).step_by(2) {
        let y = rows_top + place as f64 * ROW;
        body = body.add(rectangle(MARGIN, y, WIDTH - 2.0 * MARGIN, ROW, "band"));
    }
    let (unit, tick) = timeline.clock.unit();
    // What a page needs to draw it anew, closer.
    let body = body
        .set("class", "timeline")
        .set("data-left", LEFT)
        .set("data-right", RIGHT)
        .set("data-top", strip_top)
        .set("data-rows", rows_top)
        .set("data-bottom", bottom)
        .set("data-span", whole.duration())
        .set("data-tick", tick)
        .set("data-unit", unit.symbol());
    let mut body = body
        .add(
            picture
                .axis
                .draw(strip_top, bottom, unit)
                .set("class", "axis"),
        )
        .add(events)
        .add(picture.event_lines(strip_top - 18.0, bottom))
        .add(picture.strip(&nodes, &lanes, &gaps, strip_top));
    for (place, row) in rows.iter().enumerate() {
        body = body.add(picture.row(row, rows_top + place as f64 * ROW));
    }
    let mut height = bottom;
    if hidden > 0 {
        height += ROW;
        let note = format!("… and {hidden} shorter activities and gaps, in the strip above only");
        body = body.add(text(MARGIN, height - 5.0, "faint", &note));
    }
    Some(Drawing { body, height })
}

impl<'a> Picture<'a> {
    fn headline(&self) -> String {
        let total = self.format(self.whole.duration());
        let clock = self.timeline.clock.name();
        match self.timeline.explained_fraction() {
            Some(explained) => {
                format!(
                    "Timeline: {total} by {clock}, {:.1} % explained",
                    explained * 100.0
                )
            }
            None => format!("Timeline by {clock}"),
        }
    }

    fn format(&self, ticks: i64) -> String {
        self.timeline.clock.format(ticks)
    }

    fn x(&self, at: i64) -> f64 {
        let since = at.saturating_sub(self.whole.start) as f64;
        self.axis.x(since * self.timeline.clock.unit().1)
    }

    fn colour(&self, node: &Node) -> String {
        let kind = self.timeline.activities[node.activity].kind.as_str();
        let colour = self.kinds.get(kind).copied().unwrap_or(0) % 8;
        format!("k{colour}{}", if self.solid(node) { "" } else { " outer" })
    }

    /// Whether the activity explains its own time.
    fn solid(&self, node: &Node) -> bool {
        node.leaf || self.timeline.activities[node.activity].whole
    }

    /// A part of the picture that lies on the axis, for the page to move.
    fn placed(&self, span: Span, class: &str) -> Group {
        Group::new()
            .set("class", class)
            .set("data-at", span.start.saturating_sub(self.whole.start))
            .set("data-for", span.duration())
    }

    /// The longest activities and gaps, in order of time, and how many were left out.
    fn rows<'b>(&self, nodes: &'b [Node], gaps: &'b [Gap]) -> (Vec<Row<'b>>, usize) {
        let least = self.whole.duration() as f64 * GAP_SHARE;
        let depth_in = |activity: usize| {
            let node = nodes.iter().find(|node| node.activity == activity);
            node.map_or(0, |node| node.depth + 1)
        };
        let gaps = gaps
            .iter()
            .filter(|gap| gap.span.duration() as f64 >= least)
            .map(|gap| Row::Gap(gap, gap.within.map_or(0, depth_in)));
        let mut rows: Vec<Row<'b>> = nodes.iter().map(Row::Activity).chain(gaps).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.span().duration()));
        let hidden = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        rows.sort_by_key(|row| (row.span().start, std::cmp::Reverse(row.span().end)));
        (rows, hidden)
    }

    /// A square and a name for each kind, in as many lines as they need.
    fn legend(&self) -> (Group, f64) {
        let mut kinds: Vec<(&str, usize)> = self.kinds.iter().map(|(k, c)| (*k, *c)).collect();
        kinds.sort_by_key(|(_, colour)| *colour);
        let mut entries: Vec<(String, String)> = kinds
            .into_iter()
            .take(24)
            .map(|(kind, colour)| {
                let name = if kind.is_empty() { "other" } else { kind };
                (shorten(name, 24), format!("k{}", colour % 8))
            })
            .collect();
        entries.push(("explained by nothing".to_owned(), "gap".to_owned()));
        let (mut x, mut y) = (MARGIN, 26.0);
        let mut group = Group::new();
        for (name, class) in entries {
            let width = 38.0 + name.chars().count() as f64 * CHARACTER;
            if x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + ROW);
            }
            group = group
                .add(rectangle(x, y, 11.0, 11.0, &class).set("rx", 2))
                .add(text(x + 16.0, y + 10.0, "faint", &name));
            x += width;
        }
        (group, y - 2.0)
    }

    /// Names of events above their lines, each in the first row where it does not cover another.
    fn event_names(&self, top: f64) -> (Group, f64) {
        let mut group = Group::new();
        let mut ends: Vec<f64> = Vec::new();
        for (at, event) in self.timeline.placed_events() {
            let name = shorten(&event.name, 32);
            let width = (name.chars().count() as f64 + 1.0) * CHARACTER;
            // At the right edge the name stands before its line.
            let start = self.x(at).min(WIDTH - MARGIN - width);
            let free = ends.iter().position(|end| *end < start);
            let row = match free {
                Some(row) => row,
                None if ends.len() < 4 => {
                    ends.push(0.0);
                    ends.len() - 1
                }
                None => continue,
            };
            ends[row] = start + width;
            let y = top + row as f64 * 16.0 + 10.0;
            let name = text(start + 2.0, y, "faint", &name);
            let moment = Span { start: at, end: at };
            group = group.add(self.placed(moment, "moment").add(name));
        }
        (group, ends.len() as f64 * 16.0)
    }

    fn event_lines(&self, top: f64, bottom: f64) -> Group {
        let events = self.timeline.placed_events().into_iter();
        events.fold(Group::new(), |group, (at, event)| {
            let x = self.x(at);
            let when = self.format(at.saturating_sub(self.whole.start));
            let mark = self
                .placed(Span { start: at, end: at }, "moment")
                .add(hint(&format!("{}\nat {when}", shorten(&event.name, 300))))
                .add(line(x, top, x, bottom, "event"));
            group.add(mark)
        })
    }

    /// Everything at once, one level below the other.
    fn strip(&self, nodes: &[Node], lanes: &[usize], gaps: &[Gap], top: f64) -> Group {
        let mut group = Group::new();
        let bar = |span: Span, lane: usize, class: &str| {
            let (x, y) = (self.x(span.start), top + lane as f64 * ROW);
            let width = (self.x(span.end) - x).max(0.75);
            rectangle(x, y + 1.0, width, ROW - 2.0, class)
        };
        let least = self.whole.duration() as f64 * DRAWN_SHARE;
        let drawn = |gap: &&Gap| gap.span.duration() as f64 >= least;
        for gap in gaps.iter().filter(drawn) {
            let outer = nodes.iter().position(|n| Some(n.activity) == gap.within);
            let lane = outer.map_or(0, |outer| lanes[outer] + 1).min(DEEPEST);
            let part = self.placed(gap.span, "activity strip");
            let mark = bar(gap.span, lane, "gap");
            group = group.add(part.add(hint(&self.gap_hint(gap))).add(mark));
        }
        for (node, &lane) in nodes.iter().zip(lanes) {
            let activity = &self.timeline.activities[node.activity];
            let class = self.colour(node);
            let mut part = self
                .placed(node.span, "activity strip")
                .add(hint(&self.hint(node)))
                .add(bar(node.span, lane, &class).set("rx", 2));
            let (left, right) = (self.x(node.span.start), self.x(node.span.end));
            let room = ((right - left - 8.0) / CHARACTER).max(0.0) as usize;
            if room >= 5 {
                let y = top + lane as f64 * ROW + 14.0;
                let class = if self.solid(node) { "inside" } else { "label" };
                part = part.add(text(left + 5.0, y, class, &shorten(&activity.name, room)));
            }
            group = group.add(part);
        }
        group
    }

    fn row(&self, row: &Row<'_>, y: f64) -> Group {
        let span = row.span();
        let (left, right) = (self.x(span.start), self.x(span.end));
        let width = (right - left).max(THINNEST);
        let (depth, name, class, label, about) = match row {
            Row::Activity(node) => {
                let activity = &self.timeline.activities[node.activity];
                let (class, about) = (self.colour(node), self.hint(node));
                (node.depth, activity.name.as_str(), class, "label", about)
            }
            Row::Gap(gap, depth) => {
                let about = self.gap_hint(gap);
                (*depth, "nothing known", "gap".to_owned(), "gapname", about)
            }
        };
        let indent = MARGIN + 4.0 + depth.min(DEEPEST) as f64 * INDENT;
        let room = ((LEFT - 12.0 - indent) / CHARACTER) as usize;
        self.placed(span, "activity row")
            .add(hint(&about))
            .add(text(indent, y + 14.0, label, &shorten(name, room)))
            .add(rectangle(left, y + 3.0, width, ROW - 6.0, &class).set("rx", 2))
            .add(text(
                left + width + 5.0,
                y + 14.0,
                "faint",
                &self.format(span.duration()),
            ))
    }

    fn hint(&self, node: &Node) -> String {
        let activity = &self.timeline.activities[node.activity];
        let took = node.span.duration();
        let share = took as f64 / self.whole.duration().max(1) as f64 * 100.0;
        format!(
            "{}\n{}{} ({share:.1} %), from {} to {}",
            shorten(&activity.name, 300),
            match activity.kind.as_str() {
                "" => String::new(),
                kind => format!("{}: ", shorten(kind, 40)),
            },
            self.format(took),
            self.format(node.span.start.saturating_sub(self.whole.start)),
            self.format(node.span.end.saturating_sub(self.whole.start)),
        )
    }

    fn gap_hint(&self, gap: &Gap) -> String {
        format!(
            "{} that nothing explains\nafter {}, before {}",
            self.format(gap.span.duration()),
            shorten(gap.after.as_deref().unwrap_or("the start"), 150),
            shorten(gap.before.as_deref().unwrap_or("the end"), 150),
        )
    }
}
