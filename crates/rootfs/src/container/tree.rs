//! The file tree of all layers together, without the content of files.

use std::collections::{BTreeMap, VecDeque};

use super::archive::{Entry, Kind, Metadata};
use super::model::Limits;
use crate::Fault;

const ROOT: usize = 0;
/// PATH_MAX in include/uapi/linux/limits.h: no system call could name a longer path.
const PATH_MAX: usize = 4096;
/// NAME_MAX in include/uapi/linux/limits.h.
const NAME_MAX: usize = 255;
/// MAXSYMLINKS in include/linux/namei.h.
const SYMLINKS_MAX: u32 = 40;
const DEPTH_MAX: usize = PATH_MAX / 2;

/// Source of a file's content: the layer, and the entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Content {
    pub(super) layer: u32,
    pub(super) entry: u32,
}

#[derive(Debug)]
pub(super) enum Body {
    Directory(BTreeMap<Box<[u8]>, Child>),
    File { content: Content, size: u64 },
    Symlink(Vec<u8>),
    Character(u32, u32),
    Block(u32, u32),
    Fifo,
}

/// A name in a directory. The layer belongs to the name: whiteouts hide names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) node: usize,
    layer: u32,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    pub(super) body: Body,
    /// Of a directory: the layer that has hidden all that lower ones put below it.
    hidden_by: Option<u32>,
}

/// What a node and its name take of memory, besides their bytes. A directory has a node of a
/// B-tree of its own, with room for eleven names.
const NODE: u64 = 256;
const DIRECTORY: u64 = 640;
/// What an extended attribute takes besides its bytes.
const ATTRIBUTE: u64 = 96;
/// How much memory each byte of the layers may cost. An ordinary file has a header of 512 bytes; a
/// single name can make a thousand directories.
const COST: u64 = 64;
/// Memory that may be used besides, in bytes.
const START: u64 = 64 << 20;

/// Nodes that nothing refers to any more stay in the arena; the bound on entries bounds them.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Of the directory that is the root.
    root: usize,
    limits: Limits,
    /// Bytes of the layers that were read.
    read: u64,
    /// Estimate of the memory that this takes, in bytes.
    memory: u64,
    content: u64,
    /// Number of names that whiteouts looked at.
    #[cfg(test)]
    looks: u64,
}

