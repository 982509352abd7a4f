//! `composite.xml` of the Phoronix Test Suite (pts-core/openbenchmarking.org/schemas/result-file.xsd).

use std::collections::HashMap;

use brisk_vm::hardware::document;
use roxmltree::Node;

use super::{Entry, ImportError, Imported, number};

pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let xml = document(text).map_err(ImportError::Xml)?;
    let root = xml.root_element();
    if !root.has_tag_name("PhoronixTestSuite") {
        return Err(ImportError::Root(root.tag_name().name().to_owned()));
    }
    let results = root
        .children()
        .filter(|node| node.has_tag_name("Result"))
        .filter_map(result);
    Ok(results.collect())
}

/// Text of a child; empty if there is none.
fn of<'a>(node: Node<'a, '_>, name: &str) -> &'a str {
    let child = node.children().find(|child| child.has_tag_name(name));
    child.and_then(|child| child.text()).unwrap_or("").trim()
}

fn result(node: Node<'_, '_>) -> Option<Imported> {
    let data = node.children().find(|child| child.has_tag_name("Data"))?;
    let entries = data.children().filter(|child| child.has_tag_name("Entry"));
    let mut places = HashMap::new();
    let mut all: Vec<Entry> = Vec::new();
    for entry in entries.filter_map(entry) {
        // A system that ran a test again is there again.
        let place = *places.entry(entry.name.clone()).or_insert(all.len());
        match all.get_mut(place) {
            Some(other) => other.values.extend(entry.values),
            None => all.push(entry),
        }
    }
    let key = ["Identifier", "AppVersion", "Arguments"].map(|name| of(node, name));
    let title = [of(node, "Title"), of(node, "Description")];
    let title: Vec<_> = title.into_iter().filter(|part| !part.is_empty()).collect();
    (!all.is_empty()).then(|| Imported {
        key: Some(key.join("\n")),
        title: title.join(": "),
        unit: match of(node, "Scale") {
            "Seconds" => "s".to_owned(),
            scale => scale.to_owned(),
        },
        lower_is_better: of(node, "Proportion") == "LIB",
        entries: all,
    })
}

fn entry(node: Node<'_, '_>) -> Option<Entry> {
    let name = of(node, "Identifier");
    let mut values: Vec<_> = of(node, "RawString")
        .split(':')
        .filter_map(number)
        .collect();
    if values.is_empty() {
        values.push(number(of(node, "Value"))?);
    }
    (!name.is_empty()).then(|| Entry {
        name: name.to_owned(),
        values,
        is_derived: false,
    })
}
