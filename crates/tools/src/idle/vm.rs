//! Persistent VMs of brisk's: their definitions, with what the rules have to change in them.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use brisk_vm::cache::Cache;
use brisk_vm::hardware::edit::{self, EditError};
use brisk_vm::hardware::parameters;
use brisk_vm::qemu::argv;
use serde::Deserialize;
use toml::Spanned;

use super::backup::{self, Backup, Backups, Kept};
use super::fix::Fixed;
use super::text::Text;
use crate::guest;
use crate::vm::{self, Definition, StateDirs, VmPaths};
use brisk_lint::{ArgumentChange, Edit};

/// Says that a backup is of a VM, and not of a domain of libvirt's.
const PLACE: &str = "brisk";

/// A definition that cannot be looked at, changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read or written.
    #[error(transparent)]
    Vm(#[from] vm::Error),
    /// It cannot be started as it is.
    #[error(transparent)]
    Plan(#[from] guest::Error),
    /// The backup cannot be kept or read.
    #[error(transparent)]
    Backup(#[from] backup::Error),
    /// Somebody changed it since it was looked at.
    #[error("the definition of VM {0} was changed by somebody else just now; try again")]
    Raced(String),
    /// Somebody changed it since brisk did.
    #[error(
        "the definition of VM {name} was changed by somebody since brisk idle fix changed it on \
         {time}: the one before that is in {path}, under \"before\"; --force restores it, and what \
         was changed since is lost"
    )]
    Changed {
        /// The VM.
        name: String,
        /// Time of brisk's change.
        time: String,
        /// File of the backup.
        path: String,
    },
    /// It was changed after the change that is to be undone.
    #[error("VM {name} was changed once more, on {time}: undo that first, with --vm")]
    Later {
        /// The VM.
        name: String,
        /// Time of the last change.
        time: String,
    },
    /// What it is now cannot be read.
    #[error(
        "the definition of VM {name} cannot be read; put it right, or restore the one from before \
         brisk idle fix changed it with --force"
    )]
    Broken {
        /// The VM.
        name: String,
        /// The defect.
        source: vm::Error,
    },
    /// brisk has not changed it.
    #[error("there is no backup of VM {0}: brisk idle fix has not changed it, or it was undone")]
    Unchanged(String),
}

/// The definition of a VM, with the command line that it would be started with.
///
/// # Errors
/// If there is no such VM, or this host cannot start it.
pub fn read(paths: &VmPaths, cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Text, Error> {
    let text = paths.text()?;
    let options = paths.options(&paths.parse(&text)?)?;
    let facts = guest::gather_and_probe(&options, cache, progress)?;
    let plan = guest::plan(&options, &facts)?;
    progress("");
    let program = OsString::from(&plan.machine.program);
    let words = argv(&plan.machine).into_iter().flat_map(|part| part.words);
    let words = std::iter::once(program).chain(words.map(OsString::from));
    Ok(Text::Vm {
        text,
        words: words.collect(),
    })
}

/// The kernel's parameters in a definition, with their places.
#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    append: Vec<Spanned<String>>,
}

/// Whether huge pages are memory's in a definition, with its place.
#[derive(Deserialize)]
struct HugePages {
    #[serde(rename = "huge-pages")]
    huge_pages: Spanned<bool>,
}

/// Whether a definition allows no huge pages.
pub(super) fn has_small_pages(text: &str) -> bool {
    toml::from_str::<HugePages>(text).is_ok_and(|found| !found.huge_pages.get_ref())
}

/// The definition with an edit: parameters of the kernel and huge pages are what it says itself,
/// all else is brisk's to decide. Every byte but those that change stays.
pub(super) fn edited(text: &str, edit: &Edit) -> Result<String, EditError> {
    let mut text = text.to_owned();
    if edit.allows_huge_pages() {
        let missing = |_| EditError::Missing("huge-pages".into());
        let found: HugePages = toml::from_str(&text).map_err(missing)?;
        text.replace_range(found.huge_pages.span(), "true");
    }
    for change in edit.arguments() {
        let ArgumentChange::Exact(edit::ArgumentChange::CutAppend(word)) = change else {
            return Err(EditError::Missing(format!(
                "setting for it in the definition of a VM of brisk's ({})",
                edit.as_arguments()
            )));
        };
        let missing = || EditError::Missing(format!("{word} in append"));
        text = without(&text, word).ok_or_else(missing)?;
    }
    Ok(text)
}

/// The definition without a word in its kernel parameters; None if it is not there. One parameter
/// may have several words.
fn without(text: &str, word: &str) -> Option<String> {
    let places: Parameters = toml::from_str(text).ok()?;
    let mut text = text.to_owned();
    let mut found = false;
    // From the end, so that the places before stay.
    for (number, parameter) in places.append.iter().enumerate().rev() {
        let Some(rest) = parameters::without(parameter.get_ref(), word) else {
            continue;
        };
        found = true;
        let span = parameter.span();
        if rest.trim().is_empty() {
            let before = number
                .checked_sub(1)
                .map(|before| places.append[before].span());
            let (place, comma) = with_comma(&text, span, before);
            if let Some(comma) = comma {
                text.remove(comma);
            }
            text.replace_range(place, "");
        } else {
            text.replace_range(span, &toml::Value::from(rest.trim()).to_string());
        }
    }
    found.then_some(text)
}

