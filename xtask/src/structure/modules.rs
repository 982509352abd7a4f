//! The modules of a crate, and which file takes something from which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, UseTree, Visibility};

/// Names of modules from the crate's root.
type Module = Vec<String>;

/// A file of a crate.
pub(super) struct SourceFile {
    /// Below the repository.
    pub(super) path: PathBuf,
    /// Parsed code of the file.
    pub(super) code: File,
    module: Module,
}

/// The source of a crate, without its tests.
pub(super) struct Tree {
    files: Vec<SourceFile>,
    modules: BTreeMap<Module, usize>,
    /// Of each file, what it hands on under which name.
    exports: Vec<BTreeMap<String, Vec<String>>>,
}

impl Tree {
    /// Reads the crate whose source is in `source` below `repository`.
    pub(super) fn read(repository: &Path, source: &str) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        list(&repository.join(source), &mut paths)?;
        paths.sort();
        let mut tree = Self {
            files: Vec::new(),
            modules: BTreeMap::new(),
            exports: Vec::new(),
        };
        for path in paths {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let code = syn::parse_file(&text)
                .with_context(|| format!("{} is not Rust", path.display()))?;
            let inside = path.strip_prefix(repository.join(source)).unwrap_or(&path);
            let shown = path.strip_prefix(repository).unwrap_or(&path).to_owned();
            tree.add(shown, module_of(inside), code);
        }
        Ok(tree)
    }

    pub(super) fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Pairs of a file and another one that it takes something from, by their places.
    pub(super) fn arrows(&self) -> BTreeSet<(usize, usize)> {
        let mut arrows = BTreeSet::new();
        for (place, file) in self.files.iter().enumerate() {
            let mut names = Names::default();
            names.visit_file(&file.code);
            for name in &names.0 {
                let to = self.resolve(&file.module, name, 0);
                arrows.extend(to.filter(|&to| to != place).map(|to| (place, to)));
            }
        }
        arrows
    }

    /// Paths by which the files take something from the crate `name`, without that name.
    pub(super) fn imports_of(&self, name: &str) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for file in &self.files {
            let mut names = Names::default();
            names.visit_file(&file.code);
            let of_crate = names.0.into_iter().filter(|path| path[0] == name);
            let distinct: BTreeSet<_> = of_crate.map(|path| path[1..].to_vec()).collect();
            found.extend(distinct);
        }
        found
    }

    fn add(&mut self, path: PathBuf, module: Module, code: File) {
        self.modules.insert(module.clone(), self.files.len());
        self.exports.push(exports(&code));
        self.files.push(SourceFile { path, code, module });
    }

    /// The file in which a path of `module` ends; none if that is not in this crate.
    fn resolve(&self, module: &Module, name: &[String], depth: u32) -> Option<usize> {
        /// More hands than that pass nothing on.
        const HANDS: u32 = 16;
        let mut at = module.clone();
        let mut rest = name;
        match name.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &name[1..];
            }
            "self" => rest = &name[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [&at[..], &[first.to_owned()]].concat();
                if !self.modules.contains_key(&child) {
                    return None;
                }
            }
        }
        while let [first, others @ ..] = rest {
            let child = [&at[..], std::slice::from_ref(first)].concat();
            if self.modules.contains_key(&child) {
                at = child;
                rest = others;
                continue;
            }
            let place = *self.modules.get(&at)?;
            let handed = self.exports[place].get(first);
            if let Some(handed) = handed.filter(|_| depth < HANDS) {
                let whole = [&handed[..], others].concat();
                return self.resolve(&at, &whole, depth + 1).or(Some(place));
            }
            break;
        }
        self.modules.get(&at).copied()
    }
}

/// Files below a folder, without those of tests.
fn list(dir: &Path, paths: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            list(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn module_of(inside: &Path) -> Module {
    let mut names: Vec<String> = inside
        .with_extension("")
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let last = names.last().map_or("", String::as_str);
    if last == "mod" || (names.len() == 1 && matches!(last, "lib" | "main")) {
        names.pop();
    }
    names
}

/// What `pub use` hands on.
fn exports(code: &File) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for item in &code.items {
        let Item::Use(item) = item else { continue };
        if !matches!(item.vis, Visibility::Inherited) {
            leaves(&item.tree, &mut Vec::new(), &mut |path, name| {
                found.insert(name.to_owned(), path.to_vec());
            });
        }
    }
    found
}

/// Calls `take` with each path of a `use` and the name that it gets.
fn leaves(tree: &UseTree, before: &mut Vec<String>, take: &mut dyn FnMut(&[String], &str)) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, take);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = before.last().cloned().unwrap_or_default();
            take(before, &last);
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            before.push(name.clone());
            take(before, &name);
            before.pop();
        }
        UseTree::Rename(rename) => {
            before.push(rename.ident.to_string());
            take(before, &rename.rename.to_string());
            before.pop();
        }
        UseTree::Glob(_) => take(before, "*"),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, before, take);
            }
        }
    }
}

/// Paths that a file takes things by.
#[derive(Default)]
struct Names(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Names {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // A re-export is no dependency of the file that makes it.
        if matches!(item.vis, Visibility::Inherited) && !is_test(&item.attrs) {
            leaves(&item.tree, &mut Vec::new(), &mut |path, _| {
                self.0.push(path.to_vec());
            });
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        let names: Vec<_> = names.collect();
        if names.len() > 1 {
            self.0.push(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// Whether code is only built for tests.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|name| name == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree {
            files: Vec::new(),
            modules: BTreeMap::new(),
            exports: Vec::new(),
        };
        for (path, text) in files {
            let module = module_of(Path::new(path));
            tree.add((*path).into(), module, syn::parse_file(text).unwrap());
        }
        tree
    }

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let shown = |place: usize| tree.files[place].path.display().to_string();
        tree.arrows()
            .into_iter()
            .map(|(from, to)| format!("{} {}", shown(from), shown(to)))
            .collect()
    }

    #[test]
    fn what_is_handed_on_comes_from_where_it_is() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a/mod.rs", "mod c; pub use c::A; pub struct Own;"),
            ("a/c.rs", "use super::Own; pub struct A;"),
            (
                "b.rs",
                "use crate::A; fn f() { crate::a::c::f(); self::g(); other::h(); }",
            ),
        ]);
        assert_eq!(found, ["a/c.rs a/mod.rs", "b.rs a/c.rs"]);
    }

    #[test]
    fn tests_and_what_is_handed_on_count_for_nothing() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            (
                "a.rs",
                "pub(in crate::b) struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn names_are_resolved_from_where_they_are_written() {
        let found = arrows(&[
            ("main.rs", "mod a; fn f() { a::b::g(); }"),
            ("a/mod.rs", "mod b;"),
            ("a/b.rs", "use super::super::H; use super::*;"),
        ]);
        assert_eq!(
            found,
            ["main.rs a/b.rs", "a/b.rs main.rs", "a/b.rs a/mod.rs"]
        );
    }
}
