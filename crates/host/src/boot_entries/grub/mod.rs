//! GRUB 2: its configuration is a script, so it is run.

mod blscfg;
mod commands;
mod condition;
mod environment;
mod expand;
mod interpreter;
mod lasting;
mod lexer;
mod menu;
mod parser;
mod script;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::efi::stub::Stub;
use super::efi::variables::Variables;
use super::entry::{Choice, Entry, Kind, Offer, Problem, unreadable};
use super::image::Images;
use super::mounts::Mounts;
use super::once::Change;
use super::options::without_loader_words;
use super::proxmox::names_partitions;
use crate::tree::Tree;
use blscfg::NO_ENTRIES;
use menu::{Chosen, menu};
use state::{Dialect, Flow, Interpreter, Loaded, Log, Menu, Outcome};

/// Configurations, by distribution: Debian and Arch; Fedora, RHEL and openSUSE.
const CONFIGURATIONS: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
/// Features of GRUB 2.02 and later that scripts ask for (`features` in
/// `grub-core/normal/main.c`).
const FEATURES: [&str; 9] = [
    "feature_chainloader_bpb",
    "feature_ntldr",
    "feature_platform_search_hint",
    "feature_default_font_path",
    "feature_all_video_module",
    "feature_menuentry_id",
    "feature_menuentry_options",
    "feature_200_final",
    "feature_nativedisk_cmd",
];

/// The configuration that is there: that beside the program which the firmware started, else that in
/// `/boot`, else one of an EFI system partition, where RHEL 8 and others of its time have it.
pub(super) fn configuration(tree: &Tree) -> Option<PathBuf> {
    let option = Variables::new(tree).current();
    let started = option.and_then(|it| Some(it.path?.parent()?.to_owned()));
    let beside = started.and_then(|directory| on_partition(tree, &directory));
    let own = beside
        .or_else(|| of_proxmox(tree))
        .or_else(|| in_boot(tree));
    own.or_else(|| {
        let directory = Path::new("/boot/efi/EFI");
        let names = tree.names(directory).unwrap_or_default();
        let mut directories = names.iter().map(|name| Path::new("/EFI").join(name));
        directories.find_map(|it| on_partition(tree, &it))
    })
}

/// A configuration in a directory of the EFI system partition; none of one that only leads to
/// another one.
fn on_partition(tree: &Tree, directory: &Path) -> Option<PathBuf> {
    let directory = directory.strip_prefix("/").ok()?;
    let path = Path::new("/boot/efi").join(directory).join("grub.cfg");
    let text = tree.text(&path).ok()?;
    let mut words = text.split_ascii_whitespace();
    words
        .any(|word| matches!(word, "menuentry" | "blscfg"))
        .then_some(path)
}

/// The one that proxmox-boot-tool keeps with copies of the kernels.
fn of_proxmox(tree: &Tree) -> Option<PathBuf> {
    let path = PathBuf::from("/boot/efi/grub/grub.cfg");
    (names_partitions(tree) && tree.is_file(&path)).then_some(path)
}

fn in_boot(tree: &Tree) -> Option<PathBuf> {
    let mut paths = CONFIGURATIONS.into_iter().map(PathBuf::from);
    // The directory may be root's alone.
    paths.find(|path| match tree.names(path.parent().unwrap_or(path)) {
        Ok(_) => tree.is_file(path),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    })
}

/// Entries of the configuration at a path.
pub(super) fn read(tree: &Tree, mounts: &Mounts, path: &Path) -> Offer {
    let text = match tree.text(path) {
        Ok(text) => text,
        Err(error) => {
            return Offer {
                notes: vec![unreadable(path, &error)],
                ..Offer::default()
            };
        }
    };
    let script = Script {
        tree,
        mounts,
        path,
        text: &text,
    };
    let ran = script.run(&[]);
    let lasting = script.lasting(&ran);
    let Ran {
        menu, log, dialect, ..
    } = ran;
    let reader = Reader {
        images: Images::new(tree),
        stub: Stub::new(tree),
        path,
    };
    let mut entries = Vec::new();
    let mut paths = Vec::new();
    reader.entries(&menu, &Place::default(), &mut entries, &mut paths);
    let source = reader.source(&lasting.menu, &lasting.saved_entry);
    let choice = |chosen: Option<Chosen>, reason: String, is_once: bool| {
        let entry = paths
            .iter()
            .position(|path| *path == chosen.as_ref().map(|it| &*it.path).unwrap_or(&[]))?;
        let is_named = chosen.as_ref().is_some_and(|it| it.is_named);
        let reason = match is_named {
            true => reason,
            false => format!("{reason}, which no entry has, so GRUB takes the first one"),
        };
        Some(Choice {
            entry,
            reason,
            is_once,
        })
    };
    let mut default = choice(lasting.menu.default(dialect), source, false);
    let mut next = default.clone();
    if let Some(once) = lasting.chosen {
        let reason = format!("grub-reboot chose \"{once}\" for the next boot alone");
        next = choice(menu.default(dialect), reason, true);
    }
    let starts = |loaded: &Loaded| starts(tree, loaded);
    let started = menu.chosen(dialect, &starts);
    let has_fallback = menu.fallback.as_deref().is_some_and(|it| !it.is_empty());
    let is_undecided = started.is_none() && has_fallback;
    if let Some(chosen) = started.filter(|it| it.is_fallback) {
        let reason = "it is the fallback of an entry that cannot be started".to_owned();
        next = choice(
            Some(Chosen {
                is_named: true,
                ..chosen
            }),
            reason,
            false,
        );
    }
    let is_unsure = log.is_unsure || log.unanswered.contains(NO_ENTRIES);
    if log.is_cut || is_unsure || !log.unreadable.borrow().is_empty() {
        // What was not run or read may say something else.
        (default, next) = (None, None);
    }
    let mut notes = notes(&log, path);
    if is_undecided {
        next = None;
        notes.push(format!(
            "{} has an entry next that cannot be started, and a fallback that starts nothing which is \
             known here",
            path.display()
        ));
    }
    if next.is_none() && notes.is_empty() && !entries.is_empty() {
        notes.push(format!(
            "{} starts an entry by itself that starts nothing which is known here",
            path.display()
        ));
    }
    notes.extend(reader.stub.notes());
    Offer {
        entries,
        default,
        next,
        once: lasting.once,
        notes,
    }
}

