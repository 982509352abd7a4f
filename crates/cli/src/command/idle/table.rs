//! A measurement as text, JSON and CSV.

use std::ops::Range;

use brisk_lint::Finding;
use brisk_measure::render::clean;
use brisk_tools::idle::measure::{HostNoise, Life, Measured, Measurement, Role, Settling, Thread};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::causes::rules_of;
use super::target::kind;
use crate::output::csv_field;

/// Schema of the JSON.
const SCHEMA: &str = "brisk.idle-measure/1";

/// The measurement for people: one guest by thread, several ranked. `likely` has the likely causes
/// of what each costs, `causes` those of the only guest in words.
pub(super) fn table(
    measurement: &Measurement,
    likely: &[Vec<Finding>],
    causes: &str,
    cpus: Option<u32>,
) -> String {
    let mut parts = vec![now(measurement, likely)];
    if let [measured] = &*measurement.guests {
        parts.push(format!("{}\n", clean(&measured.exits_line())));
        parts.extend(Some(causes.to_owned()).filter(|text| !text.is_empty()));
    }
    parts.push(format!(
        "{}\n{}\n",
        time(measurement),
        host(&measurement.host)
    ));
    let notes = measurement.notes(cpus);
    let notes = notes.iter().map(|note| format!("Note: {}\n", clean(note)));
    let notes: String = notes.collect();
    if !notes.is_empty() {
        parts.push(notes);
    }
    parts.join("\n")
}

/// Only the numbers of the guests.
pub(super) fn now(measurement: &Measurement, likely: &[Vec<Finding>]) -> String {
    match &*measurement.guests {
        [measured] => threads(measured),
        guests => ranking(guests, likely),
    }
}

fn threads(measured: &Measured) -> String {
    let guest = &measured.guest;
    let head = format!(
        "{} ({}, process {}, {}): {} % of a CPU, {} wakeups/s, {} CPU hours a day\n\n",
        clean(&guest.label()),
        kind(guest.kind),
        guest.pid,
        clean(&guest.accelerator),
        percent(measured.cpu_percent),
        rate(measured.wakeups_per_second),
        percent(measured.cpu_hours_per_day()),
    );
    let does_nothing = |thread: &&Thread| {
        thread.cpu_percent < 0.005
            && thread.wakeups_per_second < 0.05
            && !thread.role.is_vcpu()
            && thread.role != Role::Main
    };
    let rows = measured
        .threads
        .iter()
        .filter(|thread| !does_nothing(thread));
    let rows = rows.map(|thread| {
        let life = match thread.life {
            Life::Whole => "",
            Life::Started => " (started)",
            Life::Ended => " (ended)",
        };
        [
            format!("{}{life}", clean(&thread.role.to_string())),
            thread.tid.to_string(),
            percent(thread.cpu_percent),
            rate(thread.wakeups_per_second),
            rate(thread.preemptions_per_second),
            percent(thread.waiting_percent),
        ]
    });
    let names = [
        "role",
        "thread",
        "CPU %",
        "wakeups/s",
        "preempted/s",
        "waiting %",
    ];
    let mut text = head + &sheet(names, rows.collect(), 1..6);
    let still = measured.threads.iter().filter(does_nothing).count();
    if still > 0 {
        text += &format!("{still} more did nothing\n");
    }
    text
}

fn ranking(guests: &[Measured], likely: &[Vec<Finding>]) -> String {
    let mut total = [0.0; 5];
    let mut rows: Vec<_> = guests
        .iter()
        .enumerate()
        .map(|(place, measured)| {
            let signature = measured.signature();
            let vcpus: f64 = signature.vcpu_wakeups.iter().sum();
            let numbers = [
                measured.cpu_percent,
                measured.wakeups_per_second,
                signature.main_wakeups,
                vcpus,
                measured.cpu_hours_per_day(),
            ];
            for (sum, number) in total.iter_mut().zip(numbers) {
                *sum += number;
            }
            let guest = &measured.guest;
            let [cpu, wakeups, main, mut vcpu, hours] = cells(numbers);
            if !measured.has_roles() {
                vcpu = "?".to_owned();
            }
            let name = clean(&guest.label()).into_owned();
            let kind = kind(guest.kind).to_owned();
            [
                name,
                kind,
                guest.pid.to_string(),
                cpu,
                wakeups,
                main,
                vcpu,
                hours,
                likely
                    .get(place)
                    .map_or_else(String::new, |list| rules_of(list)),
            ]
        })
        .collect();
    let [cpu, wakeups, main, vcpu, hours] = cells(total);
    let (name, none) = ("total".to_owned(), String::new);
    rows.push([
        name,
        none(),
        none(),
        cpu,
        wakeups,
        main,
        vcpu,
        hours,
        none(),
    ]);
    let names = [
        "guest",
        "kind",
        "process",
        "CPU %",
        "wakeups/s",
        "main/s",
        "vCPUs/s",
        "CPU hours/day",
        "likely",
    ];
    sheet(names, rows, 2..8)
}