impl Tree {
    pub(super) fn new(limits: Limits) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            root: ROOT,
            limits,
            read: 0,
            memory: 0,
            content: 0,
            #[cfg(test)]
            looks: 0,
        };
        tree.nodes.push(implicit());
        tree
    }

    pub(super) fn root(&self) -> usize {
        self.root
    }

    /// Takes the only directory of an archive as the root if it is that of a system, as in an
    /// archive of `rootfs/`. A program's directory may have `etc` and `bin`, but no users.
    pub(super) fn enter_system(&mut self) {
        let mut names = self.children(self.root).iter();
        let (Some((name, only)), None) = (names.next(), names.next()) else {
            return;
        };
        let etc = self.below(only.node, b"etc");
        let has = |name: &[u8]| etc.is_some_and(|etc| self.below(etc, name).is_some());
        if (has(b"passwd") || has(b"os-release")) && **name != *b"usr" {
            self.root = only.node;
        }
    }

    pub(super) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    /// The node that a directory has under a name; links are not followed.
    pub(super) fn below(&self, directory: usize, name: &[u8]) -> Option<usize> {
        match &self.node(directory).body {
            Body::Directory(names) => names.get(name).map(|child| child.node),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Applies one entry of a layer. The rules are those of the OCI image specification
    /// (layer.md, "Applying Changesets", "Whiteouts"); a parent that is a symbolic link is
    /// followed inside the root, as containerd and docker do.
    /// `read` is how much of all layers was read so far, in bytes: what is kept is in proportion.
    pub(super) fn apply(&mut self, entry: Entry, content: Content, read: u64) -> Result<(), Fault> {
        self.read = read;
        self.account(&entry)?;
        let path = components(&entry.path)?;
        let Some((name, parents)) = path.split_last() else {
            return self.apply_root(entry);
        };
        if let Some(hidden) = name.strip_prefix(b".wh.") {
            return self.apply_whiteout(parents, hidden, content.layer);
        }
        let target = match &entry.kind {
            Kind::HardLink(target) => Some(self.link_target(&entry, target)?),
            _ => None,
        };
        let Some(parent) = self.directory(parents, Some(content.layer))? else {
            return Err(bad_path(&entry.path, "has no parent directory"));
        };
        let existing = self.children(parent).get(*name).map(|child| child.node);
        let node = match (existing, target) {
            (_, Some(target)) => target,
            (Some(node), None)
                if entry.kind == Kind::Directory
                    && matches!(self.nodes[node].body, Body::Directory(_)) =>
            {
                self.nodes[node].metadata = entry.metadata;
                node
            }
            _ => {
                let body = self.body(entry.kind, content)?;
                self.push(Node {
                    metadata: entry.metadata,
                    body,
                    hidden_by: None,
                })?
            }
        };
        let layer = content.layer;
        self.children_mut(parent)
            .insert((*name).into(), Child { node, layer });
        Ok(())
    }

    fn apply_root(&mut self, entry: Entry) -> Result<(), Fault> {
        if entry.kind != Kind::Directory {
            return Err(bad_path(&entry.path, "would replace the root directory"));
        }
        self.nodes[ROOT].metadata = entry.metadata;
        Ok(())
    }

    fn apply_whiteout(
        &mut self,
        parents: &[&[u8]],
        hidden: &[u8],
        layer: u32,
    ) -> Result<(), Fault> {
        let Some(parent) = self.directory(parents, None)? else {
            return Ok(());
        };
        if hidden == b".wh..opq" {
            self.hide_children(parent, layer);
        } else if !hidden.starts_with(b".wh.") {
            // The others with the doubled prefix are aufs's own records and name no file.
            self.hide(parent, hidden, layer);
        }
        Ok(())
    }

    /// Hides what lower layers put under a name. What this layer put there stays, whichever of
    /// both came first in it.
    fn hide(&mut self, parent: usize, name: &[u8], layer: u32) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let Some(&child) = self.children(parent).get(name) else {
            return;
        };
        let mut keep = child.layer == layer;
        if matches!(self.nodes[child.node].body, Body::Directory(_)) {
            self.hide_children(child.node, layer);
            keep |= !self.children(child.node).is_empty();
        }
        if !keep {
            self.children_mut(parent).remove(name);
        }
    }

    /// Once for each directory and layer: what comes after that is of this layer.
    fn hide_children(&mut self, directory: usize, layer: u32) {
        if self.nodes[directory].hidden_by == Some(layer) {
            return;
        }
        self.nodes[directory].hidden_by = Some(layer);
        let names: Vec<_> = self.children(directory).keys().cloned().collect();
        for name in names {
            self.hide(directory, &name, layer);
        }
    }

    fn link_target(&mut self, entry: &Entry, target: &[u8]) -> Result<usize, Fault> {
        let missing = || Fault::Link {
            path: String::from_utf8_lossy(&entry.path).into_owned(),
            target: String::from_utf8_lossy(target).into_owned(),
        };
        let path = components(target)?;
        let (name, parents) = path.split_last().ok_or_else(missing)?;
        let parent = self.directory(parents, None)?.ok_or_else(missing)?;
        let child = self.children(parent).get(*name).ok_or_else(missing)?;
        match self.nodes[child.node].body {
            Body::Directory(_) => Err(missing()),
            _ => Ok(child.node),
        }
    }

    /// Finds a directory, following symbolic links that stay inside the root as in a chroot.
    /// With `create` the missing directories are made, and files in the way give way.
    fn directory(&mut self, path: &[&[u8]], create: Option<u32>) -> Result<Option<usize>, Fault> {
        let mut pending: VecDeque<Vec<u8>> = path.iter().map(|name| name.to_vec()).collect();
        let mut trail = vec![ROOT];
        let mut symlinks = 0;
        while let Some(name) = pending.pop_front() {
            if name == b".." {
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            let at = trail[trail.len() - 1];
            let child = self.children(at).get(&name[..]).map(|child| child.node);
            match child.map(|node| (node, &self.nodes[node].body)) {
                Some((node, Body::Directory(_))) => trail.push(node),
                Some((_, Body::Symlink(target))) => {
                    symlinks += 1;
                    if symlinks > SYMLINKS_MAX {
                        return Err(bad_path(&name, "leads through too many symbolic links"));
                    }
                    if target.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    for name in split(target).rev() {
                        pending.push_front(name.to_vec());
                    }
                }
                _ => {
                    let Some(layer) = create else {
                        return Ok(None);
                    };
                    let name = checked_name(&name, &name)?.into();
                    let node = self.push(implicit())?;
                    self.children_mut(at).insert(name, Child { node, layer });
                    trail.push(node);
                }
            }
            if trail.len() > DEPTH_MAX {
                return Err(bad_path(&name, "is nested too deeply"));
            }
        }
        Ok(trail.last().copied())
    }

    fn body(&mut self, kind: Kind, content: Content) -> Result<Body, Fault> {
        Ok(match kind {
            Kind::File(size) => Body::File { content, size },
            Kind::Directory => Body::Directory(BTreeMap::new()),
            Kind::Symlink(target) => {
                // An empty target cannot be made with symlink(2), nor one of PATH_MAX or more.
                if target.is_empty() || target.len() >= PATH_MAX || target.contains(&0) {
                    return Err(bad_path(
                        &target,
                        "is no possible target of a symbolic link",
                    ));
                }
                Body::Symlink(target)
            }
            Kind::Character(major, minor) => Body::Character(major, minor),
            Kind::Block(major, minor) => Body::Block(major, minor),
            Kind::Fifo | Kind::HardLink(_) => Body::Fifo,
        })
    }

    fn account(&mut self, entry: &Entry) -> Result<(), Fault> {
        let link = match &entry.kind {
            Kind::Symlink(target) | Kind::HardLink(target) => target.len(),
            _ => 0,
        };
        let xattrs = entry.metadata.xattrs.iter();
        let xattrs = xattrs.map(|(name, value)| (name.len() + value.len()) as u64 + ATTRIBUTE);
        self.take((entry.path.len() + link) as u64 + xattrs.sum::<u64>())?;
        if let Kind::File(size) = entry.kind {
            self.content = self.content.saturating_add(size);
        }
        if self.content > self.limits.content {
            return Err(Fault::TooMuch {
                what: "bytes of files",
                limit: self.limits.content,
            });
        }
        Ok(())
    }

    /// Accounts for memory before it is used.
    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.memory = self.memory.saturating_add(bytes);
        let limit = START.saturating_add(self.read.saturating_mul(COST));
        let limit = limit.min(self.limits.memory);
        match self.memory > limit {
            true => Err(Fault::TooMuch {
                what: "bytes of memory for names, directories and attributes",
                limit,
            }),
            false => Ok(()),
        }
    }

    fn push(&mut self, node: Node) -> Result<usize, Fault> {
        self.take(match node.body {
            Body::Directory(_) => DIRECTORY,
            _ => NODE,
        })?;
        if self.nodes.len() as u64 > self.limits.entries {
            return Err(Fault::TooMuch {
                what: "files",
                limit: self.limits.entries,
            });
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn children(&self, node: usize) -> &BTreeMap<Box<[u8]>, Child> {
        static NONE: BTreeMap<Box<[u8]>, Child> = BTreeMap::new();
        match &self.nodes[node].body {
            Body::Directory(children) => children,
            _ => &NONE,
        }
    }

    fn children_mut(&mut self, node: usize) -> &mut BTreeMap<Box<[u8]>, Child> {
        let body = &mut self.nodes[node].body;
        if !matches!(body, Body::Directory(_)) {
            *body = Body::Directory(BTreeMap::new());
        }
        match body {
            Body::Directory(children) => children,
            _ => unreachable!("made a directory just above"),
        }
    }
}

/// A directory that no entry describes, as mkdir by root would make it.
fn implicit() -> Node {
    Node {
        metadata: Metadata {
            mode: 0o755,
            ..Metadata::default()
        },
        body: Body::Directory(BTreeMap::new()),
        hidden_by: None,
    }
}

fn split(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

fn components(path: &[u8]) -> Result<Vec<&[u8]>, Fault> {
    if path.len() > PATH_MAX {
        return Err(bad_path(path, "is too long"));
    }
    split(path).map(|name| checked_name(name, path)).collect()
}

fn checked_name<'a>(name: &'a [u8], path: &[u8]) -> Result<&'a [u8], Fault> {
    if name == b".." {
        return Err(bad_path(path, "climbs with \"..\""));
    }
    if name.len() > NAME_MAX {
        return Err(bad_path(path, "has a name of over 255 bytes"));
    }
    if name.contains(&0) {
        return Err(bad_path(path, "has a name with a NUL"));
    }
    Ok(name)
}

fn bad_path(path: &[u8], problem: &'static str) -> Fault {
    let mut path = String::from_utf8_lossy(path).into_owned();
    if path.chars().count() > 200 {
        path = path.chars().take(200).chain(['…']).collect();
    }
    Fault::Path { path, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry {
            path: path.into(),
            kind,
            metadata: Metadata::default(),
            segments: None,
        }
    }

    #[test]
    fn the_only_directory_is_the_root_if_it_is_that_of_a_system() {
        for (paths, below) in [
            (&["a/etc/passwd", "a/usr/bin/sh"][..], true),
            (&["./a/etc/os-release"], true),
            (&["a/etc/passwd", "a/usr/bin/sh", "b/x"], false),
            (&["a/etc/conf", "a/bin/tool", "a/usr/x"], false),
            (&["usr/etc/passwd", "usr/usr/x"], false),
            (&["etc/passwd", "usr/bin/sh"], false),
            (&["a"], false),
            (&[], false),
        ] {
            let mut tree = Tree::new(Limits::default());
            for path in paths {
                let content = Content { layer: 0, entry: 0 };
                tree.apply(entry(path, Kind::File(0)), content, 1 << 20)
                    .unwrap();
            }
            tree.enter_system();
            assert_eq!(tree.root() != ROOT, below, "{paths:?}");
        }
    }

    #[test]
    fn a_directory_is_made_opaque_once_in_a_layer() {
        let mut tree = Tree::new(Limits::default());
        let mut add = |path: &str, layer, number| {
            let content = Content {
                layer,
                entry: number,
            };
            tree.apply(entry(path, Kind::File(0)), content, 1 << 30)
                .unwrap();
        };
        for number in 0..100 {
            add(&format!("a/b/{number}"), 0, number);
        }
        for number in 0..100 {
            add(&format!("a/b/new{number}"), 1, number);
            add("a/b/.wh..wh..opq", 1, number);
            add("a/.wh..wh..opq", 1, number);
        }
        // All names of the lower layer, the first new one, and their directory.
        assert_eq!(tree.looks, 102);
        let a = tree.children(ROOT)[&b"a"[..]].node;
        let b = tree.children(a)[&b"b"[..]].node;
        assert_eq!(tree.children(b).len(), 100);
        assert!(tree.children(b).keys().all(|name| name.starts_with(b"new")));
    }
}
