//! Processors of the host, their mitigations and governor, below a root that tests put elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{files, sysfs};

/// Processors that the kernel can have at most on x86-64 (`NR_CPUS` of `arch/x86/Kconfig`).
const MOST: usize = 8192;

/// Directory of vulnerabilities in sysfs.
const VULNERABILITIES: &str = "devices/system/cpu/vulnerabilities";

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
            cpuinfo: files::text(&root.join("proc/cpuinfo")).unwrap_or_default(),
            root: root.to_owned(),
        }
    }

    /// Model name of the first processor.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        self.field("model name").map(str::to_owned)
    }

    /// Vendor of the first processor, such as `AuthenticAMD`.
    #[must_use]
    pub fn vendor(&self) -> Option<String> {
        self.field("vendor_id").map(str::to_owned)
    }

    /// Text of `/proc/cpuinfo`; empty if it cannot be read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.cpuinfo
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
        let names = sysfs::names(&self.root, VULNERABILITIES);
        let known = names.into_iter().filter_map(|name| {
            let text = self.mitigation(&name)?;
            (text != "Not affected").then_some((name, text))
        });
        known.collect()
    }

    /// What the kernel says of one vulnerability, such as `meltdown`; `Not affected` too.
    #[must_use]
    pub fn mitigation(&self, vulnerability: &str) -> Option<String> {
        sysfs::line(&self.root, &format!("{VULNERABILITIES}/{vulnerability}"))
    }

    fn field(&self, name: &str) -> Option<&str> {
        let line = self.cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// Parses a list of processors, as `0-2,5` (the list format of cpuset(7)), in order and without
/// repetitions; none if it is empty or has another format.
#[must_use]
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all.into_iter().collect())
}

/// Parses a mask of processors, as `00000003,ffffffff` (the mask format of cpuset(7)), in order; none if
/// it has another format.
#[must_use]
pub fn parse_mask(text: &str) -> Option<Vec<usize>> {
    const BITS: usize = 32;
    let mut all = Vec::new();
    for (index, word) in text.split(',').rev().enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let set = (0..BITS).filter(|bit| bits >> bit & 1 == 1);
        all.extend(set.map(|bit| index * BITS + bit));
    }
    all.iter().all(|number| *number < MOST).then_some(all)
}

/// A list of processors as [`parse_list`] reads it, each by itself.
#[must_use]
pub fn list(processors: &[usize]) -> String {
    let numbers: Vec<_> = processors.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn masks_are_read_from_their_end() {
        assert_eq!(parse_mask("3"), Some(vec![0, 1]));
        assert_eq!(parse_mask("00000001,80000000"), Some(vec![31, 32]));
        assert_eq!(parse_mask("0,00000000"), Some(vec![]));
        for wrong in ["", "g", "1,,1", "1-2", "100000000"] {
            assert_eq!(parse_mask(wrong), None, "{wrong}");
        }
        assert_eq!(parse_mask(&format!("1{}", ",00000000".repeat(256))), None);
    }

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

    #[test]
    fn lists_have_numbers_and_ranges() {
        assert_eq!(parse_list("5,0-2,1"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("3"), Some(vec![3]));
        for text in ["", "a", "2-1", "1,", "-1", "0-9999999"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
        assert_eq!(list(&[0, 1, 5]), "0,1,5");
    }
}
