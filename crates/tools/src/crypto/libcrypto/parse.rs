//! Outputs of the subcommands of `openssl`. Pure.

use std::fmt;

use serde::Serialize;

/// Lines that are read of an output at most.
const LINES: usize = 10_000;

/// What `openssl version -a` says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct VersionInfo {
    /// Name and version of the library, such as `OpenSSL 3.0.19`.
    pub library: String,
    /// First number of its version; None if it is not OpenSSL's.
    pub major: Option<u32>,
    /// Directory with `openssl.cnf`.
    pub directory: Option<String>,
    /// Directory with engines; OpenSSL 4 has none.
    pub engines: Option<String>,
    /// Directory with providers.
    pub modules: Option<String>,
}

/// A provider that is loaded (`openssl list -providers -verbose`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// Name in configurations, such as `default`.
    pub id: String,
    /// Its own name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it is active.
    pub is_active: bool,
}

/// An engine that is built in or that a configuration loads (`openssl engine -t`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Name in configurations, such as `afalg`.
    pub id: String,
    /// Its own name.
    pub name: String,
    /// Whether it can be initialised.
    pub is_available: bool,
}

/// Features of the CPU that libcrypto uses (OPENSSL_ia32cap(3ssl)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuSettings {
    /// Of x86: the first two 64-bit words.
    X86([u64; 2]),
    /// Of Arm: the bits of `crypto/arm_arch.h`.
    Arm(u64),
}

impl VersionInfo {
    /// Parses the output of `openssl version -a`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let first = text.lines().next().unwrap_or_default();
        // The program may be of another version than the library that it is linked with.
        let library = first.split_once("(Library: ").map_or(first, |(_, it)| it);
        let mut words = library.split_whitespace();
        let (name, number) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let major = number.split('.').next().and_then(|part| part.parse().ok());
        let field = |key: &str| {
            let mut lines = text.lines().take(LINES);
            let value = lines.find_map(|line| line.strip_prefix(key))?;
            // Without engines it says `ENGINESDIR: N/A`.
            Some(value.trim().trim_matches('"').to_owned()).filter(|path| path.starts_with('/'))
        };
        Self {
            library: format!("{name} {number}").trim().to_owned(),
            major: major.filter(|_| name == "OpenSSL"),
            directory: field("OPENSSLDIR:"),
            engines: field("ENGINESDIR:"),
            modules: field("MODULESDIR:"),
        }
    }
}

impl Provider {
    /// Parses the output of `openssl list -providers -verbose`.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let lines = text.lines().take(LINES);
        for line in lines.skip_while(|line| *line != "Providers:").skip(1) {
            let depth = line.len() - line.trim_start().len();
            match (depth, line.trim().split_once(": ")) {
                (2, _) => all.push(Self {
                    id: line.trim().to_owned(),
                    name: String::new(),
                    version: String::new(),
                    is_active: false,
                }),
                (4, Some((key, value))) => {
                    if let Some(last) = all.last_mut() {
                        match key {
                            "name" => value.clone_into(&mut last.name),
                            "version" => value.clone_into(&mut last.version),
                            "status" => last.is_active = value == "active",
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }
}

impl Engine {
    /// Parses the output of `openssl engine -t`.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in text.lines().take(LINES) {
            if let Some((id, name)) = line
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(") "))
            {
                all.push(Self {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    is_available: false,
                });
            } else if let (Some(last), "[ available ]") = (all.last_mut(), line.trim()) {
                last.is_available = true;
            }
        }
        all
    }
}

impl CpuSettings {
    /// Parses the output of `openssl info -cpusettings`, or the line `CPUINFO:` of `openssl version
    /// -a`. OpenSSL 3.5 has more words than 3.0.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = |word: &str| {
            let digits = word.trim().strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok()
        };
        // Behind " env:" is what the environment asks for; it is a part of the words before.
        let value = |key: &str| {
            let (_, rest) = text.split_once(key)?;
            rest.split_whitespace().next()
        };
        if let Some(words) = value("OPENSSL_ia32cap=") {
            let mut words = words.split(':').map(number);
            return Some(Self::X86([
                words.next()??,
                words.next().flatten().unwrap_or(0),
            ]));
        }
        value("OPENSSL_armcap=").and_then(number).map(Self::Arm)
    }
}

