//! Files of units.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::tree::Tree;

/// Directories of units that are there at the next boot, the most important first.
pub(super) const DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Those that are gone by then.
const FOR_NOW: [&str; 2] = ["/run/systemd/system", "/run/systemd/transient"];
/// Bytes of a file that are read.
const LONGEST: u64 = 256 << 10;
/// Aliases of a unit that are followed at most.
const MOST_ALIASES: usize = 8;
/// Ends of directories of links to what a unit asks for, and settings for the same.
const WANTS: [&str; 3] = [".wants", ".requires", ".upholds"];
const WANTS_SETTINGS: [&str; 4] = ["Wants", "Requires", "BindsTo", "Upholds"];

/// Units of a system.
pub(super) struct Units<'a> {
    tree: &'a Tree,
}

/// The file of a unit.
#[derive(Debug)]
pub(super) enum Fragment {
    /// There is none.
    None,
    /// It is empty, or a link to `/dev/null`.
    Masked,
    /// This, behind all links.
    File(PathBuf),
}

impl<'a> Units<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree }
    }

    /// The file of a unit: the one in the most important directory.
    pub(super) fn fragment(&self, unit: &str) -> Fragment {
        self.followed(unit).1
    }

    /// A target's own name, and those that it is an alias of; none if there is no such target.
    pub(super) fn names(&self, target: &str) -> Vec<String> {
        match self.followed(target) {
            (names, Fragment::File(_)) => names,
            _ => Vec::new(),
        }
    }

    /// The names of a unit and its file. A link to another name is an alias, which systemd looks for in
    /// all directories, wherever the link leads; one to the same name leads to the file.
    fn followed(&self, unit: &str) -> (Vec<String>, Fragment) {
        let mut names = vec![unit.to_owned()];
        while names.len() <= MOST_ALIASES {
            let name = names[names.len() - 1].clone();
            let mut paths = DIRECTORIES.map(|it| Path::new(it).join(&name)).into_iter();
            let Some(path) = paths.find(|path| self.is_there(path)) else {
                return (names, Fragment::None);
            };
            if self.is_masked(&path) {
                return (names, Fragment::Masked);
            }
            let target = self.tree.link(&path);
            let alias = target.as_deref().and_then(Path::file_name);
            if let Some(alias) = alias.and_then(|it| it.to_str()).filter(|it| *it != name) {
                names.push(alias.to_owned());
                continue;
            }
            let resolved = self.tree.resolved(&path);
            let file = resolved.filter(|path| self.tree.is_file(path));
            return (names, file.map_or(Fragment::None, Fragment::File));
        }
        (names, Fragment::None)
    }

    /// Units that a unit asks for.
    pub(super) fn wanted(&self, unit: &str) -> BTreeSet<String> {
        let mut found: BTreeSet<_> = WANTS
            .iter()
            .flat_map(|end| self.entries(&format!("{unit}{end}")))
            .filter(|(_, path)| !self.is_masked(path))
            .map(|(name, _)| name)
            .collect();
        if let Fragment::File(path) = self.fragment(unit) {
            let settings = self.settings(unit, &path).unwrap_or_default();
            let values = settings.of("Unit");
            let wants = values.filter(|(key, _)| WANTS_SETTINGS.contains(key));
            found.extend(wants.flat_map(|(_, value)| value.split_whitespace().map(str::to_owned)));
        }
        found
    }

    /// Whether a directory that is gone at the next boot has a link to a unit that something wants.
    pub(super) fn is_wanted_for_now(&self, unit: &str) -> bool {
        FOR_NOW.iter().any(|directory| {
            let directory = Path::new(directory);
            let names = self.tree.names(directory).unwrap_or_default();
            let mut wants = names.iter().filter(|it| it.ends_with(".wants"));
            wants.any(|it| self.is_there(&directory.join(it).join(unit)))
        })
    }

    /// Settings of a unit with its drop-ins; none if its file cannot be read.
    pub(super) fn settings(&self, unit: &str, file: &Path) -> Option<Settings> {
        let mut text = self.tree.beginning(file, LONGEST).ok()?;
        let mut drop_ins = BTreeMap::new();
        for directory in drop_in_directories(unit) {
            for (name, path) in self.entries(&directory) {
                if name.ends_with(".conf") {
                    drop_ins.insert(name, path);
                }
            }
        }
        for path in drop_ins.into_values() {
            text.push('\n');
            text.push_str(&self.tree.beginning(&path, LONGEST).unwrap_or_default());
        }
        Some(Settings::read(&text))
    }

    /// Names in a directory of several places, each in the most important one.
    fn entries(&self, directory: &str) -> BTreeMap<String, PathBuf> {
        let mut found = BTreeMap::new();
        for place in DIRECTORIES.iter().rev() {
            let directory = Path::new(place).join(directory);
            for name in self.tree.names(&directory).unwrap_or_default() {
                let path = directory.join(&name);
                found.insert(name, path);
            }
        }
        found
    }

    /// Whether there is a file or a link, wherever that leads.
    fn is_there(&self, path: &Path) -> bool {
        self.tree.link(path).is_some() || self.tree.is_file(path)
    }

    /// Whether a file takes back what less important directories have: it is empty, or a link to
    /// `/dev/null`.
    fn is_masked(&self, path: &Path) -> bool {
        self.tree.size(path) == Some(0)
            || self.tree.resolved(path).as_deref() == Some(Path::new("/dev/null"))
    }
}

