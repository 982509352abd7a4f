//! `-global` and `-set`.

use super::options::Syntax;
use super::{CommandLine, Error, Field, fields};

/// A property that every device of a driver gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// The driver, such as `kvm-pit`.
    pub driver: String,
    /// The property.
    pub property: String,
    /// Its value.
    pub value: String,
    /// The word that says so.
    pub word: usize,
}

/// A property of an option with an identifier that is set from outside: `-set
/// device.net0.romfile=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The option, such as `device` or `drive`.
    pub option: String,
    /// The identifier.
    pub id: String,
    /// The key and its value.
    pub field: Field,
}

/// The globals, and what of them cannot be read.
pub(super) fn read(line: &CommandLine) -> (Vec<Global>, Vec<Error>) {
    let (mut globals, mut errors) = (Vec::new(), Vec::new());
    for item in line.all("global") {
        let Some(argument) = &item.argument else {
            continue;
        };
        let text = item.text();
        match short(&text).or_else(|| long(&text)) {
            Some([driver, property, value]) => globals.push(Global {
                driver,
                property,
                value,
                word: argument.word,
            }),
            None => errors.push(incomplete("global", argument.word, &text)),
        }
    }
    for item in line.all("set") {
        if let Some(argument) = item
            .argument
            .as_ref()
            .filter(|_| parts(&item.text()).is_none())
        {
            errors.push(incomplete("set", argument.word, &item.text()));
        }
    }
    (globals, errors)
}

fn incomplete(option: &'static str, word: usize, text: &str) -> Error {
    Error::Incomplete {
        word,
        option,
        text: text.to_owned(),
    }
}

/// `driver.property=value`, whose value has no escapes (`qemu_global_option`).
fn short(text: &str) -> Option<[String; 3]> {
    let (name, value) = text.split_once('=')?;
    let (driver, property) = name.split_once('.')?;
    let is_complete = !driver.is_empty() && !property.is_empty();
    is_complete.then(|| [driver, property, value].map(str::to_owned))
}

/// `driver=…,property=…,value=…`
fn long(text: &str) -> Option<[String; 3]> {
    let fields = fields::read(text.as_bytes(), Syntax::Pairs(""), 0).ok()?;
    let get = |key| fields.get(key).map(str::to_owned);
    Some([get("driver")?, get("property")?, get("value")?])
}

/// `option.id.key=value` (`qemu_set_option`).
fn parts(text: &str) -> Option<[&str; 4]> {
    let (name, value) = text.split_once('=')?;
    let mut parts = name.splitn(3, '.');
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    let is_complete = parts.iter().all(|part| !part.is_empty());
    is_complete.then(|| [parts[0], parts[1], parts[2], value])
}

pub(super) fn set(line: &CommandLine) -> Vec<Setting> {
    let settings = line.all("set").filter_map(|item| {
        let text = item.text();
        let [option, id, key, value] = parts(&text)?;
        let start = text.len() - value.len();
        Some(Setting {
            option: option.to_owned(),
            id: id.to_owned(),
            field: Field {
                value_bytes: Some(start..text.len()),
                ..item.pair(key, value)
            },
        })
    });
    settings.collect()
}
