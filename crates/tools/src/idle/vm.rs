//! Persistent VMs of brisk's: their definitions, with what the rules have to change in them.

use std::ffi::OsString;
use std::ops::Range;

use brisk_vm::cache::Cache;
use brisk_vm::hardware::edit::{self, EditError};
use brisk_vm::qemu::argv;
use serde::Deserialize;
use toml::Spanned;

use super::backup::{self, Backup, Backups};
use super::fix::Fixed;
use super::text::Text;
use crate::guest;
use crate::lint::{ArgumentChange, Edit};
use crate::vm::{self, Definition, VmPaths};

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

/// The definition with an edit: parameters of the kernel are what it says itself, all else is
/// brisk's to decide. Every byte but those of the parameters that change stays.
pub(super) fn edited(text: &str, edit: &Edit) -> Result<String, EditError> {
    let mut text = text.to_owned();
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
    let parameters: Parameters = toml::from_str(text).ok()?;
    let has = |one: &&Spanned<String>| one.get_ref().split_whitespace().any(|one| one == word);
    let mut text = text.to_owned();
    let mut found = false;
    // From the end, so that the places before stay.
    for parameter in parameters.append.iter().rev().filter(has) {
        found = true;
        let rest = parameter.get_ref().split_whitespace();
        let rest: Vec<_> = rest.filter(|one| *one != word).collect();
        let new = match rest.is_empty() {
            true => String::new(),
            false => toml::Value::from(rest.join(" ")).to_string(),
        };
        let mut span = parameter.span();
        if new.is_empty() {
            span = with_comma(&text, span);
        }
        text.replace_range(span, &new);
    }
    found.then_some(text)
}

/// The place of an element of an array, with the comma that goes when the element does: the one
/// behind it, else the one before it.
fn with_comma(text: &str, span: Range<usize>) -> Range<usize> {
    let (before, behind) = (&text[..span.start], &text[span.end..]);
    let blank = |character: char| character.is_whitespace();
    if let Some(rest) = behind.trim_start_matches(blank).strip_prefix(',') {
        let rest = rest.trim_start_matches([' ', '\t']);
        return span.start..text.len() - rest.len();
    }
    match before.trim_end_matches(blank).strip_suffix(',') {
        Some(rest) => rest.len()..span.end,
        None => span,
    }
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
        backups.remove(&path)?;
        return Err(error.into());
    }
    Ok(path.display().to_string())
}

/// Restores the definition that a VM had before the last change.
///
/// # Errors
/// If there is no backup, or somebody else changed the definition since and `force` is not set.
pub fn undo(paths: &VmPaths, backups: &Backups, force: bool) -> Result<Backup, Error> {
    let _lock = paths.lock("undo")?;
    let now = paths.text()?;
    let last = match backups.last(&key(paths, &paths.parse(&now)?))? {
        None => backups.last(&key_of_name(paths))?,
        last => last,
    };
    let Some((path, backup)) = last else {
        return Err(Error::Unchanged(paths.name.clone()));
    };
    // One that was cut off before the change has the definition before.
    let is_known = backup.uri == PLACE && (now == backup.after || now == backup.before);
    if !is_known && !force {
        return Err(Error::Changed {
            name: paths.name.clone(),
            time: backup.time,
            path: path.display().to_string(),
        });
    }
    paths.define_text(&backup.before, false)?;
    backups.remove(&path)?;
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
        ] {
            let text = format!("append = {before}\n");
            let changed = without(&text, "w").unwrap();
            assert_eq!(changed, format!("append = {after}\n"));
            let parsed: Parameters = toml::from_str(&changed).unwrap();
            let words = parsed.append.into_iter().map(Spanned::into_inner);
            assert!(words.into_iter().all(|word| word == "a" || word == "b"));
        }
        assert_eq!(without("append = ['ww']", "w"), None);
        assert_eq!(without("cpus = 1", "w"), None);
    }
}
