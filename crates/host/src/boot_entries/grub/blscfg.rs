//! Entries of the Boot Loader Specification in GRUB, as Red Hat's `grub-core/commands/blscfg.c`
//! makes them.

use std::path::{Path, PathBuf};

use super::super::bls::{Keys, compare_names};
use super::condition::number;
use super::parser::parse;
use super::state::{Dialect, FAILED, Interpreter, Item, OK};

/// Directories of entries, the first one that is there.
const DIRECTORIES: [&str; 2] = ["/loader/entries", "/boot/loader/entries"];
/// Note where there is no such directory: it may be on a file system that is not mounted.
pub(super) const NO_ENTRIES: &str = "blscfg, whose directory of entries was not found";
/// Note where upstream's GRUB is told what is not known here.
const OPTIONS: &str = "options of blscfg";
/// Bytes of the options of an entry at most.
const LONGEST: usize = 64 << 10;

struct Entry {
    /// Name of the file without `.conf`.
    name: String,
    path: PathBuf,
    keys: Keys,
}

/// The command `blscfg`, or `bls_import`.
pub(super) fn blscfg(interpreter: &mut Interpreter, arguments: &[String]) -> u32 {
    interpreter.dialect = Dialect::RedHat;
    let asked = Asked::read(arguments);
    if asked.is_unknown {
        interpreter.log.unanswered.insert(OPTIONS);
        interpreter.log.is_unsure = true;
    }
    let given = asked.name;
    let Some(entries) = entries(interpreter, &asked) else {
        return FAILED;
    };
    let default = interpreter.get("default").to_owned();
    for (index, entry) in entries.iter().enumerate() {
        let is_default = is_default(&default, entry, index);
        let is_wanted = match given {
            "default" => is_default,
            "non-default" => !is_default,
            _ => given.is_empty() || given.starts_with('(') || given == entry.name,
        };
        if is_wanted {
            create(interpreter, entry);
        }
    }
    OK
}

/// Arguments: of Red Hat's command one word, of upstream's options.
#[derive(Debug, Default)]
struct Asked<'a> {
    /// `default`, `non-default`, a name, or a directory that begins with its device.
    name: &'a str,
    /// Directory of `--path`.
    path: Option<&'a str>,
    is_unknown: bool,
}

impl<'a> Asked<'a> {
    fn read(arguments: &'a [String]) -> Self {
        let mut asked = Self::default();
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some(("--path", path)) => asked.path = Some(path),
                None if matches!(word, "--path" | "-p") => asked.path = words.next(),
                None if matches!(word, "--enable-fallback" | "-f") => {}
                _ if word.starts_with('-') => asked.is_unknown = true,
                _ if asked.name.is_empty() => asked.name = word,
                _ => {}
            }
        }
        asked
    }
}

/// Entries, the newest first.
fn entries(interpreter: &mut Interpreter, asked: &Asked<'_>) -> Option<Vec<Entry>> {
    let Some(directory) = directory(interpreter, asked) else {
        if interpreter.log.unreadable.borrow().is_empty() {
            interpreter.log.unanswered.insert(NO_ENTRIES);
        }
        return None;
    };
    let names = interpreter.tree.names(&directory);
    let names = names.inspect_err(|error| interpreter.note(&directory, error));
    let names = names.ok()?;
    interpreter.charge(names.len());
    let mut entries: Vec<Entry> = Vec::new();
    for file in names {
        if interpreter.is_exhausted() {
            interpreter.cut();
            return None;
        }
        let Some(name) = file
            .strip_suffix(".conf")
            .filter(|it| !it.starts_with('.') && !it.is_empty())
        else {
            continue;
        };
        let path = directory.join(&file);
        let Some(text) = interpreter.entry_text(&path) else {
            continue;
        };
        entries.push(Entry {
            name: name.to_owned(),
            path,
            keys: Keys::up_to_gap(&text),
        });
    }
    entries.sort_by(|a, b| compare_names(&b.name, &a.name));
    Some(entries)
}

