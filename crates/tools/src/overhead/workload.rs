//! Workloads: shell text and files that are the same for every target. Pure.

use std::path::Path;

use super::kernel::{Config, Kernel};
use super::kit::Kit;
use super::metrics::TIME;
use super::probe;

/// Options of the compiler. The units of the kit are parts of a kernel.
pub const FLAGS: &str = "-O2 -w -c -std=gnu11 -m64 -mcmodel=kernel -mno-red-zone -mno-sse -mno-mmx \
                         -mno-80387 -fno-pie -fno-common -fno-strict-aliasing \
                         -fno-stack-protector -fno-asynchronous-unwind-tables -fshort-wchar";

/// Something that is run in every target.
#[derive(Debug)]
pub enum Workload {
    /// Compiles units of the kit one after another.
    Compile(Kit),
    /// Compiles a kernel.
    Kernel(Kernel),
    /// A command of the user's.
    Command {
        /// Text for a shell.
        command: String,
        /// Text for a shell that succeeds if the command did what it should.
        check: Option<String>,
    },
    /// The probe: what single operations cost.
    Probe {
        /// Milliseconds for one operation, set-up aside.
        time: u32,
    },
}

/// A file of a work directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File<'a> {
    /// Name.
    pub(super) name: &'a str,
    /// Content.
    pub(super) content: &'a [u8],
    /// Permissions.
    pub(super) mode: u32,
}

/// The probe as a file.
pub(super) const PROBE: File<'_> = File {
    name: probe::FILE,
    content: probe::PROGRAM,
    mode: 0o755,
};

impl Workload {
    /// Files that every target gets into its work directory.
    pub(super) fn files(&self) -> Vec<File<'_>> {
        match self {
            Self::Compile(kit) => {
                let units = kit.units.iter().map(|(name, content)| File {
                    name,
                    content,
                    mode: 0o644,
                });
                units.collect()
            }
            Self::Kernel(Kernel {
                config: Config::Text(content),
                ..
            }) => vec![File {
                name: "config",
                content,
                mode: 0o644,
            }],
            // The probe goes there when it is needed.
            Self::Kernel(_) | Self::Command { .. } | Self::Probe { .. } => Vec::new(),
        }
    }

    /// An archive that every target unpacks into its work directory.
    pub(super) fn archive(&self) -> Option<&Path> {
        match self {
            Self::Kernel(kernel) => Some(&kernel.source.archive),
            Self::Compile(_) | Self::Command { .. } | Self::Probe { .. } => None,
        }
    }

    /// Names of the metrics that are compared with the host's.
    pub(super) fn compared(&self) -> Vec<&'static str> {
        match self {
            Self::Compile(_) | Self::Kernel(_) | Self::Command { .. } => vec![TIME],
            // How long it takes as a whole is chosen.
            Self::Probe { .. } => probe::OPERATIONS.iter().map(|one| one.name).collect(),
        }
    }

    /// Shell texts that a target has to run before the first time, each with what is wrong if it
    /// fails. They say, in lines of `fact NAME VALUE`, which tools it uses.
    pub(super) fn needs(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Compile(_) => vec![
                (
                    "it has no gcc or no sha256sum: install gcc and coreutils in it",
                    "command -v gcc >/dev/null && command -v sha256sum >/dev/null".to_owned(),
                ),
                ("it cannot say which compiler it has", COMPILER.to_owned()),
            ],
            Self::Kernel(_) => vec![
                ("it lacks what compiling a kernel needs", Kernel::lacks()),
                (
                    "it cannot say which compiler it has",
                    format!("{COMPILER}say \"fact make $(make --version | head -n 1)\"\n"),
                ),
            ],
            Self::Command { .. } | Self::Probe { .. } => Vec::new(),
        }
    }

    /// Shell text that is run once, when all files are there, and prints facts.
    pub(super) fn tried(&self) -> String {
        match self {
            Self::Kernel(kernel) => kernel.tried(),
            Self::Compile(_) | Self::Command { .. } | Self::Probe { .. } => ":".to_owned(),
        }
    }

    /// Shell text that is run before each run, and is not timed.
    pub(super) fn before(&self) -> String {
        match self {
            Self::Kernel(kernel) => kernel.before(),
            Self::Compile(_) | Self::Command { .. } | Self::Probe { .. } => ":".to_owned(),
        }
    }

    /// Shell text of the work itself, in the work directory; its status is that of the work.
    pub(super) fn work(&self) -> String {
        match self {
            Self::Compile(kit) => {
                let names = kit
                    .units
                    .iter()
                    .map(|(name, _)| name.trim_end_matches(".i"));
                let names = names.collect::<Vec<_>>().join(" ");
                format!(
                    "s=0; for u in {names}; do gcc {FLAGS} \"$u.i\" -o \"out/$u.o\" </dev/null \
                     2>out/errors || {{ s=$?; break; }}; done; (exit $s)"
                )
            }
            Self::Command { command, .. } => {
                format!(
                    "sh -c {} </dev/null >out/output 2>out/errors",
                    quoted(command)
                )
            }
            Self::Kernel(kernel) => kernel.work(),
            Self::Probe { time } => probing(*time),
        }
    }

    /// Shell text that proves the work, after its end: lines of `proof HASH NAME`, and the status.
    pub(super) fn proof(&self) -> String {
        match self {
            Self::Compile(_) => {
                "(cd out && for o in *.o; do h=$(sha256sum <\"$o\") && say \"proof ${h%% *} $o\"; \
                 done)"
                    .to_owned()
            }
            Self::Command { check, .. } => check.as_ref().map_or(":".to_owned(), |check| {
                format!("sh -c {} </dev/null >/dev/null 2>out/errors", quoted(check))
            }),
            Self::Kernel(_) => Kernel::proof(),
            Self::Probe { .. } => FIGURES.to_owned(),
        }
    }
}

