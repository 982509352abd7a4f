//! Files of a test.

use std::fs;
use std::path::Path;

use tempfile::{TempDir, tempdir};

/// A directory of a test's own, which is removed when dropped.
#[derive(Debug)]
pub struct Files {
    dir: TempDir,
}

impl Files {
    /// An empty one.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it is made for a test, not by default"
    )]
    pub fn new() -> Self {
        Self {
            dir: tempdir().unwrap(),
        }
    }

    /// Path of a file, as a word of a command line.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        path.into_os_string().into_string().unwrap()
    }

    /// Writes a file, whose directory is made; its path.
    #[must_use]
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}