fn cells([cpu, wakeups, main, vcpus, hours]: [f64; 5]) -> [String; 5] {
    [
        percent(cpu),
        rate(wakeups),
        rate(main),
        rate(vcpus),
        percent(hours),
    ]
}

/// A table; the columns of `numbers` are numbers.
fn sheet<const N: usize>(
    names: [&str; N],
    rows: Vec<[String; N]>,
    numbers: Range<usize>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(names);
    table.add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn time(measurement: &Measurement) -> String {
    let windows = &measurement.host.windows;
    let of = windows.first().map_or(0.0, |window| window.seconds);
    let measured = format!(
        "measured {:.0} s in {} windows of {of:.1} s",
        measurement.seconds,
        windows.len()
    );
    match measurement.settling {
        Settling::Settled { after } => format!("Settled after {after:.0} s; {measured}."),
        Settling::Unsettled { after } => format!("Not settled after {after:.0} s; {measured}."),
        Settling::Skipped => format!("Not waited until settled; {measured}."),
    }
}

fn host(host: &HostNoise) -> String {
    let mean = &host.mean;
    let mut facts = Vec::new();
    if let (Some(other), Some(most)) = (mean.other_percent, host.other_percent_max) {
        facts.push(format!(
            "other work {} % of a CPU (up to {} %)",
            percent(other),
            percent(most)
        ));
    }
    let more = [
        ("steal", mean.steal_percent),
        ("ksmd", mean.ksmd_percent.filter(|cpu| *cpu >= 0.005)),
        (
            "khugepaged",
            mean.khugepaged_percent.filter(|cpu| *cpu >= 0.005),
        ),
    ];
    for (name, value) in more {
        facts.extend(value.map(|value| format!("{name} {} %", percent(value))));
    }
    facts.extend(mean.load.map(|load| format!("load {load:.2}")));
    match facts.is_empty() {
        true => "Host: not known.".to_owned(),
        false => format!("Host: {}.", facts.join(", ")),
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}")
}

fn rate(value: f64) -> String {
    match value {
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The measurement with all windows, each guest's signature, and the likely causes of its cost.
pub(super) fn json(
    measurement: &Measurement,
    likely: &[Vec<Finding>],
    created: &str,
) -> anyhow::Result<String> {
    let mut value = json!(measurement);
    value["schema"] = json!(SCHEMA);
    value["created"] = json!(created);
    for (place, measured) in measurement.guests.iter().enumerate() {
        value["guests"][place]["signature"] = json!(measured.signature());
        value["guests"][place]["likely"] = json!(likely.get(place));
        value["guests"][place]["cpu_hours_per_day"] = json!(measured.cpu_hours_per_day());
    }
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// A line for each thread.
pub(super) fn csv(measurement: &Measurement) -> String {
    let mut text = "guest,kind,pid,tid,thread,role,cpu_percent,wakeups_per_second,\
                    preemptions_per_second,waiting_percent\n"
        .to_owned();
    for measured in &measurement.guests {
        let guest = &measured.guest;
        for thread in &measured.threads {
            let fields = [
                csv_field(&clean(&guest.label())),
                csv_field(kind(guest.kind)),
                guest.pid.to_string(),
                thread.tid.to_string(),
                csv_field(&clean(&thread.name)),
                csv_field(&clean(&thread.role.to_string())),
                thread.cpu_percent.to_string(),
                thread.wakeups_per_second.to_string(),
                thread.preemptions_per_second.to_string(),
                thread.waiting_percent.to_string(),
            ];
            text += &(fields.join(",") + "\n");
        }
    }
    text
}
