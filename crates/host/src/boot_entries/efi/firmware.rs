//! What the firmware starts by itself.

use std::path::Path;

use super::super::entry::{Choice, Entry, Kind, Offer};
use super::super::image::Images;
use super::super::options::{initrds, without_loader_words};
use super::super::partition::{PARTITIONS, on_partition};
use super::stub::Stub;
use super::unified::unified;
use super::variables::{BootOption, DIRECTORY, GLOBAL, Variables};
use crate::tree::Tree;

/// Kernels that the firmware starts, and unified kernel images that it could.
pub(in crate::boot_entries) fn read(tree: &Tree) -> Offer {
    let variables = Variables::new(tree);
    let stub = Stub::new(tree);
    let mut offer = Offer::default();
    let mut numbers = Vec::new();
    for number in variables.numbers("BootOrder") {
        let Some(option) = variables.option(number) else {
            continue;
        };
        if let Some(entry) = entry(tree, &stub, &option) {
            offer.entries.push(entry);
            numbers.push((option.number, option.is_active));
        }
    }
    let known: Vec<_> = offer.entries.iter().map(|it| it.kernel.clone()).collect();
    let others = unified(tree, &stub).into_iter().map(|found| found.entry);
    offer
        .entries
        .extend(others.filter(|it| !known.contains(&it.kernel)));
    let first = numbers.iter().position(|(_, is_active)| *is_active);
    offer.default = match first {
        Some(entry) => Some(Choice {
            entry,
            reason: format!(
                "Boot{:04X} is the first kernel in the firmware's BootOrder",
                numbers[entry].0
            ),
            is_once: false,
        }),
        None => (!offer.entries.is_empty()).then(|| Choice {
            entry: 0,
            reason: "it is the first unified kernel image; the firmware's BootOrder has no kernel"
                .to_owned(),
            is_once: false,
        }),
    };
    offer.next = offer.default.clone();
    if let Some(next) = variables.numbers("BootNext").first() {
        match numbers.iter().position(|(number, _)| number == next) {
            Some(entry) => {
                offer.next = Some(Choice {
                    entry,
                    reason: format!("the firmware's BootNext is Boot{next:04X}"),
                    is_once: true,
                });
            }
            None => offer.notes.push(format!(
                "the firmware's BootNext is Boot{next:04X}, which starts no kernel that is known"
            )),
        }
    }
    offer.notes.extend(stub.notes());
    offer
}

/// The entry of a boot option that is a kernel.
fn entry(tree: &Tree, stub: &Stub<'_>, option: &BootOption) -> Option<Entry> {
    let path = option.path.as_deref()?;
    let path = path.to_str()?;
    let partition = PARTITIONS
        .into_iter()
        .find(|it| tree.is_file(&on_partition(it, path)))?;
    let image = on_partition(partition, path);
    let images = Images::new(tree);
    let mut entry = images.entry(&image);
    if entry.kind == Kind::Linux && entry.release.is_empty() {
        return None;
    }
    stub.settle(&mut entry, &option.arguments);
    // One that only names a kernel has its command line.
    if entry.kind == Kind::Linux && entry.kernel == image {
        entry.options = without_loader_words(&option.arguments);
        let files = initrds(&option.arguments).into_iter();
        let files = files.map(|file| on_partition(partition, file)).collect();
        images.add_initrds(&mut entry, files);
    }
    entry.id = format!("Boot{:04X}", option.number);
    option.description.clone_into(&mut entry.title);
    entry.number = Some(format!("{:04X}", option.number));
    entry.source = Path::new(DIRECTORY).join(format!("{}-{GLOBAL}", entry.id));
    Some(entry)
}
