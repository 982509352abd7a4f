//! Arguments that consist of `key=value` pairs.
//!
//! The rules are those of QEMU's `util/qemu-option.c` and `util/keyval.c`: pairs are separated by
//! commas, a doubled comma in a value is one comma, and a key without a value is `on`, or `off` if
//! it begins with `no`. Members of JSON objects have the dotted keys that QEMU gives them.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::options::Syntax;

/// A pair of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its key, also where the argument leaves it out.
    pub key: String,
    /// Its value, without doubled commas.
    pub value: String,
    /// The word of the command line that it is in.
    pub word: usize,
    /// Bytes of that word that are the pair; of a JSON object, all of it.
    pub bytes: Range<usize>,
    /// Bytes of the word that are the value, as it is written there. None if no part of the word
    /// is the value alone.
    pub value_bytes: Option<Range<usize>>,
}

/// The pairs of an argument, or of several that QEMU merges, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// The value of a key; the last one if there are several.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.field(key).map(|field| &*field.value)
    }

    /// The pair of a key; the last one if there are several.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.0.iter().rev().find(|field| field.key == key)
    }

    /// The value of a key as a Boolean. None if there is none, or it is something else.
    #[must_use]
    pub fn is_on(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(boolean)
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Field> {
        self.0.iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, field: Field) {
        self.0.push(field);
    }

    /// Adds pairs with something before their keys.
    pub(super) fn extend(&mut self, prefix: &str, fields: Self) {
        let fields = fields.0.into_iter().map(|field| Field {
            key: format!("{prefix}{}", field.key),
            ..field
        });
        self.0.extend(fields);
    }
}

/// A Boolean as QEMU reads it (`qapi_bool_parse`).
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "on" | "yes" | "true" | "y" => Some(true),
        "off" | "no" | "false" | "n" => Some(false),
        _ => None,
    }
}

/// A text as a value of a pair: commas are doubled.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(',') {
        Cow::Owned(text.replace(',', ",,"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Reads an argument, which is word number `word`.
///
/// # Errors
/// Why it is no JSON object, if it should be one.
pub(super) fn read(argument: &[u8], syntax: Syntax, word: usize) -> Result<Fields, String> {
    Ok(match syntax {
        Syntax::Flag | Syntax::Text => Fields::default(),
        Syntax::Pairs(implied) => pairs(argument, implied, word),
        Syntax::PairsOrJson(_) if argument.first() == Some(&b'{') => json(argument, word)?,
        Syntax::PairsOrJson(implied) => pairs(argument, implied, word),
        Syntax::Cpu => cpu(argument, word),
    })
}

fn pairs(argument: &[u8], implied: &str, word: usize) -> Fields {
    let mut fields = Fields::default();
    let mut start = 0;
    while start < argument.len() {
        let key_end = find(argument, start, |byte| matches!(byte, b'=' | b','));
        let (key, value, end) = if argument.get(key_end) == Some(&b'=') {
            let value = key_end + 1..value_end(argument, key_end + 1);
            let end = value.end;
            (text(&argument[start..key_end]), Some(value), end)
        } else if start == 0 && !implied.is_empty() {
            let value = 0..value_end(argument, 0);
            let end = value.end;
            (implied.to_owned(), Some(value), end)
        } else {
            (text(&argument[start..key_end]), None, key_end)
        };
        if !key.is_empty() || value.is_some() {
            let (key, given) = match &value {
                Some(value) => (key, text(&argument[value.clone()]).replace(",,", ",")),
                None => match key.strip_prefix("no") {
                    Some(key) => (key.to_owned(), "off".to_owned()),
                    None => (key, "on".to_owned()),
                },
            };
            fields.push(Field {
                key,
                value: given,
                word,
                bytes: start..end,
                value_bytes: value,
            });
        }
        start = end + 1;
    }
    fields
}

/// The end of the value that begins at `start`.
fn value_end(argument: &[u8], start: usize) -> usize {
    let mut at = start;
    loop {
        at = find(argument, at, |byte| byte == b',');
        match argument.get(at + 1) {
            Some(b',') => at += 2,
            _ => return at,
        }
    }
}

fn find(argument: &[u8], start: usize, is: impl Fn(u8) -> bool) -> usize {
    let rest = argument.get(start..).unwrap_or_default();
    let found = rest.iter().position(|byte| is(*byte));
    found.map_or(argument.len(), |at| start + at)
}

/// A CPU model and its features (`x86_cpu_parse_featurestr`). QEMU applies `key=value` first, then
/// `+key`, then `-key`, and so they are in the result.
fn cpu(argument: &[u8], word: usize) -> Fields {
    let (mut set, mut plus, mut minus) = (Fields::default(), Fields::default(), Fields::default());
    let mut start = 0;
    for (place, part) in argument.split(|byte| *byte == b',').enumerate() {
        let bytes = start..start + part.len();
        start = bytes.end + 1;
        if part.is_empty() {
            continue;
        }
        let whole = text(part);
        let add = |to: &mut Fields, key: &str, value: &str, value_bytes| {
            to.push(Field {
                key: key.replace('_', "-"),
                value: value.to_owned(),
                word,
                bytes: bytes.clone(),
                value_bytes,
            });
        };
        if place == 0 {
            add(&mut set, "model", &whole, Some(bytes.clone()));
        } else if let Some(key) = whole.strip_prefix('+') {
            add(&mut plus, key, "on", None);
        } else if let Some(key) = whole.strip_prefix('-') {
            add(&mut minus, key, "off", None);
        } else if let Some(at) = part.iter().position(|byte| *byte == b'=') {
            let value = bytes.start + at + 1..bytes.end;
            let (key, given) = whole.split_once('=').unwrap_or_default();
            add(&mut set, key, given, Some(value));
        } else {
            add(&mut set, &whole, "on", None);
        }
    }
    set.extend("", plus);
    set.extend("", minus);
    set
}

fn json(argument: &[u8], word: usize) -> Result<Fields, String> {
    let value: Value = serde_json::from_slice(argument).map_err(|error| error.to_string())?;
    let mut fields = Fields::default();
    flatten(String::new(), &value, &mut |key, value| {
        fields.push(Field {
            key,
            value,
            word,
            bytes: 0..argument.len(),
            value_bytes: None,
        });
    });
    Ok(fields)
}

/// Members have the keys `a.b`, elements of lists `a.0`.
fn flatten(key: String, value: &Value, add: &mut dyn FnMut(String, String)) {
    let below = |name: &dyn std::fmt::Display| match key.is_empty() {
        true => name.to_string(),
        false => format!("{key}.{name}"),
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                flatten(below(name), value, add);
            }
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                flatten(below(&index), value, add);
            }
        }
        Value::Null => {}
        Value::Bool(is_on) => add(key, if *is_on { "on" } else { "off" }.to_owned()),
        Value::Number(number) => add(key, number.to_string()),
        Value::String(text) => add(key, text.clone()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