impl fmt::Display for CpuSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86([first, second]) => {
                write!(formatter, "OPENSSL_ia32cap={first:#x}:{second:#x}")
            }
            Self::Arm(bits) => write!(formatter, "OPENSSL_armcap={bits:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEBIAN_12: &str = include_str!("../captured/openssl-3.0.txt");
    const DEBIAN_13: &str = include_str!("../captured/openssl-3.5.txt");
    const FOUR: &str = include_str!("../captured/openssl-4.0.txt");

    #[test]
    fn versions_say_where_files_are() {
        let info = VersionInfo::parse(DEBIAN_12);
        assert_eq!(
            info,
            VersionInfo {
                library: "OpenSSL 3.0.19".into(),
                major: Some(3),
                directory: Some("/usr/lib/ssl".into()),
                engines: Some("/usr/lib/x86_64-linux-gnu/engines-3".into()),
                modules: Some("/usr/lib/x86_64-linux-gnu/ossl-modules".into()),
            }
        );
        let newer = VersionInfo::parse(DEBIAN_13);
        assert_eq!((newer.major, &*newer.library), (Some(3), "OpenSSL 3.5.9"));
        let four = VersionInfo::parse(FOUR);
        assert_eq!((four.major, four.engines), (Some(4), None));
        let mixed = "OpenSSL 3.0.2 15 Mar 2022 (Library: OpenSSL 3.5.1 1 Jul 2025)";
        assert_eq!(VersionInfo::parse(mixed).library, "OpenSSL 3.5.1");
        assert_eq!(VersionInfo::parse("LibreSSL 4.1.0").major, None);
        assert_eq!(VersionInfo::parse(""), VersionInfo::default());
    }

    #[test]
    fn providers_and_engines_are_listed() {
        for (text, version) in [(DEBIAN_12, "3.0.19"), (DEBIAN_13, "3.5.9"), (FOUR, "4.0.3")] {
            let provider = Provider {
                id: "default".into(),
                name: "OpenSSL Default Provider".into(),
                version: version.into(),
                is_active: true,
            };
            assert_eq!(Provider::parse(text), [provider]);
        }
        let engines = Engine::parse(
            "(rdrand) Intel RDRAND engine\n     [ available ]\n(dynamic) Dynamic engine loading \
             support\n     [ unavailable ]\n",
        );
        let found: Vec<_> = engines
            .iter()
            .map(|engine| (&*engine.id, engine.is_available))
            .collect();
        assert_eq!(found, [("rdrand", true), ("dynamic", false)]);
        assert_eq!(Engine::parse(FOUR), []);
    }

    #[test]
    fn settings_of_the_cpu_are_words() {
        let words = [0xfffa_3203_078b_ffff, 0x0040_069c_219c_07ab];
        assert_eq!(CpuSettings::parse(DEBIAN_12), Some(CpuSettings::X86(words)));
        assert!(matches!(
            CpuSettings::parse(DEBIAN_13),
            Some(CpuSettings::X86(_))
        ));
        let without = "OPENSSL_ia32cap=0xfdfa3201078bffff:0x40069c219c07ab env:~0x200000200000000";
        assert_eq!(
            CpuSettings::parse(without),
            Some(CpuSettings::X86([0xfdfa_3201_078b_ffff, words[1]]))
        );
        assert_eq!(
            CpuSettings::parse("OPENSSL_armcap=0xbd\n"),
            Some(CpuSettings::Arm(0xbd))
        );
        for text in [
            "",
            "OPENSSL_ia32cap=",
            "OPENSSL_ia32cap=x",
            "OPENSSL_armcap=1",
        ] {
            assert_eq!(CpuSettings::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(Providers:\n|  |    |: |\\(|\\) |OPENSSL_ia32cap=|0x|name|\\PC{0,9}|\n){0,40}") {
            let _ = VersionInfo::parse(&text);
            let _ = Provider::parse(&text);
            let _ = Engine::parse(&text);
            let _ = CpuSettings::parse(&text);
        }
    }
}
