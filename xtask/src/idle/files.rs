//! Descriptions of guests, to be looked at.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// Domains as libvirt writes them.
const FIXTURES: [&str; 4] = [
    include_str!("../../../crates/vm/src/hardware/fixtures/workstation.xml"),
    include_str!("../../../crates/lint/src/guest/fixtures/desktop.xml"),
    include_str!("../../../crates/lint/src/guest/fixtures/lean.xml"),
    include_str!("../../../crates/vm/src/libvirt/fixtures/inactive.xml"),
];

/// Paths of that many files: the first XML files of a corpus, or variations of the fixtures, which
/// are written to `scratch`.
pub(super) fn list(
    corpus: Option<&Path>,
    scratch: &Path,
    count: usize,
) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::with_capacity(count);
    if let Some(corpus) = corpus {
        let entries =
            fs::read_dir(corpus).with_context(|| format!("cannot read {}", corpus.display()))?;
        for entry in entries {
            let path = entry?.path();
            let path = path
                .to_str()
                .with_context(|| format!("{path:?} is no text"))?;
            paths.extend(path.ends_with(".xml").then(|| path.to_owned()));
        }
        paths.sort();
        let there = paths.len();
        ensure!(there >= count, "{} has {there} XML files", corpus.display());
        paths.truncate(count);
    } else {
        for number in 0..count {
            let path = scratch.join(format!("{number}.xml"));
            fs::write(&path, variation(number))?;
            paths.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(paths)
}

/// A fixture with another name, and with some of what rules look at changed.
fn variation(number: usize) -> String {
    let text = FIXTURES[number % FIXTURES.len()];
    let changes = [
        ("<acpi/>", ""),
        ("state='on'", "state='off'"),
        ("bus='usb'", "bus='virtio'"),
        ("present='no'", "present='yes'"),
    ];
    let bits = number / FIXTURES.len();
    let text = changes
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .fold(text.to_owned(), |text, (_, (from, to))| {
            text.replace(from, to)
        });
    text.replacen("</name>", &format!("-{number}</name>"), 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use brisk_tools::idle::text::Text;

    use super::*;

    #[test]
    fn variations_differ_and_are_domains() {
        let all: BTreeSet<_> = (0..64).map(variation).collect();
        assert_eq!(all.len(), 64);
        for text in all {
            let read = Text::of_file(text.as_bytes(), Path::new("a")).expect("a domain");
            assert!(read.hardware().is_ok(), "{text}");
        }
    }
}
