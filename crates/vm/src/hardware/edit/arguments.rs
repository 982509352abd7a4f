//! Changes of QEMU's command line. Options that QEMU merges are changed where the value that counts
//! is written: of `-cpu` the last one, of `-machine` the last one with the property.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;

use super::{EditError, json};
use crate::hardware::parameters;
use crate::qemu::cmdline::{self, CommandLine, Fields, escape};

/// CPU of QEMU's x86 machine types without `-cpu` (`TARGET_DEFAULT_CPU_TYPE` in
/// `target/i386/cpu.h`).
fn default_cpu(line: &CommandLine) -> &'static str {
    let program = line.program().and_then(std::path::Path::to_str);
    match program.is_some_and(|program| program.ends_with("i386")) {
        true => "qemu32",
        false => "qemu64",
    }
}

/// A change of a command line. Words are numbered as [`CommandLine::with_program`] numbers them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentChange {
    /// A feature of the CPU gets a value.
    SetCpu {
        /// The feature.
        key: String,
        /// Its value.
        value: String,
    },
    /// A feature of the CPU is left to the model.
    UnsetCpu(String),
    /// A property of the machine gets a value.
    SetMachine {
        /// The property.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A property of an option that QEMU merges gets a value, such as `cpu-pm` of `-overcommit`.
    SetOption {
        /// The option, without dashes.
        option: &'static str,
        /// The property.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A pair of an argument gets a value.
    Set {
        /// The word of the argument.
        word: usize,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A pair of an argument goes.
    Unset {
        /// The word of the argument.
        word: usize,
        /// The key.
        key: &'static str,
    },
    /// A parameter of the kernel goes.
    CutAppend(String),
    /// Words go.
    Remove(Range<usize>),
    /// Words come in the place of others.
    Replace {
        /// The words that go.
        words: Range<usize>,
        /// Those that come.
        with: Vec<String>,
    },
    /// Words are added before another.
    Insert {
        /// The word that they come before.
        before: usize,
        /// The words.
        words: Vec<String>,
    },
    /// Words are added at the end.
    Add(Vec<String>),
}

/// A word, and those that come before it. One that goes is empty until all changes are made, so that
/// the numbers of words last.
struct Slot {
    before: Vec<OsString>,
    words: Vec<OsString>,
}

impl ArgumentChange {
    /// Makes changes in order. The words' numbers are those before any change.
    ///
    /// # Errors
    /// If something to change is not there, or an argument cannot be read.
    pub fn apply(changes: &[Self], words: &[OsString]) -> Result<Vec<OsString>, EditError> {
        let slot = |word: &OsString| Slot {
            before: Vec::new(),
            words: vec![word.clone()],
        };
        let mut line: Vec<Slot> = words.iter().map(slot).collect();
        let mut added = Vec::new();
        for change in changes {
            change.make(words, &mut line, &mut added)?;
        }
        let line = line
            .into_iter()
            .flat_map(|slot| slot.before.into_iter().chain(slot.words));
        Ok(line.chain(added).collect())
    }

    fn make(
        &self,
        words: &[OsString],
        line: &mut [Slot],
        added: &mut Vec<OsString>,
    ) -> Result<(), EditError> {
        let parsed = CommandLine::with_program(words);
        match self {
            Self::SetCpu { key, value } => {
                let word = argument_of(&parsed, "cpu", |_| true);
                match word {
                    Some(word) => rewrite(line, word, |text| cpu(text, key, Some(value))),
                    None => match added.iter().position(|word| word == "-cpu") {
                        Some(at) => {
                            added[at + 1].push(format!(",{key}={value}"));
                            Ok(())
                        }
                        None => {
                            let text = format!("{},{key}={value}", default_cpu(&parsed));
                            added.extend(["-cpu".into(), text.into()]);
                            Ok(())
                        }
                    },
                }
            }
            Self::UnsetCpu(key) => match argument_of(&parsed, "cpu", |_| true) {
                Some(word) => rewrite(line, word, |text| cpu(text, key, None)),
                None => Err(EditError::Missing("-cpu".into())),
            },
            Self::SetMachine { key, value } => option(&parsed, line, added, "machine", key, value),
            Self::SetOption {
                option: name,
                key,
                value,
            } => option(&parsed, line, added, name, key, value),
            Self::Set { word, key, value } => {
                let name = option_of(&parsed, *word)?;
                rewrite(line, *word, |text| pair(&name, text, key, Some(value)))
            }
            Self::Unset { word, key } => {
                let name = option_of(&parsed, *word)?;
                rewrite(line, *word, |text| pair(&name, text, key, None))
            }
            Self::CutAppend(parameter) => {
                let machine = parsed.machine();
                let word = machine.field("append").map(|field| field.word);
                let word = word.ok_or_else(|| EditError::Missing("-append".into()))?;
                let is_whole = option_of(&parsed, word)? == "append";
                rewrite(line, word, |text| match is_whole {
                    true => parameters::without(text, parameter)
                        .ok_or_else(|| EditError::Missing(parameter.clone())),
                    false => without_word(text, parameter),
                })
            }
            Self::Remove(range) => replace(line, range, &[]),
            Self::Replace { words, with } => replace(line, words, with),
            Self::Insert { before, words } => {
                let slot = line.get_mut(*before).ok_or_else(|| missing(*before))?;
                slot.before.extend(words.iter().map(OsString::from));
                Ok(())
            }
            Self::Add(words) => {
                added.extend(words.iter().map(OsString::from));
                Ok(())
            }
        }
    }
}

fn replace(line: &mut [Slot], range: &Range<usize>, with: &[String]) -> Result<(), EditError> {
    let missing = || missing(range.start);
    let slots = line.get_mut(range.clone()).ok_or_else(missing)?;
    for slot in slots.iter_mut() {
        slot.words.clear();
    }
    let first = slots.first_mut().ok_or_else(missing)?;
    first.words.extend(with.iter().map(OsString::from));
    Ok(())
}

fn missing(word: usize) -> EditError {
    EditError::Missing(format!("word {word}"))
}

/// The argument of the last option of a name that `fits`.
fn argument_of(line: &CommandLine, name: &str, fits: impl Fn(&Fields) -> bool) -> Option<usize> {
    let mut items = line.all(name).rev();
    let found = items.find(|item| item.fields().is_ok_and(|fields| fits(&fields)))?;
    found.argument.as_ref().map(|argument| argument.word)
}

/// The option whose argument is a word.
fn option_of(line: &CommandLine, word: usize) -> Result<String, EditError> {
    let mut items = line.items().iter();
    let found = items.find(|item| item.argument.as_ref().is_some_and(|one| one.word == word));
    found
        .map(|item| item.name.clone())
        .ok_or_else(|| missing(word))
}

fn rewrite(
    line: &mut [Slot],
    word: usize,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), EditError> {
    let slot = line.get_mut(word).and_then(|slot| slot.words.first_mut());
    let slot = slot.ok_or_else(|| missing(word))?;
    let text = slot
        .to_str()
        .ok_or_else(|| EditError::Argument(lossy(slot)))?;
    *slot = change(text)?.into();
    Ok(())
}

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Sets a property of an option whose repetitions QEMU merges.
fn option(
    parsed: &CommandLine,
    line: &mut [Slot],
    added: &mut Vec<OsString>,
    name: &str,
    key: &str,
    value: &str,
) -> Result<(), EditError> {
    let with_key = argument_of(parsed, name, |fields| fields.get(key).is_some());
    let word = with_key.or_else(|| argument_of(parsed, name, |_| true));
    match word {
        Some(word) => rewrite(line, word, |text| pair(name, text, key, Some(value))),
        None => {
            let text = format!("{key}={}", escape(value));
            added.extend([format!("-{name}").into(), text.into()]);
            Ok(())
        }
    }
}

/// Sets a pair of an argument, or removes it.
fn pair(option: &str, text: &str, key: &str, value: Option<&str>) -> Result<String, EditError> {
    if text.starts_with('{') {
        return json::set(text, key, value).ok_or_else(|| EditError::Argument(text.to_owned()));
    }
    let fields = cmdline::fields(option, text).unwrap_or_default();
    let same = |one: &str| one.replace('_', "-") == key.replace('_', "-");
    let mut text = text.to_owned();
    let found: Vec<_> = fields.iter().filter(|field| same(&field.key)).collect();
    let Some(value) = value else {
        for field in found.iter().rev() {
            // With the comma before it; the first has none.
            let range = match field.bytes.start {
                0 => 0..(field.bytes.end + 1).min(text.len()),
                start => start - 1..field.bytes.end,
            };
            text.replace_range(range, "");
        }
        return Ok(text);
    };
    match found.last() {
        Some(field) => match &field.value_bytes {
            Some(bytes) => text.replace_range(bytes.clone(), &escape(value)),
            None => {
                let pair = format!("{}={}", field.key, escape(value));
                text.replace_range(field.bytes.clone(), &pair);
            }
        },
        None if text.is_empty() => text = format!("{key}={}", escape(value)),
        None => text.push_str(&format!(",{key}={}", escape(value))),
    }
    Ok(text)
}

/// Sets a feature in the argument of `-cpu`, or leaves it out.
fn cpu(text: &str, key: &str, value: Option<&str>) -> Result<String, EditError> {
    let named = |part: &str| {
        let part = part.strip_prefix(['+', '-']).unwrap_or(part);
        let name = part.split('=').next().unwrap_or_default();
        name.replace('_', "-") == key
    };
    let mut parts: Vec<String> = Vec::new();
    let mut is_set = value.is_none();
    for (place, part) in text.split(',').enumerate() {
        match value {
            _ if place == 0 || !named(part) => parts.push(part.to_owned()),
            Some(value) if !is_set => {
                parts.push(format!("{key}={value}"));
                is_set = true;
            }
            _ => {}
        }
    }
    if let Some(value) = value.filter(|_| !is_set) {
        parts.push(format!("{key}={value}"));
    }
    Ok(parts.join(","))
}

fn without_word(text: &str, word: &str) -> Result<String, EditError> {
    // In -machine append=… a comma ends the value.
    let mut from = 0;
    while let Some(found) = text[from..].find(word) {
        let (start, end) = (from + found, from + found + word.len());
        let before = text[..start].chars().next_back();
        let behind = text[end..].chars().next();
        let begins = before.is_none_or(|c| c == ' ' || c == '=');
        if begins && behind.is_none_or(|c| c == ' ' || c == ',') {
            let head = &text[..start];
            let tail = &text[end..];
            return Ok(match (head.strip_suffix(' '), tail.strip_prefix(' ')) {
                (Some(head), _) => format!("{head}{tail}"),
                (None, Some(tail)) => format!("{head}{tail}"),
                (None, None) => format!("{head}{tail}"),
            });
        }
        from = end;
    }
    Err(EditError::Missing(word.to_owned()))
}

impl fmt::Display for ArgumentChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetCpu { key, value } => write!(formatter, "-cpu …,{key}={value}"),
            Self::UnsetCpu(key) => write!(formatter, "-cpu without {key}"),
            Self::SetMachine { key, value } => write!(formatter, "-machine {key}={value}"),
            Self::SetOption { option, key, value } => {
                write!(formatter, "-{option} {key}={value}")
            }
            Self::Set { key, value, .. } => write!(formatter, "{key}={value}"),
            Self::Unset { key, .. } => write!(formatter, "without {key}"),
            Self::CutAppend(word) => write!(formatter, "-append without {word}"),
            Self::Remove(_) => write!(formatter, "without it"),
            Self::Replace { with, .. } => write!(formatter, "{} instead", with.join(" ")),
            Self::Insert { words, .. } | Self::Add(words) => formatter.write_str(&words.join(" ")),
        }
    }
}
