//! Sources of the crates of a work tree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::modules::Tree;

/// The source of a crate, without its tests.
pub(super) struct Source {
    /// Path below the repository.
    pub(super) path: String,
    /// Name of the crate in paths.
    pub(super) name: String,
    /// Modules of the crate.
    pub(super) tree: Tree,
    /// Texts of the files of `tree`, in their order.
    pub(super) texts: Vec<String>,
}

/// Sources of all crates of a work tree.
pub(super) fn sources(repository: &Path) -> anyhow::Result<Vec<Source>> {
    let mut folders = vec![
        PathBuf::from("guest/init"),
        PathBuf::from("guest/probe"),
        PathBuf::from("guest/xstate"),
        PathBuf::from("xtask"),
    ];
    let crates = repository.join("crates");
    let entries =
        fs::read_dir(&crates).with_context(|| format!("cannot read {}", crates.display()))?;
    for entry in entries {
        folders.push(Path::new("crates").join(entry?.file_name()));
    }
    folders.retain(|folder| repository.join(folder).join("src").is_dir());
    folders.sort();
    folders
        .iter()
        .map(|folder| source(repository, folder))
        .collect()
}

fn source(repository: &Path, folder: &Path) -> anyhow::Result<Source> {
    let manifest = repository.join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .with_context(|| format!("{} names no package", manifest.display()))?
        .replace('-', "_");
    let path = folder.join("src").display().to_string();
    let tree = Tree::read(repository, &path)?;
    let texts = tree.files().iter().map(|file| {
        fs::read_to_string(repository.join(&file.path))
            .with_context(|| format!("cannot read {}", file.path.display()))
    });
    let texts = texts.collect::<anyhow::Result<_>>()?;
    Ok(Source {
        path,
        name,
        tree,
        texts,
    })
}
