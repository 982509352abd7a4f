//! Whether what is committed agrees with the command line, and holds on other machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;

use crate::sections::Part;
use crate::{examples, reference, sections};

/// Everything that is wrong, one line each.
pub(crate) fn problems(repository: &Path, command: &Command) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    stale(&mut problems, repository, command)?;
    unplaced(&mut problems, command);
    for dir in ["crates", "guest", "xtask", "fuzz"] {
        homes(&mut problems, repository, &repository.join(dir))?;
    }
    for path in documents(repository)? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(repository).unwrap_or(&path);
        for example in examples::examples(&text) {
            if let Err(error) = examples::accept(&example.text, command) {
                let at = format!("{}:{}", shown.display(), example.line);
                problems.push(format!("{at}: {}: {}", example.text, brief(&error)));
            }
        }
        if shown == Path::new("CONTRIBUTING.md") {
            let missing = places(&text).filter(|place| !repository.join(place).exists());
            problems.extend(missing.map(|place| format!("{}: no file {place}", shown.display())));
        }
        for link in links(&text) {
            if let Some(problem) = broken(&link, &path, &text) {
                problems.push(format!("{}: {problem}", shown.display()));
            }
        }
    }
    Ok(problems)
}

fn stale(problems: &mut Vec<String>, repository: &Path, command: &Command) -> anyhow::Result<()> {
    let files = reference::files(repository, command)?;
    for file in &files {
        let shown = file.path.strip_prefix(repository).unwrap_or(&file.path);
        match fs::read_to_string(&file.path) {
            Ok(text) if text == file.text => {}
            Ok(text) => {
                let line = text
                    .lines()
                    .zip(file.text.lines())
                    .position(|(a, b)| a != b);
                let line = line.map_or_else(|| text.lines().count(), |line| line + 1);
                problems.push(format!(
                    "{}:{line}: not what the command line says; try: cargo xtask reference",
                    shown.display()
                ));
            }
            Err(error) => problems.push(format!(
                "{}: {error}; try: cargo xtask reference",
                shown.display()
            )),
        }
    }
    // A chapter whose command is gone.
    for path in markdown(&repository.join("docs/src/reference"))? {
        if !files.iter().any(|file| file.path == path) {
            problems.push(format!("{}: no such command", path.display()));
        }
    }
    Ok(())
}

/// Help that pages would lose, and examples of pages that do not parse.
fn unplaced(problems: &mut Vec<String>, command: &Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if !sections::is_in_sections(&help.map(ToString::to_string).unwrap_or_default()) {
        problems.push(format!(
            "{name}: the help after the options begins with no title"
        ));
    }
    let root = crate::command();
    for section in sections::sections(command) {
        for part in section.parts {
            let Part::Example(_, line) = part else {
                continue;
            };
            if let Err(error) = examples::accept(&line, &root) {
                problems.push(format!("example of {name}: {line}: {}", brief(&error)));
            }
        }
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        unplaced(problems, sub);
    }
}

fn documents(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut documents = markdown(repository)?;
    documents.extend(markdown(&repository.join("docs/src"))?);
    documents.extend(markdown(&repository.join("docs/src/vm"))?);
    documents.extend(markdown(&repository.join("docs/src/reference"))?);
    documents.extend(markdown(&repository.join("examples"))?);
    Ok(documents)
}

/// Files of the repository that a document names in backticks.
fn places(document: &str) -> impl Iterator<Item = &str> {
    let named = document.split('`').skip(1).step_by(2);
    named.filter(|name| {
        let folders = ["crates/", "docs/", "guest/", "xtask/"];
        folders.iter().any(|folder| name.starts_with(folder)) && !name.contains([' ', '\n', '*'])
    })
}

/// Why a link of a document leads nowhere, if it does: its file or its heading is not there.
fn broken(link: &str, document: &Path, text: &str) -> Option<String> {
    let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
    let file = document.parent()?.join(target);
    if !file.exists() {
        return Some(format!("no file {target}"));
    }
    if fragment.is_empty() {
        return None;
    }
    let other = fs::read_to_string(&file).unwrap_or_default();
    let text = if target.is_empty() { text } else { &other };
    let known = headings(text).any(|heading| anchor(heading) == fragment);
    (!known).then(|| format!("no heading for {link}"))
}

fn headings(document: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    document.lines().filter_map(move |line| {
        code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        (!code && heading.len() < line.len()).then(|| heading.trim())
    })
}

/// The fragment that leads to a heading, as mdbook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .chars()
        .filter(kept)
        .map(|c| {
            if c == ' ' {
                '-'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// Finds paths below the author's home, which exist on no other machine.
fn homes(problems: &mut Vec<String>, repository: &Path, dir: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                homes(problems, repository, &path)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let shown = path.strip_prefix(repository).unwrap_or(&path).display();
            let lines = (1..)
                .zip(text.lines())
                .filter(|(_, line)| is_of_a_home(line));
            problems.extend(
                lines.map(|(line, _)| format!("{shown}:{line}: a file of somebody's home")),
            );
        }
    }
    Ok(())
}

fn is_of_a_home(line: &str) -> bool {
    // The home itself may be somebody's in a test.
    let below = |rest: &str| {
        rest.split('"')
            .next()
            .is_some_and(|path| path.contains('/'))
    };
    line.contains(concat!("\"/root", "/")) || line.split("\"/home/").skip(1).any(below)
}

fn markdown(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The first line of an error, without clap's usage and hints.
fn brief(error: &anyhow::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Relative targets of inline links, with their fragments.
fn links(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        for (start, _) in line.match_indices("](").filter(|_| !code) {
            let target = &line[start + 2..];
            let target = target.split(')').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_agree_with_the_command_line() {
        let problems = problems(&crate::repository(), &crate::command()).unwrap();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    #[test]
    fn files_of_a_home_are_found() {
        let line = |path: &str| format!("fs::read(\"{path}\").unwrap();");
        assert!(is_of_a_home(&line(&["", "root", "x", "log"].join("/"))));
        assert!(is_of_a_home(&line(&["", "root", "log"].join("/"))));
        assert!(is_of_a_home(&line(&["", "home", "ada", "x"].join("/"))));
        assert!(!is_of_a_home(&line("/home/ada")));
        assert!(!is_of_a_home(&line("/proc/1/root/x")));
    }

    #[test]
    fn relative_links_are_found() {
        let text = "[a](b.md#c) [d](https://e) [f](#g)\n```\n[h](i)\n```\n[j](../k)";
        assert_eq!(links(text), ["b.md#c", "#g", "../k"]);
    }

    #[test]
    fn links_lead_to_headings() {
        let text = "# How `--drop-cache` works\n```sh\n# no heading\n```\n";
        let broken = |link: &str| broken(link, Path::new("/proc/a.md"), text);
        assert_eq!(broken("#how---drop-cache-works"), None);
        assert_eq!(broken("version"), None);
        for bad in ["#no-heading", "b.md", "version#a"] {
            assert!(broken(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn files_in_backticks_are_places() {
        let text = "See `crates/a.rs`, `cargo x` and `docs/b`;\n`crates/*/src`";
        assert_eq!(places(text).collect::<Vec<_>>(), ["crates/a.rs", "docs/b"]);
    }
}
