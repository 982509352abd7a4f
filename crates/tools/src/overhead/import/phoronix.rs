//! Results of the Phoronix Test Suite: `composite.xml`
//! (pts-core/openbenchmarking.org/schemas/result-file.xsd), and what `result-file-to-json` and
//! `result-file-to-csv` write (pts-core/objects/pts_result_file_output.php). Pure.

use std::collections::HashMap;

use brisk_vm::hardware::document;
use roxmltree::Node;
use serde::Deserialize;
use serde_json::Value;

use super::quantity::Quantity;
use super::{Entry, ImportError, Imported, Origin, number, refused};

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
    let entries = entries.filter_map(|node| {
        let name = of(node, "Identifier");
        entry(name, of(node, "RawString").split(':'), of(node, "Value"))
    });
    let all = together(entries);
    let key = ["Identifier", "AppVersion", "Arguments"].map(|name| of(node, name));
    (!all.is_empty()).then(|| Imported {
        key: Some(key.join("\n")),
        title: title([of(node, "Title"), of(node, "Description")]),
        unit: unit(of(node, "Scale")),
        lower_is_better: of(node, "Proportion") == "LIB",
        entries: all,
    })
}

fn title(parts: [&str; 2]) -> String {
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn unit(scale: &str) -> String {
    match scale {
        "Seconds" => "s".to_owned(),
        scale => scale.to_owned(),
    }
}

/// Systems, each once. One that ran a test again is there again.
fn together(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut places = HashMap::new();
    let mut all: Vec<Entry> = Vec::new();
    for entry in entries {
        let place = *places.entry(entry.name.clone()).or_insert(all.len());
        match all.get_mut(place) {
            Some(other) => {
                // With a mean among them, they are not all runs.
                if entry.origin != other.origin {
                    other.origin = Origin::Mean;
                }
                other.values.extend(entry.values);
            }
            None => all.push(entry),
        }
    }
    all
}

/// A system with its runs, or with the mean of them.
fn entry<'a>(name: &str, runs: impl Iterator<Item = &'a str>, mean: &str) -> Option<Entry> {
    let mut values: Vec<_> = runs.filter_map(number).collect();
    let origin = match values.is_empty() {
        true => Origin::Mean,
        false => Origin::Runs,
    };
    if values.is_empty() {
        values.push(number(mean)?);
    }
    (!name.is_empty()).then(|| Entry {
        name: name.to_owned(),
        values,
        origin,
    })
}

/// A result of the JSON. Older versions have `arguments` and `units`, newer ones the other names.
#[derive(Deserialize)]
struct OfJson {
    #[serde(default)]
    identifier: String,
    #[serde(default)]
    title: String,
    #[serde(default, alias = "arguments")]
    description: Option<String>,
    #[serde(default, alias = "units")]
    scale: Option<String>,
    proportion: Option<String>,
    #[serde(default)]
    results: serde_json::Map<String, Value>,
}

/// Whether JSON has results by their names, as that of the suite has.
pub(super) fn is_json(file: &Value) -> bool {
    file.get("results").is_some_and(Value::is_object)
}

pub(super) fn of_json(file: &Value) -> Result<Vec<Imported>, ImportError> {
    let wrong = |error: serde_json::Error| ImportError::Json(error.to_string());
    let mut found = Vec::new();
    for (name, one) in file["results"].as_object().into_iter().flatten() {
        let one = OfJson::deserialize(one).map_err(wrong)?;
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let entries = one.results.iter().filter_map(|(system, result)| {
            let runs = match (&result["raw_values"], &result["all_results"]) {
                (Value::Array(runs), _) => runs.iter().map(text).collect(),
                (_, runs) => text(runs).split(':').map(str::to_owned).collect::<Vec<_>>(),
            };
            entry(
                system,
                runs.iter().map(String::as_str),
                &text(&result["value"]),
            )
        });
        let entries = together(entries);
        let scale = one.scale.unwrap_or_default();
        let known = match one.proportion.as_deref() {
            Some("LIB") => Some(true),
            Some("HIB") => Some(false),
            _ => Quantity::of(&scale).map(|quantity| quantity.lower_is_better),
        };
        let description = one.description.unwrap_or_default();
        let of_test = [&*one.title, &one.identifier, name];
        let test = of_test.into_iter().find(|part| !part.is_empty());
        let title = title([test.unwrap_or_default(), &description]);
        let Some(lower_is_better) = known else {
            return Err(ImportError::Direction { title, scale });
        };
        if !entries.is_empty() {
            found.push(Imported {
                key: Some(format!("{}\n{description}", one.identifier)),
                title,
                unit: unit(&scale),
                lower_is_better,
                entries,
            });
        }
    }
    Ok(found)
}

/// A line of results of the CSV: its second cell says whether more is better.
fn line_of_csv(line: &str) -> Option<(String, bool, Vec<String>)> {
    if !line.contains(",LIB,") && !line.contains(",HIB,") {
        return None;
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    let mut cells = record.iter().map(|cell| cell.trim().to_owned());
    let (title, proportion) = (cells.next()?, cells.next()?);
    let lower_is_better = match &*proportion {
        "LIB" => true,
        "HIB" => false,
        _ => return None,
    };
    Some((title, lower_is_better, cells.collect()))
}

pub(super) fn is_csv(text: &str) -> bool {
    text.lines().any(|line| line_of_csv(line).is_some())
}

/// The CSV has means, and no units.
pub(super) fn of_csv(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut systems: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if let Some(names) = line.trim_start().strip_prefix(",,") {
            systems = names
                .split("\",\"")
                .map(|name| name.trim_matches('"').to_owned())
                .collect();
            continue;
        }
        let Some((title, lower_is_better, cells)) = line_of_csv(line) else {
            continue;
        };
        if cells.len() != systems.len() {
            let (cells, systems) = (cells.len(), systems.len());
            return Err(refused(
                place + 1,
                line,
                format!("it has {cells} numbers, and the heading {systems} systems"),
            ));
        }
        // A system that did not run the test has an empty cell.
        let entries = systems.iter().zip(&cells);
        let entries = entries.filter_map(|(name, mean)| entry(name, [].into_iter(), mean));
        let entries: Vec<_> = entries.collect();
        let empty = cells.iter().filter(|cell| cell.is_empty()).count();
        if entries.len() + empty != cells.len() {
            return Err(refused(
                place + 1,
                line,
                "one of its cells is no number above 0",
            ));
        }
        let title = title.trim_end_matches([' ', '-']).to_owned();
        found.push(Imported {
            key: Some(format!("csv\n{title}")),
            title,
            unit: String::new(),
            lower_is_better,
            entries,
        });
    }
    found.retain(|one| !one.entries.is_empty());
    Ok(found)
}
