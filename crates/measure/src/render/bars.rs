//! A timeline for a terminal: a tree of activities, each with a bar.

use super::text::{round_number, shorten};
use crate::{Gap, Node, Span, Timeline};

/// Minimum width in columns; narrower terminals wrap lines.
const NARROWEST: usize = 60;
/// Levels of the tree.
const DEEPEST: usize = 4;
/// Lines for what lies in one activity; the shorter ones share one more.
const CHILDREN: usize = 12;
/// Below this share of the whole, an activity in another gets no line of its own.
const SMALLEST: f64 = 0.005;
/// Columns of a duration and of a share, each with a space before it.
const NUMBERS: usize = 1 + 12 + 1 + 7;

/// Columns that a time above the bars takes with the space before the next.
const COLUMNS_OF_A_TIME: usize = 12;

/// A line of the tree.
enum Row<'a> {
    Activity(&'a Node),
    Gap,
    /// How many are not shown, and how long they take together.
    Rest(usize, i64),
}

/// The timeline as lines of at most `width` columns: what was done, indented by what it was part
/// of, where it lies from start to end, how long it took and how much of the whole that is. Solid
/// bars are activities, shaded ones consist of others, dotted ones are explained by nothing. Empty
/// for an empty timeline.
pub fn timeline_text(timeline: &Timeline, width: usize) -> String {
    let Some(whole) = timeline.span() else {
        return String::new();
    };
    let width = width.max(NARROWEST);
    let names = (width * 2 / 5).clamp(24, 56);
    let tree = Tree {
        timeline,
        whole,
        nodes: timeline.nodes(),
        gaps: timeline.gaps(),
        names,
        bars: width - names - NUMBERS - 1,
    };
    let mut lines = vec![tree.headline()];
    lines.push(tree.scale());
    tree.level(None, 0, &mut lines);
    lines.join("\n") + "\n"
}

struct Tree<'a> {
    timeline: &'a Timeline,
    whole: Span,
    nodes: Vec<Node>,
    gaps: Vec<Gap>,
    names: usize,
    bars: usize,
}

