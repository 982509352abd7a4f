//! The workload `kernel`: a whole kernel, compiled by make.
//!
//! The source is one tar archive, which every target unpacks into its work directory.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use brisk_vm::cache::{Cache, key};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};

use super::kit::{KitError, SOURCES, described, find, program};
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::{NoOutput, output};

/// Raised when another archive is made of the same source.
const VERSION: u32 = 1;
/// Directory of the source in an archive and in a work directory.
pub(super) const TREE: &str = "tree";
/// Configuration that is the default, and whose sources are few.
pub const TINY: &str = "tinyconfig";
/// Parts of `drivers` and `fs` of which `tinyconfig` compiles nothing.
const UNUSED: [&str; 31] = [
    "drivers/clk",
    "drivers/crypto",
    "drivers/gpu",
    "drivers/hid",
    "drivers/hwmon",
    "drivers/i2c",
    "drivers/iio",
    "drivers/infiniband",
    "drivers/input",
    "drivers/md",
    "drivers/media",
    "drivers/mfd",
    "drivers/misc",
    "drivers/mtd",
    "drivers/net",
    "drivers/phy",
    "drivers/pinctrl",
    "drivers/power",
    "drivers/regulator",
    "drivers/s390",
    "drivers/scsi",
    "drivers/soc",
    "drivers/spi",
    "drivers/staging",
    "drivers/target",
    "drivers/usb",
    "drivers/video",
    "fs/btrfs",
    "fs/nls",
    "samples",
    "sound",
];
/// What else it does not need, as patterns of tar(1) below the top directory.
const LEFT_OUT: [&str; 4] = [
    "Documentation/*/*",
    "tools/perf/*",
    "tools/testing/*",
    "arch/[!x]*/*.[chS]",
];

/// Patterns of grep(1) for a configuration that puts random numbers into objects.
const RANDOM: &str = "-e ^CONFIG_MODULE_SIG=y -e ^CONFIG_RANDSTRUCT=y";
/// Name of the fact that objects are not compared for that. One word.
pub(super) const NOT_COMPARED: &str = "not-compared";

/// A kernel to compile.
#[derive(Debug)]
pub struct Kernel {
    /// Its source.
    pub source: Source,
    /// Target of make that configures it, such as `tinyconfig`, or the text of a `.config`.
    pub config: Config,
    /// Jobs of make.
    pub jobs: usize,
    /// Targets of make, such as `all`.
    pub goal: String,
}

/// How a kernel is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// By a target of make.
    Target(String),
    /// By the content of a `.config`, which is completed by defaults.
    Text(Vec<u8>),
}

