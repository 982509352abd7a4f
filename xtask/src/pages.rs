//! `cargo xtask bench-pages`: pages and pictures of the reports in `benchmarks/`, which keeps their
//! raw samples.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use brisk_measure::{Report, render};

/// Where the reports are, and where the pages go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with a folder of reports for each machine and day.
    #[arg(long, default_value = "benchmarks")]
    from: PathBuf,
    /// Folder that gets the pages, in folders of the same names.
    #[arg(long, default_value = "target/benchmarks")]
    out: PathBuf,
}

/// Renders each report as a page, a picture and a table, and returns the files that it wrote.
///
/// # Errors
/// If a report cannot be read, a file cannot be written, or there is no report.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for folder in entries(&args.from)?
        .into_iter()
        .filter(|path| path.is_dir())
    {
        for path in entries(&folder)? {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            // Ledgers of `brisk boot tune` are no reports.
            let Ok(report) = serde_json::from_str::<Report>(&text) else {
                continue;
            };
            let name = path.strip_prefix(&args.from).unwrap_or(&path);
            for (extension, text) in [
                ("html", render::html(&report)),
                ("svg", render::svg(&report)),
                ("csv", render::csv(&report)),
            ] {
                let to = args.out.join(name).with_extension(extension);
                crate::write(&to, &text)?;
                written.push(to);
            }
        }
    }
    ensure!(
        !written.is_empty(),
        "there is no report in {}",
        args.from.display()
    );
    Ok(written)
}

fn entries(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in list {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_of_the_repository_has_a_page() {
        let out = tempfile::tempdir().unwrap();
        let args = Args {
            from: crate::repository().join("benchmarks"),
            out: out.path().to_owned(),
        };
        let written = run(&args).unwrap();
        let pages = written
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "html"));
        let mut count = 0;
        for page in pages {
            let text = fs::read_to_string(page).unwrap();
            assert!(
                text.contains("<svg") || text.contains("<table"),
                "{}",
                page.display()
            );
            count += 1;
        }
        assert!(count >= 5, "{written:?}");
        let none = Args {
            from: out.path().join("none"),
            out: out.path().to_owned(),
        };
        assert!(run(&none).is_err());
    }
}
