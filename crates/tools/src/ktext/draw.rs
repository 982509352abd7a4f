//! From which node's memory each 2 MB of the kernel's text and read-only data come, for each node.
//! Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use brisk_measure::render::{Cell, CellPanel, CellPart, CellRow};

use super::amount;
use super::mapping::{Kind, LARGE_PAGE, Mapping};
use super::status::Status;

/// Characters of a line that are granules.
const WIDTH: usize = 64;
/// Names of nodes in one character.
const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// 2 MiB of kernel addresses as one node maps them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granule {
    /// Bytes of each node's memory; of none if the kernel does not know the node.
    pub bytes: BTreeMap<Option<u32>, u64>,
}

impl Granule {
    fn total(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// In one character.
    fn letter(&self) -> char {
        let mut nodes = self.bytes.keys();
        match (nodes.next(), nodes.next()) {
            (None, _) => ' ',
            (Some(_), Some(_)) => '+',
            (Some(None), None) => '?',
            (Some(Some(node)), None) => {
                let digit = DIGITS.get(*node as usize);
                digit.map_or('#', |digit| char::from(*digit))
            }
        }
    }
}

/// Text or read-only data as one node maps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// The node.
    pub node: u32,
    /// Its granules, from [`Part::start`] on.
    pub granules: Vec<Granule>,
}

impl Strip {
    /// Bytes that are mapped, and those of them that are on the node itself.
    fn bytes(&self) -> (u64, u64) {
        let own = |granule: &Granule| granule.bytes.get(&Some(self.node)).copied();
        let all = self.granules.iter().map(Granule::total).sum();
        (all, self.granules.iter().filter_map(own).sum())
    }

    /// `100.0 %`: the share that is on the node itself.
    fn share(&self) -> String {
        let (all, own) = self.bytes();
        match all {
            0 => "nothing is mapped".to_owned(),
            all => format!("{:.1} %", own as f64 / all as f64 * 100.0),
        }
    }
}

/// Text or read-only data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which of them.
    pub kind: Kind,
    /// Address of the first granule, a multiple of 2 MiB.
    pub start: u64,
    /// Bytes that one node maps, the most of all nodes.
    pub size: u64,
    /// For each node with memory.
    pub strips: Vec<Strip>,
}

impl Part {
    fn of(status: &Status, kind: Kind) -> Option<Self> {
        let all = || status.mappings.iter().filter(move |one| one.kind == kind);
        let first = all().map(|one| one.virtual_address).min()?;
        let start = first - first % LARGE_PAGE;
        let end = all().map(Mapping::end).max()?;
        let count = (end - start).div_ceil(LARGE_PAGE) as usize;
        let mut strips: BTreeMap<u32, Vec<Granule>> = BTreeMap::new();
        for mapping in all().filter(|one| one.protection.is_readable) {
            let granules = strips.entry(mapping.node);
            let granules = granules.or_insert_with(|| vec![Granule::default(); count]);
            spread(granules, start, mapping);
        }
        let strips = strips.into_iter();
        let strips: Vec<_> = strips
            .map(|(node, granules)| Strip { node, granules })
            .collect();
        let size = strips.iter().map(|strip| strip.bytes().0).max()?;
        Some(Self {
            kind,
            start,
            size,
            strips,
        })
    }

    const fn title(&self) -> &'static str {
        match self.kind {
            Kind::Text => "Text",
            Kind::Rodata => "Read-only data",
        }
    }
}

/// Adds the bytes of a range to the granules that it lies in.
fn spread(granules: &mut [Granule], start: u64, mapping: &Mapping) {
    let mut at = mapping.virtual_address;
    while at < mapping.end() {
        let place = (at - start) / LARGE_PAGE;
        let next = mapping.end().min(start + (place + 1) * LARGE_PAGE);
        if let Some(granule) = granules.get_mut(place as usize) {
            let bytes = granule.bytes.entry(mapping.memory_node).or_default();
            *bytes = bytes.saturating_add(next - at);
        }
        at = next;
    }
}