/// The place of an element of an array, with the comma that goes when the element does: the one
/// behind it, else the one between it and the element `before`. Comments stay; the place of a comma
/// that is behind one is given by itself.
fn with_comma(
    text: &str,
    span: Range<usize>,
    before: Option<Range<usize>>,
) -> (Range<usize>, Option<usize>) {
    let is_blank = |text: &str| text.trim().is_empty();
    if let Some(at) = comma(&text[span.end..]).map(|at| span.end + at) {
        if !is_blank(&text[span.end..at]) {
            return (span, Some(at));
        }
        let rest = text[at + 1..].trim_start_matches([' ', '\t']);
        return (span.start..text.len() - rest.len(), None);
    }
    let gap = before.map_or(span.start, |before| before.end)..span.start;
    match comma(&text[gap.clone()]).map(|at| gap.start + at) {
        Some(at) if is_blank(&text[at + 1..span.start]) => (at..span.end, None),
        // A comment would end behind it, and a comma may stay at the end.
        _ => (span, None),
    }
}

/// Place of the first comma of a text that begins between two elements of an array, if the second
/// does not come before it.
fn comma(text: &str) -> Option<usize> {
    let mut is_comment = false;
    for (at, character) in text.char_indices() {
        match character {
            '\n' => is_comment = false,
            _ if is_comment => {}
            ',' => return Some(at),
            '#' => is_comment = true,
            character if character.is_whitespace() => {}
            _ => return None,
        }
    }
    None
}

/// Whether a backup is of a VM of brisk's, and not of a domain.
#[must_use]
pub fn is_of_vm(backup: &Backup) -> bool {
    backup.uri == PLACE
}

/// Key of a VM's backups.
fn key(paths: &VmPaths, definition: &Definition) -> String {
    let uuid = definition.uuid.clone();
    uuid.unwrap_or_else(|| key_of_name(paths))
}

/// Key of those of a VM that had no UUID when they were made; `brisk vm set` gives it one.
fn key_of_name(paths: &VmPaths) -> String {
    format!("vm-{}", paths.name)
}

/// Replaces the definition `before` by the fixed one. It counts from the next start on. The result
/// is the file of the backup.
///
/// # Errors
/// If somebody else changed it meanwhile, or it cannot be written. It is as it was then.
pub fn apply(
    paths: &VmPaths,
    before: &str,
    fixed: &Fixed,
    backups: &Backups,
    time: String,
) -> Result<String, Error> {
    let Text::Vm { text: after, .. } = &fixed.text else {
        return Err(Error::Unchanged(paths.name.clone()));
    };
    let _lock = paths.lock("fix")?;
    if paths.text()? != before {
        return Err(Error::Raced(paths.name.clone()));
    }
    let key = key(paths, &paths.parse(before)?);
    let mut backup = Backup::new(PLACE, &key, &paths.name, time, before.to_owned());
    let rules = fixed.applied.iter();
    backup.rules = rules.map(|finding| finding.rule.to_owned()).collect();
    // Nothing but what is written here can be in the file afterwards.
    backup.after.clone_from(after);
    let path = backups.add(&backup)?;
    if let Err(error) = paths.define_text(after, false) {
        // It may have been written, and only not be on the disk.
        if paths.text().is_ok_and(|text| text == before) {
            backups.remove(&path)?;
        }
        return Err(error.into());
    }
    Ok(path.display().to_string())
}

/// The VM that a backup is of now: of its name, or with its UUID if there is none of its name.
///
/// # Errors
/// [`vm::Error::Unknown`] if there is none.
pub fn of_backup(dirs: &StateDirs, backup: &Backup) -> Result<VmPaths, Error> {
    let paths = dirs.vm(&backup.name)?;
    if paths.file().symlink_metadata().is_ok() {
        return Ok(paths);
    }
    let mut others = dirs.names().into_iter().filter_map(|name| {
        let other = dirs.vm(&name).ok()?;
        let uuid = other.definition().ok()?.uuid?;
        (uuid == backup.uuid).then_some(other)
    });
    match (others.next(), paths.text()) {
        (Some(renamed), _) => Ok(renamed),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(_)) => Ok(paths),
    }
}

