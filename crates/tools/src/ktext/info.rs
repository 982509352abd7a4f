//! Replication as text, with the names of RedHawk's ktrinfo(1), and as JSON. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use brisk_measure::render::{clean, columns, shorten};
use serde_json::{Value, json};

use super::cpus::{CpuState, CpuVerdict};
use super::mapping::{LARGE_PAGE, Mapping};
use super::modules::ModulePart;
use super::stats::{PAGE, Stats};
use super::status::Status;
use super::{amount, kib, ranges};

/// Schema of [`json`].
pub const SCHEMA: &str = "brisk.ktext.info/1";

/// Adjacent ranges from which on one line shows them.
const MANY: usize = 4;
/// Characters of the name of a module; the kernel's have at most 55 (`MODULE_NAME_LEN`).
const NAME: usize = 56;

/// For a terminal. Pages of 4 KiB that are adjacent and have memory anywhere on one node are one line,
/// unless `is_complete`.
#[must_use]
pub fn text(status: &Status, is_complete: bool) -> String {
    let mut text = state(status);
    for node in status.nodes() {
        text.push_str(&translations(status, node, is_complete));
    }
    let _ = write!(text, "\n{}", counts(&status.stats));
    let _ = write!(text, "\n{}", cpus(&status.cpus));
    for note in cpu_notes(status) {
        let _ = writeln!(text, "{note}");
    }
    text.push_str(&fallbacks(status, is_complete));
    text
}

/// Whether it is on, and why not.
fn state(status: &Status) -> String {
    let stats = &status.stats;
    let release = match &*status.release {
        "" => String::new(),
        release => format!("Linux {}, ", clean(release)),
    };
    let state = match stats.why_off() {
        None => "replication is on".to_owned(),
        Some(reason) => format!("replication is off: {}", clean(&reason)),
    };
    let slots = match stats.slots {
        0 => String::new(),
        1 => ", 1 slot of page tables beside the master's".to_owned(),
        slots => format!(", {slots} slots of page tables beside the master's"),
    };
    format!("{release}{state}{slots}\n")
}

/// Adjacent ranges of one node.
struct Group<'a> {
    first: &'a Mapping,
    size: u64,
    ranges: usize,
}

/// Puts adjacent small pages together that differ in their physical addresses alone.
fn grouped<'a>(mappings: &[&'a Mapping], is_complete: bool) -> Vec<Group<'a>> {
    let alike = |a: &Mapping, b: &Mapping| {
        let key = |one: &Mapping| {
            let (kind, pages, backing) = (one.kind, one.page_size, one.backing);
            (
                one.node,
                kind,
                pages,
                backing,
                one.memory_node,
                one.protection,
            )
        };
        a.page_size < LARGE_PAGE && key(a) == key(b) && a.end() == b.virtual_address
    };
    let runs = mappings.chunk_by(|a, b| !is_complete && alike(a, b));
    let of_run = |run: &[&'a Mapping]| -> Vec<Group<'a>> {
        let group = |part: &[&'a Mapping]| Group {
            first: part[0],
            size: part.iter().fold(0, |sum, one| one.size.saturating_add(sum)),
            ranges: part.len(),
        };
        match run.len() < MANY {
            true => run.chunks(1).map(group).collect(),
            false => vec![group(run)],
        }
    };
    runs.flat_map(of_run).collect()
}

fn of_node(node: Option<u32>) -> String {
    node.map_or_else(|| "?".to_owned(), |node| format!("node {node}"))
}

