//! Energy of processor packages by RAPL (`Documentation/power/powercap/powercap.rst` of the
//! kernel). Since Linux 5.10 only root may read it.

use std::fs;
use std::path::Path;

/// Counter of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counter {
    name: String,
    /// Microjoules.
    value: u64,
    /// Value after which it begins at 0 again.
    range: u64,
}

/// Counters of all packages below `root`; empty if there are none, or they may not be read.
pub(super) fn read(root: &Path) -> Vec<Counter> {
    let directory = root.join("sys/class/powercap");
    let names = brisk_host::sysfs::names(root, "class/powercap");
    // A name with one colon is a package; its parts have two.
    let packages = names
        .into_iter()
        .filter(|name| name.contains("rapl:") && name.matches(':').count() == 1);
    let counter = |name: String| {
        let number = |file: &str| {
            let text = fs::read_to_string(directory.join(&name).join(file)).ok()?;
            text.trim().parse().ok()
        };
        let (value, range) = (number("energy_uj")?, number("max_energy_range_uj")?);
        Some(Counter { name, value, range })
    };
    packages.filter_map(counter).collect()
}

/// Joules between two readings; none if they are not of the same counters, or of none.
pub(super) fn joules(before: &[Counter], after: &[Counter]) -> Option<f64> {
    if before.is_empty() || before.len() != after.len() {
        return None;
    }
    let pairs = before.iter().zip(after);
    let spent = pairs.map(|(from, to)| {
        let wrapped = if to.value < from.value { from.range } else { 0 };
        let spent = (to.value + wrapped).checked_sub(from.value)?;
        (from.name == to.name).then_some(spent as f64 / 1e6)
    });
    spent.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_summed_up_over_the_end_of_their_range() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, value: u64| {
            let directory = root.path().join("sys/class/powercap").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("energy_uj"), format!("{value}\n")).unwrap();
            fs::write(directory.join("max_energy_range_uj"), "1000000\n").unwrap();
        };
        assert_eq!(joules(&read(root.path()), &read(root.path())), None);
        write("intel-rapl:0", 900_000);
        write("intel-rapl:1", 0);
        write("intel-rapl:0:0", 5);
        let before = read(root.path());
        assert_eq!(before.len(), 2);
        write("intel-rapl:0", 100_000);
        write("intel-rapl:1", 500_000);
        let spent = joules(&before, &read(root.path())).unwrap();
        assert!((spent - 0.7).abs() < 1e-9, "{spent}");
        assert_eq!(joules(&before, &before[..1]), None);
    }
}
