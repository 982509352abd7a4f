//! What was counted, for people and programs. Pure.

use std::fmt::Write as _;

use brisk_measure::render::columns;
use serde_json::{Value, json as value};

use super::Locality;
use super::matrix::{Fetched, Matrix, Residue, Side};

/// Lines of what came from other nodes.
const LINES: usize = 12;

/// For a terminal.
#[must_use]
pub fn text(locality: &Locality) -> String {
    let plan = &locality.plan;
    let mut text = format!(
        "Linux {} on {} nodes of {} CPUs in QEMU {}\n\n",
        locality.release, plan.nodes, plan.cpus_of_node, locality.qemu
    );
    text += &shares(locality);
    if !locality.has_modules {
        text += "\nThe kernel replicates no modules: their code is among the shared pages.\n";
    }
    for (name, side) in sides(locality) {
        for fetched in [Fetched::Text, Fetched::Module] {
            if let Some(matrix) = side.counts.get(&fetched) {
                let _ = writeln!(text, "\n{}, {name}:", capital(fetched.name()));
                text += &table(matrix, plan.nodes);
            }
        }
    }
    let residue = &locality.with.residue;
    text += "\nFrom other nodes, with replication:";
    if residue.is_empty() {
        text += " nothing\n";
        return text;
    }
    text += "\n";
    let row = |one: &Residue| {
        let cells = [&one.count.to_string(), one.fetched.name(), &shown(one)];
        cells.map(str::to_owned).to_vec()
    };
    text += &columns(
        &["count", "kind", "name"],
        residue.iter().take(LINES).map(row),
    );
    if residue.len() > LINES {
        let _ = writeln!(
            text,
            "and {} more; --format json has all",
            residue.len() - LINES
        );
    }
    text
}

fn shown(residue: &Residue) -> String {
    match residue.fetched {
        Fetched::Shared => format!("page 0x{}", residue.name),
        _ => residue.name.clone(),
    }
}

