//! Guests that run, by the options that name them.

use std::path::Path;

use anyhow::{Context, bail};
use brisk_host::proc::Procfs;
use brisk_tools::idle::measure::{Guest, Kind, running_vms};
use brisk_tools::vm::{condition, pid};
use brisk_vm::libvirt::RunningDomain;

use crate::command::vm::named;
use crate::hint::of_process as explained;
use crate::ui::Ui;

/// Where guests may be that are not found.
pub(super) const HIDDEN: &str = "look for one that is hidden: a container sees its own processes \
                                 only, and where /proc is mounted with hidepid only root sees \
                                 those of others";

/// Guests that run.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// The guest of a QEMU, by its process number, whoever started it.
    #[arg(long, value_name = "PID", group = "target")]
    pub pid: Option<u32>,

    /// A domain of libvirt's.
    #[arg(
        long,
        value_name = "NAME",
        group = "target",
        allow_hyphen_values = true
    )]
    pub domain: Option<String>,

    /// The libvirt that has the domains, such as qemu:///system. Default: as virsh chooses.
    #[arg(long, value_name = "URI")]
    pub connect: Option<String>,

    /// A persistent VM of brisk's.
    #[arg(long, value_name = "NAME", group = "target")]
    pub vm: Option<String>,

    /// All guests of this host, ranked by CPU time.
    #[arg(long, group = "target")]
    pub all: bool,
}

impl TargetArgs {
    /// The guests: one, or with --all as many as run. Without an option it is the only guest that
    /// runs.
    pub(super) fn guests(&self, ui: &Ui) -> anyhow::Result<Vec<Guest>> {
        let root = Path::new("/");
        let guests = match (self.pid, &self.domain, &self.vm) {
            (Some(pid), ..) => vec![of_process(pid)?],
            (_, Some(name), _) => {
                let spinner = ui.spinner("asking libvirt");
                let guest = of_domain(name, self.connect.as_deref())?;
                drop(spinner);
                vec![guest]
            }
            (_, _, Some(name)) => vec![of_process(process_of_vm(name)?)?],
            _ => self.running(root, ui)?,
        };
        Ok(guests.into_iter().map(with_roles).collect())
    }

    fn running(&self, root: &Path, ui: &Ui) -> anyhow::Result<Vec<Guest>> {
        let guests = Guest::all(root, &running_vms()).context("cannot read /proc")?;
        match guests.len() {
            0 => bail!("no QEMU runs here; start a guest, or {HIDDEN}"),
            _ if self.all => {
                tell_of_hidden(ui);
                Ok(guests)
            }
            1 => Ok(guests),
            count => bail!(
                "{count} guests run; choose one with --pid, --domain or --vm, or --all:\n{}",
                list(&guests)
            ),
        }
    }
}

/// Says that some guests cannot be seen, where that is known.
pub(super) fn tell_of_hidden(ui: &Ui) {
    if !Procfs::default().shows_others() {
        ui.note(
            "QEMUs of other users are left out: /proc is mounted with hidepid, and only root sees \
             them",
        );
    }
}

/// The guest, with the roles of threads that have no names, where brisk may ask for them.
pub(super) fn with_roles(mut guest: Guest) -> Guest {
    guest.ask_roles(Path::new("/"));
    guest
}

/// The guest of a domain that runs.
pub(super) fn of_domain(name: &str, connect: Option<&str>) -> anyhow::Result<Guest> {
    let domain = RunningDomain::find(name, connect)?;
    let guest = of_process(domain.pid)?;
    Ok(Guest {
        name: Some(domain.name),
        kind: Kind::Domain,
        ..guest
    })
}

/// The guest of a process.
pub(super) fn of_process(pid: u32) -> anyhow::Result<Guest> {
    Guest::of_process(Path::new("/"), pid, &running_vms()).map_err(explained)
}

/// Number of the process of a persistent VM.
fn process_of_vm(name: &str) -> anyhow::Result<u32> {
    let paths = named::paths(name)?;
    // An unknown name, or a wrong definition.
    paths.definition().map_err(named::explain)?;
    if let Some(pid) = pid(&paths) {
        return Ok(pid);
    }
    let state = condition(&paths).map_err(named::explain)?.name();
    bail!("VM {name} is {state}; only one that runs can be measured (brisk vm start {name})");
}

fn list(guests: &[Guest]) -> String {
    let lines = guests.iter().map(|guest| {
        let (pid, kind) = (guest.pid, kind(guest.kind));
        format!("  --pid {pid}  {} ({kind})", guest.label())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What manages a guest, for people.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Domain => "libvirt domain",
        Kind::Vm => "brisk VM",
        Kind::Qemu => "QEMU",
    }
}
