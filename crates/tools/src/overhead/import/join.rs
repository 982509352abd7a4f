//! Results of several files, such as one for each machine, side by side. Pure.

use std::collections::{HashMap, HashSet};

use super::{Entry, ImportError, Imported, hyperfine};

/// Results with two targets or more.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// The results, in the order of the files.
    pub results: Vec<Imported>,
    /// Titles of those that were left out, as they have one target.
    pub left_out: Vec<String>,
}

/// A result, with the number of the file of each entry.
struct Collected {
    result: Imported,
    sources: Vec<usize>,
}

/// Joins results of files, which have their names, by [`super::read`]. Targets of the same result in
/// several files are side by side. A name that several files have is followed by that of the file.
///
/// # Errors
/// If no result has two targets.
pub fn joined(files: Vec<(String, Vec<Imported>)>) -> Result<Joined, ImportError> {
    let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    let several = names.len() > 1;
    let mut places = HashMap::new();
    let mut all: Vec<Collected> = Vec::new();
    for (source, (name, results)) in files.into_iter().enumerate() {
        let mut results: Vec<_> = match several {
            true => results
                .into_iter()
                .flat_map(|result| hyperfine::by_command(result, &name))
                .collect(),
            false => results,
        };
        let entries = results.iter_mut().flat_map(|result| &mut result.entries);
        for entry in entries.filter(|entry| entry.name.is_empty()) {
            entry.name.clone_from(&name);
        }
        // A file that has a result twice has two results.
        let mut times = HashMap::new();
        for mut result in results {
            let key = (
                result.key.clone(),
                result.title.clone(),
                result.unit.clone(),
                result.lower_is_better,
            );
            let time = times.entry(key.clone()).or_insert(0_usize);
            *time += 1;
            let place = result
                .key
                .is_some()
                .then(|| *places.entry((key, *time)).or_insert(all.len()));
            let entries = result.entries.len();
            match place.and_then(|place| all.get_mut(place)) {
                Some(other) => {
                    other.result.entries.append(&mut result.entries);
                    other.sources.extend(vec![source; entries]);
                }
                None => all.push(Collected {
                    result,
                    sources: vec![source; entries],
                }),
            }
        }
    }
    if several {
        tell_apart(&mut all, &names);
    }
    let (found, alone): (Vec<_>, Vec<_>) = all
        .into_iter()
        .map(|one| one.result)
        .partition(|one| one.entries.len() > 1);
    let left_out: Vec<_> = alone.into_iter().map(|one| one.title).collect();
    match (found.is_empty(), several) {
        (false, _) => Ok(Joined {
            results: found,
            left_out,
        }),
        (true, false) => Err(ImportError::Alone(
            "each has one target only; name the files of others behind it".to_owned(),
        )),
        (true, true) => Err(ImportError::Alone(format!(
            "nothing is in two of the files, which have {}",
            left_out.join("; ")
        ))),
    }
}

/// Puts the name of its file behind each name that several files have, and behind the title of a
/// result that is of one file for sure.
fn tell_apart(all: &mut [Collected], files: &[String]) {
    let file = |source: usize| files.get(source).map_or("", String::as_str);
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut shared: HashSet<String> = HashSet::new();
    for one in &*all {
        let entries = one.result.entries.iter().zip(&one.sources);
        for (Entry { name, .. }, source) in entries.filter(|_| one.result.key.is_some()) {
            if first.entry(name).or_insert(*source) != source {
                shared.insert(name.clone());
            }
        }
    }
    for Collected { result, sources } in all {
        if result.key.is_none() {
            let source = sources.first().copied().unwrap_or_default();
            result.title = format!("{} ({})", result.title, file(source));
            continue;
        }
        for (entry, source) in result.entries.iter_mut().zip(sources) {
            if shared.contains(&entry.name) {
                entry.name = format!("{} ({})", entry.name, file(*source));
            }
        }
    }
}
