//! The files of an initramfs that are not modules.

use std::collections::{BTreeMap, btree_map};

use super::{Content, Error, Extra, MODULES_LIST, Request, cpio};

/// Kind and content of a path.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Content, u32),
    Dir(u32),
    Symlink(String),
    Device { mode: u32, major: u32, minor: u32 },
}

/// All that a request puts into the archive besides modules, by path.
pub(super) fn files(request: &Request) -> Result<BTreeMap<String, Node>, Error> {
    let mut files = BTreeMap::new();
    put(&mut files, "init", Node::File(request.init.clone(), 0o755))?;
    put(
        &mut files,
        "dev/console",
        Node::Device {
            mode: 0o600,
            major: 5,
            minor: 1,
        },
    )?;
    put(
        &mut files,
        "dev/null",
        Node::Device {
            mode: 0o666,
            major: 1,
            minor: 3,
        },
    )?;
    // The build fills it in; here it only takes its place.
    put(
        &mut files,
        MODULES_LIST,
        Node::File(Content::Bytes(Vec::new()), 0o444),
    )?;
    put(&mut files, "lib/modules", Node::Dir(0o755))?;
    for extra in &request.files {
        let (path, node) = match extra {
            Extra::File {
                path,
                content,
                mode,
            } => (path, Node::File(content.clone(), *mode)),
            Extra::Dir { path, mode } => (path, Node::Dir(*mode)),
            Extra::Symlink { path, target } => {
                let target = Some(target).filter(|t| !t.is_empty() && !t.contains('\0'));
                let target = target.ok_or_else(|| Error::Path { path: path.clone() })?;
                (path, Node::Symlink(target.clone()))
            }
        };
        put(&mut files, path, node)?;
    }
    Ok(files)
}

/// Adds a node and the directories above it.
fn put(files: &mut BTreeMap<String, Node>, path: &str, node: Node) -> Result<(), Error> {
    let name = path.trim_matches('/');
    let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
    // The kernel's unpacker has a PATH_MAX buffer.
    if name.len() >= 4096 || name.split('/').any(bad) || name == cpio::TRAILER {
        return Err(Error::Path {
            path: path.to_owned(),
        });
    }
    for (slash, _) in name.match_indices('/') {
        let above = files
            .entry(name[..slash].to_owned())
            .or_insert(Node::Dir(0o755));
        if !matches!(above, Node::Dir(_)) {
            return Err(Error::Duplicate {
                path: name[..slash].to_owned(),
            });
        }
    }
    match files.entry(name.to_owned()) {
        btree_map::Entry::Vacant(entry) => {
            entry.insert(node);
        }
        // A directory made as a parent takes the mode it is asked to have.
        btree_map::Entry::Occupied(mut entry)
            if matches!((entry.get(), &node), (Node::Dir(_), Node::Dir(_))) =>
        {
            entry.insert(node);
        }
        btree_map::Entry::Occupied(_) => {
            return Err(Error::Duplicate {
                path: name.to_owned(),
            });
        }
    }
    Ok(())
}