/// An archive of a kernel's source.
#[derive(Debug)]
pub struct Source {
    /// What it is of, for the report.
    pub name: String,
    /// Path of the archive; the source is in its directory `tree`.
    pub(super) archive: PathBuf,
    /// Removes an archive that is not of the cache.
    _temporary: Option<TempPath>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Description {
    source: String,
}

impl Source {
    /// Debian's source of a kernel, from the cache; only what `tinyconfig` needs if `is_tiny`.
    ///
    /// # Errors
    /// If there is none, a program is missing or fails, or the cache cannot be written.
    pub fn of_debian(
        cache: &Cache,
        is_tiny: bool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, KitError> {
        let source = find(Path::new(SOURCES)).ok_or(KitError::NoSource)?;
        let hash = cache.content_hash(&source)?;
        let left_out = if is_tiny { left_out() } else { Vec::new() };
        let identity = format!("{VERSION} {hash} {left_out:?}");
        let entry = cache.get_or_build("kernel-source", &key(identity.as_bytes()), |file| {
            progress("unpacking the kernel's source, once");
            let interrupt = Interrupt::by_signals().map_err(KitError::Signals)?;
            repack(&source, &left_out, file, &interrupt).map(|()| Description {
                source: described(&source, &hash),
            })
        })?;
        Ok(Self {
            name: entry.meta.source,
            archive: entry.path,
            _temporary: None,
        })
    }

    /// A source of the user's: its top directory, or an archive. `interrupt` ends the copy, and
    /// must outlive the result: a signal that ends the process would leave the copy.
    ///
    /// # Errors
    /// If it is no kernel, was built in, or cannot be read or copied to `TMPDIR`.
    pub fn at(path: &Path, interrupt: &Interrupt) -> Result<Self, KitError> {
        let failed = |error| KitError::Io {
            path: path.to_owned(),
            source: error,
        };
        let mut file = NamedTempFile::with_prefix("brisk-kernel-").map_err(failed)?;
        let is_directory = fs::metadata(path).map_err(failed)?.is_dir();
        if is_directory {
            check(path, path)?;
            pack(path, path, file.as_file_mut(), interrupt)?;
        } else {
            repack(path, &[], file.as_file_mut(), interrupt)?;
        }
        let hash = match is_directory {
            true => content_hash(file.as_file_mut(), interrupt),
            // An archive that is packed again has the time of now.
            false => File::open(path).and_then(|mut file| content_hash(&mut file, interrupt)),
        };
        let hash = hash.map_err(|error| match interrupt.signal() {
            Some(signal) => KitError::Interrupted(signal),
            None => failed(error),
        })?;
        let temporary = file.into_temp_path();
        Ok(Self {
            name: format!("{} ({hash})", path.display()),
            archive: temporary.to_path_buf(),
            _temporary: Some(temporary),
        })
    }
}

/// Beginning of the SHA-256 of a file, which may be large.
fn content_hash(file: &mut File, interrupt: &Interrupt) -> io::Result<String> {
    file.rewind()?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        if interrupt.signal().is_some() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let hash = hasher.finalize();
    Ok(hash[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn left_out() -> Vec<String> {
    let unused = UNUSED.map(|folder| format!("*/{folder}/*.[ch]"));
    let others = LEFT_OUT.map(|pattern| format!("*/{pattern}"));
    unused.into_iter().chain(others).collect()
}

/// Whether a directory is the top of a kernel's source in which nothing was built. `path` is what
/// the user named.
fn check(tree: &Path, path: &Path) -> Result<(), KitError> {
    let has = |name: &str| tree.join(name).exists();
    if !has("Kconfig") || !has("Makefile") {
        return Err(KitError::NoKernel(path.to_owned()));
    }
    // The kernel's Makefile refuses to build elsewhere then.
    if has(".config") || has("include/config") || has("arch/x86/include/generated") {
        return Err(KitError::Built(path.to_owned()));
    }
    Ok(())
}

/// Packs an archive once more, without some of its files.
fn repack(
    source: &Path,
    left_out: &[String],
    file: &mut File,
    interrupt: &Interrupt,
) -> Result<(), KitError> {
    let failed = |error| KitError::Io {
        path: source.to_owned(),
        source: error,
    };
    program("xz", "xz-utils")?;
    let place = tempfile::Builder::new()
        .prefix("brisk-kernel-")
        .tempdir()
        .map_err(failed)?;
    let unpack = program("tar", "tar")?
        .args(["--strip-components=1", "--no-same-owner", "-xf"])
        .arg(source)
        .arg("-C")
        .arg(place.path())
        .args(
            left_out
                .iter()
                .map(|pattern| format!("--exclude={pattern}")),
        );
    output(&unpack, interrupt).map_err(|error| match error {
        NoOutput::Failed(error) => KitError::Program {
            path: source.to_owned(),
            source: error,
        },
        NoOutput::Interrupted(signal) => KitError::Interrupted(signal),
    })?;
    check(place.path(), source)?;
    pack(place.path(), source, file, interrupt)
}

fn pack(
    tree: &Path,
    source: &Path,
    file: &mut File,
    interrupt: &Interrupt,
) -> Result<(), KitError> {
    let failed = |error| match interrupt.signal() {
        Some(signal) => KitError::Interrupted(signal),
        None => KitError::Io {
            path: source.to_owned(),
            source: error,
        },
    };
    let file = Interruptible { file, interrupt };
    let mut builder = tar::Builder::new(io::BufWriter::new(file));
    builder.follow_symlinks(false);
    builder.append_dir_all(TREE, tree).map_err(failed)?;
    let writer = builder.into_inner().map_err(failed)?;
    writer
        .into_inner()
        .map(drop)
        .map_err(|error| failed(error.into_error()))
}

/// A file that cannot be written to after an interrupt.
struct Interruptible<'a> {
    file: &'a mut File,
    interrupt: &'a Interrupt,
}

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.interrupt.came() {
            // The kind of this name has callers try again.
            true => Err(io::Error::other("interrupted")),
            false => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Shell text for what makes a build the same everywhere, whenever and wherever it is.
const FIXED: &str = "KBUILD_BUILD_TIMESTAMP='1970-01-01 00:00:00 UTC' KBUILD_BUILD_USER=brisk \
                     KBUILD_BUILD_HOST=brisk KBUILD_BUILD_VERSION=1 LOCALVERSION= ARCH=x86_64 \
                     KCFLAGS=\"-fdebug-prefix-map=$d=/work\" KAFLAGS=\"-fdebug-prefix-map=$d=/work\"";

/// Programs that a build needs of a target, each with its Debian package.
const NEEDS: [(&str, &str); 9] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("find", "findutils"),
    ("sha256sum", "coreutils"),
    ("perl", "perl"),
];

impl Kernel {
    /// Shell text that fails with what a target lacks.
    pub(super) fn lacks() -> String {
        let programs = NEEDS.map(|(name, package)| {
            format!(
                "command -v {name} >/dev/null || {{ echo \"there is no {name}: install {package}\"; \
                 s=1; }}; "
            )
        });
        format!(
            "s=0; {{ {}echo '#include <gelf.h>' | gcc -E -o /dev/null - 2>/dev/null || {{ echo \
             'there is no gelf.h: install libelf-dev'; s=1; }}; }} >out/errors; (exit $s)",
            programs.concat()
        )
    }

    fn make(&self, goal: &str) -> String {
        let jobs = self.jobs;
        let unset = "unset MAKEFLAGS MFLAGS MAKELEVEL";
        format!("({unset}; make -s -C {TREE} O=build -j{jobs} {FIXED} {goal} </dev/null)")
    }

    /// Shell text that makes a fresh directory, configured.
    fn configured(&self) -> String {
        let configured = match &self.config {
            Config::Target(target) => self.make(&quoted(target)),
            Config::Text(_) => format!(
                "cp config {TREE}/build/.config && {}",
                self.make("olddefconfig")
            ),
        };
        format!("rm -rf {TREE}/build && mkdir {TREE}/build && {configured} >out/output")
    }

    /// Shell text that configures once, for the hash of the configuration.
    pub(super) fn tried(&self) -> String {
        let configured = self.configured();
        format!(
            "{{ {configured} && h=$(sha256sum <{TREE}/build/.config) && say \"fact configuration \
             ${{h%% *}}\" && if grep -q {RANDOM} {TREE}/build/.config; then say fact {NOT_COMPARED} yes; \
             fi; }} 2>out/errors"
        )
    }

    /// Shell text before the time: a fresh directory, configured, and all files read once.
    pub(super) fn before(&self) -> String {
        let configured = self.configured();
        format!(
            "{{ {configured} && find {TREE} -type f -exec cat {{}} + >/dev/null; }} 2>out/errors"
        )
    }

    pub(super) fn work(&self) -> String {
        let goal = quoted(&self.goal);
        format!("{} >out/output 2>out/errors", self.make(&goal))
    }

    /// Shell text for hashes of what was built: of the configuration, of the names of all objects,
    /// and of the objects of each directory, but for those of programs of the build, and those for
    /// real mode: they are compiled with debug information and without [`FIXED`]'s flags, and so have
    /// the path of the work directory. A configuration that has random numbers in its objects gives
    /// names only.
    pub(super) fn proof() -> String {
        let sum = "LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum";
        format!(
            "(cd {TREE}/build && h=$(sha256sum <.config) && say \"proof ${{h%% *}} .config\" && \
             h=$(find . -name '*.o' ! -path './scripts/*' ! -path './tools/*' | LC_ALL=C sort | \
             sha256sum) && say \"proof ${{h%% *}} names\" && {{ grep -q {RANDOM} .config || for p in *; do case $p in scripts|tools|source) \
             continue;; vmlinux) ;; *) [ -d $p ] || continue;; esac; h=$(find $p \\( -name '*.o' -o \
             -name vmlinux \\) -type f ! -path 'arch/*/boot/*' ! -path 'arch/*/realmode/*' -print0 | {sum}) && say \"proof ${{h%% *}} $p\"; done; }}) && \
             rm -rf {TREE}/build"
        )
    }
}

fn quoted(text: &str) -> String {
    brisk_host::program::quote(text.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_of_make_is_one_word() {
        let config = |text: &str| {
            let kernel = Kernel {
                source: Source {
                    name: String::new(),
                    archive: PathBuf::new(),
                    _temporary: None,
                },
                config: Config::Target(text.to_owned()),
                jobs: 1,
                goal: "a;b".to_owned(),
            };
            (kernel.configured(), kernel.work())
        };
        let (configured, work) = config("x; reboot config");
        assert!(configured.contains(" 'x; reboot config' "), "{configured}");
        assert!(work.contains(" 'a;b' "), "{work}");
    }

    #[test]
    fn a_directory_is_a_kernel_that_is_clean_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new().unwrap();
        let refused = Source::at(dir.path(), &interrupt).unwrap_err();
        assert!(matches!(refused, KitError::NoKernel(_)), "{refused}");
        for name in ["Kconfig", "Makefile"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let source = Source::at(dir.path(), &interrupt).unwrap();
        let mut archive = tar::Archive::new(File::open(&source.archive).unwrap());
        let paths = archive.entries().unwrap();
        let mut paths: Vec<_> = paths
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        paths.sort();
        assert_eq!(paths, ["tree/", "tree/Kconfig", "tree/Makefile"]);
        let path = source.archive.clone();
        drop(source);
        assert!(!path.exists());
        fs::write(dir.path().join(".config"), "").unwrap();
        let refused = Source::at(dir.path(), &interrupt).unwrap_err();
        assert!(matches!(refused, KitError::Built(_)), "{refused}");
    }
}
