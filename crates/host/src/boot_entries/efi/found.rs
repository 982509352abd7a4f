//! Entries of systemd-boot with what its menu is sorted by.

use std::cmp::{Ordering, Reverse};

use super::super::bls::compare_versions;
use super::super::entry::{Entry, Tries};

/// Entries at most.
pub(in crate::boot_entries) const MOST_ENTRIES: usize = 500;

/// An entry with what it is sorted by.
#[derive(Debug, Clone)]
pub(in crate::boot_entries) struct Found {
    pub(in crate::boot_entries) entry: Entry,
    pub(in crate::boot_entries) sort_key: Option<String>,
    pub(in crate::boot_entries) machine_id: String,
    pub(in crate::boot_entries) version: String,
    /// Whether it can be started in several ways, of which only the first one is listed.
    pub(in crate::boot_entries) has_profiles: bool,
}

/// The order of the menu: `boot_entry_compare`.
pub(in crate::boot_entries) fn order(a: &Found, b: &Found) -> Ordering {
    let has_none_left = |it: &Found| it.entry.tries.is_some_and(|tries| tries.left == 0);
    let newest = |a: &str, b: &str| compare_versions(b, a);
    let by_key = match (&a.sort_key, &b.sort_key) {
        (Some(x), Some(y)) => x
            .cmp(y)
            .then_with(|| a.machine_id.cmp(&b.machine_id))
            .then_with(|| newest(&a.version, &b.version)),
        (x, y) => x.is_none().cmp(&y.is_none()),
    };
    let by_tries = || match (a.entry.tries, b.entry.tries) {
        (Some(x), Some(y)) => (Reverse(x.left), x.done).cmp(&(Reverse(y.left), y.done)),
        _ => Ordering::Equal,
    };
    has_none_left(a)
        .cmp(&has_none_left(b))
        .then(by_key)
        .then_with(|| newest(&a.entry.id, &b.entry.id))
        .then_with(by_tries)
}

/// A file's name without the boots that are counted: `arch+3-1.conf` is `arch.conf`, of which three
/// are left, and one failed.
pub(in crate::boot_entries) fn without_tries(name: &str) -> (String, Option<Tries>) {
    let counted = || {
        let (stem, end) = name.rsplit_once('.')?;
        let (start, count) = stem.rsplit_once('+')?;
        let (left, done) = count.split_once('-').unwrap_or((count, "0"));
        let number = |text: &str| match text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        let tries = Tries {
            left: number(left)?,
            done: number(done)?,
        };
        Some((format!("{start}.{end}"), Some(tries)))
    };
    counted().unwrap_or_else(|| (name.to_owned(), None))
}

#[cfg(test)]
mod tests {
    use super::super::super::image::Images;
    use super::*;

    #[test]
    fn boots_that_are_counted() {
        let tries = |left, done| Some(Tries { left, done });
        for (name, id, expected) in [
            ("arch.conf", "arch.conf", None),
            ("arch+3.conf", "arch.conf", tries(3, 0)),
            ("arch+3-1.conf", "arch.conf", tries(3, 1)),
            ("linux-6.1+deb13.efi", "linux-6.1+deb13.efi", None),
            (
                "linux-6.1+deb13+0-3.efi",
                "linux-6.1+deb13.efi",
                tries(0, 3),
            ),
            ("a++1.conf", "a+.conf", tries(1, 0)),
            ("a+99999999999.conf", "a+99999999999.conf", None),
        ] {
            assert_eq!(without_tries(name), (id.to_owned(), expected), "{name}");
        }
    }

    #[test]
    fn the_menu_is_sorted() {
        let found = |id: &str, key: Option<&str>, version: &str, left: Option<u32>| Found {
            entry: Entry {
                id: id.to_owned(),
                tries: left.map(|left| Tries { left, done: 0 }),
                ..Images::nothing()
            },
            sort_key: key.map(str::to_owned),
            machine_id: String::new(),
            version: version.to_owned(),
            has_profiles: false,
        };
        let mut all = [
            found("z-5.conf", None, "", None),
            found("z-10.conf", None, "", None),
            found("b.conf", Some("debian"), "6.1", None),
            found("a.conf", Some("debian"), "6.12", None),
            found("c.conf", Some("arch"), "1", None),
            found("tried.conf", Some("arch"), "2", Some(0)),
            found("fresh.conf", Some("arch"), "2", Some(3)),
        ];
        all.sort_by(order);
        let ids: Vec<_> = all.iter().map(|it| &*it.entry.id).collect();
        let expected = [
            "fresh.conf",
            "c.conf",
            "a.conf",
            "b.conf",
            "z-10.conf",
            "z-5.conf",
            "tried.conf",
        ];
        assert_eq!(ids, expected);
    }
}