/// Directories of a unit's drop-ins, the least important first: of its type, and of each beginning of
/// its name up to a dash.
fn drop_in_directories(unit: &str) -> Vec<String> {
    let Some((name, kind)) = unit.rsplit_once('.') else {
        return Vec::new();
    };
    let beginnings = name.match_indices('-').map(|(at, _)| &name[..=at]);
    let mut all = vec![format!("{kind}.d")];
    all.extend(beginnings.map(|start| format!("{start}.{kind}.d")));
    all.push(format!("{unit}.d"));
    all
}

/// Settings in their order: section, key and value.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<(String, String, String)>);

impl Settings {
    fn read(text: &str) -> Self {
        let joined = text.replace("\\\n", " ");
        let (mut all, mut section) = (Vec::new(), String::new());
        for line in joined.lines().map(str::trim) {
            if line.starts_with(['#', ';']) {
                continue;
            }
            let inner = line.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            if let Some(name) = inner {
                name.clone_into(&mut section);
            } else if let Some((key, value)) = line.split_once('=') {
                let [key, value] = [key, value].map(|it| it.trim().to_owned());
                all.push((section.clone(), key, value));
            }
        }
        Self(all)
    }

    /// Keys and values of a section.
    fn of(&self, section: &str) -> impl Iterator<Item = (&str, &str)> {
        let of = self.0.iter().filter(move |(it, ..)| it == section);
        of.map(|(_, key, value)| (key.as_str(), value.as_str()))
    }

    /// Conditions and assertions that have to hold, as they are written.
    pub(super) fn conditions(&self) -> impl Iterator<Item = String> {
        let is_one = |key: &str| {
            key.starts_with("Condition") || key.starts_with("Assert") || key == "ExecCondition"
        };
        let all = self.of("Unit").chain(self.of("Service"));
        let mut found: Vec<String> = Vec::new();
        for (key, value) in all.filter(|(key, _)| is_one(key)) {
            match value {
                "" => found.retain(|it| !it.starts_with(&key[..6])),
                _ => found.push(format!("{key}={value}")),
            }
        }
        found.into_iter()
    }

    /// Words of the commands that start a service. An empty setting takes back those before it.
    pub(super) fn commands(&self) -> Vec<Vec<&str>> {
        let mut commands = Vec::new();
        for (_, value) in self.of("Service").filter(|(key, _)| *key == "ExecStart") {
            match value {
                "" => commands.clear(),
                _ => commands.push(value.split_whitespace().collect()),
            }
        }
        commands
    }
}
