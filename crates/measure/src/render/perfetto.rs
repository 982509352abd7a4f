//! A timeline in the format of trace viewers.

use serde_json::{Value, json};

use super::text::clean;
use crate::{Node, Report, Timeline};

/// The timeline in the Chrome trace event format ("Trace Event Format", Google, 2016), which
/// Perfetto and `chrome://tracing` open; an empty trace if the report has no timeline.
///
/// Times begin at 0. Activities that overlap without nesting go to tracks of their own, since
/// viewers draw events of one track wrongly unless they nest.
pub fn perfetto(report: &Report) -> String {
    let mut events = vec![metadata(
        "process_name",
        0,
        &format!("brisk {}", report.kind),
    )];
    if let Some(timeline) = &report.timeline {
        add(timeline, &mut events);
    }
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": { "created": clean(&report.created) },
        "traceEvents": events,
    });
    trace.to_string() + "\n"
}

fn add(timeline: &Timeline, events: &mut Vec<Value>) {
    let Some(span) = timeline.span() else {
        return;
    };
    // The format counts in microseconds.
    let micros = |ticks: i64| ticks as f64 / 1e3;
    let nodes = timeline.nodes();
    let tracks = tracks(&nodes);
    for track in 0..=tracks.iter().copied().max().unwrap_or(0) {
        let name = format!("{} {track}", timeline.clock.name());
        events.push(metadata("thread_name", track, &name));
    }
    for (node, track) in nodes.iter().zip(tracks) {
        let activity = &timeline.activities[node.activity];
        events.push(json!({
            "ph": "X",
            "name": clean(&activity.name),
            "cat": clean(&activity.kind),
            "ts": micros(node.span.start.saturating_sub(span.start)),
            "dur": micros(node.span.duration()),
            "pid": 1,
            "tid": track,
        }));
    }
    for (at, event) in timeline.placed_events() {
        events.push(json!({
            "ph": "i",
            "s": "p",
            "name": clean(&event.name),
            "ts": micros(at.saturating_sub(span.start)),
            "pid": 1,
            "tid": 0,
        }));
    }
}

fn metadata(what: &str, track: usize, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": 1, "tid": track, "args": { "name": clean(name) } })
}

/// The track of each node: the first whose open activities all hold it.
fn tracks(nodes: &[Node]) -> Vec<usize> {
    let mut open: Vec<Vec<(i64, i64)>> = Vec::new();
    nodes
        .iter()
        .map(|node| {
            let (start, end) = (node.span.start, node.span.end);
            for track in &mut open {
                track.retain(|(_, until)| *until > start);
            }
            let fits = |track: &Vec<(i64, i64)>| track.iter().all(|(_, until)| *until >= end);
            let place = open.iter().position(fits).unwrap_or_else(|| {
                open.push(Vec::new());
                open.len() - 1
            });
            open[place].push((start, end));
            place
        })
        .collect()
}
