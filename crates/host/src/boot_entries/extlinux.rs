//! extlinux and U-Boot: `extlinux.conf` (`doc/` of syslinux, `doc/develop/distro.rst` of U-Boot).

use std::path::{Component, Path, PathBuf};

use super::entry::{Choice, Entry, Offer};
use super::image::Images;
use super::mounts::{Device, Mounts};
use super::options::{initrds, without_loader_words};
use crate::tree::Tree;

const CONFIGURATIONS: [&str; 4] = [
    "/boot/extlinux/extlinux.conf",
    "/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
];
/// Entries at most.
const MOST_ENTRIES: usize = 500;

/// The configuration that is there.
pub(super) fn configuration(tree: &Tree) -> Option<PathBuf> {
    let mut paths = CONFIGURATIONS.into_iter().map(PathBuf::from);
    paths.find(|path| tree.is_file(path))
}

#[derive(Debug, Default)]
struct Label {
    name: String,
    title: Option<String>,
    kernel: Option<String>,
    initrds: Vec<String>,
    append: String,
    is_default: bool,
}

/// Entries of the configuration at a path.
pub(super) fn read(tree: &Tree, mounts: &Mounts, path: &Path) -> Offer {
    let text = match tree.text(path) {
        Ok(text) => text,
        Err(error) => {
            return Offer {
                notes: vec![super::entry::unreadable(path, &error)],
                ..Offer::default()
            };
        }
    };
    let (labels, default) = labels(&text);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let locate = |file: &str| match file.starts_with('/') {
        true => mounts.locate(Device::Unknown, file).path,
        false => normal(&directory.join(file)),
    };
    let images = Images::new(tree);
    let (mut entries, mut marked) = (Vec::new(), None);
    for label in labels {
        let Some(kernel) = &label.kernel else {
            continue;
        };
        let entry = images.entry(&locate(kernel));
        let files = label
            .initrds
            .iter()
            .map(String::as_str)
            .chain(initrds(&label.append));
        let files = files.map(locate).collect();
        let mut entry = Entry {
            id: label.name.clone(),
            title: label.title.unwrap_or(label.name),
            number: Some(entries.len().to_string()),
            options: without_loader_words(&label.append),
            source: path.to_owned(),
            ..entry
        };
        images.add_initrds(&mut entry, files);
        if label.is_default {
            marked = Some(entries.len());
        }
        entries.push(entry);
    }
    let shown = path.display();
    let named = default
        .as_deref()
        .and_then(|name| entries.iter().position(|it| it.id == name));
    let choice = |entry, reason| Choice {
        entry,
        reason,
        is_once: false,
    };
    let default = match (named, marked) {
        (Some(entry), _) => Some(choice(
            entry,
            format!("DEFAULT in {shown} is \"{}\"", entries[entry].id),
        )),
        (None, Some(entry)) => Some(choice(entry, format!("{shown} has MENU DEFAULT at it"))),
        (None, None) => (!entries.is_empty()).then(|| {
            choice(
                0,
                format!("{shown} names no default, and it is the first entry"),
            )
        }),
    };
    Offer {
        entries,
        next: default.clone(),
        default,
        notes: Vec::new(),
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            other => found.push(other),
        }
    }
    found
}

/// Labels, and the name that `DEFAULT` has.
fn labels(text: &str) -> (Vec<Label>, Option<String>) {
    let mut labels: Vec<Label> = Vec::new();
    let (mut default, mut append) = (None, String::new());
    let mut is_help = false;
    for line in text.lines() {
        let line = line.trim();
        // Between TEXT HELP and ENDTEXT there is text for people.
        let first = line.split_ascii_whitespace().next().unwrap_or("");
        is_help |= first.eq_ignore_ascii_case("text");
        if is_help {
            is_help = !first.eq_ignore_ascii_case("endtext");
            continue;
        }
        let (keyword, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let value = value.trim();
        let keyword = keyword.to_ascii_lowercase();
        let Some(label) = labels.last_mut().filter(|_| keyword != "label") else {
            match &*keyword {
                "default" => default = Some(value.to_owned()),
                // Of labels that have none of their own.
                "append" => value.clone_into(&mut append),
                "label" if labels.len() < MOST_ENTRIES => labels.push(Label {
                    name: value.to_owned(),
                    append: append.clone(),
                    ..Label::default()
                }),
                _ => {}
            }
            continue;
        };
        match &*keyword {
            "kernel" | "linux" => label.kernel = Some(value.to_owned()),
            "initrd" => label.initrds = value.split(',').map(str::to_owned).collect(),
            "append" => value.clone_into(&mut label.append),
            "default" => default = Some(value.to_owned()),
            "menu" => {
                let (keyword, value) = value.split_once([' ', '\t']).unwrap_or((value, ""));
                match &*keyword.to_ascii_lowercase() {
                    "label" => label.title = Some(value.trim().replace('^', "")),
                    "default" => label.is_default = true,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    (labels, default)
}
