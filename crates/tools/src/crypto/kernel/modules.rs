//! Modules that have drivers of crypto devices: loaded, built in, or in the modules' directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::glob::matches;
use super::text;

/// Folder of the kernel's source with drivers of devices, in the paths of modules.
const DEVICES: &str = "drivers/crypto/";

/// Modules that use cryptography, and are not among it in the kernel's source.
const USERS: [&str; 4] = ["dm_crypt", "tls", "esp4", "esp6"];

/// Modules of the kernel that runs, with `-` as `_` in their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    /// Whether the directory of the modules was found.
    pub is_known: bool,
    /// Loaded, and those of the built-in ones that have a directory in `/sys/module`.
    loaded: BTreeSet<String>,
    /// Built in.
    built_in: BTreeSet<String>,
    /// Path in the source without `.ko`, for those of [`DEVICES`] and of `crypto/`, and [`USERS`].
    paths: BTreeMap<String, String>,
    /// Pattern of an alias and module, of devices' modules.
    aliases: Vec<(String, String)>,
    /// Algorithm or template and module, by aliases such as `crypto-aes`.
    algorithms: Vec<(String, String)>,
}

/// State of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Loaded or built in.
    Present,
    /// `modprobe` can load it.
    Loadable,
    /// The kernel has none of that name.
    Absent,
    /// The directory of the modules was not found.
    Unknown,
}

impl Modules {
    /// Reads what is below `root` for the kernel `release`.
    pub(super) fn below(root: &Path, release: &str) -> Self {
        let read = |name: &str| text::of(root, &format!("lib/modules/{release}/{name}"));
        let loaded = text::of(root, "proc/modules").unwrap_or_default();
        let loaded = loaded
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let mut modules = Self {
            loaded: loaded.map(normal).collect(),
            ..Self::default()
        };
        modules
            .loaded
            .extend(text::names(root, "sys/module").iter().map(|it| normal(it)));
        if let Some(dep) = read("modules.dep") {
            modules.is_known = true;
            modules.add_paths(&dep);
        }
        let built_in = read("modules.builtin").unwrap_or_default();
        modules.add_paths(&built_in);
        modules.built_in = built_in.lines().filter_map(name_of_path).collect();
        modules.add_aliases(&read("modules.alias").unwrap_or_default());
        modules.add_built_in_aliases(&read("modules.builtin.modinfo").unwrap_or_default());
        modules
    }

    /// Lines of `modules.dep` or `modules.builtin`: a path, and what it depends on behind a colon.
    fn add_paths(&mut self, text: &str) {
        for line in text.lines() {
            let path = line.split(':').next().unwrap_or_default();
            let Some(name) = name_of_path(path) else {
                continue;
            };
            if path.contains("crypto/") || USERS.contains(&&*name) {
                self.paths.insert(name, path.to_owned());
            }
        }
    }