/// Text and read-only data, as far as they are there.
#[must_use]
pub fn parts(status: &Status) -> Vec<Part> {
    let kinds = [Kind::Text, Kind::Rodata];
    let parts = kinds.into_iter().filter_map(|kind| Part::of(status, kind));
    parts.collect()
}

/// For a terminal: a character for each granule.
#[must_use]
pub fn text(parts: &[Part]) -> String {
    let mut text = String::new();
    let all = || parts.iter().flat_map(|part| &part.strips);
    for part in parts {
        let _ = writeln!(
            text,
            "{}, {} from {:#x}",
            part.title(),
            amount(part.size),
            part.start
        );
        let lines = part.strips.first().map_or(0, |strip| strip.granules.len());
        for line in 0..lines.div_ceil(WIDTH) {
            let from = line * WIDTH;
            if line > 0 {
                let _ = writeln!(text, "from {:#x}", part.start + from as u64 * LARGE_PAGE);
            }
            for strip in &part.strips {
                let granules = strip.granules.iter().skip(from).take(WIDTH);
                let letters: String = granules.map(Granule::letter).collect();
                let share = match line {
                    0 => strip.share(),
                    _ => String::new(),
                };
                let width = lines.min(WIDTH);
                let row = format!("  node {:<4}  {letters:<width$}  {share}", strip.node);
                let _ = writeln!(text, "{}", row.trim_end());
            }
        }
    }
    text.push_str("Each character is 2 MB; its digit is the node that has the memory");
    let has = |letter: char| {
        let mut granules = all().flat_map(|strip| &strip.granules);
        granules.any(|granule| granule.letter() == letter)
    };
    for (letter, what) in [
        ('+', "\n+ is memory of several nodes"),
        ('#', "\n# is a node beyond 35"),
        ('?', "\n? is a node that the kernel does not know"),
    ] {
        if has(letter) {
            text.push_str(what);
        }
    }
    text.push_str("\nThe share is what the node has itself\n");
    text
}

/// For a picture.
#[must_use]
pub fn panels(parts: &[Part]) -> Vec<CellPanel> {
    let cell = |part: &Part, place: usize, granule: &Granule| {
        let start = part.start + place as u64 * LARGE_PAGE;
        let whole = LARGE_PAGE as f64;
        let parts = granule.bytes.iter().map(|(node, bytes)| CellPart {
            group: node.map_or(usize::MAX, |node| node as usize),
            share: *bytes as f64 / whole,
        });
        let nodes = granule.bytes.iter().map(|(node, bytes)| match node {
            Some(node) => format!("{} kB of node {node}", bytes / 1024),
            None => format!("{} kB of a node that is not known", bytes / 1024),
        });
        Cell {
            about: format!("{start:#x}\n{}", nodes.collect::<Vec<_>>().join("\n")),
            parts: parts.collect(),
        }
    };
    let panel = |part: &Part| {
        CellPanel {
        title: format!(
            "{}, {} from {:#x}",
            part.title(),
            amount(part.size),
            part.start
        ),
        groups: groups(part),
        rows: part
            .strips
            .iter()
            .map(|strip| CellRow {
                name: format!("node {}", strip.node),
                value: strip.share(),
                cells: strip
                    .granules
                    .iter()
                    .enumerate()
                    .map(|(place, granule)| cell(part, place, granule))
                    .collect(),
            })
            .collect(),
        remark: "each field is 2 MB of addresses · colour: the node that has the memory · behind a row: the \
                 share that the node has itself"
            .to_owned(),
    }
    };
    parts.iter().map(panel).collect()
}

/// Names of the colours: nodes that have some of the memory.
fn groups(part: &Part) -> BTreeMap<usize, String> {
    let granules = part.strips.iter().flat_map(|strip| &strip.granules);
    let nodes = granules.flat_map(|granule| granule.bytes.keys());
    nodes
        .map(|node| match node {
            Some(node) => (*node as usize, format!("memory of node {node}")),
            None => (usize::MAX, "memory of a node that is not known".to_owned()),
        })
        .collect()
}
