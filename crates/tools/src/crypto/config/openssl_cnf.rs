//! `openssl.cnf` (config(5ssl)) that has programs use an engine, a provider or kTLS. Pure.
//!
//! The text includes the machine's own file and adds to it: settings of a section that is named again
//! are added to those before. It is for `OPENSSL_CONF` of one program, or, without the line
//! `.include`, for the end of that file.

use std::fmt::Write;

use crate::crypto::libcrypto::{Library, SectionNames};
use crate::crypto::{Algorithm, Kind};

/// File for `OPENSSL_CONF`.
pub(super) const FILE: &str = "/etc/ssl/openssl-offload.cnf";
/// Section that everything begins at where the machine's file has none.
const START: &str = "brisk_init";

/// A text in the making.
struct Text<'a> {
    text: String,
    names: SectionNames,
    library: &'a Library,
}

impl<'a> Text<'a> {
    fn new(library: &'a Library, comment: &str) -> Self {
        let mut text = comment.to_owned();
        if let Some(path) = &library.configuration_path {
            let _ = writeln!(text, ".include {}", path.display());
        }
        let names = library.configuration.as_ref().map(|it| it.names.clone());
        let mut made = Self {
            text,
            names: names.unwrap_or_default(),
            library,
        };
        if made.names.start.is_none() {
            made.section("default", &[("openssl_conf", START)]);
        }
        made
    }

    fn section(&mut self, name: &str, settings: &[(&str, &str)]) {
        let _ = writeln!(self.text, "\n[{name}]");
        for (key, value) in settings {
            let _ = writeln!(self.text, "{key} = {value}");
        }
    }

    /// A section that the first section names: the machine's, or a new one.
    fn below_start(&mut self, key: &str, known: Option<String>, new: &str) -> String {
        if let Some(known) = known {
            return known;
        }
        let start = self.names.start.clone();
        self.section(start.as_deref().unwrap_or(START), &[(key, new)]);
        new.to_owned()
    }
}

/// An engine that is used for what it has of the algorithm's kind.
pub(super) fn engine(
    library: &Library,
    name: &str,
    algorithm: &Algorithm,
    comment: &str,
) -> String {
    let mut text = Text::new(library, comment);
    let known = text.names.engines.clone();
    let list = text.below_start("engines", known, "brisk_engines");
    let own = format!("brisk_{name}");
    text.section(&list, &[(name, &own)]);
    // Without this command devcrypto has no digests.
    let digest = algorithm.name.to_uppercase();
    let mut settings = vec![("engine_id", name)];
    if name == "devcrypto" && algorithm.kind == Kind::Hash {
        settings.push(("DIGESTS", &digest));
    }
    let what = match algorithm.kind {
        Kind::Hash => "DIGESTS",
        Kind::Cipher | Kind::Aead => "CIPHERS",
    };
    settings.push(("default_algorithms", what));
    text.section(&own, &settings);
    text.text
}

/// A provider that is preferred, beside the default one, which is not active by itself any more as
/// soon as another is activated.
pub(super) fn provider(library: &Library, name: &str, comment: &str) -> String {
    let mut text = Text::new(library, comment);
    let SectionNames {
        providers,
        default_provider,
        algorithms,
        ..
    } = text.names.clone();
    let list = text.below_start("providers", providers, "brisk_providers");
    let own = format!("brisk_{name}");
    match default_provider {
        Some(default) => {
            text.section(&list, &[(name, &own)]);
            text.section(&default, &[("activate", "1")]);
        }
        None => {
            text.section(&list, &[("default", "brisk_default"), (name, &own)]);
            text.section("brisk_default", &[("activate", "1")]);
        }
    }
    text.section(&own, &[("activate", "1")]);
    let configuration = text.library.configuration.as_ref();
    let before = configuration.and_then(|it| it.default_properties.as_deref());
    let properties = before.map_or_else(
        || format!("?provider={name}"),
        |before| format!("{before},?provider={name}"),
    );
    let list = text.below_start("alg_section", algorithms, "brisk_algorithms");
    text.section(&list, &[("default_properties", &properties)]);
    text.text
}

/// kTLS for programs that use libssl.
pub(super) fn ktls(library: &Library, comment: &str) -> String {
    let mut text = Text::new(library, comment);
    let SectionNames {
        ssl,
        ssl_default,
        ssl_options,
        ..
    } = text.names.clone();
    let options = ssl_options.map_or_else(|| "KTLS".to_owned(), |before| format!("{before},KTLS"));
    let list = text.below_start("ssl_conf", ssl, "brisk_ssl");
    let section = ssl_default.unwrap_or_else(|| {
        text.section(&list, &[("system_default", "brisk_tls")]);
        "brisk_tls".to_owned()
    });
    text.section(&section, &[("Options", &options)]);
    text.text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::crypto::libcrypto::{Configuration, VersionInfo};

    /// Output of `openssl` with a configuration, which it has to take without a word.
    fn with_configuration(text: &str, words: &[&str]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let output = Command::new("openssl")
            .args(words)
            .env("OPENSSL_CONF", file.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The installed OpenSSL takes what is made, with configurations of several forms before it: it has
    /// neither a device's engine nor a device's provider, so that software of its own stands for them.
    #[test]
    fn the_installed_openssl_takes_the_configuration() {
        let algorithm = Algorithm::find("aes-128-cbc").unwrap();
        let before = tempfile::NamedTempFile::new().unwrap();
        for content in [
            "",
            "config_diagnostics = 1\n",
            "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\n\
                 [provider_sect]\ndefault = default_sect\n[default_sect]\n# activate = 1\n",
            "openssl_conf = x\n[x]\nssl_conf = y\nengines = z\nalg_section = v\n[y]\n\
             system_default = w\n[w]\nOptions = PrioritizeChaCha\n[z]\n[v]\n",
        ] {
            let strict = format!("config_diagnostics = 1\n{content}");
            std::fs::write(before.path(), &strict).unwrap();
            let library = Library {
                configuration_path: Some(before.path().to_owned()),
                configuration: Some(Configuration::parse(content)),
                ..Library::below(Path::new("/nonexistent"), VersionInfo::default(), None)
            };
            let text = engine(&library, "loader_attic", algorithm, "# why\n");
            let engines = with_configuration(&text, &["engine"]);
            assert!(engines.contains("(loader_attic)"), "{engines}{text}");
            let text = provider(&library, "legacy", "# why\n");
            let providers = with_configuration(&text, &["list", "-providers"]);
            for name in ["default", "legacy"] {
                assert!(
                    providers.contains(&format!("  {name}\n")),
                    "{providers}{text}"
                );
            }
            let text = ktls(&library, "# why\n");
            let _ = with_configuration(&text, &["ciphers"]);
            let again = Configuration::parse(&format!("{content}\n{text}"));
            let options = again.names.ssl_options.unwrap();
            assert!(options.ends_with("KTLS"), "{options}");
        }
    }
}
