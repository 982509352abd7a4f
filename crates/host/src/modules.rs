//! Modules of the running kernel, and the graph of which uses which.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::files;

/// Bytes of the list of modules that are read; that of a large machine has less than 64 KiB.
const LONGEST_LIST: u64 = 1 << 20;
/// Stands among the users of a module that cannot be unloaded (`print_unload_info` of
/// `kernel/module/procfs.c`).
const PERMANENT: &str = "[permanent]";

/// A module that is loaded (proc_modules(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Its name, with `_` and not `-`.
    pub name: String,
    /// References to it, of modules and of others.
    pub uses: u64,
    /// Names of the modules that use it.
    pub users: Vec<String>,
    /// Whether the kernel never unloads it: it has no function that would clean up.
    pub is_permanent: bool,
    /// Whether it is neither being loaded nor unloaded.
    pub is_live: bool,
}

impl Module {
    /// A line of `/proc/modules`.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
        let uses = fields.nth(1)?.parse().ok()?;
        let users = fields.next()?;
        let named = users.split(',');
        let named = named.filter(|user| !matches!(*user, "" | "-" | PERMANENT));
        Some(Self {
            name,
            uses,
            users: named.map(str::to_owned).collect(),
            is_permanent: users.split(',').any(|user| user == PERMANENT),
            is_live: fields.next() == Some("Live"),
        })
    }
}

/// Modules as `/proc/modules` below a root lists them, the newest first.
#[must_use]
pub fn loaded(root: &Path) -> Vec<Module> {
    let text = files::text_within(&root.join("proc/modules"), LONGEST_LIST);
    let text = text.unwrap_or_default();
    text.lines().filter_map(Module::parse).collect()
}

/// Memory of all modules that `/proc/modules` below a root lists, bytes; none if there is no list.
#[must_use]
pub fn memory(root: &Path) -> Option<u64> {
    let text = files::text_within(&root.join("proc/modules"), LONGEST_LIST)?;
    let sizes = text
        .lines()
        .filter_map(|line| line.split(' ').nth(1)?.parse().ok());
    Some(sizes.fold(0, u64::saturating_add))
}

/// Modules of these names that are loaded, and all that use them, each behind those that use it:
/// the order in which they can be unloaded. Modules that use each other are in any order.
#[must_use]
pub fn unloading<'a>(modules: &'a [Module], names: &[&str]) -> Vec<&'a Module> {
    let named = modules.iter().map(|module| (&*module.name, module));
    let named: HashMap<&str, &Module> = named.collect();
    let mut order: Vec<&Module> = Vec::new();
    let mut open: Vec<_> = names.iter().rev().map(|name| (*name, false)).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    while let Some((name, are_users_done)) = open.pop() {
        let Some(module) = named.get(name) else {
            continue;
        };
        if are_users_done {
            order.push(module);
        } else if seen.insert(&module.name) {
            open.push((&module.name, true));
            open.extend(module.users.iter().map(|user| (&**user, false)));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_users_and_state() {
        let line = "drm 618496 5 drm_ttm_helper,ttm, Live 0xffffffffc02b1000 (E)";
        let module = Module::parse(line).unwrap();
        assert_eq!((&*module.name, module.uses), ("drm", 5));
        assert_eq!(module.users, ["drm_ttm_helper", "ttm"]);
        assert!(module.is_live && !module.is_permanent);
        let module = Module::parse("x 1 0 [permanent], Loading 0x0").unwrap();
        assert!(module.is_permanent && !module.is_live && module.users.is_empty());
        let module = Module::parse("x 1 2 y,[permanent], Live 0x0").unwrap();
        assert!(module.is_permanent && module.users == ["y"]);
        for line in ["", " 1 2 - Live", "x", "x 1 y - Live", "x 1 2"] {
            assert_eq!(Module::parse(line), None, "{line}");
        }
    }

    #[test]
    fn sizes_are_added() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(memory(root.path()), None);
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let text = "a 4096 0 - Live 0x0\nb x 0 - Live 0x0\nc 8192 0 - Live 0x0\n";
        std::fs::write(root.path().join("proc/modules"), text).unwrap();
        assert_eq!(memory(root.path()), Some(12288));
    }

    #[test]
    fn users_come_before_what_they_use() {
        let text = "nvidia_uvm 1 2 - Live 0x0\nnvidia_drm 1 5 - Live 0x0\n\
                    nvidia_modeset 1 3 nvidia_drm, Live 0x0\n\
                    nvidia 1 9 nvidia_uvm,nvidia_modeset, Live 0x0\ndrm 1 1 nvidia_drm, Live 0x0";
        let modules: Vec<_> = text.lines().filter_map(Module::parse).collect();
        let order = |names: &[&str]| -> Vec<_> {
            let order = unloading(&modules, names).into_iter();
            order.map(|module| &*module.name).collect()
        };
        assert_eq!(
            order(&["nvidia"]),
            ["nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"]
        );
        let both = order(&["nvidia_uvm", "nvidia", "no"]);
        let each = ["nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"];
        assert_eq!(both, each);
    }
}
