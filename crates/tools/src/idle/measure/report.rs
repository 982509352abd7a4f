//! A measurement as a report with raw samples, and as a picture. Pure.

use std::collections::BTreeMap;

use brisk_measure::{Environment, Phase, Report, Sample, Unit, Warning, render};

use super::exits::{Exits, NOTABLE};
use super::helpers::Helper;
use super::measured::{Measured, Measurement};
use super::settling::{Restless, Settling, restless};
use super::window::{GuestWindow, HostWindow};

/// Shorter measurements than this miss work that guests do every half a minute.
const SECONDS_WANTED: f64 = 30.0;
/// Other work of the host above this part of all its CPUs may have delayed and woken guests.
const BUSY: f64 = 0.1;
/// Steal above this many percent of one CPU is noise.
const STEAL: f64 = 1.0;

impl Measurement {
    /// Remarks for people: what limits the numbers.
    #[must_use]
    pub fn notes(&self, cpus: Option<u32>) -> Vec<String> {
        let mut notes = self.notes_of_time();
        for guest in &self.guests {
            notes.extend(guest.notes());
        }
        notes.extend(self.notes_of_helpers());
        for guest in &self.ended {
            notes.push(format!("{} ended before it was measured", guest.label()));
        }
        let host = &self.host.mean;
        let capacity = f64::from(cpus.unwrap_or(1)) * 100.0;
        if let Some(other) = host.other_percent.filter(|other| *other > BUSY * capacity) {
            notes.push(format!(
                "the host did other work meanwhile, {other:.0} % of one CPU of {capacity:.0} %: \
                 it delays guests and wakes them; measure again when the host is quiet"
            ));
        }
        if let Some(steal) = host.steal_percent.filter(|steal| *steal > STEAL) {
            notes.push(format!(
                "the hypervisor below took {steal:.1} % of one CPU for other VMs"
            ));
        }
        notes
    }

    fn notes_of_helpers(&self) -> Vec<String> {
        let mut shared: BTreeMap<&Helper, Vec<String>> = BTreeMap::new();
        let mut notes = Vec::new();
        for measured in &self.guests {
            let guest = &measured.guest;
            for helper in &guest.helpers.shared {
                shared.entry(helper).or_default().push(guest.label());
            }
            if guest.helpers.is_missing {
                notes.push(format!(
                    "another process serves a device of {}, and was not found: its CPU time is not \
                     counted; only its owner and root can see it",
                    guest.label()
                ));
            }
        }
        notes.extend(shared.iter().map(|(helper, guests)| {
            format!(
                "{} (process {}) serves {} and perhaps other guests: its CPU time is not counted",
                helper.name,
                helper.pid,
                guests.join(", ")
            )
        }));
        notes
    }

    fn notes_of_time(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_of_settling {
            notes.push(
                "interrupted before the guests had settled: the numbers are of that time"
                    .to_owned(),
            );
        } else if self.seconds < SECONDS_WANTED {
            notes.push(format!(
                "{:.0} s are short: work that a guest does every half a minute may be missing; \
                 take --time 30 or more",
                self.seconds
            ));
        }
        if let (Settling::Unsettled { after }, false) = (self.settling, self.is_of_settling) {
            for (why, what) in [
                (
                    Restless::Changing,
                    "still booting, or at work; wait longer with --settle, or look into the guest",
                ),
                (
                    Restless::Booting,
                    "started a short time ago and busy ever since; wait longer with --settle",
                ),
                (
                    Restless::Starved,
                    "waited for a CPU for longer than it had one; measure again when the host is \
                     quiet",
                ),
            ] {
                let is_it = |guest: &&Measured| restless(&guest.settling) == Some(why);
                let names: Vec<_> = self
                    .guests
                    .iter()
                    .filter(is_it)
                    .map(Measured::label)
                    .collect();
                if !names.is_empty() {
                    let names = names.join(", ");
                    notes.push(format!(
                        "{names} had not settled after {after:.0} s: {what}"
                    ));
                }
            }
        }
        notes
    }
}

impl Measured {
    fn label(&self) -> String {
        self.guest.label()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let name = self.guest.label();
        let mut notes = Vec::new();
        if self.has_ended {
            notes.push(format!(
                "{name} ended meanwhile: its numbers are of the {:.0} s before",
                self.seconds
            ));
        }
        let lived = || self.windows.iter().filter(|window| !window.has_ended);
        for helper in &self.guest.helpers.own {
            let lost = lived()
                .filter(|window| window.lost.contains(helper))
                .count();
            if lost > 0 {
                let what = match lost == lived().count() {
                    true => "its CPU time is not counted",
                    false => "its last CPU time is not counted",
                };
                notes.push(format!(
                    "{} (process {}) of {name} ended meanwhile: {what}",
                    helper.name, helper.pid
                ));
            }
        }
        if !self.has_roles() && !self.threads.is_empty() {
            notes.push(format!(
                "{name} has unnamed threads: only the main thread is known. QEMU names its \
                 threads if it is started with -name {},debug-threads=on, as libvirt does",
                self.guest.name.as_deref().unwrap_or("NAME")
            ));
        }
        notes
    }