/// The last backup of a VM. VMs may have one UUID, if the definition of one was copied.
fn last_of(
    paths: &VmPaths,
    uuid: Option<String>,
    backups: &Backups,
) -> Result<Option<Kept>, backup::Error> {
    let is_own = |backup: &Backup| is_of_vm(backup) && backup.name == paths.name;
    // What has another name was made before this one was renamed, unless that is another VM.
    let had_other_name = |backup: &Backup| {
        let other = paths.beside(&backup.name);
        is_of_vm(backup) && other.is_ok_and(|other| other.file().symlink_metadata().is_err())
    };
    if let Some(uuid) = uuid {
        let own = backups.last_where(&uuid, is_own)?;
        let found = match own {
            None => backups.last_where(&uuid, had_other_name)?,
            own => own,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    backups.last_where(&key_of_name(paths), is_own)
}

/// Restores the definition that a VM had before the last change. With `only`, that has to be the
/// one in this file.
///
/// # Errors
/// If there is no backup, or somebody else changed the definition since and `force` is not set.
pub fn undo(
    paths: &VmPaths,
    backups: &Backups,
    only: Option<&Path>,
    force: bool,
) -> Result<Backup, Error> {
    let name = || paths.name.clone();
    let _lock = paths.lock("undo")?;
    let now = match paths.text() {
        Err(error @ (vm::Error::Unknown { .. } | vm::Error::Undefined { .. })) => {
            return Err(error.into());
        }
        text => text.and_then(|text| Ok((paths.parse(&text)?.uuid, text))),
    };
    let (last, now) = match now {
        Ok((uuid, text)) => (last_of(paths, uuid, backups)?, text),
        Err(source) if !force => {
            let name = name();
            return Err(Error::Broken { name, source });
        }
        // Whatever UUID it had.
        Err(_) => {
            let is_own = |backup: &Backup| is_of_vm(backup) && backup.name == paths.name;
            (backups.last_of_all(is_own)?, String::new())
        }
    };
    let Some(Kept { path, mut backup }) = last else {
        return Err(Error::Unchanged(name()));
    };
    if only.is_some_and(|only| only != path) {
        return Err(Error::Later {
            name: name(),
            time: backup.time,
        });
    }
    // One that was cut off before the change has the definition before.
    let is_known = now == backup.after || now == backup.before;
    if !is_known && !force {
        return Err(Error::Changed {
            name: name(),
            time: backup.time,
            path: path.display().to_string(),
        });
    }
    paths.define_text(&backup.before, false)?;
    backups.remove(&path)?;
    backup.name = name();
    Ok(backup)
}

#[cfg(test)]
mod tests {
    use brisk_vm::hardware::GuestHardware;
    use brisk_vm::qemu::cmdline::CommandLine;

    use super::*;

    fn edit(change: edit::ArgumentChange) -> Edit {
        Edit::of(&GuestHardware::of_arguments(&CommandLine::with_program::<
            OsString,
        >(&[])))
        .exact(change)
    }

    #[test]
    fn only_what_a_definition_says_can_be_cut() {
        let definition = "# mine\ncpus = 2 # two\nappend = [ # for the shop\n  'quiet  nohz=off', \
                          # no\n  \"nohz=off\", # never\n  \"nohz=offset\"\n] # end\nmemory = \"1G\"\n";
        let nohz = edit(edit::ArgumentChange::CutAppend("nohz=off".into()));
        let changed = edited(definition, &nohz).unwrap();
        assert_eq!(
            changed,
            "# mine\ncpus = 2 # two\nappend = [ # for the shop\n  \"quiet\", # no\n  # never\n  \
             \"nohz=offset\"\n] # end\nmemory = \"1G\"\n"
        );
        let error = edited(&changed, &nohz).unwrap_err().to_string();
        assert_eq!(error, "there is no nohz=off in append to change");
        let machine = edit(edit::ArgumentChange::SetMachine {
            key: "hpet",
            value: "off".into(),
        });
        let error = edited(definition, &machine).unwrap_err().to_string();
        assert!(error.contains("-machine hpet=off"), "{error}");
    }

    #[test]
    fn an_element_goes_with_its_comma() {
        for (before, after) in [
            ("['w']", "[]"),
            ("[ 'w', ]", "[ ]"),
            ("['w', 'a']", "['a']"),
            ("['a', 'w']", "['a']"),
            ("['a' , 'w' , 'b']", "['a' , 'b']"),
            ("[\"a\",\n 'w',\n 'w'\n]", "[\"a\"\n]"),
            ("['a',\n 'w' # why\n]", "['a' # why\n]"),
            ("['a', # why\n 'w']", "['a', # why\n ]"),
            ("[\"\"\"w\n\"\"\", 'a w']", "[\"a\"]"),
            ("['w' # one, two\n, 'a']", "[ # one, two\n 'a']"),
            ("['a', # one,\n 'w']", "['a', # one,\n ]"),
            ("[ # one,\n 'w' ]", "[ # one,\n  ]"),
            ("['a' # one,\n , 'w']", "['a' # one,\n ]"),
            ("['b=\"a  w b\" w']", "['b=\"a  w b\"']"),
        ] {
            let text = format!("append = {before}\n");
            let changed = without(&text, "w").unwrap();
            assert_eq!(changed, format!("append = {after}\n"));
            let parsed: Parameters = toml::from_str(&changed).unwrap();
            let words = parsed.append.into_iter().map(Spanned::into_inner);
            assert!(
                words
                    .into_iter()
                    .all(|word| !word.contains('w') || word == "b=\"a  w b\"")
            );
        }
        for text in ["append = ['ww']", "append = ['b=\"a w b\"', '-- w']"] {
            assert_eq!(without(text, "w"), None);
        }
        assert_eq!(without("cpus = 1", "w"), None);
    }
}
