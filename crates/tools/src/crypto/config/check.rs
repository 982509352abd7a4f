//! Proof of a configuration: OpenSSL as it is against OpenSSL with a file. Pure.

use std::fmt::Write;
use std::path::Path;

use brisk_measure::render::{clean, sheet};
use brisk_measure::{CompareOptions, Comparison, Report, Test, Unit, Verdict};

use super::obstacle::TO_KERNEL;
use crate::crypto::bench::{Shown, shown};
use crate::crypto::fit::{Metric, series_name};
use crate::crypto::libcrypto::Configuration;
use crate::crypto::metric::PROOF;
use crate::crypto::{Implementation, metric};

/// Quantities that are compared.
const METRICS: [Metric; 3] = [Metric::Time, Metric::ProcessCpu, Metric::WholeSystemCpu];

/// Kind of a file with configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// OpenSSL's, which can be measured.
    OpensslCnf,
    /// Options of modules.
    Modprobe,
    /// Modules that are loaded at boot.
    ModulesLoad,
    /// Rules for device nodes.
    Udev,
    /// Encrypted disks.
    Crypttab,
    /// Settings of the kernel.
    Sysctl,
    /// None of these.
    Unknown,
}

impl FileKind {
    /// By the path, else by what is in the text.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_below = |directory: &str| {
            let mut names = path.iter();
            names.any(|name| name == directory)
        };
        let configuration = Configuration::parse(text);
        let has_line = |words: &[&str]| {
            let lines = text.lines().map(str::trim_start);
            let mut first = lines.filter_map(|line| line.split_whitespace().next());
            first.any(|word| words.contains(&word))
        };
        match () {
            () if configuration.names.start.is_some() || configuration.has_includes => {
                Self::OpensslCnf
            }
            () if is_below("modprobe.d") => Self::Modprobe,
            () if is_below("modules-load.d") => Self::ModulesLoad,
            () if is_below("sysctl.d") || name == "sysctl.conf" => Self::Sysctl,
            () if name.ends_with(".rules") => Self::Udev,
            () if name.contains("crypttab") => Self::Crypttab,
            () if has_line(&["options", "blacklist", "softdep", "install", "alias"]) => {
                Self::Modprobe
            }
            () => Self::Unknown,
        }
    }

    /// Why it cannot be measured by a process alone, and what can be; none for OpenSSL's.
    #[must_use]
    pub const fn refusal(self) -> Option<&'static str> {
        Some(match self {
            Self::OpensslCnf => return None,
            Self::Modprobe => {
                "options of modules take effect when the module is loaded, for the whole machine: \
                 measure with brisk crypto bench --impl af-alg:DRIVER, load the module with the \
                 options, measure again, and compare the reports with brisk crypto crossover --from"
            }
            Self::ModulesLoad => {
                "a module that is loaded at boot changes nothing for one process: load it, and \
                 measure its driver with brisk crypto bench --impl openssl --impl af-alg:DRIVER"
            }
            Self::Udev => {
                "a rule changes who may open a device, and not how fast it is: udevadm test shows \
                 what it does"
            }
            Self::Crypttab => {
                "it is about whole disks: measure the cipher with brisk crypto bench --impl dm-crypt \
                 --impl dm-crypt:DRIVER as root, which makes a device of its own"
            }
            Self::Sysctl => {
                "settings of the kernel are for the whole machine: brisk crypto explain says what \
                 they are in the way of"
            }
            Self::Unknown => {
                "it is no openssl.cnf: a line openssl_conf = SECTION is missing (config(5ssl))"
            }
        })
    }
}

/// One size, before and after.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Bytes of an operation.
    pub bytes: u64,
    /// Each quantity, with the configuration against without; none if it was not measured.
    pub ratios: Vec<(Metric, Option<Comparison>)>,
    /// What shows that a driver was at work.
    pub proof: Option<String>,
}

/// Compares OpenSSL with a configuration against OpenSSL as it is, in a report that has both.
#[must_use]
pub fn compare(report: &Report, configured: &Implementation) -> Vec<Checked> {
    let before = Implementation::OpenSsl.to_string();
    let after = configured.to_string();
    let rows = metric::rows(report);
    let own = rows.iter().filter(|row| row.implementation == after);
    let options = CompareOptions {
        test: Test::SignedRank,
        ..CompareOptions::default()
    };
    own.map(|row| {
        let ratios = METRICS.map(|metric| {
            let series = |name: &str| report.series(&series_name(name, row.bytes, metric));
            let both = series(&before).zip(series(&after));
            let compared = both.map(|(a, b)| Comparison::of(a, b, &options));
            (metric, compared.filter(|one| one.ratio.is_some()))
        });
        let side = format!("{PROOF}{after} {} B", row.bytes);
        Checked {
            bytes: row.bytes,
            ratios: ratios.to_vec(),
            proof: report.environment.extra.get(&side).cloned(),
        }
    })
    .collect()
}

