//! Matrices as pictures: from whose memory the CPUs of each node fetch. Pure.

use brisk_measure::render::{Cell, CellPanel, CellPart, CellRow};

use super::Locality;
use super::counts::ByNode;
use super::matrix::{Fetched, Matrix};
use super::text::percentage;

/// Fields of a row.
const FIELDS: usize = 50;

/// A panel for resident text and one for modules, with replication and without: a row for each node,
/// whose fields have the colours of the nodes whose memory its CPUs fetched from.
#[must_use]
pub fn panels(locality: &Locality) -> Vec<CellPanel> {
    let sides = [
        ("with replication", &locality.with),
        ("without", &locality.without),
    ];
    let mut panels = Vec::new();
    for fetched in [Fetched::Text, Fetched::Module] {
        for (name, side) in sides {
            if let Some(matrix) = side.counts.get(&fetched) {
                panels.push(panel(format!("{}, {name}", fetched.name()), matrix));
            }
        }
    }
    panels
}

fn panel(title: String, matrix: &Matrix) -> CellPanel {
    let nodes = matrix.by_cpu_node.values().flat_map(ByNode::keys).flatten();
    let groups = nodes.map(|node| (*node as usize, format!("memory of node {node}")));
    let row = |(node, row): (&u32, &ByNode)| {
        let total = row.values().copied().fold(0, u64::saturating_add);
        let share = |count: u64| count as f64 / total.max(1) as f64;
        let local = row.get(&Some(*node)).copied().unwrap_or(0);
        let about = row.iter().map(|(memory, count)| match memory {
            Some(memory) => format!("{count} from node {memory}"),
            None => format!("{count} from no node"),
        });
        CellRow {
            name: format!("CPUs of node {node}"),
            value: format!("{} local", percentage(share(local))),
            cells: fields(row, total, &about.collect::<Vec<_>>().join("\n")),
        }
    };
    CellPanel {
        title,
        groups: groups.collect(),
        rows: matrix.by_cpu_node.iter().map(row).collect(),
        remark: format!(
            "each field is {} % of the node's instructions",
            100 / FIELDS
        ),
    }
}

/// The shares of the nodes' memory, one after the other, cut into fields.
fn fields(row: &ByNode, total: u64, about: &str) -> Vec<Cell> {
    let scaled = |count: u64| count as f64 / total.max(1) as f64 * FIELDS as f64;
    let mut ends = Vec::new();
    let mut from = 0.0;
    for (memory, count) in row {
        let to = from + scaled(*count);
        if let Some(memory) = memory {
            ends.push((*memory as usize, from, to));
        }
        from = to;
    }
    let field = |place: usize| {
        let (left, right) = (place as f64, place as f64 + 1.0);
        let parts = ends.iter().filter_map(|(group, from, to)| {
            let share = to.min(right) - from.max(left);
            (share > 0.0).then_some(CellPart {
                group: *group,
                share,
            })
        });
        Cell {
            about: about.to_owned(),
            parts: parts.collect(),
        }
    };
    (0..FIELDS).map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counted::Text;
    use super::super::matrix::tests::side;
    use super::*;

    #[test]
    fn a_node_has_the_colours_of_the_memory_it_uses() {
        let side = side(&[
            (0, 0, Text, "a", 10),
            (2, 0, Text, "a", 1),
            (2, 1, Text, "b", 3),
        ]);
        let panel = panel("x".into(), &side.counts[&Fetched::Text]);
        assert_eq!(panel.groups[&1], "memory of node 1");
        let row = &panel.rows[1];
        assert_eq!(
            (&*row.name, &*row.value),
            ("CPUs of node 1", "75.00 % local")
        );
        assert_eq!(row.cells[0].about, "1 from node 0\n3 from node 1");
        let groups = row.cells.iter().map(|cell| {
            let parts = cell.parts.iter().map(|part| (part.group, part.share));
            parts.collect::<Vec<_>>()
        });
        let groups: Vec<_> = groups.collect();
        assert_eq!(groups[..12], vec![vec![(0, 1.0)]; 12]);
        assert_eq!(groups[12], [(0, 0.5), (1, 0.5)]);
        assert_eq!(groups[13..], vec![vec![(1, 1.0)]; 37]);
    }
}
