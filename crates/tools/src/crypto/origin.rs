//! Which machine figures are of, by what files say. Pure but for [`Origin::of_machine`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use brisk_host::cpu::Cpu;

use super::Machine;
use super::libcrypto::{CpuSettings, VersionInfo};
use super::metric;

/// Beginnings of the names of architectures.
const ARCHITECTURES: [&str; 11] = [
    "aarch64", "arm", "i386", "i486", "i586", "i686", "mips", "ppc", "riscv", "s390", "x86_64",
];

/// Facts by which a machine is told from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its name.
    pub host: Option<String>,
    /// Its architecture, as uname(1) has it: `armv7l`.
    pub architecture: Option<String>,
    /// Release of its kernel.
    pub kernel: Option<String>,
    /// Its library, such as `OpenSSL 3.0.19`.
    pub openssl: Option<String>,
    /// Model of its processor.
    pub processor: Option<String>,
    /// Features of its processor, as OpenSSL has them: `OPENSSL_ia32cap=…`.
    pub features: Option<String>,
}

impl Origin {
    /// Of a report's facts.
    #[must_use]
    pub fn of_facts(facts: &BTreeMap<String, String>) -> Self {
        let fact = |name: &str| facts.get(name).cloned();
        Self {
            host: fact(metric::NODE),
            architecture: fact(metric::ARCHITECTURE),
            kernel: fact(metric::KERNEL),
            openssl: fact(metric::LIBRARY).map(|text| VersionInfo::parse(&text).library),
            processor: fact(metric::PROCESSOR),
            features: fact(metric::FEATURES),
        }
    }

