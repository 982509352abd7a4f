//! `brisk boot range`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use brisk_experiment::environment;
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Environment, Reading, render};
use brisk_tools::boot::analyze::LogPatterns;
use brisk_tools::boot::range::{
    Answer, Engine, Event, Goal, Live, Measure, Mode, Options as RangeOptions, Role, Template,
    Wanted,
};
use brisk_tools::boot::ready_condition::Until;
use brisk_vm::cache::Cache;

use crate::output::Format;
use crate::output::now;
use crate::output::write_whole;
use crate::parse::duration;
use crate::ui::Ui;

use super::target::{Clock, SubjectArgs, guest};

const EXIT_STATUS: &str = "Exit status: 0 if the range was measured, or the change found; \
    1 if --bisect found no change; 125 if brisk failed or was interrupted.";

/// Measure the boot over the commits of a repository, or find the commit that changed it.
///
/// Each commit of a kernel, of QEMU, of a firmware or of anything else that takes part in a boot is
/// built in a worktree of brisk's own, so that REPO's checkout and branches stay as they are, and
/// the artifacts of the build are booted. The commits are those of the first-parent line of A..B; a
/// merge counts as one. The commit before the first of them is measured, too; it is A if A lies on
/// that line.
///
/// A line for each commit shows its hash, its subject, the time with half of its 95 % interval, and
/// the comparison with the last commit that was measured: ↑ for more and ↓ for less where that is
/// beyond chance. Commits that cannot be built or booted are recorded and left out.
///
/// In wall-clock time, commits are compared by alternating boots until the result is significant;
/// the probability of any false alarm in a range is at most 1 in 500. --bisect follows the likely
/// side and then proves the commit that it found with boots of their own; a commit that is not
/// proven is searched for once more, with more boots. With --clock instructions the guest's
/// instructions are counted instead: one boot of a commit is enough, and load on the host does
/// not matter.
///
/// A guest of brisk's boots with the artifacts: kernel, QEMU and firmware in place of its own, an
/// initramfs unpacked over its own, and the text of a file appended to the kernel's command line. A
/// QEMU command line after `--` names artifacts as {kernel}, {initramfs}, {qemu}, {firmware} and
/// {file}.
///
/// Builds are kept by commit and command, and so are measurements: the same command continues where
/// it was interrupted.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_STATUS)]
pub struct Args {
    /// Directory of the repository.
    #[arg(value_name = "REPO")]
    pub repository: PathBuf,

    /// Range of commits.
    #[arg(value_name = "A..B")]
    pub range: String,

    /// Command that builds a commit, run by sh at the top of the worktree, such as `make -j4
    /// bzImage`. BRISK_COMMIT has the commit's hash, and files that earlier builds left are still
    /// there.
    #[arg(long, value_name = "CMD")]
    pub build: String,

    /// File or directory that the build makes: kernel=PATH, initramfs=PATH, qemu=PATH,
    /// firmware=PATH or file=PATH. Repeatable.
    #[arg(long = "artifact", value_name = "ROLE=PATH", required = true)]
    pub artifacts: Vec<Wanted>,

    /// Find the commit of a change by bisection, and explain the change.
    #[arg(long, conflicts_with = "step")]
    pub bisect: bool,

    /// Measure every N-th commit, and the last.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub step: u32,

    /// Boots of each commit before the first comparison.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub runs: u32,

    /// Most boots of each commit in one comparison.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub max_runs: u32,

    /// Difference up to which commits count as equal, in percent. Default: 2, or 0.1 with --clock
    /// instructions.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub tolerance: Option<f64>,

    /// Time limit of a build, for example 90s or 30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub build_timeout: Option<Duration>,

    /// Begin each build without the files of the build before.
    #[arg(long)]
    pub clean: bool,

    /// Forget earlier builds and measurements.
    #[arg(long)]
    pub fresh: bool,

    /// Boot target.
    #[command(flatten)]
    pub subject: SubjectArgs,

    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Write a plot over the commits to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write an HTML page with the plot and all numbers to this file; pointing at a commit in the
    /// plot shows the commit.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Args {
    /// Where commits build the firmware alone, what the kernel does is not theirs.
    fn until(&self) -> Until {
        let mut roles = self.artifacts.iter().map(Wanted::role);
        let is_open = self.subject.until.is_none() && self.subject.ready.is_none();
        match is_open && roles.all(|role| role == Role::Firmware) {
            true => Until::Kernel,
            false => self.subject.until(),
        }
    }

    /// The clock that boots are measured by.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.subject.clock == Clock::Instructions {
            Mode::Deterministic
        } else {
            Mode::WallClock
        }
    }

    fn options(&self, setting: &str) -> anyhow::Result<RangeOptions> {
        Ok(RangeOptions {
            repository: self.repository.clone(),
            range: self.range.clone(),
            build: self.build.clone(),
            build_limit: self.build_timeout,
            clean: self.clean,
            artifacts: self.artifacts.clone(),
            mode: self.mode(),
            setting: setting.to_owned(),
            goal: match self.bisect {
                true => Goal::Bisect,
                false => Goal::Walk {
                    step: self.step as usize,
                },
            },
            runs: self.runs,
            max_runs: self.max_runs,
            tolerance: self.tolerance,
            fresh: self.fresh,
            dir: Cache::open()?.dir().join("range"),
        })
    }
}