fn sides(locality: &Locality) -> [(&'static str, &Side); 2] {
    [
        ("with replication", &locality.with),
        ("without", &locality.without),
    ]
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn percent(matrix: Option<&Matrix>) -> String {
    match matrix.and_then(Matrix::share) {
        Some(share) => percentage(share),
        None => "-".to_owned(),
    }
}

/// Rounded, and down where it would be 100 %, and is not.
pub(super) fn percentage(share: f64) -> String {
    let hundredths = (share * 1e4).round();
    let hundredths = if share < 1.0 {
        hundredths.min(9999.0)
    } else {
        hundredths
    };
    format!("{:.2} %", hundredths / 100.0)
}

/// Local shares of all kinds, side by side.
fn shares(locality: &Locality) -> String {
    let count = |matrix: Option<&Matrix>| matrix.map_or(0, Matrix::total).to_string();
    let is_there = |fetched: &Fetched| {
        let mut sides = sides(locality).into_iter();
        sides.any(|(_, side)| side.counts.contains_key(fetched))
    };
    let rows = Fetched::ALL.into_iter().filter(is_there).map(|fetched| {
        let [(_, with), (_, without)] = sides(locality);
        let (with, without) = (with.counts.get(&fetched), without.counts.get(&fetched));
        vec![
            fetched.name().to_owned(),
            percent(with),
            percent(without),
            count(with),
            count(without),
        ]
    });
    columns(
        &[
            "fetched from the CPU's own node",
            "with replication",
            "without",
            "count with",
            "count without",
        ],
        rows,
    )
}

/// A row for CPUs of each node, a column for each node's memory.
fn table(matrix: &Matrix, nodes: u32) -> String {
    let all: Vec<_> = (0..nodes).map(Some).collect();
    let unknown = matrix
        .by_cpu_node
        .values()
        .any(|row| row.contains_key(&None));
    let all: Vec<_> = all.into_iter().chain(unknown.then_some(None)).collect();
    let head = all.iter().map(|node| match node {
        Some(node) => format!("memory of node {node}"),
        None => "no node's".to_owned(),
    });
    let head: Vec<_> = ["CPUs of node".to_owned()]
        .into_iter()
        .chain(head)
        .collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let rows = matrix.by_cpu_node.iter().map(|(node, row)| {
        let cells = all
            .iter()
            .map(|node| row.get(node).copied().unwrap_or(0).to_string());
        [node.to_string()].into_iter().chain(cells).collect()
    });
    columns(&head, rows)
}

/// For programs.
#[must_use]
pub fn json(locality: &Locality) -> Value {
    let plan = &locality.plan;
    let matrix = |(fetched, matrix): (&Fetched, &Matrix)| {
        let rows = matrix.by_cpu_node.iter().map(|(node, row)| {
            let by_memory = row
                .iter()
                .map(|(node, count)| value!({ "node": node, "count": count }));
            value!({ "node": node, "memory": by_memory.collect::<Vec<_>>() })
        });
        value!({
            "kind": fetched.key(),
            "local": matrix.local(),
            "total": matrix.total(),
            "share": matrix.share(),
            "cpus": rows.collect::<Vec<_>>(),
        })
    };
    let side = |side: &Side| {
        let residue = side
            .residue
            .iter()
            .map(|one| value!({ "kind": one.fetched.key(), "name": one.name, "count": one.count }));
        value!({
            "counts": side.counts.iter().map(matrix).collect::<Vec<_>>(),
            "remote": residue.collect::<Vec<_>>(),
        })
    };
    value!({
        "schema": "brisk.ktext.locality/1",
        "kernel": locality.release,
        "qemu": locality.qemu,
        "nodes": plan.nodes,
        "cpus_of_node": plan.cpus_of_node,
        "memory_of_node_mib": plan.memory_of_node,
        "cmdline": plan.cmdline,
        "turns": locality.turns,
        "replicates_modules": locality.has_modules,
        "with": side(&locality.with),
        "without": side(&locality.without),
    })
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counted::{Module, Rodata, Text};
    use super::super::matrix::tests::{plan, side};
    use super::*;

    fn locality() -> Locality {
        Locality {
            plan: plan(),
            turns: 10,
            qemu: "10.0.2".into(),
            release: "6.12.117".into(),
            with: side(&[
                (0, 0, Text, "fork", 99_999),
                (2, 1, Text, "fork", 99_999),
                (2, 0, Text, "exit", 1),
                (2, 0, Module, "a0003000", 7),
                (2, 1, Module, "a0002000", 70),
            ]),
            has_modules: true,
            without: side(&[
                (0, 0, Text, "fork", 100_000),
                (2, 0, Text, "fork", 50_000),
                (2, 0, Rodata, "table", 3),
            ]),
        }
    }

    #[test]
    fn shares_matrices_and_residue_are_shown() {
        insta::assert_snapshot!(text(&locality()), @r"
        Linux 6.12.117 on 2 nodes of 2 CPUs in QEMU 10.0.2

        fetched from the CPU's own node  with replication  without  count with  count without
        resident text                    99.99 %           66.67 %  199999      150000
        module text                      100.00 %          -        70          0
        shared pages                     0.00 %            -        7           0
        read-only data                   -                 0.00 %   0           3

        Resident text, with replication:
        CPUs of node  memory of node 0  memory of node 1
        0             99999             0
        1             1                 99999

        Module text, with replication:
        CPUs of node  memory of node 0  memory of node 1
        1             0                 70

        Resident text, without:
        CPUs of node  memory of node 0  memory of node 1
        0             100000            0
        1             50000             0

        From other nodes, with replication:
        count  kind           name
        7      shared pages   page 0xa0003000
        1      resident text  exit
        ");
    }

    #[test]
    fn programs_get_all_counts() {
        let json = json(&locality());
        let text = &json["with"]["counts"][0];
        assert_eq!(text["kind"], "text");
        assert_eq!(
            (&text["local"], &text["total"]),
            (&199_998.into(), &199_999.into())
        );
        assert_eq!(text["cpus"][1]["memory"][0]["count"], 1);
        assert_eq!(json["with"]["remote"][0]["name"], "a0003000");
        assert_eq!(json["without"]["counts"][1]["share"], 0.0);
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(percentage(1.0), "100.00 %");
        assert_eq!(percentage(0.999_999), "99.99 %");
        assert_eq!(percentage(0.0), "0.00 %");
        assert_eq!(percentage(0.57), "57.00 %");
    }
}
