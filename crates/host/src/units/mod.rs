//! Services that systemd starts when a system boots, as its files say.
//!
//! What is below `/run` is gone by then: a unit that is enabled or masked there alone is neither.
//! Sources: systemd.unit(5), bootup(7), kernel-command-line(7), and `src/shared/unit-file.c` of
//! systemd.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::boot_entries::words;
use crate::tree::Tree;
use file::{Fragment, Units};

/// Targets that are followed at most.
const MOST_TARGETS: usize = 200;

/// Why systemd would not run a service at the next boot; none if it would. `command` is the end of
/// the command line that it has to start, and `cmdline` that of the kernel.
#[must_use]
pub fn obstacle(root: &Path, service: &str, command: &str, cmdline: &str) -> Option<String> {
    let tree = Tree::new(root);
    let units = Units::new(&tree);
    is_systemd(&tree, cmdline)
        .or_else(|| masked_by(service, cmdline))
        .or_else(|| unusable(&tree, &units, service, command))
        .or_else(|| unreached(&units, service, cmdline))
}

/// Whether a system has units of systemd at all.
#[must_use]
pub fn are_there(root: &Path) -> bool {
    let tree = Tree::new(root);
    file::DIRECTORIES
        .iter()
        .any(|it| tree.is_dir(Path::new(it)))
}

/// The reason if the command line names an init that is not known to be systemd.
fn is_systemd(tree: &Tree, cmdline: &str) -> Option<String> {
    let init = values(cmdline, "init").last()?;
    let path = Path::new(init);
    let resolved = tree.resolved(path).unwrap_or_default();
    let is_it = resolved.ends_with("systemd")
        // NixOS has a script there that ends in systemd.
        || path.starts_with("/nix/store") && path.ends_with("init");
    (!is_it).then(|| format!("the command line has init={init}, which is not known to be systemd"))
}

fn masked_by(service: &str, cmdline: &str) -> Option<String> {
    let mut masks = values(cmdline, "systemd.mask");
    masks
        .any(|it| it == service || service.strip_suffix(".service") == Some(it))
        .then(|| format!("the command line has systemd.mask={service}"))
}

/// The reason if a service has no file that starts what it has to.
fn unusable(tree: &Tree, units: &Units<'_>, service: &str, command: &str) -> Option<String> {
    let path = match units.fragment(service) {
        Fragment::None => return Some(format!("{service} is not installed")),
        Fragment::Masked => return Some(format!("{service} is masked")),
        Fragment::File(path) => path,
    };
    let Some(settings) = units.settings(service, &path) else {
        return Some(format!("{} cannot be read", path.display()));
    };
    // The one that brisk's own units have.
    let is_own = |it: &str| it == "ConditionPathExists=!/proc/vmcore";
    if let Some(condition) = settings.conditions().find(|it| !is_own(it)) {
        return Some(format!("{service} starts under a condition: {condition}"));
    }
    let lines = settings.commands();
    let wanted: Vec<_> = command.split(' ').collect();
    let started = lines.iter().find(|words| words.ends_with(&wanted));
    let Some(program) = started.and_then(|words| words.first()) else {
        return Some(format!("{service} does not start brisk {command}"));
    };
    let program = program.trim_start_matches(['@', '-', ':', '+', '!', '|']);
    let file = tree.host(Path::new(program));
    let metadata = file.and_then(|file| std::fs::metadata(file).ok());
    let can_run = |it: std::fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    (!metadata.is_some_and(can_run))
        .then(|| format!("{service} starts {program}, which is not there or no program"))
}

/// The reason if no target that a boot reaches wants a service.
fn unreached(units: &Units<'_>, service: &str, cmdline: &str) -> Option<String> {
    let first = first_target(cmdline);
    let mut rest = vec![first.to_owned()];
    rest.extend(values(cmdline, "systemd.wants").map(str::to_owned));
    let mut reached = BTreeSet::new();
    while let Some(name) = rest.pop() {
        if name == service {
            return None;
        }
        if !name.ends_with(".target") || reached.len() > MOST_TARGETS {
            continue;
        }
        for name in units.names(&name) {
            if reached.insert(name.clone()) {
                rest.extend(units.wanted(&name));
            }
        }
    }
    let for_now = match units.is_wanted_for_now(service) {
        true => "is enabled below /run, until this machine goes down",
        false => "is not enabled",
    };
    Some(match reached.len() {
        0 => format!("there is no {first}, which a boot is to reach"),
        _ => format!("{service} {for_now}: nothing that {first} reaches wants it"),
    })
}

/// Target that systemd starts, which words of the command line change (`parse_proc_cmdline_item` of
/// `src/core/main.c`).
fn first_target(cmdline: &str) -> &str {
    let mut target = "default.target";
    for word in words(cmdline) {
        target = match word {
            "-b" | "emergency" => "emergency.target",
            "-s" | "s" | "S" | "1" | "single" | "rescue" => "rescue.target",
            "2" | "3" | "4" => "multi-user.target",
            "5" => "graphical.target",
            _ => word.strip_prefix("systemd.unit=").unwrap_or(target),
        };
    }
    target
}

/// Values of a word of a command line.
fn values<'a>(cmdline: &'a str, name: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
    let words = words(cmdline).into_iter();
    words.filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
}
