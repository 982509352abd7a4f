//! Processors of the host, their mitigations and governor, below a root that tests put elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::sysfs;

/// A host's processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    root: PathBuf,
    cpuinfo: String,
}

impl Cpu {
    /// Processors of the host whose root is `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self {
            cpuinfo: fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default(),
            root: root.to_owned(),
        }
    }

    /// Model name of the first processor.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        self.field("model name").map(str::to_owned)
    }

    /// Features, as `/proc/cpuinfo` names them.
    #[must_use]
    pub fn flags(&self) -> BTreeSet<&str> {
        let flags = self.field("flags").unwrap_or_default();
        flags.split_whitespace().collect()
    }

    /// Frequency governor of the first processor.
    #[must_use]
    pub fn governor(&self) -> Option<String> {
        sysfs::line(
            &self.root,
            "devices/system/cpu/cpu0/cpufreq/scaling_governor",
        )
    }

    /// Vulnerabilities that affect the processors, with the kernel's mitigation of each.
    #[must_use]
    pub fn mitigations(&self) -> BTreeMap<String, String> {
        let dir = "devices/system/cpu/vulnerabilities";
        let names = sysfs::names(&self.root, dir);
        let known = names.into_iter().filter_map(|name| {
            let text = sysfs::line(&self.root, &format!("{dir}/{name}"))?;
            (text != "Not affected").then_some((name, text))
        });
        known.collect()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let line = self.cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_host_is_described() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let cpu = "sys/devices/system/cpu";
        write(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu svm\n",
        );
        write(
            &format!("{cpu}/cpu0/cpufreq/scaling_governor"),
            "powersave\n",
        );
        write(&format!("{cpu}/vulnerabilities/mds"), "Not affected\n");
        write(
            &format!("{cpu}/vulnerabilities/retbleed"),
            "Mitigation: IBPB\n",
        );
        let cpu = Cpu::below(root.path());
        assert_eq!(cpu.model().as_deref(), Some("A: B"));
        assert_eq!(cpu.flags(), ["fpu", "svm"].into());
        assert_eq!(cpu.governor().as_deref(), Some("powersave"));
        let known = [("retbleed".to_owned(), "Mitigation: IBPB".to_owned())];
        assert_eq!(cpu.mitigations(), known.into());
        let none = Cpu::below(&root.path().join("no"));
        assert_eq!((none.model(), none.governor()), (None, None));
        assert!(none.flags().is_empty() && none.mitigations().is_empty());
    }
}