/// Whether what an entry loads can be started: a file on another file system, and no file at all, are
/// taken to start.
fn starts(tree: &Tree, loaded: &Loaded) -> bool {
    let file = &loaded.file;
    file.is_foreign || file.path == Path::new("/") || tree.is_file(&file.path)
}

/// Whether GRUB is started by EFI: of a system that does not run, whether its program for EFI alone is
/// installed.
fn is_efi(tree: &Tree) -> bool {
    let is_dir = |path: &str| tree.is_dir(Path::new(path));
    if is_dir("/sys/firmware") {
        return is_dir("/sys/firmware/efi");
    }
    let has = |platform: &str| {
        let mut directories = ["/boot/grub", "/boot/grub2"].into_iter();
        directories.any(|it| is_dir(&format!("{it}/{platform}")))
    };
    let partition = Path::new("/boot/efi/EFI");
    let vendors = tree.names(partition).unwrap_or_default();
    let is_program = |name: &String| {
        let name = name.to_ascii_lowercase();
        name.starts_with("grub") && name.ends_with(".efi")
    };
    let has_program = || {
        let mut directories = vendors.iter().map(|vendor| partition.join(vendor));
        directories.any(|it| tree.names(&it).unwrap_or_default().iter().any(is_program))
    };
    !has("i386-pc") && (has("x86_64-efi") || has("arm64-efi") || has_program())
}

/// Fedora's and RHEL's GRUB has changes of its own, and so have systems that are made from them.
fn dialect(tree: &Tree) -> Dialect {
    let release = tree.text(Path::new("/etc/os-release"));
    let release = release.or_else(|_| tree.text(Path::new("/usr/lib/os-release")));
    let is_red_hat = release.unwrap_or_default().lines().any(|line| {
        let value = line
            .strip_prefix("ID=")
            .or_else(|| line.strip_prefix("ID_LIKE="));
        let mut words = value.unwrap_or("").trim_matches('"').split(' ');
        words.any(|word| matches!(word, "fedora" | "rhel" | "centos"))
    });
    match is_red_hat {
        true => Dialect::RedHat,
        false => Dialect::Upstream,
    }
}

fn notes(log: &Log, path: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if log.is_cut {
        notes.push(format!(
            "{} does more than a menu takes, and was not run to its end",
            path.display()
        ));
    }
    let denied = io::ErrorKind::PermissionDenied.into();
    let denied_paths = log.unreadable.borrow();
    notes.extend(
        denied_paths
            .iter()
            .take(10)
            .map(|it| unreadable(it, &denied)),
    );
    if !log.unanswered.is_empty() {
        let names: Vec<_> = log.unanswered.iter().copied().collect();
        notes.push(format!(
            "{} uses what is not known here: {}",
            path.display(),
            names.join(", ")
        ));
    }
    if log.wrong_lines > 0 {
        let lines = match log.wrong_lines {
            1 => "a line".to_owned(),
            more => format!("{more} lines"),
        };
        notes.push(format!(
            "{} has {lines} that GRUB does not understand",
            path.display()
        ));
    }
    if !log.devices.is_empty() {
        let names: Vec<_> = log.devices.iter().map(String::as_str).collect();
        notes.push(format!(
            "{} reads kernels from {}, which may be of another system: it is not named by the UUID of \
             its file system, and is taken for this one's",
            path.display(),
            names.join(", ")
        ));
    }
    if !log.unknown.is_empty() {
        let names: Vec<_> = log.unknown.iter().take(10).map(String::as_str).collect();
        notes.push(format!(
            "{} has commands that are not known: {}",
            path.display(),
            names.join(", ")
        ));
    }
    notes
}

