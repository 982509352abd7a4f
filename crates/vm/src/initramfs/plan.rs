//! Plan of an initramfs: a pure function of the request and the modules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{Node, files};
use super::modules::{Tree, normal};
use super::{Content, Error, Request, Signatures};

/// Plan of an initramfs.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Release of the kernel.
    pub release: String,
    /// Modules in the order to load them.
    pub modules: Vec<Planned>,
    /// Modules asked for that the kernel has built in.
    pub builtin: Vec<Builtin>,
    /// Soft dependencies left out because they are denied.
    pub skipped: Vec<Skipped>,
    /// All else, by path without the leading `/`, parents before children.
    pub(super) files: BTreeMap<String, Node>,
    pub(super) signatures: Signatures,
}

/// A module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// Its file on the host.
    pub source: PathBuf,
    /// Its path in the archive.
    pub path: String,
    /// Purpose of the module.
    pub reason: String,
    /// Names of the modules that need it.
    pub needed_by: Vec<String>,
    /// Whether only soft dependencies lead to it.
    pub soft: bool,
    /// 0 if it needs no other module, else one more than the highest it needs. Modules of the same
    /// group can be loaded at the same time.
    pub group: u32,
}

/// A module that is part of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Builtin {
    /// Its name.
    pub name: String,
    /// Purpose of the module.
    pub reason: String,
    /// Whether this is assumed because the kernel has no modules directory.
    pub assumed: bool,
}

/// A module that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// The module that would like it.
    pub wanted_by: String,
    /// The pattern that denies it.
    pub pattern: String,
}

impl Plan {
    /// The host's files that the archive is made from.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.values().filter_map(|node| match node {
            Node::File(Content::File(path), _) => Some(path.as_path()),
            _ => None,
        });
        self.modules
            .iter()
            .map(|module| module.source.as_path())
            .chain(files)
    }
}

/// Plans an initramfs.
///
/// # Errors
///
/// If a module is missing or denied, modules depend on each other, or a path cannot be used.
pub fn plan(request: &Request, tree: &Tree) -> Result<Plan, Error> {
    let mut order = Order {
        tree,
        deny: &request.deny,
        planned: Vec::new(),
        seen: BTreeMap::new(),
        skipped: Vec::new(),
    };
    let mut builtin: Vec<Builtin> = Vec::new();
    for wanted in &request.modules {
        let name = normal(&wanted.module);
        if tree.modules.contains_key(&name) {
            order.add(&name, &wanted.reason)?;
        } else if !tree.is_builtin(&name) {
            return Err(missing(tree, name, wanted.reason.clone()));
        } else if builtin.iter().all(|known| known.name != name) {
            builtin.push(Builtin {
                name,
                reason: wanted.reason.clone(),
                assumed: tree.assumed(),
            });
        }
    }
    let Order {
        planned: mut modules,
        skipped,
        ..
    } = order;
    mark_required(&mut modules, request, tree);
    let files = files(request)?;
    if let Some(module) = modules
        .iter()
        .find(|module| files.contains_key(&module.path))
    {
        return Err(Error::Duplicate {
            path: module.path.clone(),
        });
    }
    Ok(Plan {
        release: tree.release.clone(),
        modules,
        builtin,
        skipped,
        files,
        signatures: request.signatures,
    })
}

fn missing(tree: &Tree, module: String, reason: String) -> Error {
    Error::Missing {
        release: tree.release.clone(),
        module,
        reason,
    }
}

#[derive(PartialEq)]
enum State {
    Open,
    Done(usize),
}

struct Order<'a> {
    tree: &'a Tree,
    deny: &'a [String],
    planned: Vec<Planned>,
    seen: BTreeMap<String, State>,
    skipped: Vec<Skipped>,
}

struct Frame {
    name: String,
    reason: String,
    group: u32,
    /// Not yet visited, the last first; with whether it is a soft dependency.
    needs: Vec<(String, bool)>,
}

