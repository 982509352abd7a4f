//! Summary of several boots: mean times of activities, with their deviations.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use brisk_measure::{Clock, Timeline};

use super::Analysis;

/// Number of activities in the list of the longest.
const LONGEST: usize = 30;
/// Characters of a name in the list.
const NAME: usize = 48;

/// An activity in all boots. Times are in ticks of the timelines' clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the activity.
    pub name: String,
    /// Kind of the activity.
    pub kind: String,
    /// Number of boots that have it.
    pub n: usize,
    /// Mean time in those boots, with several activities of a boot added up.
    pub mean: f64,
    /// The sample standard deviation (divisor n − 1); none for a single boot.
    pub deviation: Option<f64>,
    /// The share of the whole boots, 0 to 1.
    pub share: f64,
    /// Whether it is only a phase, which other activities explain.
    pub phase: bool,
}

/// Summary of several boots.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The clock of all of them.
    pub clock: Clock,
    /// How many boots.
    pub passes: usize,
    /// Every activity, in the order of their first start.
    pub rows: Vec<Row>,
    /// From the execution of QEMU to its end, for each boot.
    pub totals: Vec<i64>,
    /// The share of each boot that activities explain, 0 to 1.
    pub explained: Vec<f64>,
    /// The notes of all, each once.
    pub notes: Vec<String>,
    /// Index of the boot with the median time.
    pub median: Option<usize>,
}

impl Summary {
    /// The activities that are not only phases, longest first.
    #[must_use]
    pub fn longest(&self, count: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| !row.phase).collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.name.cmp(&b.name)));
        rows.truncate(count);
        rows
    }

    /// The longest activities for a terminal: name, mean, deviation and share.
    #[must_use]
    pub fn text(&self) -> String {
        let rows = self.longest(LONGEST);
        let show = |ticks: f64| self.clock.format(ticks.round() as i64);
        let width = rows.iter().map(|row| row.name.chars().count()).max();
        let width = width.unwrap_or(0).clamp(18, NAME);
        let mut text = format!(
            "{:width$}  {:>10}    {:>10}  {:>6}  {}\n",
            "longest activities", "mean", "sd", "share", "kind"
        );
        for row in rows {
            let deviation = row.deviation.map_or_else(|| "-".to_owned(), show);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{:width$}  {:>10}  ± {:>10}  {:>4.1} %  {}",
                shown(&row.name),
                show(row.mean),
                deviation,
                row.share * 100.0,
                shown(&row.kind),
            );
        }
        let explained = self.explained.iter().copied().fold(f64::INFINITY, f64::min);
        if explained.is_finite() {
            let (mean, deviation) = statistics(&self.totals);
            let deviation = deviation.map_or_else(String::new, |d| format!(" ± {}", show(d)));
            let _ = writeln!(
                text,
                "{}{deviation} from start to end in {} passes, at least {:.1} % of each explained",
                show(mean),
                self.passes,
                explained * 100.0
            );
        }
        text
    }
}

/// Shortens a name and removes control characters.
fn shown(name: &str) -> String {
    let clean = name
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let text: String = clean.clone().take(NAME).collect();
    if clean.count() > NAME {
        let kept: String = text.chars().take(NAME - 1).collect();
        return kept + "…";
    }
    text
}

/// Mean and sample standard deviation.
fn statistics(values: &[i64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().map(|value| *value as f64).sum::<f64>() / n.max(1.0);
    let squares: f64 = values
        .iter()
        .map(|value| (*value as f64 - mean).powi(2))
        .sum();
    (
        mean,
        (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
    )
}

/// Values of an activity while they are gathered.
struct Gathered {
    first: i64,
    phase: bool,
    times: Vec<i64>,
}

/// Summarises boots.
#[must_use]
pub fn summarize(passes: &[Analysis]) -> Summary {
    let clock = passes
        .first()
        .map_or(Clock::HostMonotonic, |pass| pass.timeline.clock);
    let mut gathered: BTreeMap<(String, String), Gathered> = BTreeMap::new();
    let mut totals = Vec::new();
    let mut explained = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for pass in passes {
        totals.push(total(&pass.timeline));
        explained.extend(pass.timeline.explained_fraction());
        for note in &pass.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        for ((name, kind), (time, first, phase)) in of_pass(&pass.timeline) {
            let entry = gathered.entry((name, kind)).or_insert(Gathered {
                first,
                phase,
                times: Vec::new(),
            });
            entry.phase |= phase;
            entry.times.push(time);
        }
    }
    let whole = statistics(&totals).0.max(1.0);
    let mut rows: Vec<(i64, Row)> = gathered
        .into_iter()
        .map(|((name, kind), found)| {
            let (mean, deviation) = statistics(&found.times);
            let sum: f64 = found.times.iter().map(|time| *time as f64).sum();
            let row = Row {
                name,
                kind,
                n: found.times.len(),
                mean,
                deviation,
                share: sum / passes.len().max(1) as f64 / whole,
                phase: found.phase,
            };
            (found.first, row)
        })
        .collect();
    rows.sort_by_key(|(first, _)| *first);
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by_key(|pass| totals[*pass]);
    Summary {
        clock,
        passes: passes.len(),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        median: order.get(order.len().saturating_sub(1) / 2).copied(),
        totals,
        explained,
        notes,
    }
}

fn total(timeline: &Timeline) -> i64 {
    timeline.span().map_or(0, |span| span.duration())
}

/// Time, first start and whether it is a phase, for each name and kind of one boot.
fn of_pass(timeline: &Timeline) -> BTreeMap<(String, String), (i64, i64, bool)> {
    let mut found = BTreeMap::new();
    for node in timeline.nodes() {
        let activity = &timeline.activities[node.activity];
        let key = (activity.name.clone(), activity.kind.clone());
        let phase = !node.leaf && !activity.whole;
        let entry = found.entry(key).or_insert((0, node.span.start, phase));
        entry.0 = i64::saturating_add(entry.0, node.span.duration());
        entry.1 = entry.1.min(node.span.start);
        entry.2 |= phase;
    }
    found
}
