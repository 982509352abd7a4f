//! The kit of the workload `compile`: units of a kernel, preprocessed once on this host.
//!
//! It is made of Debian's package of the kernel's source, is kept in the cache by the hash of that
//! and the version of the compiler, and is the same for all targets.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use brisk_host::program::{self, Program};
use brisk_vm::cache::{self, Cache, key};
use serde::{Deserialize, Serialize};

use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::{NoOutput, output};

/// Raised when another kit is made of the same source.
const VERSION: u32 = 1;
/// Units of the kit, small ones first.
pub const UNITS: [&str; 12] = [
    "lib/rbtree",
    "kernel/printk/printk",
    "lib/idr",
    "lib/string",
    "kernel/irq/manage",
    "kernel/time/hrtimer",
    "fs/exec",
    "kernel/kthread",
    "fs/inode",
    "lib/xarray",
    "kernel/workqueue",
    "mm/memory",
];
/// Where the package puts its archive.
pub(super) const SOURCES: &str = "/usr/src";
/// What the units do not need of the source, as patterns of tar(1).
const LEFT_OUT: [&str; 4] = [
    "*/drivers/*.[ch]",
    "*/sound/*.[ch]",
    "*/Documentation/*/*",
    "*/tools/testing/*",
];
/// Programs that making the kit needs, each with its Debian package.
const NEEDS: [(&str, &str); 7] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
/// Options of the preprocessor: those with which the kernel is built, without its warnings.
const PREPROCESS: &[&str] = &[
    "-E",
    "-P",
    "-nostdinc",
    "-std=gnu11",
    "-m64",
    "-mcmodel=kernel",
    "-mno-sse",
    "-fno-pie",
    "-fshort-wchar",
    "-Iarch/x86/include",
    "-Iarch/x86/include/generated",
    "-Iinclude",
    "-Iarch/x86/include/uapi",
    "-Iarch/x86/include/generated/uapi",
    "-Iinclude/uapi",
    "-Iinclude/generated/uapi",
    "-include",
    "include/linux/compiler-version.h",
    "-include",
    "include/linux/kconfig.h",
    "-include",
    "include/linux/compiler_types.h",
    "-D__KERNEL__",
];

/// Units to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kit {
    /// What it was made of, for the report.
    pub source: String,
    /// Names, which end in `.i`, and contents.
    pub units: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Description {
    source: String,
    units: Vec<(String, u64)>,
}

/// A kit that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// There is no source.
    #[error(
        "no kernel source in {SOURCES} to compile: apt-get install linux-source, or measure a \
         command of your own with --workload command"
    )]
    NoSource,
    /// A program is missing.
    #[error("`{program}` is needed to make the units: apt-get install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package.
        package: &'static str,
    },
    /// A program failed.
    #[error("cannot prepare the kernel source {}", path.display())]
    Program {
        /// The source.
        path: PathBuf,
        /// The program's error.
        source: program::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot prepare the kernel source {}", path.display())]
    Io {
        /// The source.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A directory or archive is no kernel.
    #[error(
        "{} is no kernel source: it has no Kconfig and no Makefile; name the top directory of one, \
         or an archive with one directory",
        .0.display()
    )]
    NoKernel(PathBuf),
    /// Objects of another build are in the way.
    #[error(
        "{} was built in or configured: run `make mrproper` there, which also removes its \
         .config, or name a clean copy",
        .0.display()
    )]
    Built(PathBuf),
    /// The system does not let brisk wait for signals.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The user interrupts.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// The cache cannot be read or written.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// The first so many units, made if the cache has none.
///
/// # Errors
/// If there is no source, a program is missing or fails, or the cache cannot be written.
pub fn kit(cache: &Cache, count: usize, progress: &mut dyn FnMut(&str)) -> Result<Kit, KitError> {
    let source = find(Path::new(SOURCES)).ok_or(KitError::NoSource)?;
    let gcc = program("gcc", "gcc")?;
    let version = gcc.clone().arg("-dumpfullversion").run();
    let failed = |error| KitError::Program {
        path: source.clone(),
        source: error,
    };
    let version = version.map_err(failed)?;
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let hash = cache.content_hash(&source)?;
    let identity = format!("{VERSION} {hash} gcc {version} {UNITS:?} {PREPROCESS:?}");
    let entry = cache.get_or_build("compile-kit", &key(identity.as_bytes()), |file| {
        progress("preprocessing units of the kernel, once");
        make(&source, &gcc, file).map(|units| Description {
            source: format!("{}, gcc {version}", described(&source, &hash)),
            units,
        })
    })?;
    let unreadable = |error| KitError::Io {
        path: entry.path.clone(),
        source: error,
    };
    let mut file = File::open(&entry.path).map_err(unreadable)?;
    let mut units = Vec::new();
    for (name, size) in entry.meta.units.iter().take(count) {
        let mut content = vec![0; usize::try_from(*size).unwrap_or(usize::MAX)];
        file.read_exact(&mut content).map_err(unreadable)?;
        units.push((name.clone(), content));
    }
    Ok(Kit {
        source: entry.meta.source,
        units,
    })
}