/// Whether a driver was proven, in a sentence.
#[must_use]
pub fn proof(configuration: &Configuration, checked: &[Checked]) -> String {
    let active = |one: &&crate::crypto::libcrypto::Configured| one.is_active;
    let engines = configuration.engines.iter().filter(active);
    let mut to_kernel = engines.filter(|one| TO_KERNEL.contains(&&*one.name));
    let Some(engine) = to_kernel.next() else {
        return "Driver: not proven. The file names no engine that goes to the kernel, so that \
                references in /proc/crypto show nothing; OpenSSL has loaded what the file activates."
            .to_owned();
    };
    let shown = |one: &&Checked| one.proof.as_deref().map_or(Shown::NotAtWork, shown);
    let missing = checked.iter().find(|one| shown(one) == Shown::NotAtWork);
    let open = checked.iter().find(|one| shown(one) == Shown::Nothing);
    match (missing, open.or(checked.last())) {
        (Some(one), _) => format!(
            "Driver: not proven. The engine {} goes to the kernel, but at {} bytes {}: it may be \
             software that was measured.",
            engine.name,
            one.bytes,
            one.proof.as_deref().unwrap_or("nothing was seen")
        ),
        (None, Some(one)) if open.is_some() => format!(
            "Driver: not known whether it did the work. At {} bytes {}.",
            one.bytes,
            one.proof.as_deref().unwrap_or_default()
        ),
        (None, Some(last)) => format!(
            "Driver: proven. {}.",
            last.proof.as_deref().unwrap_or_default()
        ),
        (None, None) => "Driver: not proven. Nothing was measured.".to_owned(),
    }
}

/// The table of ratios, what they say, and the proof.
#[must_use]
pub fn text(checked: &[Checked], proof: &str, report: &Report) -> String {
    let ratio = |compared: &Option<Comparison>| {
        let Some((one, ratio)) = compared.as_ref().and_then(|one| Some((one, one.ratio?))) else {
            return "-".to_owned();
        };
        let interval = one.ratio_interval;
        let interval = interval.map(|it| format!(" [{:.3}, {:.3}]", it.low, it.high));
        format!("{ratio:.3}{}", interval.unwrap_or_default())
    };
    let lines = checked.iter().map(|one| {
        let mut cells = vec![Unit::Bytes.format(one.bytes as f64)];
        cells.extend(one.ratios.iter().map(|(_, compared)| ratio(compared)));
        cells
    });
    let head = ["size", "time", "process CPU", "whole-system CPU"];
    let mut text = String::from("With the file / without it, for an operation; below 1 is less.\n");
    text.push_str(&sheet(&head, lines));
    text.push('\n');
    for metric in METRICS {
        let _ = writeln!(text, "{}", sentence(metric, checked));
    }
    let _ = writeln!(text, "{}", clean(proof));
    // A quantity that is missing for itself is in the notes.
    let rows = metric::rows(report).into_iter();
    for row in rows.filter(|row| row.get(metric::TIME).is_none()) {
        if let Some(reason) = &row.failure {
            let name = clean(&row.implementation);
            let _ = writeln!(text, "{name}, {} B: failed: {}", row.bytes, clean(reason));
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}", clean(note));
    }
    text
}

