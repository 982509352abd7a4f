//! What a page says besides description and options: exit status, files, environment,
//! examples.
//!
//! A section that the help of a command already has ("Exit status:" at the start of a line
//! of its `after_help`) is taken from there, so that it is written once.

use brisk_cli::exit;

/// A section of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) parts: Vec<Part>,
    /// Whether it is from the help of the command itself.
    pub(crate) own: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// A term and what it means.
    Item(String, String),
    /// What it is for, and a command line to type.
    Example(String, String),
}

const TITLES: [&str; 4] = ["Exit status", "Files", "Environment", "Examples"];

/// The examples of a page: what each is for, and its command line.
fn examples(page: &str) -> &'static [(&'static str, &'static str)] {
    match page {
        "brisk" | "brisk run" => &[
            (
                "Run a command in the kernel that is installed here, on this machine's files, \
                 which it cannot change:",
                "brisk run -- uname -a",
            ),
            (
                "The same in another installed kernel, and show where the time went:",
                "brisk run --kernel 6.1 --timing -- uname -a",
            ),
            ("An interactive shell:", "brisk run"),
            (
                "Test a program in a clean root file system, with the sources readable:",
                "brisk run --root debian.qcow2 --share .:/src:ro --workdir /src -- make test",
            ),
            (
                "Nothing but an initramfs with busybox:",
                "brisk run --root none -- dmesg",
            ),
            (
                "Give up after two minutes:",
                "brisk run --timeout 2m -- ./test.sh",
            ),
            (
                "See what would be run and why, without running it:",
                "brisk run --dry-run -- true",
            ),
        ],
        "brisk kernel list" => &[("The kernels that are installed here:", "brisk kernel list")],
        _ => &[],
    }
}

/// The further sections of a page.
pub(crate) fn sections(command: &clap::Command) -> Vec<Section> {
    let help = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(ToString::to_string);
    let written = help.as_deref().map(parse).unwrap_or_default();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    TITLES
        .into_iter()
        .filter_map(|title| {
            let own = written.iter().find(|section| section.title == title);
            own.cloned().or_else(|| {
                let parts = known(title, name, command);
                (!parts.is_empty()).then_some(Section {
                    title,
                    parts,
                    own: false,
                })
            })
        })
        .collect()
}

/// Whether all of the help after the options is in sections, so that nothing gets lost.
pub(crate) fn is_in_sections(help: &str) -> bool {
    help.trim().is_empty() || title(help.trim_start()).is_some()
}

fn known(title: &str, name: &str, command: &clap::Command) -> Vec<Part> {
    match title {
        "Exit status" => vec![
            item("0", "success"),
            item(&exit::USAGE.to_string(), "the command line is wrong"),
            item(
                &exit::BRISK.to_string(),
                "brisk failed; standard error says why",
            ),
        ],
        "Files" => vec![
            item("/boot, /lib/modules", "kernels and their modules"),
            item("/var/cache/brisk", "what is derived from them, for root"),
            item("~/.cache/brisk", "the same for other users"),
            item("/var/lib/brisk", "keys and reports, for root"),
            item("~/.local/state/brisk", "the same for other users"),
        ],
        "Environment" => environment(command),
        _ => examples(name)
            .iter()
            .map(|(why, line)| Part::Example((*why).to_owned(), (*line).to_owned()))
            .collect(),
    }
}

fn environment(command: &clap::Command) -> Vec<Part> {
    let mut parts: Vec<_> = command
        .get_arguments()
        .filter_map(|arg| {
            let name = arg.get_env()?.to_string_lossy();
            Some(item(
                &name,
                &format!("value of --{} where it is not given", arg.get_long()?),
            ))
        })
        .collect();
    parts.push(item("BRISK_CACHE_DIR", "directory of the cache"));
    parts.push(item(
        "BRISK_STATE_DIR",
        "directory of reports and of the profile of this host",
    ));
    parts.push(item(
        "XDG_CACHE_HOME",
        "for users other than root the cache is brisk in it, if it is an absolute path",
    ));
    parts.push(item("BRISK_STATE_DIR", "directory of keys and reports"));
    parts
}

fn item(term: &str, meaning: &str) -> Part {
    Part::Item(term.to_owned(), meaning.to_owned())
}

/// The title that a line begins, and the rest of the line.
fn title(line: &str) -> Option<(&'static str, &str)> {
    TITLES.into_iter().find_map(|title| {
        let rest = line.strip_prefix(title)?.strip_prefix(':')?;
        Some((title, rest.trim()))
    })
}

/// Help text in sections. Indented lines are items if two spaces part a term from its meaning.
fn parse(help: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in help.lines() {
        let text = match title(line) {
            Some((title, rest)) => {
                let parts = Vec::new();
                sections.push(Section {
                    title,
                    parts,
                    own: true,
                });
                rest
            }
            None => line,
        };
        let Some(section) = sections.last_mut() else {
            continue;
        };
        if text.is_empty() {
            continue;
        }
        let indented = text.starts_with(' ');
        section.parts.push(match text.trim().split_once("  ") {
            Some((term, meaning)) if indented => item(term, meaning.trim()),
            _ => Part::Text(capitalised(text.trim())),
        });
    }
    sections
}

/// After a title with a colon a sentence may begin in lower case; below a heading it may not.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_split_at_its_titles() {
        let help = "Exit status:\n  0-119    the command's own\n  128+N    a signal\nNote.\n\
                    Files: one here.";
        let sections = parse(help);
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].title, "Exit status");
        let parts = [
            item("0-119", "the command's own"),
            item("128+N", "a signal"),
            Part::Text("Note.".to_owned()),
        ];
        assert_eq!(sections[0].parts, parts);
        assert_eq!(sections[1].parts, [Part::Text("One here.".to_owned())]);
        assert!(is_in_sections(help));
        assert!(!is_in_sections("See also the weather."));
    }
}
