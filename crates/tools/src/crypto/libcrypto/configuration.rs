//! `openssl.cnf` (config(5ssl)): providers and engines that it activates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::files;
use serde::Serialize;

/// Lines that are read at most.
const LINES: usize = 20_000;

/// A configuration, as far as it is about implementations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Configuration {
    /// Providers that it names.
    pub providers: Vec<Configured>,
    /// Engines that it names.
    pub engines: Vec<Configured>,
    /// Properties that each implementation must have, such as `fips=yes`.
    pub default_properties: Option<String>,
    /// Whether it includes other files.
    pub has_includes: bool,
    /// Sections that settings are to be added to.
    #[serde(skip)]
    pub names: SectionNames,
}

/// Names of sections, and a value in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SectionNames {
    /// Section that `openssl_conf` names: without one OpenSSL takes nothing from the file.
    pub start: Option<String>,
    /// Section of `engines`.
    pub engines: Option<String>,
    /// Section of `providers`.
    pub providers: Option<String>,
    /// Section of the provider `default` in that.
    pub default_provider: Option<String>,
    /// Section of `alg_section`.
    pub algorithms: Option<String>,
    /// Section of `ssl_conf`.
    pub ssl: Option<String>,
    /// Section of `system_default` in that.
    pub ssl_default: Option<String>,
    /// `Options` in that.
    pub ssl_options: Option<String>,
}

/// A provider or an engine in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// Its name.
    pub name: String,
    /// Whether programs that read the configuration use it: a provider that is activated, or an
    /// engine with `default_algorithms`.
    pub is_active: bool,
}

type Sections = BTreeMap<String, Vec<(String, String)>>;

/// Files that one includes, and those include, at most.
const FILES: usize = 64;
/// Bytes of all of them at most.
const ALL_BYTES: usize = 16 << 20;

/// The text of a configuration with those that it includes in the place of its lines `.include`
/// (config(5ssl)), each once. `read` gives the texts of a path: one of a file, several of a
/// directory, none if it cannot be read, which is no error for OpenSSL, either. Paths with variables
/// are left alone.
fn expanded(text: &str, read: &mut dyn FnMut(&Path) -> Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    let mut all = String::new();
    // Lines to be read, the next one last.
    let mut lines: Vec<String> = text.lines().rev().map(str::to_owned).collect();
    while let Some(line) = lines.pop() {
        let path = included(&line).map(str::to_owned);
        all.push_str(&line);
        all.push('\n');
        let Some(path) = path.filter(|path| !path.contains('$')) else {
            continue;
        };
        if seen.len() < FILES && seen.insert(path.clone()) {
            let texts = read(Path::new(&path));
            let fits = |text: &&String| all.len() + text.len() < ALL_BYTES;
            for text in texts.iter().rev().filter(fits) {
                lines.extend(text.lines().rev().map(str::to_owned));
            }
        }
    }
    all
}

/// Path of a line `.include path` or `.include = path`.
fn included(line: &str) -> Option<&str> {
    let rest = line.split('#').next()?.trim().strip_prefix(".include")?;
    let rest = rest.trim_start();
    let path = rest.strip_prefix('=').unwrap_or(rest).trim();
    (!path.is_empty()).then_some(path)
}

impl Configuration {
    /// Reads a file of the system below `root`, with those that it includes; none if it cannot be
    /// read. Paths that are relative are of that root, too.
    #[must_use]
    pub fn below(root: &Path, path: &Path) -> Option<Self> {
        let text = files::text(&files::below(root, path))?;
        Some(Self::with_includes(&text, root))
    }

    /// Parses the text of a file with what it includes from the system below `root`.
    #[must_use]
    pub fn with_includes(text: &str, root: &Path) -> Self {
        let mut read = |path: &Path| -> Vec<String> {
            // OpenSSL takes a relative path from where it runs.
            let path = match root == Path::new("/") {
                true => path.to_owned(),
                false => files::below(root, path),
            };
            let Ok(entries) = fs::read_dir(&path) else {
                return files::text(&path).into_iter().collect();
            };
            let paths = entries.flatten().map(|entry| entry.path());
            let is_one = |path: &PathBuf| {
                let end = path.extension();
                end.is_some_and(|end| end == "cnf" || end == "conf")
            };
            let mut paths: Vec<_> = paths.filter(is_one).take(FILES).collect();
            paths.sort();
            paths.iter().filter_map(|path| files::text(path)).collect()
        };
        Self::parse(&expanded(text, &mut read))
    }

    /// Parses a text without what it includes. Variables (`$name`) are not expanded.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (sections, has_includes) = sections(text);
        let value = |section: &str, key: &str| {
            let entries = sections.get(section).into_iter().flatten();
            let found = entries.into_iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        let Some(start) = value("", "openssl_conf") else {
            return Self {
                has_includes,
                ..Self::default()
            };
        };
        let named = |list: &str| {
            let section = value(&start, list).unwrap_or_default();
            let entries = sections.get(&section).cloned().unwrap_or_default();
            entries.into_iter()
        };
        let providers = named("providers").map(|(name, section)| Configured {
            is_active: value(&section, "activate").is_some_and(|value| is_true(&value)),
            name,
        });
        let engines = named("engines").map(|(name, section)| Configured {
            is_active: value(&section, "default_algorithms").is_some(),
            name: value(&section, "engine_id").unwrap_or(name),
        });
        let ssl = value(&start, "ssl_conf");
        let ssl_default = ssl.as_deref().and_then(|ssl| value(ssl, "system_default"));
        let list = value(&start, "providers");
        let names = SectionNames {
            engines: value(&start, "engines"),
            default_provider: list.as_deref().and_then(|list| value(list, "default")),
            providers: list,
            algorithms: value(&start, "alg_section"),
            ssl_options: ssl_default.as_deref().and_then(|one| value(one, "Options")),
            ssl_default,
            ssl,
            start: Some(start.clone()),
        };
        let properties =
            value(&start, "alg_section").and_then(|section| value(&section, "default_properties"));
        Self {
            providers: providers.collect(),
            engines: engines.collect(),
            default_properties: properties,
            has_includes,
            names,
        }
    }

