//! Likely causes of what measured guests cost.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use brisk_host::program::quote;
use brisk_lint::Finding;
use brisk_measure::render::clean;
use brisk_tools::idle::fix::Context;
use brisk_tools::idle::host;
use brisk_tools::idle::measure::{Guest, Kind, Measured, Measurement};
use brisk_vm::hardware::GuestHardware;

/// From so much on, of a CPU in percent, a guest without a known cause is worth a word.
const BUSY: f64 = 2.0;
/// Likewise, wakeups a second.
const RESTLESS: f64 = 200.0;

/// Guests as their command lines describe them, by process number, and their host.
#[derive(Debug, Default)]
pub(super) struct Causes {
    guests: BTreeMap<u32, GuestHardware>,
    context: Context,
}

impl Causes {
    /// Reads the command lines. Of a guest that has ended there is none.
    pub(super) fn of(guests: &[Guest]) -> Self {
        let root = Path::new("/");
        let read = guests.iter().filter_map(|guest| {
            let hardware = GuestHardware::of_process(root, guest.pid).ok()?;
            Some((guest.pid, hardware))
        });
        Self {
            guests: read.collect(),
            context: Context {
                host: host::gather(root, None),
                ..Context::default()
            },
        }
    }

    /// The likely causes of each guest's cost, in the order of the measurement.
    pub(super) fn likely(&self, measurement: &Measurement) -> Vec<Vec<Finding>> {
        let of = |measured: &Measured| {
            let Some(hardware) = self.guests.get(&measured.guest.pid) else {
                return Vec::new();
            };
            let context = self.context.clone();
            let context = context.with_measured(measured, &measurement.host);
            context.likely(hardware.clone())
        };
        measurement.guests.iter().map(of).collect()
    }
}

/// Names of the findings' rules, each once.
pub(super) fn rules_of(findings: &[Finding]) -> String {
    let mut names: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
    names.dedup();
    names.join(", ")
}

/// The options that name a domain again.
pub(super) fn named_domain(name: &str, connect: Option<&str>) -> String {
    let connect = connect.map(|uri| format!(" --connect={}", quote(uri.as_ref())));
    let name = quote(name.as_ref());
    format!("--domain={name}{}", connect.unwrap_or_default())
}

/// The likely causes of one guest's cost, with what to do about them.
pub(super) fn paragraph(measured: &Measured, likely: &[Finding], connect: Option<&str>) -> String {
    let mut text = String::new();
    for finding in likely {
        let evidence = finding.evidence.as_deref().unwrap_or_default();
        let _ = writeln!(text, "Likely: {}: {}", finding.rule, clean(evidence));
        let _ = writeln!(text, "        fix: {}", clean(&finding.fix.to_string()));
    }
    if likely.is_empty() {
        let is_busy = measured.cpu_percent >= BUSY || measured.wakeups_per_second >= RESTLESS;
        return match is_busy {
            true => {
                "Likely: nothing that the rules know: the guest itself may be at work.\n".into()
            }
            false => String::new(),
        };
    }
    let guest = &measured.guest;
    let target = match (guest.kind, &guest.name) {
        (Kind::Domain, Some(name)) => named_domain(name, connect),
        (Kind::Vm, Some(name)) => format!("--vm={}", quote(name.as_ref())),
        _ => format!("--pid {}", guest.pid),
    };
    let _ = writeln!(
        text,
        "brisk idle fix {} shows the changes; brisk idle prove shows whether they help.",
        clean(&target)
    );
    text
}