fn directory(interpreter: &Interpreter, asked: &Asked<'_>) -> Option<PathBuf> {
    let configured = interpreter.get("blsdir");
    let given = asked.path.unwrap_or(asked.name);
    let is_path = asked.path.is_some() || given.starts_with('(');
    let candidates: Vec<&str> = match (is_path, configured) {
        (true, _) => vec![given],
        (false, "") => DIRECTORIES.to_vec(),
        (false, configured) => vec![configured, DIRECTORIES[1]],
    };
    candidates
        .into_iter()
        .filter_map(|path| interpreter.locate(path.trim_end_matches('/')))
        .map(|located| located.path)
        .find(|path| interpreter.is_dir(path))
}

fn is_default(default: &str, entry: &Entry, index: usize) -> bool {
    default == entry.name
        || entry
            .keys
            .first("title")
            .is_some_and(|title| title == default)
        || number(default) == Some(index as u64)
}

/// Adds the entry to the menu.
fn create(interpreter: &mut Interpreter, entry: &Entry) {
    let Some(kernel) = entry.keys.first("linux") else {
        return;
    };
    let options = match entry.keys.first("options") {
        Some(options) => replaced(options, interpreter),
        None => replaced(interpreter.get("default_kernelopts"), interpreter),
    };
    let mut script = format!("linux ($root){kernel} {options}\n");
    let initrds: Vec<_> = entry.keys.all("initrd").collect();
    let early = interpreter.get("early_initrd").to_owned();
    let beside = initrds.first().copied().unwrap_or(kernel);
    let beside = &beside[..beside.rfind('/').map_or(0, |at| at + 1)];
    let early = early.split(' ').filter(|it| !it.is_empty());
    let mut files: Vec<_> = early.map(|it| format!("($root){beside}{it}")).collect();
    files.extend(initrds.iter().map(|it| format!("($root){it}")));
    if !files.is_empty() {
        script.push_str(&format!("initrd {}\n", files.join(" ")));
    }
    let (body, wrong) = parse(&script);
    interpreter.log.wrong_lines += wrong;
    let title = entry.keys.first("title").unwrap_or(kernel).to_owned();
    let mut parameters = vec![title.clone()];
    parameters.extend(entry.keys.all("grub_arg").map(str::to_owned));
    interpreter.add(Item {
        title,
        id: entry.name.clone(),
        parameters,
        body,
        is_submenu: false,
        source: Some(Path::new("/").join(&entry.path)),
    });
}

/// Text with variables such as `$kernelopts` replaced by their values and a space.
fn replaced(text: &str, interpreter: &Interpreter) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        found.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if found.ends_with('\\') {
            found.push('$');
            rest = after;
            continue;
        }
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(after.len());
        let value = interpreter.get(&after[..end]);
        let is_set = !value.is_empty() && found.len() + value.len() <= LONGEST;
        if is_set {
            found.push_str(value);
            found.push(' ');
        }
        rest = &after[end..];
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    // `expand_val` loses a rest of one character.
    if rest.len() > 1 {
        found.push_str(rest);
    }
    found.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::super::mounts::Mounts;
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn variables_end_with_a_space() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let mounts = Mounts::read(&tree);
        let mut interpreter = Interpreter::new(&tree, &mounts);
        interpreter.set("kernelopts", "root=/dev/x ro ");
        interpreter.set("tuned", "isolcpus=1");
        for (text, expected) in [
            ("$kernelopts $tuned", "root=/dev/x ro  isolcpus=1"),
            ("$kernelopts $no", "root=/dev/x ro"),
            ("a $no bc", "a bc"),
            ("root=UUID=1 ro", "root=UUID=1 ro"),
            ("$kernelopts rhgb", "root=/dev/x ro  rhgb"),
            (r"a\$kernelopts", r"a\$kernelopts"),
            ("$kernelopts 3", "root=/dev/x ro"),
            ("$kernelopts rhgb 3", "root=/dev/x ro  rhgb 3"),
        ] {
            assert_eq!(replaced(text, &interpreter), expected, "{text}");
        }
    }
}