/// At which sizes a quantity is less or more.
fn sentence(metric: Metric, checked: &[Checked]) -> String {
    let mut parts = Vec::new();
    let answers = [
        (Some(Verdict::Faster), "less at"),
        (Some(Verdict::Slower), "more at"),
        (Some(Verdict::NoDifference), "no difference at"),
        (Some(Verdict::Inconclusive), "not decided at"),
        (None, "not known at"),
    ];
    for (verdict, words) in answers {
        let of_verdict = |one: &&Checked| {
            let mut ratios = one.ratios.iter();
            let found = ratios.find(|(known, _)| *known == metric);
            let compared = found.and_then(|(_, compared)| compared.as_ref());
            compared.map(|compared| compared.verdict) == verdict
        };
        let sizes = checked.iter().filter(of_verdict);
        let sizes: Vec<_> = sizes.map(|one| one.bytes.to_string()).collect();
        if !sizes.is_empty() {
            parts.push(format!("{words} {} bytes", sizes.join(", ")));
        }
    }
    format!("{}: {}.", metric.name(), parts.join("; "))
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Sample};

    use super::*;

    const AFALG: &str = "openssl_conf = i\n[i]\nengines = e\n[e]\nafalg = a\n[a]\n\
                         engine_id = afalg\ndefault_algorithms = ALL\n";

    /// Times in microseconds without and with the file at 1024 and 16384 bytes.
    fn report(proofs: [&str; 2]) -> (Report, Implementation) {
        let configured: Implementation = "openssl-conf:/x.cnf".parse().unwrap();
        let created = "2026-01-01T00:00:00Z";
        let mut report = Report::new("crypto", created, Environment::default());
        let times = [
            ("openssl", 1024, 10.0),
            ("openssl", 16384, 160.0),
            ("openssl-conf:/x.cnf", 1024, 50.0),
            ("openssl-conf:/x.cnf", 16384, 80.0),
        ];
        for metric in [Metric::Time, Metric::ProcessCpu] {
            for (name, bytes, time) in times {
                let series = series_name(name, bytes, metric);
                let series = report.series_mut(&series, Unit::Seconds);
                for (iteration, factor) in (0..).zip([0.98, 0.99, 1.0, 1.0, 1.01, 1.02]) {
                    series.push(Sample::measured(iteration, time * 1e-6 * factor));
                }
            }
        }
        for (bytes, proof) in [1024, 16384].into_iter().zip(proofs) {
            let side = format!("{PROOF}{configured} {bytes} B");
            report.environment.extra.insert(side, proof.to_owned());
        }
        (report, configured)
    }

    fn proof_of(proofs: [&str; 2], configuration: &str) -> String {
        let (report, configured) = report(proofs);
        let checked = compare(&report, &configured);
        proof(&Configuration::parse(configuration), &checked)
    }

    const AT_WORK: &str = "x was in use, and its device raised 1.00 interrupts an operation";

    #[test]
    fn both_sides_are_compared_at_each_size() {
        let (report, configured) = report([AT_WORK; 2]);
        let checked = compare(&report, &configured);
        let proof = proof(&Configuration::parse(AFALG), &checked);
        insta::assert_snapshot!(text(&checked, &proof, &report), @r"
        With the file / without it, for an operation; below 1 is less.
        size                       time           process CPU  whole-system CPU
        1.000 KiB  5.000 [5.000, 5.000]  5.000 [5.000, 5.000]                 -
        16.00 KiB  0.500 [0.500, 0.500]  0.500 [0.500, 0.500]                 -

        time per operation: less at 16384 bytes; more at 1024 bytes.
        process CPU per operation: less at 16384 bytes; more at 1024 bytes.
        whole-system CPU per operation: not known at 1024, 16384 bytes.
        Driver: proven. x was in use, and its device raised 1.00 interrupts an operation.
        ");
    }

    #[test]
    fn a_driver_is_proven_at_every_size_or_not() {
        let proven = proof_of([AT_WORK; 2], AFALG);
        assert_eq!(proven, format!("Driver: proven. {AT_WORK}."));
        let none = "no driver was in use more than before: not proven";
        let not = proof_of([none, AT_WORK], AFALG);
        assert!(not.contains("not proven. The engine afalg"), "{not}");
        assert!(not.contains("at 1024 bytes no driver was in use"), "{not}");
        // An engine that is listed, and does nothing.
        let inactive = AFALG.replace("default_algorithms", "# ");
        let no_engine = proof_of([none; 2], &inactive);
        assert!(no_engine.contains("names no engine"), "{no_engine}");
        let shared = "x was in use; its device shares its interrupt line with usb1, so that \
                      interrupts show nothing";
        let open = proof_of([shared, AT_WORK], AFALG);
        let expected =
            format!("Driver: not known whether it did the work. At 1024 bytes {shared}.");
        assert_eq!(open, expected);
        let nothing = proof(&Configuration::parse(AFALG), &[]);
        assert!(nothing.contains("Nothing was measured"), "{nothing}");
    }

    #[test]
    fn files_are_told_apart() {
        for (path, text, kind) in [
            ("/etc/ssl/openssl.cnf", AFALG, FileKind::OpensslCnf),
            ("x", ".include /etc/ssl/openssl.cnf\n", FileKind::OpensslCnf),
            ("/etc/modprobe.d/x.conf", "", FileKind::Modprobe),
            ("x.conf", "# why\noptions qat x=1\n", FileKind::Modprobe),
            ("/etc/modules-load.d/x.conf", "tls\n", FileKind::ModulesLoad),
            ("x.rules", "KERNEL==\"crypto\"\n", FileKind::Udev),
            (
                "/etc/crypttab",
                "root UUID=1 none luks\n",
                FileKind::Crypttab,
            ),
            ("/etc/sysctl.d/x.conf", "a = 1\n", FileKind::Sysctl),
            (
                "/etc/ssl/req.cnf",
                "[req]\nbits = 2048\n",
                FileKind::Unknown,
            ),
            ("", "", FileKind::Unknown),
        ] {
            let found = FileKind::of(Path::new(path), text);
            assert_eq!(found, kind, "{path}");
            assert_eq!(found.refusal().is_none(), kind == FileKind::OpensslCnf);
        }
    }
}
