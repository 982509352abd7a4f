//! `brisk reboot check`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use brisk_host::files;
use brisk_host::kernel::{image_version, resolve};
use brisk_tools::interrupt::Interrupt;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::check::{self, Preflight, Trial, Verdict, descriptions};
use brisk_vm::kernel::{Image, MAX_SIZE};

use crate::exit;
use crate::output::printable_line;
use crate::ui::Ui;

/// Say whether this machine can be restarted without its firmware.
///
/// Nothing is stopped and nothing restarts. Rules look at the running kernel, the firmware, the
/// devices and the system, and at the files of the kernel that is to be started, which are read to
/// their ends. At last the kernel is loaded by kexec_file_load and unloaded again. Each finding has
/// the name of its rule, and what to do.
///
/// A finding of "refuse" makes a warm reboot impossible, or would leave a machine that does not run;
/// with one of "cold" the machine has to go through its firmware; "warn" and "note" permit a warm
/// reboot.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 warm, 10 cold, 11 refused; 125 if brisk failed, 130 after \
                       Ctrl-C.",
    group = clap::ArgGroup::new("list").args(["rules", "explain"])
)]
pub struct Args {
    /// Kernel to start: a release that is installed, or the path of an image. Default: the release
    /// that runs.
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<PathBuf>,

    /// Initial RAM disk; several are put together in their order. Default: that of the kernel in
    /// /boot.
    #[arg(long = "initrd", value_name = "FILE")]
    initrds: Vec<PathBuf>,

    /// Command line. Default: that of the running kernel, or of a unified kernel image.
    #[arg(long, value_name = "TEXT")]
    cmdline: Option<String>,

    /// Load nothing: leave the last rule out.
    #[arg(long)]
    no_trial_load: bool,

    /// Look in another system's tree, of which only files are read.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,

    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// List the rules.
    #[arg(long)]
    rules: bool,

    /// Show what is known of a rule.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

/// Forms of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
}

/// Checks.
///
/// # Errors
/// If the kernel cannot be found, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    if args.rules {
        let lines = descriptions();
        let lines = lines
            .iter()
            .map(|rule| format!("{:<18}  {}\n", rule.id, rule.why));
        ui.data(&lines.collect::<String>())?;
        return Ok(exit::OK);
    }
    if let Some(id) = &args.explain {
        ui.data(&explanation(id)?)?;
        return Ok(exit::OK);
    }
    let root = args.sysroot.as_deref().unwrap_or(Path::new("/"));
    ensure!(
        root.is_dir(),
        "--sysroot {}: there is no such directory",
        printable_line(&root.display().to_string())
    );
    let target = target(args, root)?;
    let spinner = ui.spinner("looking");
    let mut preflight = Preflight::read(root, &target);
    // A signal must not leave a kernel loaded.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    if args.no_trial_load {
        preflight.trial = Trial::NotAsked;
    } else if args.sysroot.is_some() {
        preflight.trial = Trial::LeftOut("it is another system's tree".to_owned());
    } else {
        preflight.try_load();
    }
    drop(spinner);
    if let Some(signal) = interrupt.signal() {
        ui.note("interrupted");
        return Ok(exit::by_signal(signal));
    }
    let findings = preflight.findings();
    match args.format {
        Format::Table => ui.data(&check::text(&preflight, &findings))?,
        Format::Json => {
            let value = check::json(&preflight, &findings);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(match Verdict::of(&findings) {
        Verdict::Warm => exit::OK,
        Verdict::Cold => exit::COLD,
        Verdict::Refused => exit::REFUSED,
    })
}

fn explanation(id: &str) -> anyhow::Result<String> {
    let rules = descriptions();
    let Some(rule) = rules.iter().find(|rule| rule.id == id) else {
        bail!("there is no rule {id}; brisk reboot check --rules lists them");
    };
    Ok(format!(
        "{}\n    why:    {}\n    source: {}\n",
        rule.id, rule.why, rule.source
    ))
}

/// Path of a file of the system below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// What the machine is to be restarted into.
fn target(args: &Args, root: &Path) -> anyhow::Result<Target> {
    let line = |path: &str| {
        let text = files::text(&root.join(path)).unwrap_or_default();
        text.trim_end_matches(['\n', '\0']).to_owned()
    };
    let running = line("proc/sys/kernel/osrelease");
    let kernel = match &args.kernel {
        Some(path) if path.as_os_str().to_string_lossy().contains('/') => {
            std::path::absolute(path).context("the current directory is gone")?
        }
        Some(release) => {
            let found = resolve(root, release.to_str(), &running)?;
            Path::new("/").join(found.image.strip_prefix(root).unwrap_or(&found.image))
        }
        None => PathBuf::from(format!("/boot/vmlinuz-{running}")),
    };
    let image = below(root, &kernel);
    let release = match image_version(&image) {
        Ok(release) => release.unwrap_or_default(),
        // A rule says so.
        Err(_) => running,
    };
    let bytes = files::start(&image, MAX_SIZE as u64).unwrap_or_default();
    let uki = match Image::parse(&bytes) {
        Ok(Image::Uki(uki)) => Some(uki),
        _ => None,
    };
    let own = uki.as_ref().and_then(|uki| uki.cmdline);
    let given = args.cmdline.as_deref().or(own);
    Ok(Target {
        initrds: match (args.initrds.is_empty(), &uki) {
            (true, None) => initrds(root, &release),
            (true, Some(_)) => Vec::new(),
            (false, _) => args
                .initrds
                .iter()
                .map(std::path::absolute)
                .collect::<Result<_, _>>()
                .context("the current directory is gone")?,
        },
        cmdline: given.map_or_else(|| stripped(&line("proc/cmdline")), str::to_owned),
        is_uki: uki.is_some(),
        release,
        kernel,
    })
}

/// The initial RAM disk of a release in `/boot`, if there is one.
fn initrds(root: &Path, release: &str) -> Vec<PathBuf> {
    let names = [
        format!("/boot/initrd.img-{release}"),
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
    ];
    let mut paths = names.into_iter().map(PathBuf::from);
    let found = paths.find(|path| below(root, path).exists());
    found.into_iter().collect()
}

/// A command line without what the boot loader wrote of its files.
fn stripped(cmdline: &str) -> String {
    let is_own = |word: &&str| {
        !["BOOT_IMAGE=", "initrd="]
            .iter()
            .any(|start| word.starts_with(start))
    };
    let words = cmdline.split_whitespace().filter(is_own);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_boot_loader_wrote_is_left_out() {
        for (text, expected) in [
            (
                "BOOT_IMAGE=/vmlinuz-6.1 root=UUID=1 ro quiet",
                "root=UUID=1 ro quiet",
            ),
            (
                "initrd=\\initrd.img root=/dev/vda initrd=b",
                "root=/dev/vda",
            ),
            ("", ""),
        ] {
            assert_eq!(stripped(text), expected);
        }
    }
}