/// Shell text that finds a place from which the probe can be executed, for `$b`: a work directory
/// on a file system that is mounted with noexec, as docker's /dev/shm, is none. A directory that is
/// there already is somebody else's, who could put another program there.
pub(super) const PLACE_PROBE: &str = "\
b=$d/probe; \"$b\" --exit 2>/dev/null || { b=/tmp/$T/probe; mkdir -m 700 \"/tmp/$T\" && cp \
\"$d/probe\" \"$b\" && \"$b\" --exit; } 2>out/errors";

/// Shell text that has the probe measure, when its place was found.
pub(super) fn probing(time: u32) -> String {
    format!("(cd out && \"$b\" --time {time} </dev/null >figures 2>errors)")
}

/// Shell text that says what the probe measured.
pub(super) const FIGURES: &str = "while read -r l; do say \"$l\"; done <out/figures";

/// Hashes of the compiler and of the assembler that gcc calls.
const COMPILER: &str = "\
say \"fact compiler gcc $(gcc -dumpfullversion)\"
for p in cc1 as; do f=$(gcc -print-prog-name=$p); case $f in */*) ;; *) f=$(command -v $f);; esac; \
h=$(sha256sum <\"$f\"); say \"fact $p ${h%% *}\"; done
";

fn quoted(text: &str) -> String {
    brisk_host::program::quote(text.as_ref())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_command_is_quoted_and_its_check_is_the_proof() {
        let workload = Workload::Command {
            command: "make -s 'a b'".into(),
            check: Some("test -e x".into()),
        };
        assert_eq!(
            workload.work(),
            r"sh -c 'make -s '\''a b'\''' </dev/null >out/output 2>out/errors"
        );
        assert_eq!(
            workload.proof(),
            "sh -c 'test -e x' </dev/null >/dev/null 2>out/errors"
        );
        assert!(workload.files().is_empty());
    }

    #[test]
    fn the_probe_is_not_executed_from_a_directory_of_somebody_else() {
        let place = |name: &str| {
            let work = tempfile::tempdir().unwrap();
            fs::create_dir(work.path().join("out")).unwrap();
            // It cannot be executed there.
            fs::write(work.path().join("probe"), "#!/bin/sh\n").unwrap();
            let script = format!("T={name}; d=$PWD; {PLACE_PROBE}");
            let mut shell = Command::new("sh");
            let status = shell
                .args(["-c", &script])
                .current_dir(work.path())
                .status();
            status.unwrap().success()
        };
        let theirs = tempfile::tempdir_in("/tmp").unwrap();
        let program = "#!/bin/sh\n# It does something else.\n";
        fs::write(theirs.path().join("probe"), program).unwrap();
        let name = theirs.path().file_name().unwrap().to_str().unwrap();
        assert!(!place(name));
        let text = fs::read_to_string(theirs.path().join("probe")).unwrap();
        // Nor is it written to.
        assert_eq!(text, program);
    }
}