    /// As facts of a report.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, String> {
        let all = [
            (metric::NODE, &self.host),
            (metric::ARCHITECTURE, &self.architecture),
            (metric::KERNEL, &self.kernel),
            (metric::LIBRARY, &self.openssl),
            (metric::PROCESSOR, &self.processor),
            (metric::FEATURES, &self.features),
        ];
        let known = all.into_iter().filter_map(|(name, value)| {
            let value = value.clone()?;
            Some((name.to_owned(), value))
        });
        known.collect()
    }

    /// Of a text with output of `openssl speed`: what that prints at its end, and lines of `uname`,
    /// `lscpu` and `/proc/cpuinfo` around it.
    ///
    /// # Errors
    /// If it names two machines; what differs.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        let mut is_release = false;
        for line in text.lines() {
            let line = line.trim_start_matches(['>', ' ', '\t', '*']).trim_end();
            let own = match is_release {
                true => Self {
                    kernel: line.split_whitespace().next().map(str::to_owned),
                    ..Self::default()
                },
                false => Self::of_line(line),
            };
            is_release = line.ends_with("uname -r");
            all = all.and(own)?;
        }
        Ok(all)
    }

    fn of_line(line: &str) -> Self {
        let mut own = Self::default();
        let words: Vec<_> = line.split_whitespace().take(5).collect();
        let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
        match words[..] {
            // Linux HOST RELEASE #NUMBER … ARCHITECTURE GNU/Linux
            ["Linux", host, release, number, ..] if number.starts_with('#') => {
                own.host = Some(host.to_owned());
                own.kernel = Some(release.to_owned());
                let mut last = line.split_whitespace().rev();
                let known =
                    last.find(|word| ARCHITECTURES.iter().any(|name| word.starts_with(name)));
                own.architecture = known.map(str::to_owned);
            }
            ["Linux", "version", release, ..] => own.kernel = Some(release.to_owned()),
            // OpenSSL 1.1.1d  10 Sep 2019
            [name, version, day, ..]
                if name.ends_with("SSL") && is_number(version) && is_number(day) =>
            {
                own.openssl = Some(VersionInfo::parse(line).library);
            }
            ["version:", version] if is_number(version) => {
                own.openssl = Some(format!("OpenSSL {version}"));
            }
            // What the environment takes away is no feature of the machine's.
            ["CPUINFO:", features] => {
                own.features = CpuSettings::parse(features).map(|known| known.to_string());
            }
            _ => {
                let model = line
                    .split_once(':')
                    .filter(|(key, _)| key.trim_end().eq_ignore_ascii_case("model name"));
                own.processor = model.map(|(_, model)| model.trim().to_owned());
            }
        }
        own
    }

    /// Of a machine whose files are below `root`.
    #[must_use]
    pub fn of_machine(machine: &Machine, root: &Path) -> Self {
        let library = machine.library.as_ref().ok();
        let release = Some(&machine.kernel.release);
        let name = rustix::system::uname();
        let own = |text: &std::ffi::CStr| {
            let text = text.to_string_lossy().into_owned();
            machine.is_here.then_some(text)
        };
        Self {
            host: own(name.nodename()),
            architecture: own(name.machine()),
            kernel: release.filter(|release| !release.is_empty()).cloned(),
            openssl: library.map(|library| library.version.library.clone()),
            processor: Cpu::below(root).model(),
            features: library.and_then(|library| Some(library.cpu?.to_string())),
        }
    }

    /// Whether it says enough to tell a machine: thousands have the same OpenSSL, and so it is with
    /// the kernel of a distribution, and with a processor.
    #[must_use]
    pub fn is_of_a_machine(&self) -> bool {
        let facts = [&self.kernel, &self.processor, &self.features];
        let count = facts.into_iter().flatten().count();
        self.host.is_some() && count > 0 || count > 1
    }

    /// All that both say.
    ///
    /// # Errors
    /// If they are different machines; what differs.
    pub fn and(mut self, other: Self) -> Result<Self, String> {
        if let Some(difference) = self.difference(&other) {
            return Err(difference);
        }
        let fields = self.fields_mut().into_iter().zip(other.fields());
        for ((_, mine), (_, theirs)) in fields {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        }
        Ok(self)
    }

    /// The first that both say, and that differs.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let mut pairs = self.fields().into_iter().zip(other.fields());
        pairs.find_map(|((what, mine), (_, theirs))| {
            let (mine, theirs) = (mine.as_ref()?, theirs.as_ref()?);
            let both = || format!("{what}{mine} and {what}{theirs}");
            (mine != theirs).then(both)
        })
    }

    /// With what they begin for people.
    fn fields(&self) -> [(&'static str, &Option<String>); 6] {
        [
            ("", &self.host),
            ("", &self.architecture),
            ("Linux ", &self.kernel),
            ("", &self.openssl),
            ("", &self.processor),
            ("", &self.features),
        ]
    }

    fn fields_mut(&mut self) -> [(&'static str, &mut Option<String>); 6] {
        [
            ("", &mut self.host),
            ("", &mut self.architecture),
            ("Linux ", &mut self.kernel),
            ("", &mut self.openssl),
            ("", &mut self.processor),
            ("", &mut self.features),
        ]
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.fields().into_iter();
        let known = known.filter_map(|(what, value)| Some(format!("{what}{}", value.as_ref()?)));
        formatter.write_str(&known.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_name_their_machine() {
        let origin = |text: &str| Origin::of_text(text).map(|found| found.to_string());
        let new = "$ uname -a\nLinux nas 5.10.0-8-armmp #1 SMP Debian 5.10.46-4 armv7l GNU/Linux\n\
                   Doing AES-128-CBC for 3s on 16 size blocks: 1 AES-128-CBC's in 3.00s\n\
                   version: 3.0.19\nbuilt on: Fri Apr  3 12:29:32 2026 UTC\n\
                   CPUINFO: OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab\n";
        assert_eq!(
            origin(new).unwrap(),
            "nas, armv7l, Linux 5.10.0-8-armmp, OpenSSL 3.0.19, OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab"
        );
        let old = "> OpenSSL 1.1.1d  10 Sep 2019\n> model name\t: ARMv7 Processor rev 1 (v7l)\n\
                   root@nas:~# uname -r\n4.19.0-6\n";
        assert_eq!(
            origin(old).unwrap(),
            "Linux 4.19.0-6, OpenSSL 1.1.1d, ARMv7 Processor rev 1 (v7l)"
        );
        for nothing in [
            "",
            "OpenSSL 3.0 is slower\nLinux is a kernel\nversion: x\nCPUINFO: N/A\n",
            "CPUINFO: OPENSSL_ia32cap=0x1:0x2 env:~0x200000200000000\n",
        ] {
            assert_eq!(origin(nothing).unwrap(), "", "{nothing}");
        }
        assert!(
            !Origin::of_text("OpenSSL 3.0.2 15 Mar 2022\n")
                .unwrap()
                .is_of_a_machine()
        );
        let kernel = Origin::of_text("# uname -r\n6.1.0-17-amd64\n").unwrap();
        assert!(kernel.kernel.is_some() && !kernel.is_of_a_machine());
        assert!(Origin::of_text(new).unwrap().is_of_a_machine());
        assert_eq!(
            origin(&format!("{new}{old}")),
            Err("OpenSSL 3.0.19 and OpenSSL 1.1.1d".to_owned())
        );
        let found = Origin::of_text(old).unwrap();
        assert_eq!(Origin::of_facts(&found.facts()), found);
    }
}