/// Measures the range with real boots; the result is the exit status.
///
/// # Errors
/// As [`run`].
pub(super) fn live(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let subject = &args.subject;
    if subject.domain.is_some() {
        bail!(
            "--domain: a range boots what was built of each commit; give QEMU's command line \
             after -- with {{kernel}} in it"
        );
    }
    let until = args.until();
    let (template, environment) = if subject.qemu_command.is_empty() {
        let options = subject.options()?;
        // The installed kernel's environment stands for all commits; there may be no installed
        // kernel.
        let environment = guest(options.clone(), ui)
            .map_or_else(|_| environment::here(), |guest| guest.environment());
        (Template::Guest(Box::new(options)), environment)
    } else {
        let counted = args.mode() == Mode::Deterministic;
        if counted && until != Until::Kernel {
            bail!(
                "--clock instructions needs a guest of brisk's, whose init counts them; of a \
                 command line after -- they are counted with --until kernel"
            );
        }
        let template = Template::Command {
            words: subject.qemu_command.clone(),
            marker: subject.ready.clone(),
            counted,
        };
        (template, environment::here())
    };
    let setting = format!("{template:?} {until:?}");
    let timeout = subject.timeout;
    let cache = Cache::open()?;
    let markers = LogPatterns::own()?;
    let mut measure = Live::new(template, until, timeout, args.bisect, cache, markers);
    let unexplained = match until == Until::Kernel && args.mode() == Mode::Deterministic {
        true => {
            "What changed in it is not known: instructions before the kernel are not counted by \
             phases. A bisection in wall-clock time, without --clock instructions, names phases."
        }
        false => "What changed in it is not known: the boots around it could not be traced.",
    };
    run(args, ui, environment, &setting, unexplained, &mut measure)
}

/// Measures the range with `measure`; the result is the exit status. `environment` is that of the
/// boots. `setting` is everything else that decides the result of `measure`: earlier measurements
/// are used again only with an equal setting. `unexplained` is said of a change that nothing
/// explains.
///
/// # Errors
/// If the repository or the range cannot be used, a file cannot be written, or a signal came.
fn run(
    args: &Args,
    ui: &Ui,
    environment: Environment,
    setting: &str,
    unexplained: &str,
    measure: &mut dyn Measure,
) -> anyhow::Result<u8> {
    let options = args.options(setting)?;
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let started = now();
    let mut engine = Engine::open(options, interrupt)?;
    let mut spinner = None;
    let mut written = Ok(());
    let table = args.format == Format::Table;
    let ended = engine.run(measure, &mut |event| match event {
        Event::Doing(what) => spinner = Some(ui.spinner(what)),
        Event::Note(text) => {
            spinner = None;
            ui.note(text);
        }
        Event::Row(row) => {
            spinner = None;
            if table && written.is_ok() {
                written = ui.data(&format!("{row}\n"));
            }
        }
    });
    drop(spinner);
    let mut report = engine.report(started, environment);
    let mut changes = report.history.iter().flat_map(|history| &history.changes);
    if args.bisect && changes.any(|change| change.explanation.is_empty()) {
        report.notes.push(unexplained.to_owned());
    }
    // An interrupted range is written, too.
    for (path, text) in [
        (&args.svg, render::svg as fn(&_) -> String),
        (&args.html, render::html),
    ] {
        if let Some(path) = path {
            write_whole(path, text(&report).as_bytes())?;
        }
    }
    ended?;
    written?;
    match args.format {
        Format::Table => ui.data(&render::history_end(&report))?,
        Format::Json => ui.data(&render::json(&report))?,
        Format::Csv => ui.data(&render::csv(&report))?,
    }
    let unchanged = matches!(
        engine.answer(),
        Some(Answer::Unchanged { .. } | Answer::Unmeasurable)
    );
    let history = report.history.as_ref();
    let measured = history.is_some_and(|history| {
        let mut points = history.points.iter();
        points.any(|point| matches!(point.reading, Reading::Measured { .. }))
    });
    if !measured {
        ui.note(
            "no commit could be built and booted; --fresh tries those again that failed before",
        );
    }
    Ok(u8::from(!measured || args.bisect && unchanged))
}

/// Parses a percentage as a share of 1.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>();
    match number {
        Ok(number) if (0.0..1000.0).contains(&number) => Ok(number / 100.0),
        _ => Err("not a percentage; write for example 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(more: &[&str]) -> Result<Args, clap::Error> {
        let line = ["range", "linux", "v6.1..", "--build", "make"];
        let line = line.iter().chain(more);
        <Line as clap::Parser>::try_parse_from(line).map(|line| line.args)
    }

    #[test]
    fn arguments_are_read() {
        <Line as clap::CommandFactory>::command().debug_assert();
        let args = parse(&["--artifact", "kernel=vmlinux", "--tolerance", "0.5 %"]).unwrap();
        assert_eq!(args.tolerance, Some(0.005));
        assert_eq!(args.mode(), Mode::WallClock);
        let kernel = ["--artifact", "kernel=vmlinux"];
        let firmware = ["--artifact", "firmware=bios.bin"];
        for (words, until) in [
            (&kernel[..], Until::Init),
            (&firmware, Until::Kernel),
            (&[kernel, firmware].concat(), Until::Init),
            (&[&firmware[..], &["--until", "exit"]].concat(), Until::Exit),
            (
                &[&firmware[..], &["--ready", "console:login:"]].concat(),
                Until::Ready,
            ),
        ] {
            assert_eq!(parse(words).unwrap().until(), until, "{words:?}");
        }
        for wrong in [
            &[][..],
            &["--artifact", "vmlinux"],
            &[kernel[0], kernel[1], "--tolerance", "-1"],
            &[kernel[0], kernel[1], "--build-timeout", "soon"],
            &[kernel[0], kernel[1], "--bisect", "--step", "2"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
