//! Phases between matched lines.

use brisk_measure::Timeline;

use super::log_patterns::{Found, Point};

/// Name of a phase so far.
#[derive(Default)]
struct Name {
    first: Option<String>,
    last: Option<String>,
}

impl Name {
    fn add(&mut self, name: Option<&String>) {
        let Some(name) = name else { return };
        if self.first.is_none() {
            self.first = Some(name.clone());
        } else if self.first.as_ref() != Some(name) {
            self.last = Some(name.clone());
        }
    }

    fn text(self) -> Option<String> {
        let first = self.first?;
        Some(match self.last {
            Some(last) => format!("{first} … {last}"),
            None => first,
        })
    }
}

/// Adds the phases within `span`. Where one line begins a phase and the next line ends another,
/// both names are used. Lines of one time, because the clock stood still or had not begun, leave
/// one phase for everything at that time.
pub(super) fn draw(found: &Found, span: (u64, u64), timeline: &mut Timeline) {
    let clock = timeline.clock;
    let points: Vec<&Point> = found
        .points
        .iter()
        .filter(|point| point.at <= span.1)
        .collect();
    let mut name = Name::default();
    let mut from = span.0;
    for (place, point) in points.iter().enumerate() {
        let at = point.at.max(span.0);
        if place == 0 && at > from {
            if let Some(ends) = &point.ends {
                timeline.whole_activity(ends, &point.kind, from, at, clock);
            }
        }
        from = at;
        name.add(point.begins.as_ref());
        let next = points.get(place + 1);
        let to = next.map_or(span.1, |next| next.at.max(span.0));
        if to == from && next.is_some() {
            continue;
        }
        name.add(next.and_then(|next| next.ends.as_ref()));
        if let Some(text) = std::mem::take(&mut name).text() {
            if point.group {
                timeline.activity(text, &point.kind, from, to, clock);
            } else {
                timeline.whole_activity(text, &point.kind, from, to, clock);
            }
        }
    }
    for (name, kind, start, end) in &found.spans {
        let (start, end) = (*start.max(&span.0), *end.min(&span.1));
        timeline.whole_activity(name, kind, start, end, clock);
    }
}
