//! The rules about idle guests, tried on files of other projects, which are not in this repository.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use brisk_lint::Fix;
use brisk_tools::idle::fix::{Context, Wanted, fix};
use brisk_tools::idle::rules::descriptions;
use brisk_tools::idle::text::Text;

/// Directories with files of other projects.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories; each is a corpus, with all files below it that describe guests.
    #[arg(required = true)]
    corpora: Vec<PathBuf>,
    /// Write the fixed files here, below a directory for each corpus.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the findings of every so many guests with a finding, to look at.
    #[arg(long)]
    sample: Option<usize>,
}

/// Results of a corpus.
#[derive(Debug, Default)]
struct Counts {
    files: usize,
    xml: usize,
    words: usize,
    unchanged: usize,
    changed: usize,
    rules: BTreeMap<&'static str, usize>,
}

/// Tries the rules and prints a table. What must not be is an error.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut all = Vec::new();
    let mut seen = 0;
    let mut out = std::io::stdout().lock();
    for corpus in &args.corpora {
        let mut counts = Counts::default();
        for path in files(corpus)? {
            counts.files += 1;
            let Ok(text) = Text::of_file(&fs::read(&path)?, &path) else {
                continue;
            };
            match &text {
                Text::Xml(_) => counts.xml += 1,
                Text::Arguments(_) | Text::Vm { .. } => counts.words += 1,
            }
            let tried = catch_unwind(AssertUnwindSafe(|| try_one(&text, &mut counts)));
            let name = path.display();
            match tried {
                Err(_) => problems.push(format!("{name}: a panic")),
                Ok(Err(error)) => problems.push(format!("{name}: {error:#}")),
                Ok(Ok(fixed)) => {
                    if let (Some(dir), Text::Xml(xml)) = (&args.out, &fixed) {
                        let place = dir.join(path.strip_prefix(corpus).unwrap_or(&path));
                        fs::create_dir_all(place.parent().unwrap_or(dir))?;
                        fs::write(place, xml)?;
                    }
                }
            }
            let list = Context::default().findings(&text)?;
            seen += usize::from(!list.is_empty());
            if args
                .sample
                .is_some_and(|every| !list.is_empty() && seen % every == 0)
            {
                writeln!(out, "{name}")?;
                for finding in list {
                    writeln!(
                        out,
                        "    {}: {} -> {}",
                        finding.rule, finding.what, finding.fix
                    )?;
                }
            }
        }
        let name = corpus.file_name().unwrap_or(OsStr::new("/"));
        all.push((name.to_string_lossy().into_owned(), counts));
    }
    writeln!(out, "{}", table(&all))?;
    Ok(problems)
}

fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut list = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            list.extend(files(&path)?);
        } else if path.is_file() {
            list.push(path);
        }
    }
    list.sort();
    Ok(list)
}

/// Tries the rules on a guest; the result is what its fixes make of it.
fn try_one(text: &Text, counts: &mut Counts) -> anyhow::Result<Text> {
    let context = Context::default();
    let findings = context.findings(text)?;
    let mut rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
    rules.dedup();
    for rule in rules {
        *counts.rules.entry(rule).or_default() += 1;
    }
    for finding in &findings {
        let Fix::Edit(edit) = &finding.fix else {
            continue;
        };
        let named = [finding.rule.to_owned()];
        let fixed = fix(text.clone(), &context, Wanted { rules: &named })?;
        anyhow::ensure!(fixed.failed.is_empty(), "{:?}", fixed.failed);
        let left = fixed.left.iter().find(|left| left.rule == finding.rule);
        let is_edit =
            left.is_some_and(|left| matches!(&left.fix, Fix::Edit(edit) if edit.is_exact()));
        anyhow::ensure!(edit.is_exact() && !is_edit, "{} is left", finding.rule);
    }
    let all = Wanted { rules: &[] };
    let fixed = fix(text.clone(), &context, all)?;
    if fixed.applied.is_empty() {
        counts.unchanged += 1;
        anyhow::ensure!(fixed.text == *text, "changed without a reason");
    } else {
        counts.changed += 1;
    }
    let again = fix(fixed.text.clone(), &context, all)?;
    anyhow::ensure!(again.text == fixed.text, "twice is not as once");
    Ok(fixed.text)
}

/// A table of Markdown.
fn table(all: &[(String, Counts)]) -> String {
    let mut text = String::from("| |");
    let row = |name: &str, of: &dyn Fn(&Counts) -> usize| {
        let counts = all.iter().map(|(_, counts)| of(counts).to_string());
        format!("| {name} | {} |\n", counts.collect::<Vec<_>>().join(" | "))
    };
    let mut rows = String::new();
    rows += &row("files", &|counts| counts.files);
    rows += &row("domains (XML)", &|counts| counts.xml);
    rows += &row("command lines", &|counts| counts.words);
    rows += &row("nothing to change by itself", &|counts| counts.unchanged);
    rows += &row("changed", &|counts| counts.changed);
    for rule in descriptions() {
        let of = |counts: &Counts| counts.rules.get(rule.id).copied().unwrap_or_default();
        rows += &row(&format!("`{}`", rule.id), &of);
    }
    let names: Vec<_> = all.iter().map(|(name, _)| &**name).collect();
    let _ = writeln!(
        text,
        " {} |\n|---|{}",
        names.join(" | "),
        "---:|".repeat(all.len())
    );
    text + &rows
}
