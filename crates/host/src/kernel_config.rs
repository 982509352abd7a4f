//! Configuration of kernels that are installed or run, as text of a bounded size.

use std::io::Read;
use std::path::Path;

use crate::files;
use flate2::read::GzDecoder;

/// Bytes of a configuration that are read at most.
const LIMIT: u64 = 16 << 20;

/// A kernel's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelConfig {
    /// The file that it is from, as a path of the system that has it.
    pub path: String,
    /// Its lines, such as `CONFIG_NUMA=y`.
    pub text: String,
}

impl KernelConfig {
    /// That of the kernel `release` which runs on the system below `root`: of `/proc/config.gz`, or
    /// as [`KernelConfig::installed`].
    pub fn running(root: &Path, release: &str) -> Option<Self> {
        let path = "/proc/config.gz";
        match of_gzip(&files::below(root, Path::new(path))) {
            Some(text) => Some(Self {
                path: path.to_owned(),
                text,
            }),
            None => Self::installed(root, release),
        }
    }

    /// That of a kernel which is installed on the system below `root`, from `/boot` or from its
    /// modules. None if `release` is no name of a file.
    pub fn installed(root: &Path, release: &str) -> Option<Self> {
        if release.is_empty() || release.contains('/') || release.starts_with('.') {
            return None;
        }
        let paths = [
            format!("/boot/config-{release}"),
            format!("/usr/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/config"),
        ];
        paths.into_iter().find_map(|path| {
            let text = files::text(&files::below(root, Path::new(&path)))?;
            Some(Self { path, text })
        })
    }

    /// Whether an option is built in, by its name with `CONFIG_`.
    pub fn has(&self, option: &str) -> bool {
        let mut lines = self.text.lines();
        lines.any(|line| line.trim_end().strip_prefix(option) == Some("=y"))
    }
}

/// Text of a file that gzip compressed, at most [`LIMIT`] bytes of it.
fn of_gzip(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let text = GzDecoder::new(files::open(path).ok()?);
    text.take(LIMIT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn the_running_kernel_says_more_than_its_file() {
        let root = tempfile::tempdir().unwrap();
        let running = |release: &str| KernelConfig::running(root.path(), release);
        assert_eq!(running("6.12.1"), None);
        fs::create_dir_all(root.path().join("boot")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("boot/config-6.12.1"), "CONFIG_NUMA=y\n").unwrap();
        let config = running("6.12.1").unwrap();
        assert_eq!(config.path, "/boot/config-6.12.1");
        assert!(config.has("CONFIG_NUMA") && !config.has("CONFIG_NUM"));
        // A name that leads elsewhere.
        for release in ["", "../boot/config-6.12.1", "..", "x/../6.12.1"] {
            assert_eq!(running(release), None, "{release}");
        }
        let gz = root.path().join("proc/config.gz");
        let mut encoder = GzEncoder::new(File::create(&gz).unwrap(), Compression::fast());
        let text = "# CONFIG_NUMA is not set\nCONFIG_SMP=m\nCONFIG_PCI=y\n";
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let config = running("6.12.1").unwrap();
        assert_eq!(config.path, "/proc/config.gz");
        assert!(config.has("CONFIG_PCI"));
        assert!(!config.has("CONFIG_NUMA") && !config.has("CONFIG_SMP"));
        // A file that is no gzip, and a pipe, are as nothing.
        fs::write(&gz, "CONFIG_NUMA=y\n").unwrap();
        assert_eq!(running("6.12.1").unwrap().path, "/boot/config-6.12.1");
        fs::remove_file(&gz).unwrap();
        mknodat(CWD, &gz, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(running("6.12.1").unwrap().path, "/boot/config-6.12.1");
    }
}
