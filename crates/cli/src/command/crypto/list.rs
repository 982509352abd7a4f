//! `brisk crypto list`.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::bail;
use brisk_measure::render::{clean, columns};
use brisk_tools::crypto::kernel::{Device, FlagSource, Kernel};
use brisk_tools::crypto::libcrypto::Library;
use brisk_tools::crypto::list::{
    CONSUMERS, ConsumerRow, DriverRow, Listing, Use, kernel_name, kernel_names, listing,
};
use brisk_tools::crypto::{ALGORITHMS, Machine};

use super::Form;
use super::machine::MachineArgs;
use crate::exit;
use crate::ui::Ui;

/// List every implementation of an algorithm, and what may use which.
///
/// Of OpenSSL: libcrypto with the CPU's features and without them, providers and engines. Of the
/// kernel: drivers by priority, whether they run on the CPU or on a device, and what AF_ALG,
/// dm-crypt, fscrypt, kTLS and IPsec make of each, with the reason. Nothing is loaded, and nothing
/// encrypts: a module that is not loaded stays so.
///
/// In the columns of consumers "chosen" is what the consumer gets for the algorithm's name, "yes" it
/// may use, "no" it refuses, "?" is not known, "-" it has no use for, and "absent" is not in this
/// kernel. A star is at the priority that the kernel chooses by.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Algorithms, by OpenSSL's or the kernel's names, such as aes-128-cbc or cbc(aes); or names of
    /// drivers. Default: those that brisk can measure.
    #[arg(value_name = "ALG")]
    pub algorithms: Vec<String>,

    /// List the kernel's implementations alone.
    #[arg(long)]
    pub kernel: bool,

    /// Where to look.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Format of the list.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub format: Form,
}

/// Lists.
///
/// # Errors
/// If an algorithm is not known, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let machine = args.machine.look(!args.kernel)?;
    let names = names(&args.algorithms, &machine.kernel)?;
    let library = machine.library.as_ref().ok();
    let listings: Vec<_> = names
        .iter()
        .map(|name| listing(name, &machine.kernel, library))
        .collect();
    match args.format {
        Form::Json => {
            let value = json(&machine, &listings);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Form::Table => ui.data(&text(&machine, &listings, args.kernel))?,
    }
    Ok(exit::OK)
}

/// Names in the kernel, each once.
fn names(given: &[String], kernel: &Kernel) -> anyhow::Result<Vec<String>> {
    if given.is_empty() {
        return Ok(kernel_names());
    }
    let mut names: Vec<String> = Vec::new();
    for name in given {
        let Some(found) = kernel_name(name, kernel) else {
            let known: Vec<_> = ALGORITHMS.iter().map(|one| one.name).collect();
            bail!(
                "the algorithm {name} is not known, and /proc/crypto has none of that name; try one \
                 of {}",
                known.join(", ")
            );
        };
        if !names.contains(&found) {
            names.push(found);
        }
    }
    Ok(names)
}

fn json(machine: &Machine, listings: &[Listing]) -> serde_json::Value {
    let kernel = &machine.kernel;
    let setting = match &kernel.flags {
        FlagSource::Kernel => "known",
        FlagSource::NotLoaded => "not-loaded",
        FlagSource::NotBuilt => "not-built",
        FlagSource::Failed(_) => "failed",
    };
    serde_json::json!({
        "schema": "brisk.crypto.list/1",
        "kernel": {
            "release": (!kernel.release.is_empty()).then_some(&kernel.release),
            "version": kernel.version.map(|version| version.to_string()),
            "flags": setting,
            "af_alg_restrict": kernel.af_alg_restrict,
            "fips": kernel.is_fips,
            "cryptodev": kernel.has_cryptodev,
            "tls_stat": kernel.tls,
        },
        "openssl": machine.library.as_ref().ok(),
        "devices": kernel.devices,
        "algorithms": listings,
    })
}

/// The list for a terminal.
fn text(machine: &Machine, listings: &[Listing], is_kernel: bool) -> String {
    let mut text = String::new();
    let kernel = &machine.kernel;
    let version = kernel
        .version
        .map_or_else(String::new, |version| format!(" (source {version})"));
    let _ = writeln!(text, "{}{version}", clean(&kernel.title()));
    match &machine.library {
        Ok(library) => text.push_str(&library_text(library)),
        Err(_) if is_kernel => {}
        Err(reason) => {
            let _ = writeln!(text, "OpenSSL: {}", clean(reason));
        }
    }
    for listing in listings {
        text.push_str(&algorithm_text(listing, kernel.drivers.is_some()));
    }
    text.push_str(&match kernel.has_bus || !kernel.devices.is_empty() {
        true => devices_text(&kernel.devices),
        false => "\nDevices: not known, /sys/bus cannot be read\n".to_owned(),
    });
    text.push_str(&not_known(listings));
    text.push_str(&remarks(kernel));
    text
}

/// Consumers of which it is not known whether this kernel has them.
fn not_known(listings: &[Listing]) -> String {
    let rows = listings.iter().flat_map(|listing| &listing.drivers);
    let perhaps = |it: &&ConsumerRow| matches!(it.used, Use::Perhaps(_));
    let all = rows.flat_map(|row| row.consumers.iter().filter(perhaps));
    let all: BTreeSet<_> = all.map(|it| it.consumer).collect();
    let names: Vec<_> = all.iter().map(|consumer| consumer.name()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "Note: whether this kernel has {} is not known (\"?\"): its configuration cannot be \
             read\n",
            names.join(", ")
        ),
    }
}

