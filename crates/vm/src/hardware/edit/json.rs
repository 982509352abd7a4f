//! Changes of a JSON object in its text: everything else keeps its bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;
use serde_json::value::RawValue;

/// Sets a member of an object, or removes it. None if the text is no object.
pub(super) fn set(text: &str, key: &str, value: Option<&str>) -> Option<String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let place = |raw: &RawValue| {
        let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
        start..start + raw.get().len()
    };
    let mut changed = text.to_owned();
    match (members.get(key), value) {
        (Some(raw), Some(value)) => changed.replace_range(place(raw), &like(raw.get(), value)),
        (Some(raw), None) => changed.replace_range(member(text, &place(raw))?, ""),
        (None, Some(value)) => {
            let close = text.rfind('}')?;
            let comma = if members.is_empty() { "" } else { "," };
            let key = Value::from(key);
            changed.insert_str(close, &format!("{comma}{key}:{}", literal(value)));
        }
        (None, None) => {}
    }
    Some(changed)
}

/// A value of the kind of one that is there.
fn like(old: &str, value: &str) -> String {
    if old.starts_with('"') {
        Value::from(value).to_string()
    } else {
        literal(value)
    }
}

fn literal(value: &str) -> String {
    match value {
        "on" => "true".to_owned(),
        "off" => "false".to_owned(),
        number if number.parse::<u64>().is_ok() => number.to_owned(),
        text => Value::from(text).to_string(),
    }
}

/// The bytes of a member, by those of its value, with the comma that goes with it.
fn member(text: &str, value: &Range<usize>) -> Option<Range<usize>> {
    let before = text[..value.start].trim_end().strip_suffix(':')?.trim_end();
    let name = before.strip_suffix('"')?;
    // A quote of a name is written with a backslash; names of properties have none.
    let start = name.rfind('"')?;
    let head = text[..start].trim_end();
    if let Some(head) = head.strip_suffix(',') {
        return Some(head.len()..value.end);
    }
    let behind = &text[value.end..];
    let rest = behind.trim_start();
    let comma = rest
        .strip_prefix(',')
        .map_or(0, |rest| behind.len() - rest.trim_start().len());
    Some(start..value.end + comma)
}