impl Tree<'_> {
    fn headline(&self) -> String {
        let total = self.timeline.clock.format(self.whole.duration());
        let clock = self.timeline.clock.name();
        let explained = self.timeline.explained_fraction().unwrap_or(0.0) * 100.0;
        format!("{total} by {clock}, {explained:.1} % explained")
    }

    /// Round times above the bars, where there is room for them.
    fn scale(&self) -> String {
        let (unit, tick) = self.timeline.clock.unit();
        let whole = self.whole.duration() as f64 * tick;
        let most = (self.bars / COLUMNS_OF_A_TIME).max(1) as f64;
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * 10f64.powf((whole / most).log10().floor()))
            .into_iter()
            .find(|step| step * most >= whole * 0.999)
            .unwrap_or(whole);
        let mut line = String::new();
        for place in 0..=most as usize {
            let time = place as f64 * step;
            let column = (time / whole * self.bars as f64) as usize;
            let text = if place == 0 {
                "╷0".to_owned()
            } else {
                format!("╷{}", round_number(&unit.format_as(time, whole)))
            };
            if column + text.chars().count() > self.bars {
                break;
            }
            let blank = column.saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', blank));
            line.push_str(&text);
        }
        format!("{:1$} {line}", "", self.names)
    }

    /// Adds lines for the activities directly in `parent`, or for the top level.
    fn level(&self, parent: Option<usize>, depth: usize, lines: &mut Vec<String>) {
        let least = self.whole.duration() as f64 * SMALLEST;
        let inside = parent.map(|parent| self.nodes[parent].activity);
        let activities = self.nodes.iter().filter(|node| node.parent == parent);
        let gaps = self.gaps.iter().filter(|gap| gap.within == inside);
        let mut rows: Vec<(Span, Row<'_>)> = activities
            .map(|node| (node.span, Row::Activity(node)))
            .chain(gaps.map(|gap| (gap.span, Row::Gap)))
            .collect();
        rows.sort_by_key(|(span, _)| std::cmp::Reverse(span.duration()));
        let large = |span: &Span| depth == 0 || span.duration() as f64 >= least;
        let shown = rows.iter().take_while(|(span, _)| large(span)).count();
        let most = if depth == 0 { usize::MAX } else { CHILDREN };
        let rest = rows.split_off(shown.min(most));
        rows.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let tiny: Vec<&Span> = rest
            .iter()
            .filter(|(_, row)| matches!(row, Row::Activity(_)))
            .map(|(span, _)| span)
            .collect();
        for (span, row) in &rows {
            lines.push(self.line(*span, row, depth));
            if let Row::Activity(node) = row {
                if depth + 1 < DEEPEST {
                    self.level(self.place(node), depth + 1, lines);
                }
            }
        }
        // Where nothing else is shown the activity speaks for itself.
        if !tiny.is_empty() && !rows.is_empty() {
            let took = tiny.iter().map(|span| span.duration()).sum();
            lines.push(self.line(self.whole, &Row::Rest(tiny.len(), took), depth));
        }
    }

    fn place(&self, wanted: &Node) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.activity == wanted.activity)
    }

    fn line(&self, span: Span, row: &Row<'_>, depth: usize) -> String {
        let took = match row {
            Row::Rest(_, took) => *took,
            _ => span.duration(),
        };
        let (name, bar) = match row {
            Row::Activity(node) => {
                let activity = &self.timeline.activities[node.activity];
                let solid = node.leaf || activity.whole;
                let fill = if solid { '█' } else { '▒' };
                (activity.name.clone(), self.bar(span, fill))
            }
            Row::Gap => ("(nothing known)".to_owned(), self.bar(span, '░')),
            Row::Rest(count, _) => (format!("({count} more)"), String::new()),
        };
        let indent = 2 * depth;
        let name = shorten(&name, self.names - indent);
        let blank = self.names - indent - name.chars().count();
        let (bars, shown) = (self.bars, self.timeline.clock.format(took));
        let share = took as f64 / self.whole.duration().max(1) as f64 * 100.0;
        format!(
            "{0:indent$}{name}{0:blank$} {bar:bars$} {shown:>12} {share:>5.1} %",
            "",
        )
    }

    /// A bar, to an eighth of a column at its end and a half at its start.
    fn bar(&self, span: Span, fill: char) -> String {
        let scale = self.bars as f64 / self.whole.duration().max(1) as f64;
        let from = span.start.saturating_sub(self.whole.start) as f64 * scale;
        let to = span.end.saturating_sub(self.whole.start) as f64 * scale;
        let from = from.min(self.bars as f64 - 0.125);
        let mut bar = " ".repeat(from as usize);
        let eighths = |columns: f64| (columns * 8.0).round() as usize;
        if to.ceil() - from.floor() <= 1.0 {
            let solid = fill == '█';
            bar.push(if solid {
                thin(from.fract(), to - from)
            } else {
                fill
            });
            return bar;
        }
        let mut at = from as usize;
        if fill == '█' && from.fract() >= 0.5 {
            bar.push('▐');
            at += 1;
        }
        let full = (to as usize).saturating_sub(at);
        bar.extend(std::iter::repeat_n(fill, full));
        let left = eighths(to.fract());
        if fill != '█' {
            if left >= 4 {
                bar.push(fill);
            }
        } else if left > 0 && at + full < self.bars {
            bar.push(BLOCKS[left - 1]);
        }
        bar
    }
}

/// One to eight eighths from the left.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar within one column.
fn thin(from: f64, width: f64) -> char {
    match (from, width) {
        (from, width) if from >= 0.5 && width >= 0.375 => '▐',
        (from, _) if from >= 0.75 => '▕',
        (from, _) if from >= 0.25 => '│',
        (_, width) => BLOCKS[((width * 8.0).round() as usize).clamp(1, 8) - 1],
    }
}