fn library_text(library: &Library) -> String {
    let providers: Vec<_> = library.providers.iter().map(|it| &*it.id).collect();
    let path = library.configuration_path.as_deref();
    let path = path.map_or_else(String::new, |path| format!(", {}", path.display()));
    let text = format!(
        "{}, providers {}{path}",
        library.version.library,
        providers.join(" ")
    );
    clean(&text).into_owned() + "\n"
}

fn algorithm_text(listing: &Listing, is_known: bool) -> String {
    let mut text = format!("\n{}", clean(&listing.name));
    if !listing.openssl.is_empty() {
        let _ = write!(text, ": {}", listing.openssl.join(", "));
    }
    text.push('\n');
    if !listing.library.is_empty() {
        let yes = |is: bool| if is { "yes" } else { "no" };
        let rows = listing.library.iter().map(|row| {
            vec![
                row.name.clone(),
                row.runs.clone(),
                yes(row.is_used).to_owned(),
                row.how.clone(),
            ]
        });
        text.push_str(&columns(&["in OpenSSL", "runs on", "used", "how"], rows));
    }
    let loadable = match listing.loadable.is_empty() {
        true => String::new(),
        false => format!("not loaded: {}\n", listing.loadable.join(", ")),
    };
    if listing.drivers.is_empty() {
        let why = match listing.without.filter(|_| listing.loadable.is_empty()) {
            Some(option) => format!("none: the kernel was built without {option}"),
            None if !is_known => "not known, /proc/crypto cannot be read".to_owned(),
            None => "none now; it may come when something asks for it".to_owned(),
        };
        let _ = writeln!(text, "in the kernel: {why}");
        text.push_str(&clean_lines(&loadable));
        return text;
    }
    let mut head = vec!["in the kernel", "priority", "runs on", "async", "self-test"];
    head.extend(CONSUMERS.map(|consumer| consumer.name()));
    text.push_str(&columns(&head, listing.drivers.iter().map(driver_cells)));
    text.push_str(&clean_lines(&loadable));
    text.push_str(&reasons(&listing.drivers));
    text
}

fn clean_lines(text: &str) -> String {
    let lines = text.lines().map(|line| clean(line).into_owned() + "\n");
    lines.collect()
}

fn driver_cells(row: &DriverRow) -> Vec<String> {
    let driver = &row.driver;
    let mark = if row.is_default { " *" } else { "" };
    let is_async = match driver.is_async {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let tested = if driver.is_tested {
        "passed"
    } else {
        "unknown"
    };
    let mut cells = vec![
        driver.driver.clone(),
        format!("{}{mark}", driver.priority),
        row.runs.text(),
        is_async.to_owned(),
        tested.to_owned(),
    ];
    cells.extend(row.consumers.iter().map(|it| it.used.name().to_owned()));
    cells
}

/// Why consumers refuse, a line for each reason.
fn reasons(rows: &[DriverRow]) -> String {
    let mut lines = BTreeSet::new();
    for row in rows {
        for consumer in &row.consumers {
            // Of those the whole list has a note.
            if matches!(consumer.used, Use::Perhaps(_)) {
                continue;
            }
            let Some(why) = consumer.used.why() else {
                continue;
            };
            let name = consumer.consumer.name();
            let line = match consumer.used.name() {
                "absent" => format!("  {name}: {why}\n"),
                used => format!("  {name}, {}: {used}: {why}\n", row.driver.driver),
            };
            lines.insert(clean_lines(&line));
        }
    }
    lines.into_iter().collect()
}

fn devices_text(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "\nDevices: none\n".to_owned();
    }
    let rows = devices.iter().map(|device| {
        let unbound = match device.modules.is_empty() {
            true => "none; no module has one".to_owned(),
            false => format!("none; modprobe {}", device.modules.join(", ")),
        };
        vec![
            format!("{} {}", device.bus, device.name),
            device.what.to_owned(),
            device.driver.clone().unwrap_or(unbound),
        ]
    });
    format!("\n{}", columns(&["device", "what", "driver"], rows))
}

fn remarks(kernel: &Kernel) -> String {
    let mut text = String::new();
    let cryptodev = match kernel.has_cryptodev {
        Some(true) => "there",
        Some(false) => "none",
        None => "not known, the tree has no devices",
    };
    let _ = writeln!(text, "/dev/crypto: {cryptodev}");
    if let Some(tls) = &kernel.tls {
        let count = |name: &str| tls.get(name).copied().unwrap_or(0);
        let _ = writeln!(
            text,
            "kTLS: {} connections sent by software, {} by a network card",
            count("TlsTxSw"),
            count("TlsTxDevice")
        );
    }
    if kernel.drivers.is_none() {
        return text;
    }
    let note = match &kernel.flags {
        FlagSource::Kernel => return text,
        FlagSource::NotLoaded => {
            "the kernel does not tell the drivers' flags: modprobe crypto_user".to_owned()
        }
        FlagSource::NotBuilt => {
            "the kernel does not tell the drivers' flags: it has no CONFIG_CRYPTO_USER".to_owned()
        }
        FlagSource::Failed(reason) => {
            format!("the kernel does not tell the drivers' flags: {reason}")
        }
    };
    let _ = writeln!(
        text,
        "Note: {note}; those that are known from its source are used"
    );
    text
}