    /// Whether only implementations that are validated by FIPS 140 are used.
    #[must_use]
    pub fn is_fips(&self) -> bool {
        let properties = self.default_properties.as_deref().unwrap_or_default();
        let mut properties = properties.split(',').map(str::trim);
        properties.any(|one| ["fips=yes", "fips", "fips=1"].contains(&one))
    }
}

/// Values that `OSSL_PROVIDER` takes for yes (`provider_conf_params` and `provider_conf_activate`
/// of `crypto/provider_conf.c`).
fn is_true(value: &str) -> bool {
    ["1", "yes", "true", "on"].contains(&&*value.to_lowercase())
}

fn sections(text: &str) -> (Sections, bool) {
    let mut sections = Sections::new();
    let mut has_includes = false;
    let mut section = String::new();
    for line in text.lines().take(LINES) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with(".include") {
            has_includes = true;
        } else if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            section = match name.trim() {
                "default" => String::new(),
                name => name.to_owned(),
            };
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            let entries = sections.entry(section.clone()).or_default();
            // The last one counts.
            entries.retain(|(name, _)| *name != key);
            entries.push((key, value));
        }
    }
    (sections, has_includes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's, shortened, with the engine of its `README.Debian` and a provider.
    const TEXT: &str = "
# a comment
openssl_conf = openssl_init
.include /etc/ssl/fipsmodule.cnf
[ new_oids ]
tsa = 1.2
[openssl_init]
providers = provider_sect # those
engines = engine_section
alg_section = algorithm_sect
ssl_conf = ssl_sect
[ssl_sect]
system_default = tls_sect
[tls_sect]
Options = PrioritizeChaCha
[provider_sect]
default = default_sect
qatprovider = qat_sect
[default_sect]
# activate = 1
[qat_sect]
activate = 1
[engine_section]
afalg = afalg_section
other = other_section
[afalg_section]
engine_id = afalg
default_algorithms = ALL
[other_section]
init = 0
[algorithm_sect]
default_properties = fips=yes
";

    #[test]
    fn what_is_activated_is_found() {
        let configuration = Configuration::parse(TEXT);
        let configured = |name: &str, is_active| Configured {
            name: name.into(),
            is_active,
        };
        assert_eq!(
            configuration,
            Configuration {
                providers: vec![
                    configured("default", false),
                    configured("qatprovider", true)
                ],
                engines: vec![configured("afalg", true), configured("other", false)],
                default_properties: Some("fips=yes".into()),
                has_includes: true,
                names: SectionNames {
                    start: Some("openssl_init".into()),
                    engines: Some("engine_section".into()),
                    providers: Some("provider_sect".into()),
                    default_provider: Some("default_sect".into()),
                    algorithms: Some("algorithm_sect".into()),
                    ssl: Some("ssl_sect".into()),
                    ssl_default: Some("tls_sect".into()),
                    ssl_options: Some("PrioritizeChaCha".into()),
                },
            }
        );
        assert!(configuration.is_fips());
    }

    #[test]
    fn included_files_count_in_their_place() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "etc/ssl/openssl.cnf",
            "openssl_conf = start\n[start]\nproviders = list\n",
        );
        write("etc/ssl/own.d/1.cnf", "[list]\nfirst = first_section\n");
        write("etc/ssl/own.d/2.conf", "[first_section]\nactivate = 1\n");
        write("etc/ssl/own.d/3.txt", "[list]\nnot = this\n");
        // It includes itself, and one that is not there.
        write(
            "own.cnf",
            ".include /etc/ssl/openssl.cnf\n.include = /etc/ssl/own.d\n.include /own.cnf\n\
             .include /missing\n[start]\nengines = engines\n[engines]\nafalg = a\n[a]\n\
             default_algorithms = ALL\n",
        );
        let found = Configuration::below(root.path(), Path::new("/own.cnf")).unwrap();
        let named = |all: &[Configured]| -> Vec<(String, bool)> {
            all.iter()
                .map(|one| (one.name.clone(), one.is_active))
                .collect()
        };
        assert_eq!(named(&found.providers), [("first".to_owned(), true)]);
        assert_eq!(named(&found.engines), [("afalg".to_owned(), true)]);
        assert!(found.has_includes);
        assert_eq!(
            Configuration::below(root.path(), Path::new("/missing")),
            None
        );
        // Without end, but for the bound.
        let mut count = 0;
        let text = expanded(".include /0", &mut |path| {
            count += 1;
            vec![format!("x = {}\n.include /{count}", path.display())]
        });
        assert_eq!((count, text.lines().count()), (FILES, 2 * FILES + 1));
    }

    #[test]
    fn sections_that_nothing_refers_to_do_nothing() {
        let text = TEXT.replace("openssl_conf = openssl_init", "");
        let configuration = Configuration::parse(&text);
        assert!(configuration.engines.is_empty() && configuration.providers.is_empty());
        for text in ["", "[", "[]\n=\n", "openssl_conf = x\n[x]\nengines = x\n"] {
            assert!(!Configuration::parse(text).is_fips(), "{text}");
        }
    }
}
