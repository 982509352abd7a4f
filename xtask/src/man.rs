//! Manual pages, one for each command.

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::sections::{self, Part, Section};

/// A manual page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The pages of a command and of all its subcommands that are not hidden.
pub(crate) fn pages(command: &clap::Command) -> anyhow::Result<Vec<Page>> {
    let mut pages = vec![page(command)?];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages.extend(self::pages(sub)?);
    }
    Ok(pages)
}

fn page(command: &clap::Command) -> anyhow::Result<Page> {
    let dashed = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(summarised(command))
        .title(dashed.to_uppercase())
        .source(format!("brisk {}", env!("CARGO_PKG_VERSION")))
        .manual("brisk");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    let mut subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    if subcommands.next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    for section in sections::sections(command) {
        further(&section).to_writer(&mut text)?;
    }
    see_also(command, dashed).to_writer(&mut text)?;
    Ok(Page {
        name: format!("{dashed}.1"),
        text: String::from_utf8(text).with_context(|| format!("{dashed}.1 is not UTF-8"))?,
    })
}

/// Without the full stop of the summary: `whatis` shows it as a phrase.
fn summarised(command: &clap::Command) -> clap::Command {
    let about = command.get_about().map(ToString::to_string);
    let long = command.get_long_about().or_else(|| command.get_about());
    let long = long.map(ToString::to_string);
    let about = about.unwrap_or_default();
    let mut command = command
        .clone()
        .about(about.trim_end_matches('.').to_owned());
    if let Some(long) = long {
        command = command.long_about(long);
    }
    command
}

/// As in `--help`. clap_mangen's own lists every option and leaves out the `--`.
fn synopsis(command: &clap::Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let rest = usage.strip_prefix(name).unwrap_or(usage);
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(rest)]);
    roff
}

fn further(section: &Section) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [section.title.to_uppercase().as_str()]);
    for part in &section.parts {
        match part {
            Part::Text(text) => {
                roff.control("PP", []);
                roff.text([roman(text)]);
            }
            Part::Item(term, meaning) => {
                roff.control("TP", []);
                roff.text([bold(term)]);
                roff.text([roman(meaning)]);
            }
            Part::Example(why, line) => {
                roff.control("PP", []);
                roff.text([roman(why)]);
                roff.control("PP", []);
                roff.control("RS", ["4"]);
                roff.control("nf", []);
                roff.text([roman(line)]);
                roff.control("fi", []);
                roff.control("RE", []);
            }
        }
    }
    roff
}

fn see_also(command: &clap::Command, dashed: &str) -> Roff {
    let mut names = vec!["qemu-system-x86_64(1)".to_owned()];
    if let Some((above, _)) = dashed.rsplit_once('-') {
        names.insert(0, format!("{above}(1)"));
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        names.insert(0, format!("{dashed}-{}(1)", sub.get_name()));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(names.join(", "))]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_has_a_page_with_all_sections() {
        let pages = pages(&crate::command()).unwrap();
        let run = pages
            .iter()
            .find(|page| page.name == "brisk-run.1")
            .unwrap();
        let sections = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "\"EXIT STATUS\"",
            "FILES",
            "ENVIRONMENT",
            "EXAMPLES",
            "\"SEE ALSO\"",
        ];
        let mut rest = run.text.as_str();
        for section in sections {
            let heading = format!("\n.SH {section}\n");
            let at = rest.find(&heading);
            rest = &rest[at.unwrap_or_else(|| panic!("no section {section} in its place"))..];
        }
        assert!(run.text.contains("brisk\\-run \\- Run"));
    }

    #[test]
    fn hidden_commands_have_no_page() {
        let pages = pages(&crate::command()).unwrap();
        assert!(pages.iter().all(|page| !page.name.contains("completions")));
    }
}