/// A node's translations.
fn translations(status: &Status, node: u32, is_complete: bool) -> String {
    let of_this = status.mappings.iter().filter(|one| one.node == node);
    let of_this: Vec<_> = of_this.collect();
    let rows = grouped(&of_this, is_complete).into_iter().map(|group| {
        let first = group.first;
        let physical = match (group.ranges, first.protection.is_readable) {
            (_, false) => "not mapped".to_owned(),
            (1, true) => format!("{:#018x}", first.physical_address),
            (count, true) => format!("{count} places"),
        };
        vec![
            first.kind.name().to_owned(),
            format!("{:#018x}", first.virtual_address),
            physical,
            kib(group.size),
            match first.protection.is_readable {
                true => of_node(first.memory_node),
                false => "-".to_owned(),
            },
            kib(first.page_size),
            first.protection.text(),
            first.backing.name().to_owned(),
        ]
    });
    let head = [
        "kind",
        "virtual_address",
        "physical_address",
        "size",
        "memory",
        "pages",
        "prot",
        "state",
    ];
    let kind = match status.has_copies(node) {
        true => "copies",
        false => "the master",
    };
    format!("\nNode {node}: {kind}\n{}", columns(&head, rows))
}

/// The counts of ktrinfo(1), each with what it counts.
fn counts(stats: &Stats) -> String {
    let total = stats.resident_pages.saturating_add(stats.module_pages);
    let bytes = total.saturating_mul(PAGE);
    let tables = stats.page_table_pages.saturating_mul(PAGE);
    let rows = [
        (
            "total_repli_pages",
            total.to_string(),
            format!("of all copies: {}", amount(bytes)),
        ),
        (
            "repli_resident_pages",
            stats.resident_pages.to_string(),
            "of the kernel image".to_owned(),
        ),
        (
            "repli_module_pages",
            stats.module_pages.to_string(),
            "of modules".to_owned(),
        ),
        (
            "repli_module_pgtbls",
            kib(tables),
            "page tables of the slots, those of the kernel image too".to_owned(),
        ),
        (
            "page_alloc_failures",
            stats.page_alloc_failures.to_string(),
            "pages that stay on the master".to_owned(),
        ),
        (
            "pagetbl_alloc_failures",
            stats.pgtbl_alloc_failures.to_string(),
            "page tables that could not be allocated".to_owned(),
        ),
        (
            "pgd_alloc_failures",
            stats.pgd_alloc_failures.to_string(),
            "of processes, which run on the master on that node".to_owned(),
        ),
    ];
    let rows = rows.map(|(name, value, what)| vec![name.to_owned(), value, what]);
    columns(&["count", "value", "what"], rows)
}

/// CPUs that run on the same.
fn cpus(cpus: &[CpuState]) -> String {
    let mut groups: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        let key = (cpu.node, cpu.slot, cpu.pgd_node, cpu.verdict);
        groups.entry(key).or_default().push(cpu.cpu);
    }
    let mut rows: Vec<_> = groups.into_iter().collect();
    for (_, numbers) in &mut rows {
        numbers.sort_unstable();
    }
    rows.sort_by_key(|(_, numbers)| numbers.first().copied());
    let rows = rows
        .into_iter()
        .map(|((node, slot, pgd_node, verdict), numbers)| {
            let tables = match slot {
                0 => "master".to_owned(),
                slot => format!("slot {slot}"),
            };
            vec![
                ranges(&numbers),
                of_node(node),
                tables,
                of_node(pgd_node),
                verdict.name().to_owned(),
            ]
        });
    let head = ["cpus", "of", "page tables", "top level", "verdict"];
    columns(&head, rows)
}

/// What follows from verdicts that are not the usual one.
fn cpu_notes(status: &Status) -> Vec<String> {
    let of = |verdict: CpuVerdict| {
        let of = status.cpus.iter().filter(|cpu| cpu.verdict == verdict);
        let numbers: BTreeSet<u32> = of.map(|cpu| cpu.cpu).collect();
        let numbers: Vec<u32> = numbers.into_iter().collect();
        (!numbers.is_empty()).then(|| ranges(&numbers))
    };
    let mut notes = Vec::new();
    if let Some(cpus) = of(CpuVerdict::Master).filter(|_| status.stats.is_active) {
        notes.push(format!(
            "CPUs {cpus} run on the master although replication is on and their node has a slot."
        ));
    }
    if let Some(cpus) = of(CpuVerdict::Fallback) {
        notes.push(format!(
            "CPUs {cpus} run a process that has no page table for their slot, on the master: it \
             could not be allocated (pgd_alloc_failures {}), or the kernel has none for it (EFI).",
            status.stats.pgd_alloc_failures
        ));
    }
    if let Some(cpus) = of(CpuVerdict::Wrong) {
        notes.push(format!(
            "CPUs {cpus} run on page tables of another slot: that is a bug of the kernel; brisk \
             ktext off, and report it."
        ));
    }
    notes
}

