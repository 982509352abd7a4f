use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn boot() -> Timeline {
    let mut timeline = Timeline::new(Clock::HostMonotonic);
    timeline
        .event("exec", 0, Clock::HostMonotonic)
        .event("exit", 100 * MS, Clock::HostMonotonic)
        .activity(
            "firmware",
            "firmware",
            10 * MS,
            30 * MS,
            Clock::HostMonotonic,
        )
        .activity("kernel", "kernel", 30 * MS, 80 * MS, Clock::HostMonotonic)
        .activity(
            "pci_init",
            "initcall",
            35 * MS,
            50 * MS,
            Clock::HostMonotonic,
        )
        .activity(
            "acpi_init",
            "initcall",
            50 * MS,
            60 * MS,
            Clock::HostMonotonic,
        )
        .activity(
            "/init",
            "userspace",
            85 * MS,
            100 * MS,
            Clock::HostMonotonic,
        );
    timeline
}

#[test]
fn activities_nest_in_the_smallest_that_holds_them() {
    let timeline = boot();
    let nodes = timeline.nodes();
    let shape: Vec<(&str, usize, bool)> = nodes
        .iter()
        .map(|n| {
            (
                timeline.activities[n.activity].name.as_str(),
                n.depth,
                n.leaf,
            )
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("firmware", 0, true),
            ("kernel", 0, false),
            ("pci_init", 1, true),
            ("acpi_init", 1, true),
            ("/init", 0, true),
        ]
    );
    assert_eq!(nodes[3].parent, Some(1));
}

#[test]
fn gaps_are_what_leaves_leave_open() {
    let timeline = boot();
    let gaps: Vec<String> = timeline
        .gaps()
        .iter()
        .map(|gap| {
            let within = gap
                .within
                .map(|index| timeline.activities[index].name.as_str());
            format!(
                "{}–{} in {} after {} before {}",
                gap.span.start / MS as i64,
                gap.span.end / MS as i64,
                within.unwrap_or("-"),
                gap.after.as_deref().unwrap_or("-"),
                gap.before.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    assert_eq!(
        gaps,
        [
            "0–10 in - after exec before firmware",
            "30–35 in kernel after firmware before pci_init",
            "60–80 in kernel after acpi_init before /init",
            "80–85 in - after kernel before /init",
        ]
    );
    assert_eq!(timeline.explained_fraction(), Some(0.6));
}

#[test]
fn the_longest_come_first() {
    let timeline = boot();
    let names: Vec<&str> = timeline
        .longest(2)
        .iter()
        .map(|node| timeline.activities[node.activity].name.as_str())
        .collect();
    assert_eq!(names, ["firmware", "pci_init"]);
}

#[test]
fn another_clock_needs_an_offset() {
    let mut timeline = boot();
    timeline.activity("guest", "", 0, 5 * MS, Clock::GuestBoot);
    assert_eq!(timeline.nodes().len(), 5);
    timeline.offsets.insert(Clock::GuestBoot, 80 * MS as i64);
    assert_eq!(timeline.nodes().len(), 6);
    assert_eq!(timeline.explained_fraction(), Some(0.65));
}

#[test]
fn overlapping_activities_lie_beside_each_other() {
    let mut timeline = Timeline::new(Clock::Instructions);
    timeline
        .activity("a", "", 0, 10, Clock::Instructions)
        .activity("b", "", 5, 15, Clock::Instructions)
        .activity("in b", "", 11, 12, Clock::Instructions);
    let depths: Vec<usize> = timeline.nodes().iter().map(|node| node.depth).collect();
    assert_eq!(depths, [0, 0, 1]);
    assert_eq!(timeline.gaps().len(), 2);
}

#[test]
fn an_activity_between_events_needs_both() {
    let mut timeline = boot();
    assert!(timeline.activity_between("all", "", "exec", "exit"));
    assert!(!timeline.activity_between("none", "", "exec", "missing"));
    assert!(!timeline.activity_between("backwards", "", "exit", "exec"));
    assert_eq!(timeline.nodes()[0].depth, 0);
    assert_eq!(timeline.activities.len(), 6);
}

#[test]
fn an_empty_timeline_has_no_gaps() {
    let timeline = Timeline::new(Clock::GuestBoot);
    assert_eq!(timeline.span(), None);
    assert!(timeline.gaps().is_empty());
    assert_eq!(timeline.explained_fraction(), None);
}

proptest! {
    #[test]
    fn gaps_and_leaves_cover_the_span_once(
        stretches in prop::collection::vec((0..1000u64, 0..200u64), 1..30),
    ) {
        let mut timeline = Timeline::new(Clock::Instructions);
        for (start, length) in stretches {
            timeline.activity("a", "", start, start + length, Clock::Instructions);
        }
        let span = timeline.span().unwrap();
        let nodes = timeline.nodes();
        for tick in span.start..span.end {
            let inside = |s: Span| s.start <= tick && tick < s.end;
            let explained = nodes.iter().any(|node| node.leaf && inside(node.span));
            let gaps = timeline.gaps().iter().filter(|gap| inside(gap.span)).count();
            prop_assert_eq!(gaps, usize::from(!explained));
        }
    }

    #[test]
    fn a_node_lies_in_its_parent(
        stretches in prop::collection::vec((any::<u64>(), any::<u64>()), 0..30),
    ) {
        let mut timeline = Timeline::new(Clock::Instructions);
        for (start, end) in stretches {
            timeline.activity("a", "", start, end, Clock::Instructions);
        }
        let nodes = timeline.nodes();
        for (index, node) in nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                prop_assert!(parent < index);
                prop_assert!(nodes[parent].span.start <= node.span.start);
                prop_assert!(nodes[parent].span.end >= node.span.end);
            }
        }
        timeline.explained_fraction();
    }
}

#[test]
fn a_whole_activity_explains_what_lies_around_its_parts() {
    let clock = Clock::HostMonotonic;
    let mut timeline = Timeline::new(clock);
    timeline
        .activity("kernel", "kernel", 0, 100, clock)
        .whole_activity("pci_init", "initcall", 20, 80, clock)
        .activity("probe", "initcall", 30, 40, clock);
    let spans: Vec<Span> = timeline.gaps().iter().map(|gap| gap.span).collect();
    let span = |start, end| Span { start, end };
    assert_eq!(spans, [span(0, 20), span(80, 100)]);
    assert_eq!(timeline.explained_fraction(), Some(0.6));
}