/// A configuration.
struct Script<'a> {
    tree: &'a Tree,
    mounts: &'a Mounts,
    path: &'a Path,
    text: &'a str,
}

/// What a configuration has come to.
struct Ran {
    menu: Menu,
    log: Log,
    dialect: Dialect,
    /// Variables of [`ONCE`] that it writes to the environment block before the menu is shown.
    saved: BTreeMap<String, String>,
}

impl Script<'_> {
    /// The menu, with an environment block in which variables are changed.
    fn run(&self, changes: &[Change]) -> Ran {
        let mut interpreter = Interpreter::new(self.tree, self.mounts);
        interpreter.changes = changes.to_vec();
        interpreter.dialect = dialect(self.tree);
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        interpreter.set_exported("prefix", &format!("(boot){}", directory.display()));
        let is_efi = is_efi(self.tree);
        interpreter.set_exported("grub_platform", if is_efi { "efi" } else { "pc" });
        interpreter.set_exported("grub_cpu", if is_efi { "x86_64" } else { "i386" });
        for feature in FEATURES {
            interpreter.set_exported(feature, "y");
        }
        interpreter.set_exported("feature_timeout_style", "y");
        interpreter.run_file(&format!("(boot){}", self.path.display()), self.text);
        interpreter.flow = Flow::Next;
        let saved = std::mem::take(&mut interpreter.saved);
        let menu = menu(&mut interpreter);
        Ran {
            menu,
            saved,
            dialect: interpreter.dialect,
            log: interpreter.log,
        }
    }

    fn block(&self) -> PathBuf {
        self.path.with_file_name("grubenv")
    }
}

/// File that a command starts; empty if it is none.
fn started(loaded: &Loaded) -> PathBuf {
    let path = &loaded.file.path;
    match path == Path::new("/") {
        true => PathBuf::new(),
        false => path.clone(),
    }
}

/// Where an entry is in menus.
#[derive(Debug, Clone, Default)]
struct Place {
    path: Vec<usize>,
    titles: Vec<String>,
    ids: Vec<String>,
}

struct Reader<'a> {
    images: Images<'a>,
    stub: Stub<'a>,
    path: &'a Path,
}

impl Reader<'_> {
    /// Adds the entries of a menu and of those in it, with their indices.
    fn entries(
        &self,
        menu: &Menu,
        place: &Place,
        entries: &mut Vec<Entry>,
        paths: &mut Vec<Vec<usize>>,
    ) {
        for (index, node) in menu.nodes.iter().enumerate() {
            let mut place = place.clone();
            place.path.push(index);
            place.ids.push(node.id.replace('>', ">>"));
            match &node.outcome {
                Outcome::Menu(inner) => {
                    place.titles.push(node.title.clone());
                    self.entries(inner, &place, entries, paths);
                }
                Outcome::Loaded(loaded) => {
                    let mut entry = self.entry(loaded);
                    node.title.clone_into(&mut entry.title);
                    entry.source = node.source.clone().unwrap_or_else(|| self.path.to_owned());
                    entry.id = place.ids.join(">");
                    entry.menus = place.titles;
                    let numbers: Vec<_> = place.path.iter().map(ToString::to_string).collect();
                    entry.number = Some(numbers.join(">"));
                    entries.push(entry);
                    paths.push(place.path);
                }
                Outcome::Nothing => {}
            }
        }
    }

    fn entry(&self, loaded: &Loaded) -> Entry {
        let is_linux = loaded.command.starts_with("linux") && loaded.command != "linux_xnu";
        let is_chainloaded = loaded.command == "chainloader";
        let mut entry = match is_linux || is_chainloaded {
            true => self.images.entry(&loaded.file.path),
            false => Entry {
                kind: Kind::Other,
                kernel: started(loaded),
                ..Images::nothing()
            },
        };
        if is_chainloaded {
            self.stub.settle(&mut entry, &loaded.options);
        }
        if is_chainloaded && entry.kind != Kind::Uki {
            entry.kind = Kind::Other;
            entry.problems.clear();
            entry.kernel = started(loaded);
            return entry;
        }
        if loaded.file.is_foreign {
            entry.problems = vec![Problem::Elsewhere];
        }
        if is_linux {
            entry.options = without_loader_words(&loaded.options);
        }
        let initrds = loaded.initrds.iter().map(|it| it.path.clone()).collect();
        if loaded.file.is_foreign {
            entry.initrds = initrds;
        } else {
            self.images.add_initrds(&mut entry, initrds);
        }
        entry
    }

    /// Where the lasting default is from.
    fn source(&self, menu: &Menu, saved: &str) -> String {
        let path = self.path.display();
        match menu.default.as_deref().filter(|it| !it.is_empty()) {
            None => format!("{path} sets no default, so GRUB takes the first entry"),
            Some(default) if default == saved => {
                let environment = self.path.with_file_name("grubenv");
                format!("saved_entry in {} is \"{default}\"", environment.display())
            }
            Some(default) => format!("default in {path} is \"{default}\""),
        }
    }
}
