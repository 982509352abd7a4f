//! Graph of the imports: folders of each crate, and crates of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::cycles::{self, Cycle};
use super::source::Source;

/// Imports of one folder or crate by another.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Imports {
    /// Pairs of files; between crates, paths of each file.
    pub(super) count: usize,
    /// Whether one of them is a part of a cycle.
    pub(super) is_cyclic: bool,
}

/// A folder directly in the source of a crate, with all below; or the files beside these folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Folder {
    /// Name; empty for the files beside the folders.
    pub(super) name: PathBuf,
    /// Number of files.
    pub(super) files: usize,
    /// Cycles inside of it.
    pub(super) cycles: usize,
}

/// A crate with its folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    /// Path of the source below the repository.
    pub(super) source: String,
    /// Folders. The first one has the files beside the others.
    pub(super) folders: Vec<Folder>,
    /// Imports between folders, by their places.
    pub(super) imports: BTreeMap<(usize, usize), Imports>,
}

/// All crates, and imports between them by their places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
    pub(super) imports: BTreeMap<(usize, usize), usize>,
}

impl Graph {
    /// The graph of these sources.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut imports = BTreeMap::new();
        for (from, one) in sources.iter().enumerate() {
            for (to, other) in sources.iter().enumerate().filter(|(to, _)| *to != from) {
                let count = one.tree.imports_of(&other.name).len();
                if count > 0 {
                    imports.insert((from, to), count);
                }
            }
        }
        Self {
            packages: sources.iter().map(package).collect(),
            imports,
        }
    }
}

fn package(source: &Source) -> Package {
    let paths: Vec<&Path> = source.tree.files().iter().map(|file| &*file.path).collect();
    let arrows: Vec<_> = source
        .tree
        .arrows()
        .into_iter()
        .map(|(from, to)| (paths[from], paths[to]))
        .collect();
    let cycles = cycles::cycles(&source.path, &source.tree);
    of(&source.path, &paths, &arrows, &cycles)
}

fn of(source: &str, paths: &[&Path], arrows: &[(&Path, &Path)], cycles: &[Cycle]) -> Package {
    let inside = |path: &Path| path.strip_prefix(source).unwrap_or(path).with_extension("");
    let first = |path: &Path| PathBuf::from_iter(inside(path).iter().take(1));
    let names: BTreeSet<PathBuf> = paths
        .iter()
        .filter(|path| inside(path).iter().count() > 1)
        .map(|path| first(path))
        .collect();
    let mut folders = vec![Folder::default()];
    folders.extend(names.into_iter().map(|name| Folder {
        name,
        ..Folder::default()
    }));
    let mut places = BTreeMap::new();
    for path in paths {
        // A file and the folder of its name are one.
        let name = first(path);
        let place = folders.iter().position(|folder| folder.name == name);
        let place = place.unwrap_or_default();
        folders[place].files += 1;
        places.insert(*path, place);
    }
    let mut imports: BTreeMap<_, Imports> = BTreeMap::new();
    for (from, to) in arrows {
        let pair = (places[from], places[to]);
        if pair.0 != pair.1 {
            let import = imports.entry(pair).or_default();
            import.count += 1;
            import.is_cyclic |= cycles.iter().any(|cycle| cycle.contains(from, to));
        }
    }
    for cycle in cycles {
        let mut members = arrows
            .iter()
            .filter(|(from, to)| cycle.contains(from, to))
            .map(|(from, to)| (places[from], places[to]));
        if let Some((place, _)) = members.next() {
            if members.all(|pair| pair == (place, place)) {
                folders[place].cycles += 1;
            }
        }
    }
    Package {
        source: source.to_owned(),
        folders,
        imports,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_in_the_folder_below_the_source() {
        let paths = ["src/lib.rs", "src/a.rs", "src/a/b/c.rs", "src/d/mod.rs"].map(Path::new);
        let [lib, a, c, d] = paths;
        let arrows = [(lib, a), (a, d), (c, d), (d, c), (a, c)];
        let cycles = cycles::of(Path::new("src"), &arrows);
        let found = of("src", &paths, &arrows, &cycles);
        let folders: Vec<_> = found
            .folders
            .iter()
            .map(|folder| (folder.name.to_str().unwrap(), folder.files, folder.cycles))
            .collect();
        assert_eq!(folders, [("", 1, 0), ("a", 2, 0), ("d", 1, 0)]);
        let imports: Vec<_> = found
            .imports
            .iter()
            .map(|(pair, import)| (*pair, import.count, import.is_cyclic))
            .collect();
        assert_eq!(
            imports,
            [((0, 1), 1, false), ((1, 2), 2, true), ((2, 1), 1, true)]
        );
    }

    #[test]
    fn a_cycle_below_a_folder_is_counted_there() {
        let paths = ["src/a/b/c.rs", "src/a/d/e.rs"].map(Path::new);
        let [c, e] = paths;
        let arrows = [(c, e), (e, c)];
        let cycles = cycles::of(Path::new("src"), &arrows);
        let found = of("src", &paths, &arrows, &cycles);
        assert_eq!((found.folders[1].cycles, found.imports.len()), (1, 0));
    }
}
