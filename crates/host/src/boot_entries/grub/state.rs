//! What an interpreter of GRUB's scripts knows: variables, menus, and what was seen.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use super::super::bls::LONGEST;
use super::super::mounts::{Device, Located, Mounts, SNAPSHOTS};
use super::super::once::Change;
use super::condition::Files;
use super::expand::Values;
use super::script::Block;
use crate::tree::{LONGEST_PATH, Tree};

/// Entries of all menus at most.
pub(super) const MOST_ITEMS: usize = 1000;
/// Work that is done at most, of all scripts together: commands, and what `BYTES`, `NAMES` and `FILE`
/// are for. A configuration of a hundred entries takes some thousand.
const MOST_WORK: usize = 200_000;
/// Bytes of words and scripts that are as much work as a command.
pub(super) const BYTES: usize = 64;
/// Names that are as much work as a command.
pub(super) const NAMES: usize = 16;
/// Work of looking for a file.
const FILE: usize = 10;
/// Bytes of all variables of a menu at most.
const LONGEST_VARIABLES: usize = 256 << 10;
/// Devices that are noted at most.
const MOST_DEVICES: usize = 10;
/// Directories that are another subvolume's at most.
const MOST_SUBVOLUMES: usize = 100;
/// Variables of SUSE's and Red Hat's GRUB that menus in a menu have without `export`: whether paths
/// begin in a subvolume of Btrfs, and in which one.
const OF_BTRFS: [&str; 3] = ["btrfs_relative_path", "btrfs_subvol", "btrfs_subvolid"];
/// Device that the configuration was read from.
const BOOT_DEVICE: &str = "boot";
/// Device that was searched by another property than its UUID.
pub(super) const SEARCHED: &str = "searched";
/// What the name of a device begins with that was searched by its UUID.
const BY_UUID: &str = "uuid/";

/// Status of a command that succeeded.
pub(super) const OK: u32 = 0;
/// Status of a test that is not true (`GRUB_ERR_TEST_FAILURE`).
pub(super) const FALSE: u32 = 1;
/// Status of a command that failed; GRUB has many.
pub(super) const FAILED: u32 = 2;

/// What a `linux` command or another one would have loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    /// Name of the command.
    pub(super) command: String,
    pub(super) file: Located,
    /// What the command has behind the file, quoted as the kernel gets it.
    pub(super) options: String,
    pub(super) initrds: Vec<Located>,
}

/// Where a script goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// Ends this number of loops; the last one goes on if it is to be continued.
    Break {
        loops: usize,
        is_continued: bool,
    },
    Return,
    /// A limit is reached, or another menu is shown.
    Stop,
}

/// What a menu has of its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    pub(super) variables: BTreeMap<String, String>,
    /// Bytes of the variables.
    length: usize,
    /// Variables that menus in this one have, too.
    pub(super) exported: BTreeSet<String>,
    pub(super) parameters: Vec<String>,
    pub(super) items: Vec<Item>,
    pub(super) loaded: Option<Loaded>,
    /// Menu that `configfile` shows in place of this one.
    pub(super) shown: Option<Menu>,
}

/// What was seen while scripts ran.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Commands that are not known.
    pub(super) unknown: BTreeSet<String>,
    /// Lines that are no commands.
    pub(super) wrong_lines: usize,
    /// Whether a limit was reached.
    pub(super) is_cut: bool,
    /// Files and directories that this process may not read.
    pub(super) unreadable: RefCell<BTreeSet<PathBuf>>,
    /// Names of commands whose answer is not known here.
    pub(super) unanswered: BTreeSet<&'static str>,
    /// Whether a command that is not known decides what is done.
    pub(super) is_unsure: bool,
    /// Devices that kernels are read from, and that cannot be told from here.
    pub(super) devices: BTreeSet<String>,
}

pub(super) struct Interpreter<'a> {
    pub(super) tree: &'a Tree,
    pub(super) mounts: &'a Mounts,
    pub(super) context: Context,
    pub(super) functions: HashMap<String, Block>,
    pub(super) flow: Flow,
    pub(super) log: Log,
    pub(super) dialect: Dialect,
    /// Devices that are files (`loopback`).
    pub(super) images: BTreeSet<String>,
    /// Directories of another subvolume (`btrfs-mount-subvol`), which the system has there, too.
    subvolumes: BTreeSet<String>,
    /// Variables of the environment block that have other values than it says.
    pub(super) changes: Vec<Change>,
    /// Variables of [`ONCE`](super::lasting::ONCE) that were written to it.
    pub(super) saved: BTreeMap<String, String>,
    /// Work that was done.
    pub(super) work: Cell<usize>,
    pub(super) depth: usize,
    pub(super) loops: usize,
    /// Conditions that are being evaluated, one in another.
    pub(super) conditions: usize,
}

