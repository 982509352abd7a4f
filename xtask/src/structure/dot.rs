//! The graph of imports in the DOT language of Graphviz.
//!
//! A crate is a cluster, a folder a node, an arrow an import with the number of pairs of files.
//! Arrows between crates have the number of imported paths. What is part of a cycle is red.

use std::fmt::Write;

use super::graph::{Folder, Graph, Package};

/// Colour of cycles.
const CYCLE: &str = "#c00000";

/// The graph as DOT.
pub(super) fn render(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph structure {\n\
         \tcompound=true; rankdir=LR; ranksep=0.6; nodesep=0.15; fontname=\"sans-serif\";\n\
         \tnode [shape=box, style=filled, fillcolor=\"#ffffff\", \
         fontname=\"sans-serif\", fontsize=11, height=0.3];\n\
         \tedge [fontname=\"sans-serif\", fontsize=9, color=\"#606060\", arrowsize=0.6];\n",
    );
    for (place, package) in graph.packages.iter().enumerate() {
        cluster(&mut out, place, package);
    }
    for (&(from, to), count) in &graph.imports {
        line(
            &mut out,
            &format!(
                "{} -> {} [ltail=cluster_{from}, lhead=cluster_{to}, label=\"{count}\", \
                 penwidth=1.5, color=\"#2060a0\"];",
                node(from, 0),
                node(to, 0),
            ),
        );
    }
    out.push_str("}\n");
    out
}

fn cluster(out: &mut String, place: usize, package: &Package) {
    let source = quoted(&package.source);
    line(out, &format!("subgraph cluster_{place} {{"));
    line(
        out,
        &format!("\tlabel={source}; style=filled; fillcolor=\"#f0f0f0\"; fontsize=13;"),
    );
    for (number, folder) in package.folders.iter().enumerate() {
        line(
            out,
            &format!("\t{} [{}];", node(place, number), attributes(folder)),
        );
    }
    for (&(from, to), imports) in &package.imports {
        let colour = match imports.is_cyclic {
            true => format!(", color=\"{CYCLE}\", fontcolor=\"{CYCLE}\""),
            false => String::new(),
        };
        line(
            out,
            &format!(
                "\t{} -> {} [label=\"{}\"{colour}];",
                node(place, from),
                node(place, to),
                imports.count,
            ),
        );
    }
    line(out, "}");
}

fn attributes(folder: &Folder) -> String {
    let name = match folder.name.to_string_lossy() {
        name if name.is_empty() => "files".into(),
        name => name,
    };
    match folder.cycles {
        0 => format!("label={}", quoted(&format!("{name} {}", folder.files))),
        cycles => {
            let label = quoted(&format!("{name} {}, cycles: {cycles}", folder.files));
            format!("label={label}, color=\"{CYCLE}\", fontcolor=\"{CYCLE}\"")
        }
    }
}

fn node(package: usize, folder: usize) -> String {
    format!("n{package}_{folder}")
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "\t{text}").expect("a string takes all");
}

/// A string of DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::structure::graph::Imports;

    #[test]
    fn crates_are_clusters_and_cycles_are_red() {
        let folder = |name: &str, files, cycles| Folder {
            name: name.into(),
            files,
            cycles,
        };
        let import = |count, is_cyclic| Imports { count, is_cyclic };
        let graph = Graph {
            packages: vec![
                Package {
                    source: "crates/a/src".into(),
                    folders: vec![folder("", 2, 0), folder("x", 3, 0), folder("y", 4, 1)],
                    imports: BTreeMap::from([
                        ((0, 1), import(2, false)),
                        ((1, 2), import(5, true)),
                        ((2, 1), import(1, true)),
                    ]),
                },
                Package {
                    source: "b \"c\"".into(),
                    folders: vec![folder("", 1, 0)],
                    imports: BTreeMap::new(),
                },
            ],
            imports: BTreeMap::from([((0, 1), 7)]),
        };
        let text = render(&graph);
        let body: Vec<_> = text.lines().skip(4).map(str::trim).collect();
        assert_eq!(
            body,
            [
                "subgraph cluster_0 {",
                "label=\"crates/a/src\"; style=filled; fillcolor=\"#f0f0f0\"; \
                 fontsize=13;",
                "n0_0 [label=\"files 2\"];",
                "n0_1 [label=\"x 3\"];",
                "n0_2 [label=\"y 4, cycles: 1\", color=\"#c00000\", fontcolor=\"#c00000\"];",
                "n0_0 -> n0_1 [label=\"2\"];",
                "n0_1 -> n0_2 [label=\"5\", color=\"#c00000\", fontcolor=\"#c00000\"];",
                "n0_2 -> n0_1 [label=\"1\", color=\"#c00000\", fontcolor=\"#c00000\"];",
                "}",
                "subgraph cluster_1 {",
                "label=\"b \\\"c\\\"\"; style=filled; fillcolor=\"#f0f0f0\"; \
                 fontsize=13;",
                "n1_0 [label=\"files 1\"];",
                "}",
                "n0_0 -> n1_0 [ltail=cluster_0, lhead=cluster_1, label=\"7\", penwidth=1.5, \
                 color=\"#2060a0\"];",
                "}",
            ]
        );
    }
}
