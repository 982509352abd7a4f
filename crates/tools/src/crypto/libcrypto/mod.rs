//! What OpenSSL says of itself: its version, providers, engines and configuration.

mod configuration;
mod parse;
pub(super) mod program;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::files;
use brisk_host::program::Program;
use serde::Serialize;

pub use configuration::{Configuration, Configured, SectionNames};
pub use parse::{CpuSettings, Engine, Provider, VersionInfo};

/// First version without engines.
const WITHOUT_ENGINES: u32 = 4;
/// Files of a directory that are looked at.
const FILES: usize = 1024;

/// An installed OpenSSL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its version and directories.
    #[serde(flatten)]
    pub version: VersionInfo,
    /// Providers that are loaded.
    pub providers: Vec<Provider>,
    /// Engines that are built in, or that the configuration loads.
    pub engines: Vec<Engine>,
    /// Names of engines that are installed.
    pub installed_engines: Vec<String>,
    /// Names of providers that are installed, beside those of the library itself.
    pub installed_providers: Vec<String>,
    /// Features of the CPU that it uses.
    #[serde(skip)]
    pub cpu: Option<CpuSettings>,
    /// Path of the configuration.
    pub configuration_path: Option<PathBuf>,
    /// Configuration, if it can be read.
    pub configuration: Option<Configuration>,
}

impl Library {
    /// Asks a program `openssl`, and reads the files that it names below `root`.
    ///
    /// # Errors
    /// Why there is none: it is not installed, or does not say its version within 10 s.
    pub fn of(openssl: &str, root: &Path) -> Result<Self, String> {
        let found = match openssl.contains('/') {
            true => Program::at(openssl),
            false => Program::find(openssl).map_err(|error| error.to_string())?,
        };
        let ask = |words: &[&str]| program::output(&found.clone().args(words), program::PATIENCE);
        let version = VersionInfo::parse(&ask(&["version", "-a"])?);
        if version.library.is_empty() {
            return Err(format!("{openssl} version -a does not tell a version"));
        }
        let has_engines = version.has_engines();
        let text = |words: &[&str]| ask(words).unwrap_or_default();
        let engines = match has_engines {
            true => Engine::parse(&text(&["engine", "-t"])),
            false => Vec::new(),
        };
        let providers = Provider::parse(&text(&["list", "-providers", "-verbose"]));
        let cpu = CpuSettings::parse(&text(&["info", "-cpusettings"]));
        let path = env::var_os("OPENSSL_CONF").map(PathBuf::from);
        Ok(Self {
            providers,
            engines,
            cpu,
            ..Self::below(root, version, path)
        })
    }

    /// A library of which only files were looked at: those that it names, below `root`. `path` is
    /// that of the configuration, if the environment has it (`OPENSSL_CONF`).
    #[must_use]
    pub fn below(root: &Path, version: VersionInfo, path: Option<PathBuf>) -> Self {
        let default = || Some(Path::new(version.directory.as_deref()?).join("openssl.cnf"));
        let configuration_path = path.or_else(default);
        let read = |path| Configuration::below(root, path);
        let configuration = configuration_path.as_deref().and_then(read);
        let libraries = |directory: &Option<String>| {
            let directory = directory.as_deref().map(Path::new);
            directory.map_or_else(Vec::new, |path| libraries(&files::below(root, path)))
        };
        let own = ["legacy", "fips"];
        let mut installed_providers = libraries(&version.modules);
        installed_providers.retain(|name| !own.contains(&&**name));
        Self {
            installed_engines: match version.has_engines() {
                true => libraries(&version.engines),
                false => Vec::new(),
            },
            installed_providers,
            providers: Vec::new(),
            engines: Vec::new(),
            cpu: None,
            configuration_path,
            configuration,
            version,
        }
    }

    /// Whether the configuration has programs use an engine.
    #[must_use]
    pub fn is_configured_engine(&self, id: &str) -> bool {
        let engines = self.configuration.iter().flat_map(|it| &it.engines);
        engines
            .into_iter()
            .any(|engine| engine.name == id && engine.is_active)
    }
}

impl VersionInfo {
    /// Whether it has engines: OpenSSL before 4.0.
    #[must_use]
    pub fn has_engines(&self) -> bool {
        self.major.is_some_and(|major| major < WITHOUT_ENGINES)
    }
}

/// Names of the shared libraries in a directory, without `.so`, sorted.
fn libraries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(FILES);
    let mut names: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".so").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}