impl Values for Context {
    fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    fn parameters(&self) -> &[String] {
        &self.parameters
    }
}

impl Files for Interpreter<'_> {
    fn size(&self, path: &str) -> Option<u64> {
        let file = self.locate(path).filter(|it| !it.is_foreign)?;
        self.look(&file.path);
        self.tree.size(&file.path)
    }

    fn is_directory(&self, path: &str) -> bool {
        self.locate(path)
            .is_some_and(|it| !it.is_foreign && self.is_dir(&it.path))
    }
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(tree: &'a Tree, mounts: &'a Mounts) -> Self {
        let mut new = Self {
            tree,
            mounts,
            context: Context::default(),
            functions: HashMap::new(),
            flow: Flow::Next,
            log: Log::default(),
            dialect: Dialect::Upstream,
            images: BTreeSet::new(),
            subvolumes: BTreeSet::from([SNAPSHOTS.to_owned()]),
            changes: Vec::new(),
            saved: BTreeMap::new(),
            work: Cell::new(0),
            depth: 0,
            loops: 0,
            conditions: 0,
        };
        new.set_exported("root", BOOT_DEVICE);
        new.context.exported.extend(OF_BTRFS.map(str::to_owned));
        new.set("?", "0");
        new
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.context.value(name).unwrap_or("")
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        let length = self.context.length + name.len() + value.len();
        if length > LONGEST_VARIABLES {
            self.cut();
            return;
        }
        self.context.length = length;
        self.context
            .variables
            .insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn unset(&mut self, name: &str) {
        if let Some(value) = self.context.variables.remove(name) {
            self.context.length -= name.len() + value.len();
        }
    }

    /// A context for an entry of this menu: its variables.
    pub(super) fn entry_context(&self) -> Context {
        let names = self.context.variables.len() + self.context.exported.len();
        self.charge(names / NAMES + self.context.length / BYTES);
        Context {
            variables: self.context.variables.clone(),
            length: self.context.length,
            exported: self.context.exported.clone(),
            ..Context::default()
        }
    }

    /// A context for a menu in this one: its variables that are exported, in Red Hat's GRUB all.
    pub(super) fn menu_context(&self) -> Context {
        let mut context = self.entry_context();
        if self.dialect == Dialect::Upstream {
            let exported = &context.exported;
            context.variables.retain(|name, _| exported.contains(name));
        }
        let lengths = context
            .variables
            .iter()
            .map(|(name, value)| name.len() + value.len());
        context.length = lengths.sum();
        context
    }

    /// Sets a variable that menus in this one have, too.
    pub(super) fn set_exported(&mut self, name: &str, value: &str) {
        self.set(name, value);
        self.context.exported.insert(name.to_owned());
    }

    /// Counts work. When it is too much, the next command ends everything.
    pub(super) fn charge(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work));
    }

    /// Whether too much work was done.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work.get() > MOST_WORK
    }

    pub(super) fn cut(&mut self) {
        self.log.is_cut = true;
        self.flow = Flow::Stop;
    }

    /// The file that a path such as `($root)/vmlinuz` or `/vmlinuz` is of; none of a path that is
    /// neither, such as a list of blocks.
    pub(super) fn locate(&self, path: &str) -> Option<Located> {
        self.charge(FILE);
        let (device, path) = self.halves(path)?;
        if !path.starts_with('/') || path.len() >= LONGEST_PATH {
            return None;
        }
        let device = self.kind(device);
        Some(match self.subvolume(path) {
            Some(subvolume) => self.mounts.locate_in_subvolume(device, subvolume, path),
            None => self.mounts.locate(device, path),
        })
    }

    /// The subvolume of Btrfs that a path begins in, if the configuration says so (SUSE's patch
    /// grub2-btrfs-03-follow_default).
    fn subvolume(&self, path: &str) -> Option<&str> {
        let is_relative = self.get(OF_BTRFS[0]).starts_with(['1', 'y']);
        let names = [self.get(OF_BTRFS[1]), self.get(OF_BTRFS[2])];
        let subvolume = names.into_iter().find(|it| !it.is_empty())?;
        let is_other = |it: &String| Path::new(path).starts_with(it);
        (is_relative && !self.subvolumes.iter().any(is_other)).then_some(subvolume)
    }

    /// `btrfs-mount-subvol DEVICE DIRECTORY SUBVOLUME`.
    pub(super) fn mount_subvolume(&mut self, directory: &str) {
        if self.subvolumes.len() < MOST_SUBVOLUMES {
            self.subvolumes.insert(directory.to_owned());
        }
    }

    /// The device that a path is on, without its parentheses, and the rest; none without their end.
    fn halves<'p>(&'p self, path: &'p str) -> Option<(&'p str, &'p str)> {
        let (device, path) = match path.strip_prefix('(') {
            Some(rest) => rest.split_once(')')?,
            None => (self.get("root"), path),
        };
        let device = device.trim_start_matches('(').trim_end_matches(')');
        Some((device, path))
    }

    fn kind<'d>(&self, device: &'d str) -> Device<'d> {
        match device.strip_prefix(BY_UUID) {
            Some(uuid) => Device::Uuid(uuid),
            None if self.images.contains(device) || self.is_missing_array(device) => {
                Device::Elsewhere
            }
            None => Device::Unknown,
        }
    }

    /// Whether a device is an array of disks, such as `md/boot`, that the system does not have.
    fn is_missing_array(&self, device: &str) -> bool {
        let path = || Path::new("/dev").join(device);
        device.starts_with("md/") && self.tree.link(&path()).is_none()
    }

    /// Notes the device that a path is on if it cannot be told from here which one that is.
    pub(super) fn note_device(&mut self, path: &str) {
        let Some((device, _)) = self.halves(path) else {
            return;
        };
        let is_own = device == BOOT_DEVICE || device.is_empty();
        let is_known = is_own || self.kind(device) != Device::Unknown;
        if !is_known && self.log.devices.len() < MOST_DEVICES {
            let device = match device {
                SEARCHED => "what is searched by its label or a file".to_owned(),
                device => device.chars().take(64).collect(),
            };
            self.log.devices.insert(device);
        }
    }

    /// UUID of a device, if it was searched by that, or is the one of this system's configuration.
    pub(super) fn known_uuid(&self, device: &str) -> Option<String> {
        match device {
            BOOT_DEVICE => self.mounts.boot_uuid(),
            _ => device.strip_prefix(BY_UUID).map(str::to_owned),
        }
    }

    /// Name of a device that has this UUID.
    pub(super) fn device(uuid: &str) -> String {
        format!("{BY_UUID}{uuid}")
    }

    /// Adds an entry to the menu.
    pub(super) fn add(&mut self, item: Item) -> u32 {
        if self.context.items.len() >= MOST_ITEMS {
            self.cut();
            return FAILED;
        }
        self.context.items.push(item);
        OK
    }

    /// Whether there is such a directory in the system.
    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.look(path);
        self.tree.is_dir(path)
    }

    /// Notes a path of the system that this process may not look at.
    fn look(&self, path: &Path) {
        if self.tree.is_denied(path) {
            self.note(path, &io::ErrorKind::PermissionDenied.into());
        }
    }

    /// Notes a path of the system if it is this process that may not read it.
    pub(super) fn note(&self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.log.unreadable.borrow_mut().insert(path.to_owned());
        }
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        let file = self.locate(path).filter(|it| !it.is_foreign)?;
        self.text(&file.path)
    }

    /// The text of a file of the system.
    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.noted(path, self.tree.text(path))
    }

    /// The text of an entry of the Boot Loader Specification.
    pub(super) fn entry_text(&self, path: &Path) -> Option<String> {
        self.noted(path, self.tree.beginning(path, LONGEST))
    }

    /// What was read of a file, counted as work.
    fn noted(&self, path: &Path, text: io::Result<String>) -> Option<String> {
        let text = text.inspect_err(|error| self.note(path, error));
        let text = text.ok()?;
        self.charge(FILE + text.len() / BYTES);
        Some(text)
    }
}

/// A `menuentry` or `submenu` as it was defined.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) title: String,
    pub(super) id: String,
    /// The title, and further words: `$1`, `$2` and so on of the body.
    pub(super) parameters: Vec<String>,
    pub(super) body: Block,
    pub(super) is_submenu: bool,
    /// File that it is of, if it is not in the configuration.
    pub(super) source: Option<PathBuf>,
}

/// What choosing an entry does.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// Nothing is started.
    Nothing,
    /// This would be started.
    Loaded(Box<Loaded>),
    /// Another menu is shown.
    Menu(Box<Menu>),
}

/// An entry with what it does.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) title: String,
    pub(super) id: String,
    pub(super) source: Option<PathBuf>,
    pub(super) outcome: Outcome,
}

/// A menu when it is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Menu {
    pub(super) nodes: Vec<Node>,
    /// Value of the variable `default`.
    pub(super) default: Option<String>,
    /// Value of the variable `fallback`.
    pub(super) fallback: Option<String>,
}

/// How entries are named. Red Hat's GRUB takes a name that begins with digits for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Upstream,
    RedHat,
}