impl Order<'_> {
    /// Adds a module after all modules that it needs. Not recursive: the tree is not trusted.
    fn add(&mut self, name: &str, reason: &str) -> Result<(), Error> {
        if let Some(State::Done(at)) = self.seen.get(name) {
            // Asked for, and so far only needed by another: the reason of the request is more specific.
            let known = &mut self.planned[*at];
            if known.reason.starts_with(DEPENDENCY) || known.reason.starts_with(SOFT) {
                reason.clone_into(&mut known.reason);
            }
            return Ok(());
        }
        let mut stack = vec![self.open(name, reason.to_owned())?];
        while let Some(frame) = stack.last_mut() {
            let Some((need, soft)) = frame.needs.pop() else {
                if let Some(frame) = stack.pop() {
                    self.close(frame, stack.last_mut());
                }
                continue;
            };
            match self.seen.get(&need) {
                Some(State::Done(at)) => {
                    let known = &mut self.planned[*at];
                    frame.group = frame.group.max(known.group + 1);
                    if !known.needed_by.contains(&frame.name) {
                        known.needed_by.push(frame.name.clone());
                    }
                }
                Some(State::Open) if soft => {}
                Some(State::Open) => {
                    return Err(Error::Circle {
                        release: self.tree.release.clone(),
                        module: need,
                    });
                }
                None if soft && self.denied(&need).is_some() => {
                    let pattern = self.denied(&need).unwrap_or_default().to_owned();
                    let wanted_by = frame.name.clone();
                    self.skipped.push(Skipped {
                        name: need,
                        wanted_by,
                        pattern,
                    });
                }
                None if self.tree.modules.contains_key(&need) => {
                    let kind = if soft { SOFT } else { DEPENDENCY };
                    let reason = format!("{kind}{}", frame.name);
                    let next = self.open(&need, reason)?;
                    stack.push(next);
                }
                None if soft || self.tree.is_builtin(&need) => {}
                None => {
                    let reason = format!("{DEPENDENCY}{}", frame.name);
                    return Err(missing(self.tree, need, reason));
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, name: &str, reason: String) -> Result<Frame, Error> {
        if let Some(pattern) = self.denied(name) {
            let (module, pattern) = (name.to_owned(), pattern.to_owned());
            return Err(Error::Denied {
                module,
                reason,
                pattern,
            });
        }
        let hard = self
            .tree
            .modules
            .get(name)
            .map(|m| m.needs.as_slice())
            .unwrap_or_default();
        let mut needs: Vec<_> = hard.iter().map(|need| (need.clone(), false)).collect();
        needs.extend(
            self.tree
                .soft_needs(name)
                .into_iter()
                .rev()
                .map(|need| (need, true)),
        );
        self.seen.insert(name.to_owned(), State::Open);
        Ok(Frame {
            name: name.to_owned(),
            reason,
            group: 0,
            needs,
        })
    }

    fn close(&mut self, frame: Frame, parent: Option<&mut Frame>) {
        let Some(module) = self.tree.modules.get(&frame.name) else {
            return;
        };
        let mut needed_by = Vec::new();
        if let Some(parent) = parent {
            parent.group = parent.group.max(frame.group + 1);
            needed_by.push(parent.name.clone());
        }
        self.seen
            .insert(frame.name.clone(), State::Done(self.planned.len()));
        self.planned.push(Planned {
            source: module.path.clone(),
            path: format!("lib/modules/{}.ko", frame.name),
            name: frame.name,
            reason: frame.reason,
            needed_by,
            soft: true,
            group: frame.group,
        });
    }

    fn denied(&self, name: &str) -> Option<&str> {
        self.deny
            .iter()
            .map(String::as_str)
            .find(|p| matches(normal(p).as_bytes(), name.as_bytes()))
    }
}

const DEPENDENCY: &str = "needed by ";
const SOFT: &str = "wished by ";

/// Marks as soft the modules that no hard dependencies lead to from the request.
fn mark_required(modules: &mut [Planned], request: &Request, tree: &Tree) {
    let mut required: BTreeSet<String> = BTreeSet::new();
    let mut todo: Vec<String> = request.modules.iter().map(|w| normal(&w.module)).collect();
    while let Some(name) = todo.pop() {
        if let Some(module) = tree.modules.get(&name) {
            if required.insert(name) {
                todo.extend(module.needs.iter().cloned());
            }
        }
    }
    for module in modules {
        module.soft = !required.contains(&module.name);
    }
}

/// Whether a pattern of `*`, `?` and plain bytes matches all of a name, in linear space and
/// without recursion.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(b) if *b == b'?' || *b == name[n] => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}