    /// A line about exits.
    #[must_use]
    pub fn exits_line(&self) -> String {
        match &self.exits {
            Exits::Unknown { reason } => format!("exits: not known: {reason}"),
            Exits::PerSecond(rates) => {
                let known = NOTABLE
                    .iter()
                    .filter_map(|name| Some((name, rates.get(*name)?)));
                let parts: Vec<_> = known
                    .map(|(name, rate)| format!("{name} {rate:.0}"))
                    .collect();
                match parts.is_empty() {
                    true => "exits: none".to_owned(),
                    false => format!("exits a second: {}", parts.join(", ")),
                }
            }
        }
    }
}

/// A number of the host.
type Fact = fn(&HostWindow) -> Option<f64>;

/// Names of the guests, each once.
fn labels(guests: &[Measured]) -> Vec<String> {
    let all: Vec<_> = guests
        .iter()
        .map(|measured| measured.guest.label())
        .collect();
    let label = |(measured, label): (&Measured, &String)| match all
        .iter()
        .filter(|other| *other == label)
        .count()
    {
        1 => label.clone(),
        _ => format!("{label} ({})", measured.guest.pid),
    };
    guests.iter().zip(&all).map(label).collect()
}

/// The report: for each guest, and each role in it, a series of CPU time and one of wakeups, with
/// the windows as samples and those of the settling as warm-ups; and series of the host.
#[must_use]
pub fn report(measurement: &Measurement, created: &str, environment: Environment) -> Report {
    let mut report = Report::new("idle-measure", created, environment);
    let length = measurement.host.windows.first();
    let window = length.map(|window| format!("{:.1} s", window.seconds));
    let extra = &mut report.environment.extra;
    extra.extend(window.map(|window| ("window".to_owned(), window)));
    for (measured, label) in measurement.guests.iter().zip(labels(&measurement.guests)) {
        add(&mut report, &label, measured, |_| true);
        for role in roles(measured) {
            add(
                &mut report,
                &format!("{label}: {role}"),
                measured,
                |other| other == role,
            );
        }
    }
    let of_host: [(&str, Fact); 4] = [
        ("host: other work", |window| window.other_percent),
        ("host: steal", |window| window.steal_percent),
        ("host: ksmd", |window| window.ksmd_percent),
        ("host: khugepaged", |window| window.khugepaged_percent),
    ];
    for (name, of) in of_host {
        for (iteration, window) in (0..).zip(&measurement.host.windows) {
            if let Some(value) = of(window) {
                let sample = Sample::measured(iteration, value);
                report.series_mut(name, Unit::Percent).push(sample);
            }
        }
    }
    report.notes = measurement.notes(report.environment.logical_cpus);
    let lines = measurement.guests.iter().zip(labels(&measurement.guests));
    let lines = lines.map(|(measured, label)| format!("{label}: {}", measured.exits_line()));
    report.notes.extend(lines);
    report.warnings = Warning::of_environment(&report.environment);
    report
}

/// The picture over time (SVG): of one guest by role, of several by guest.
#[must_use]
pub fn picture(measurement: &Measurement, created: &str, environment: Environment) -> String {
    let mut report = Report::new("idle measure", created, environment);
    match &*measurement.guests {
        [measured] => {
            for role in roles(measured) {
                add(&mut report, &role, measured, |other| other == role);
            }
        }
        guests => {
            for (measured, label) in guests.iter().zip(labels(guests)) {
                add(&mut report, &label, measured, |_| true);
            }
        }
    }
    let windows = &measurement.host.windows;
    let window = windows.first().map_or(1.0, |window| window.seconds);
    render::svg_over_time(&report, window)
}

/// Names of the roles of a guest's threads, in the order of the threads.
fn roles(measured: &Measured) -> Vec<String> {
    let mut roles: Vec<String> = Vec::new();
    for thread in &measured.threads {
        let role = thread.role.to_string();
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    roles
}

/// Adds CPU time and wakeups of a guest's threads of some roles.
fn add(report: &mut Report, name: &str, measured: &Measured, has: impl Fn(&str) -> bool) {
    let phases = [
        (Phase::Warmup, &measured.settling),
        (Phase::Measured, &measured.windows),
    ];
    for (phase, windows) in phases {
        for (iteration, window) in (0..).zip(windows) {
            let sums = sums(window, &has);
            for (quantity, unit, value) in [
                ("CPU", Unit::Percent, sums.0),
                ("wakeups", Unit::PerSecond, sums.1),
            ] {
                let sample = match (window.has_ended, phase) {
                    (true, phase) => Sample::failed(iteration, phase, "QEMU has ended"),
                    (false, Phase::Warmup) => Sample::warmup(iteration, value),
                    (false, Phase::Measured) => Sample::measured(iteration, value),
                };
                let name = format!("{name}: {quantity}");
                report.series_mut(&name, unit).push(sample);
            }
        }
    }
}

/// CPU time and wakeups of the threads of some roles.
fn sums(window: &GuestWindow, has: &impl Fn(&str) -> bool) -> (f64, f64) {
    let mut known = BTreeMap::new();
    let mut sums = (0.0, 0.0);
    for thread in &window.threads {
        let is_in = known
            .entry(&thread.role)
            .or_insert_with(|| has(&thread.role.to_string()));
        if *is_in {
            sums.0 += thread.cpu_percent;
            sums.1 += thread.wakeups_per_second;
        }
    }
    sums
}