/// Ranges that a node fetches from another one.
fn fallbacks(status: &Status, is_complete: bool) -> String {
    let found: Vec<_> = status.fallbacks().collect();
    if found.is_empty() {
        return String::new();
    }
    let bytes = found
        .iter()
        .fold(0, |sum, one| one.size.saturating_add(sum));
    let rows = grouped(&found, is_complete).into_iter().map(|group| {
        let first = group.first;
        vec![
            format!("node {}", first.node),
            first.kind.name().to_owned(),
            format!("{:#018x}", first.virtual_address),
            kib(group.size),
            of_node(first.memory_node),
            kib(first.page_size),
        ]
    });
    let head = ["node", "kind", "virtual_address", "size", "from", "pages"];
    format!(
        "\nNot copied: {}, for want of memory in pages of that size, or because a page also maps \
         what is written\n{}",
        amount(bytes),
        columns(&head, rows)
    )
}

/// A module on its nodes.
#[derive(Debug, Default)]
struct Module {
    size: u64,
    bytes: BTreeMap<u32, u64>,
}

/// Modules with the bytes that each node has, and a dash for the node on which it was loaded.
#[must_use]
pub fn modules(status: &Status) -> String {
    let Some(parts) = &status.modules else {
        return "The kernel was built without CONFIG_KTEXT_REPLICATION_MODULES: modules have no \
                copies.\n"
            .to_owned();
    };
    if parts.is_empty() {
        return "No module has copies.\n".to_owned();
    }
    let mut found: BTreeMap<(&str, Option<u32>), Module> = BTreeMap::new();
    for part in parts {
        let module = found.entry((&*part.module, part.master_node)).or_default();
        module.size = module.size.saturating_add(part.size);
        for (node, bytes) in &part.bytes {
            let sum = module.bytes.entry(*node).or_default();
            *sum = sum.saturating_add(*bytes);
        }
    }
    let nodes: BTreeSet<u32> = parts.iter().flat_map(nodes_of).collect();
    let rows = found.into_iter().map(|((name, master), module)| {
        let mut row = vec![shorten(name, NAME), kib(module.size)];
        row.extend(nodes.iter().map(|node| match module.bytes.get(node) {
            _ if master == Some(*node) => "-".to_owned(),
            bytes => kib(bytes.copied().unwrap_or(0)),
        }));
        row
    });
    let names = nodes.iter().map(|node| format!("Node{node}"));
    let head: Vec<_> = ["Module".to_owned(), "Text_RO_sz".to_owned()]
        .into_iter()
        .chain(names)
        .collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    columns(&head, rows)
}

fn nodes_of(part: &ModulePart) -> impl Iterator<Item = u32> {
    part.bytes.keys().copied()
}

/// For programs: everything that the kernel says.
#[must_use]
pub fn json(status: &Status) -> Value {
    let nodes = status.nodes().into_iter().map(|node| {
        let of_node = status.mappings.iter().filter(|one| one.node == node);
        json!({
            "node": node,
            "has_copies": status.has_copies(node),
            "translations": of_node.collect::<Vec<_>>(),
        })
    });
    json!({
        "schema": SCHEMA,
        "release": status.release,
        "stats": status.stats,
        "why_off": status.stats.why_off(),
        "nodes": nodes.collect::<Vec<_>>(),
        "cpus": status.cpus,
        "fallbacks": status.fallbacks().collect::<Vec<_>>(),
        "modules": status.modules,
    })
}
