//! A kernel's modules directory, as depmod and the kernel's build index it.
//!
//! Source: modules.dep(5), depmod.d(5), `Documentation/kbuild/kbuild.rst`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use brisk_host::files;

use super::Error;

const DEP: &str = "modules.dep";
const BUILTIN: &str = "modules.builtin";
const BUILTIN_INFO: &str = "modules.builtin.modinfo";
const SOFTDEP: &str = "modules.softdep";
const ALIAS: &str = "modules.alias";
/// Far above any index: those of a kernel with everything enabled are a few MB.
const MAX_INDEX: u64 = 64 << 20;

/// A module that is a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its file.
    pub path: PathBuf,
    /// Names of the modules it needs, in no particular order.
    pub needs: Vec<String>,
}

/// What a module would like to be loaded with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Softdep {
    /// Before it: names or aliases.
    pub pre: Vec<String>,
    /// After it.
    pub post: Vec<String>,
}

/// The modules of one kernel. Names are in the form with `_`.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    pub(super) release: String,
    pub(super) modules: BTreeMap<String, Module>,
    builtin: BTreeSet<String>,
    builtin_aliases: BTreeSet<String>,
    softdeps: BTreeMap<String, Softdep>,
    aliases: BTreeMap<String, Vec<String>>,
    assumed: bool,
}

/// The form of a module's name with `_`, as the kernel knows it.
pub(super) fn normal(name: &str) -> String {
    name.replace('-', "_")
}

impl Tree {
    /// The files that [`Tree::read`] reads.
    pub(super) fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
        [DEP, BUILTIN, BUILTIN_INFO, SOFTDEP, ALIAS]
            .into_iter()
            .map(move |name| dir.join(name))
    }

    /// Reads the indexes of a modules directory.
    ///
    /// # Errors
    ///
    /// If `modules.dep` cannot be read, or names files outside the directory.
    pub fn read(dir: &Path, release: &str) -> Result<Self, Error> {
        let index = |name: &str, required: bool| {
            let path = dir.join(name);
            let mut bytes = Vec::new();
            match files::open(&path).and_then(|file| file.take(MAX_INDEX).read_to_end(&mut bytes)) {
                Err(source) if required || source.kind() != io::ErrorKind::NotFound => {
                    Err(Error::Read { path, source })
                }
                _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            }
        };
        let mut tree = Self::parse(
            dir,
            release,
            &index(DEP, true)?,
            &index(BUILTIN, false)?,
            &index(SOFTDEP, false)?,
        )?;
        tree.add_aliases(&index(ALIAS, false)?);
        tree.add_builtin_aliases(&index(BUILTIN_INFO, false)?);
        Ok(tree)
    }

    /// Parses `modules.dep`, `modules.builtin` and `modules.softdep` of the directory `dir`.
    ///
    /// # Errors
    ///
    /// If a path leads out of the directory or is not that of a module.
    pub fn parse(
        dir: &Path,
        release: &str,
        dep: &str,
        builtin: &str,
        softdep: &str,
    ) -> Result<Self, Error> {
        let mut tree = Self {
            release: release.to_owned(),
            ..Self::default()
        };
        for line in dep.lines().filter(|line| !line.trim().is_empty()) {
            let bad = || Error::BadDependency {
                release: release.to_owned(),
                line: line.chars().take(80).collect(),
            };
            let (path, needs) = line.split_once(':').ok_or_else(bad)?;
            let name = module_name(path).ok_or_else(bad)?;
            let needs: Option<Vec<_>> = needs.split_ascii_whitespace().map(module_name).collect();
            let module = Module {
                path: dir.join(path),
                needs: needs.ok_or_else(bad)?,
            };
            tree.modules.insert(name, module);
        }
        tree.builtin = builtin
            .lines()
            .filter_map(|line| module_name(line.trim()))
            .collect();
        for line in softdep.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some("softdep"), Some(name)) = (words.next(), words.next()) {
                tree.softdeps.entry(normal(name)).or_default().add(words);
            }
        }
        Ok(tree)
    }

    /// The tree of a kernel without a modules directory: everything is taken to be built in.
    #[must_use]
    pub fn assume_builtin(release: &str) -> Self {
        Self {
            release: release.to_owned(),
            assumed: true,
            ..Self::default()
        }
    }

    /// Adds `modules.alias`, without the patterns: soft dependencies are plain names.
    pub fn add_aliases(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some("alias"), Some(alias), Some(name), None) =
                (words.next(), words.next(), words.next(), words.next())
            {
                if !alias.contains(['*', '?', '[']) {
                    self.aliases
                        .entry(normal(alias))
                        .or_default()
                        .push(normal(name));
                }
            }
        }
    }

    /// Adds the aliases of built-in modules from `modules.builtin.modinfo`.
    pub fn add_builtin_aliases(&mut self, text: &str) {
        let aliases = text
            .split('\0')
            .filter_map(|entry| entry.split_once('='))
            .filter(|(key, _)| key.ends_with(".alias"))
            .map(|(_, alias)| normal(alias));
        self.builtin_aliases.extend(aliases);
    }

    /// Release of the kernel.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Whether a module is part of the kernel, or taken to be.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        self.assumed || self.builtin.contains(name)
    }

    /// Whether that a module is built in is only assumed.
    pub(super) fn assumed(&self) -> bool {
        self.assumed
    }

    /// The modules that a module would like to be loaded before it.
    ///
    /// A soft dependency on an alias such as `crypto-crc32c` is met by whatever built-in module
    /// has that alias, and otherwise means all modules that have it.
    pub(super) fn soft_needs(&self, name: &str) -> Vec<String> {
        let wished = self
            .softdeps
            .get(name)
            .map(|soft| soft.pre.as_slice())
            .unwrap_or_default();
        wished.iter().flat_map(|wish| self.resolve(wish)).collect()
    }

    fn resolve(&self, wish: &str) -> Vec<String> {
        let wish = normal(wish);
        if self.is_builtin(&wish) || self.builtin_aliases.contains(&wish) {
            Vec::new()
        } else if self.modules.contains_key(&wish) {
            vec![wish]
        } else {
            self.aliases.get(&wish).cloned().unwrap_or_default()
        }
    }
}

impl Softdep {
    fn add<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let mut to = None;
        for word in words {
            match word {
                "pre:" => to = Some(false),
                "post:" => to = Some(true),
                word => match to {
                    Some(false) => self.pre.push(word.to_owned()),
                    Some(true) => self.post.push(word.to_owned()),
                    // Debian has lines such as `softdep cifs gcm`, which kmod ignores as well.
                    None => {}
                },
            }
        }
    }
}

/// The name of a module from its path; `None` if the path leaves the tree or is no module's.
fn module_name(path: &str) -> Option<String> {
    let inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let file = path.rsplit('/').next()?;
    let (name, suffix) = file.split_once(".ko")?;
    let known = matches!(suffix, "" | ".xz" | ".gz" | ".zst");
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    (inside && known && plain).then(|| normal(name))
}