    /// Lines `alias PATTERN MODULE`.
    fn add_aliases(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(pattern), Some(module)) =
                (words.next(), words.next(), words.next())
            {
                self.add_alias(pattern, module);
            }
        }
    }

    /// Texts `MODULE.alias=PATTERN`, with a NUL between them.
    fn add_built_in_aliases(&mut self, text: &str) {
        for entry in text.split('\0') {
            if let Some((module, pattern)) = entry.split_once(".alias=") {
                self.add_alias(pattern, module);
            }
        }
    }

    fn add_alias(&mut self, pattern: &str, module: &str) {
        let module = normal(module);
        if let (Some(name), true) = (
            pattern.strip_prefix("crypto-"),
            self.paths.contains_key(&module),
        ) {
            self.algorithms.push((name.to_owned(), module));
        } else if self.is_of_device(&module) {
            self.aliases.push((pattern.to_owned(), module));
        }
    }

    /// Path of a module, such as `kernel/drivers/crypto/virtio/virtio_crypto.ko`, if it is one for
    /// cryptography.
    #[must_use]
    pub fn path(&self, module: &str) -> Option<&str> {
        self.paths.get(&normal(module)).map(String::as_str)
    }

    /// Whether a module drives devices. VIA's PadLock has its drivers among them, but is an
    /// instruction of the CPU.
    #[must_use]
    pub fn is_of_device(&self, module: &str) -> bool {
        let path = self.path(module);
        path.is_some_and(|path| path.contains(DEVICES)) && !module.contains("padlock")
    }

    /// Modules whose aliases match that of a device.
    pub(super) fn for_device(&self, modalias: &str) -> Vec<String> {
        let aliases = self.aliases.iter();
        let matching = aliases.filter(|(pattern, _)| matches(pattern, modalias));
        let names: BTreeSet<_> = matching.map(|(_, module)| module.clone()).collect();
        names.into_iter().collect()
    }

    /// Modules that are not loaded and have an algorithm, or a part of it: for `cbc(aes)` also those
    /// of the template `cbc` and of the cipher `aes`. The kernel asks for them by aliases.
    #[must_use]
    pub fn loadable_for(&self, algorithm: &str) -> Vec<String> {
        let parts = algorithm.split(['(', ')', ',']).chain([algorithm]);
        let is_part = |name: &str| parts.clone().any(|part| part == name);
        let found = self.algorithms.iter().filter(|(name, _)| is_part(name));
        let names: BTreeSet<_> = found.map(|(_, module)| module.clone()).collect();
        let mut names: Vec<_> = names.into_iter().collect();
        names.retain(|module| self.state(module) == State::Loadable);
        names
    }

    /// State of a module.
    #[must_use]
    pub fn state(&self, module: &str) -> State {
        let module = normal(module);
        if self.loaded.contains(&module) || self.built_in.contains(&module) {
            return State::Present;
        }
        match (self.paths.contains_key(&module), self.is_known) {
            (true, _) => State::Loadable,
            (false, true) => State::Absent,
            (false, false) => State::Unknown,
        }
    }
}

/// Name of a module in the form that `/proc/modules` has.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

fn name_of_path(path: &str) -> Option<String> {
    let file = path.split(':').next()?.rsplit('/').next()?;
    let (name, _) = file.split_once(".ko")?;
    Some(normal(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> Modules {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Modules::below(root.path(), "6.1")
    }

    #[test]
    fn a_module_is_loaded_built_in_loadable_or_absent() {
        let dep = "\
kernel/drivers/crypto/virtio/virtio_crypto.ko: kernel/crypto/crypto_engine.ko
kernel/drivers/crypto/padlock-aes.ko:
kernel/arch/x86/crypto/aesni-intel.ko.xz:
kernel/fs/ext4/ext4.ko:
";
        let modules = tree(&[
            ("lib/modules/6.1/modules.dep", dep),
            (
                "lib/modules/6.1/modules.builtin",
                "kernel/drivers/crypto/ccp/ccp-crypto.ko\nkernel/crypto/algif_hash.ko\n",
            ),
            (
                "lib/modules/6.1/modules.alias",
                "# a comment\nalias virtio:d00000014v* virtio_crypto\nalias virtio:d00000002v* virtio_blk\nalias crypto-aes padlock_aes\n",
            ),
            (
                "lib/modules/6.1/modules.builtin.modinfo",
                "ccp_crypto.license=GPL\0ccp_crypto.alias=pci:v00001022d*bc10sc80i*\0",
            ),
            (
                "proc/modules",
                "aesni_intel 16384 0 - Live 0xffffffffc0000000\n",
            ),
        ]);
        let states = [
            ("virtio-crypto", State::Loadable),
            ("aesni_intel", State::Present),
            ("ccp-crypto", State::Present),
            ("qat_4xxx", State::Absent),
        ];
        for (name, state) in states {
            assert_eq!(modules.state(name), state, "{name}");
        }
        let of_device = [
            ("virtio_crypto", true),
            ("ccp_crypto", true),
            ("padlock_aes", false),
            ("aesni_intel", false),
            ("ext4", false),
        ];
        for (name, is_of_device) in of_device {
            assert_eq!(modules.is_of_device(name), is_of_device, "{name}");
        }
        assert_eq!(modules.loadable_for("cbc(aes)"), ["padlock_aes"]);
        assert!(modules.loadable_for("cbc(des)").is_empty());
        assert_eq!(
            modules.for_device("virtio:d00000014v00001AF4"),
            ["virtio_crypto"]
        );
        assert_eq!(
            modules.for_device("pci:v00001022d00001456sv1sd1bc10sc80i00"),
            ["ccp_crypto"]
        );
        assert!(modules.for_device("virtio:d00000002v00001AF4").is_empty());
        assert_eq!(tree(&[]).state("virtio_crypto"), State::Unknown);
    }
}
