//! Cycles of imports: none between folders, and none of more than three files inside one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::modules::Tree;

/// Most files of a folder that may need each other.
const FILES: usize = 3;

/// A file or folder that is directly in another folder. A file and the folder of its name are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Child {
    path: PathBuf,
    is_folder: bool,
}

/// A cycle of imports that the limits do not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cycle {
    folder: PathBuf,
    /// Files and folders of `folder`, without the endings of files.
    members: Vec<PathBuf>,
    /// Whether a member is a folder.
    pub(super) has_folder: bool,
}

impl Cycle {
    /// Whether an import of one file by another is a part of the cycle.
    pub(super) fn contains(&self, from: &Path, to: &Path) -> bool {
        let member = |file| {
            let child = child(&self.folder, file)?;
            self.members.contains(&child.path).then_some(child.path)
        };
        matches!((member(from), member(to)), (Some(from), Some(to)) if from != to)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.folder.display())?;
        match self.has_folder {
            true => write!(f, "folders need each other: ")?,
            false => write!(f, "more than {FILES} files need each other: ")?,
        }
        for (place, member) in self.members.iter().enumerate() {
            let name = member.strip_prefix(&self.folder).unwrap_or(member);
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}", name.display())?;
        }
        Ok(())
    }
}

/// Cycles of a crate.
pub(super) fn cycles(source: &str, tree: &Tree) -> Vec<Cycle> {
    let paths: Vec<&Path> = tree.files().iter().map(|file| &*file.path).collect();
    let arrows = tree.arrows();
    let arrows: Vec<_> = arrows
        .iter()
        .map(|&(from, to)| (paths[from], paths[to]))
        .collect();
    of(Path::new(source), &arrows)
}

pub(super) fn of(source: &Path, arrows: &[(&Path, &Path)]) -> Vec<Cycle> {
    let mut folders: BTreeMap<PathBuf, Vec<(Child, Child)>> = BTreeMap::new();
    for (from, to) in arrows {
        let Some(folder) = common(from, to).filter(|folder| folder.starts_with(source)) else {
            continue;
        };
        let folder = folder.to_owned();
        if let (Some(from), Some(to)) = (child(&folder, from), child(&folder, to)) {
            if from.path != to.path {
                folders.entry(folder).or_default().push((from, to));
            }
        }
    }
    let mut cycles = Vec::new();
    for (folder, arrows) in folders {
        let mut children: Vec<&Child> = arrows.iter().flat_map(|(a, b)| [a, b]).collect();
        children.sort();
        // A file is its folder where there is one: the folder comes last.
        let mut known: BTreeMap<&Path, bool> = BTreeMap::new();
        for child in children {
            *known.entry(&child.path).or_default() |= child.is_folder;
        }
        let mut graph: DiGraphMap<&Path, ()> = DiGraphMap::new();
        for (from, to) in &arrows {
            graph.add_edge(&from.path, &to.path, ());
        }
        for mut members in tarjan_scc(&graph) {
            members.sort();
            let has_folder = members.iter().any(|path| known[path]);
            if members.len() > if has_folder { 1 } else { FILES } {
                cycles.push(Cycle {
                    folder: folder.clone(),
                    members: members.into_iter().map(Path::to_owned).collect(),
                    has_folder,
                });
            }
        }
    }
    cycles
}

/// The folder that both are in.
fn common<'a>(one: &'a Path, other: &Path) -> Option<&'a Path> {
    one.ancestors()
        .skip(1)
        .find(|folder| other.starts_with(folder))
}

/// What of a folder a file is in, without the ending of a file.
fn child(folder: &Path, file: &Path) -> Option<Child> {
    let inside = file.strip_prefix(folder).ok()?;
    let first = inside.iter().next()?;
    let path = folder.join(first);
    let is_folder = inside.iter().nth(1).is_some();
    Some(Child {
        path: if is_folder {
            path
        } else {
            path.with_extension("")
        },
        is_folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arrows: &[(&str, &str)]) -> Vec<String> {
        let arrows: Vec<_> = arrows
            .iter()
            .map(|(from, to)| (Path::new(*from), Path::new(*to)))
            .collect();
        let cycles = of(Path::new("src"), &arrows);
        cycles.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn folders_that_need_each_other_are_found() {
        let lines = found(&[("src/a/x.rs", "src/b/y.rs"), ("src/b/z.rs", "src/a/mod.rs")]);
        assert_eq!(lines, ["src: folders need each other: a, b"]);
        let lines = found(&[("src/a/x.rs", "src/b.rs"), ("src/b.rs", "src/a/y.rs")]);
        assert_eq!(lines, ["src: folders need each other: a, b"]);
        assert!(found(&[("src/a/x.rs", "src/b/y.rs"), ("src/a/z.rs", "src/b/y.rs")]).is_empty());
    }

    #[test]
    fn three_files_may_need_each_other_and_four_may_not() {
        let circle = [
            ("src/a.rs", "src/b.rs"),
            ("src/b.rs", "src/c.rs"),
            ("src/c.rs", "src/d.rs"),
            ("src/d.rs", "src/a.rs"),
        ];
        let three = [&circle[..2], &[("src/c.rs", "src/a.rs")]].concat();
        assert!(found(&three).is_empty());
        let lines = found(&circle);
        assert_eq!(
            lines,
            ["src: more than 3 files need each other: a, b, c, d"]
        );
    }

    #[test]
    fn a_file_and_the_folder_of_its_name_are_one() {
        assert!(found(&[("src/a.rs", "src/a/b.rs"), ("src/a/b.rs", "src/a.rs")]).is_empty());
    }
}