pub(super) fn described(source: &Path, hash: &str) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let package = name.strip_suffix(".tar.xz").unwrap_or(&name);
    let query = Program::at("dpkg-query")
        .args(["-W", "-f=${Version}", package])
        .run();
    let version = query.ok().and_then(|text| String::from_utf8(text).ok());
    let version = version.map_or_else(String::new, |version| format!(" {version}"));
    format!("{package}{version} ({})", &hash[..16])
}

pub(super) fn program(name: &'static str, package: &'static str) -> Result<Program, KitError> {
    Program::find(name).map_err(|_| KitError::Missing {
        program: name,
        package,
    })
}

/// The newest archive of a source in a directory, by its version.
pub(super) fn find(directory: &Path) -> Option<PathBuf> {
    let version = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let version = name
            .strip_prefix("linux-source-")?
            .strip_suffix(".tar.xz")?;
        let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
        numbers.ok()
    };
    let entries = fs::read_dir(directory).ok()?.flatten();
    let archives = entries.map(|entry| entry.path());
    let versions = archives.filter_map(|path| Some((version(&path)?, path)));
    versions.max().map(|(_, path)| path)
}

/// Writes the units one after another; the result is their names and sizes.
fn make(source: &Path, gcc: &Program, file: &mut File) -> Result<Vec<(String, u64)>, KitError> {
    let failed = |error| KitError::Program {
        path: source.to_owned(),
        source: error,
    };
    let unreadable = |error| KitError::Io {
        path: source.to_owned(),
        source: error,
    };
    for (name, package) in NEEDS {
        program(name, package)?;
    }
    // The tree is removed, whatever ends this.
    let interrupt = Interrupt::by_signals().map_err(KitError::Signals)?;
    let place = tempfile::Builder::new()
        .prefix("brisk-kit-")
        .tempdir()
        .map_err(unreadable)?;
    let tree = place.path().join("tree");
    fs::create_dir(&tree).map_err(unreadable)?;
    let unpack = program("tar", "tar")?
        .arg("--strip-components=1")
        .arg("-xf")
        .arg(source);
    let unpack = unpack.arg("-C").arg(&tree);
    let run = |program: &Program| {
        output(program, &interrupt).map_err(|error| match error {
            NoOutput::Failed(error) => failed(error),
            NoOutput::Interrupted(signal) => KitError::Interrupted(signal),
        })
    };
    let unpack = unpack.args(LEFT_OUT.map(|pattern| format!("--exclude={pattern}")));
    run(&unpack)?;
    let make = |goal: &str| {
        let make = program("make", "make")?
            .args(["-s", "ARCH=x86_64", goal, "-C"])
            .arg(&tree);
        // Not those of a make that runs brisk.
        let make = make.unset(["MAKEFLAGS", "MFLAGS", "MAKELEVEL"]);
        run(&make)
    };
    make("tinyconfig")?;
    // Headers that are made; not all of `prepare`, which also builds a program that needs more.
    make("prepare0")?;
    let mut units = Vec::new();
    for unit in UNITS {
        let (name, program) = preprocess(&tree, gcc, unit);
        let content = run(&program)?;
        file.write_all(&content).map_err(unreadable)?;
        units.push((name, content.len() as u64));
    }
    Ok(units)
}

/// Name of a unit's file, and the program that prints its content.
fn preprocess(tree: &Path, gcc: &Program, unit: &str) -> (String, Program) {
    let base = unit.rsplit('/').next().unwrap_or(unit);
    let quoted = ["KBUILD_MODFILE", "KBUILD_BASENAME", "KBUILD_MODNAME"];
    let defined = quoted.map(|name| format!("-D{name}=\"{base}\""));
    // Paths of the headers are relative to the tree.
    let program = Program::at("env").arg("-C").arg(tree).arg(gcc.path());
    let program = program.args(PREPROCESS).args(defined);
    let program = program.arg(format!("-D__KBUILD_MODNAME=kmod_{base}"));
    let name = format!("{}.i", unit.replace('/', "-"));
    (name, program.arg(format!("{unit}.c")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_source_is_found_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()), None);
        for name in [
            "linux-source-6.1.tar.xz",
            "linux-source-6.12.tar.xz",
            "linux-source-6.9.tar.xz",
            "linux-source-x.tar.xz",
            "linux-source-7.0.tar",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let newest = dir.path().join("linux-source-6.12.tar.xz");
        assert_eq!(find(dir.path()), Some(newest));
    }
}
