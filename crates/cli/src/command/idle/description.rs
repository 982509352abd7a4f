//! Descriptions of guests: files, domains, processes and command lines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use brisk_host::files;
use brisk_host::proc::Procfs;
use brisk_tools::idle::fix::Context;
use brisk_tools::idle::rules::GuestOs;
use brisk_tools::idle::text::Text;
use brisk_tools::idle::{host, vm};
use brisk_tools::vm::{VmPaths, pid};
use brisk_vm::cache::Cache;
use brisk_vm::hardware::GuestHardware;
use brisk_vm::libvirt::Defined;

use crate::command::vm::named;
use crate::hint::of_process;

/// Guests to look at.
#[derive(Debug, clap::Args)]
pub(super) struct Guests {
    /// A definition, as virsh dumpxml prints it, a configuration of Proxmox VE, or a file or script
    /// with a command line of QEMU.
    #[arg(value_name = "FILE", conflicts_with_all = ["domain", "vm", "pid", "qemu_command"])]
    pub(super) files: Vec<PathBuf>,

    /// A domain of libvirt's; it may run.
    #[arg(long, value_name = "NAME", group = "defined", allow_hyphen_values = true, conflicts_with_all = ["vm", "pid", "qemu_command"])]
    pub(super) domain: Option<String>,

    /// The libvirt that has the domain, such as qemu:///system. Default: as virsh chooses.
    #[arg(long, value_name = "URI")]
    pub(super) connect: Option<String>,

    /// A persistent VM of brisk's; it may run.
    #[arg(long, value_name = "NAME", group = "defined", conflicts_with_all = ["pid", "qemu_command"])]
    pub(super) vm: Option<String>,

    /// A QEMU that runs, by the number of its process, whoever started it.
    #[arg(long, value_name = "PID", conflicts_with = "qemu_command")]
    pub(super) pid: Option<u32>,

    /// Operating system of the guest. Default: as its description says.
    #[arg(long, value_name = "OS", value_enum)]
    pub(super) guest: Option<Os>,

    /// A command line of QEMU.
    #[arg(last = true, value_name = "QEMU")]
    pub(super) qemu_command: Vec<OsString>,
}

/// Largest file that is read.
const LARGEST: u64 = 16 << 20;

/// Operating systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Os {
    /// Windows 11, Windows Server 2025, or later.
    Windows11,
    /// An earlier Windows, from Windows 8 and Windows Server 2012 on.
    Windows,
    /// Windows 7, Windows Server 2008 R2, or earlier.
    Windows7,
    /// Linux.
    Linux,
    /// Another.
    Other,
}

impl From<Os> for GuestOs {
    fn from(os: Os) -> Self {
        match os {
            Os::Windows11 => Self::Windows11,
            Os::Windows => Self::Windows,
            Os::Windows7 => Self::Windows7,
            Os::Linux => Self::Linux,
            Os::Other => Self::Other,
        }
    }
}

/// A guest that was described.
#[derive(Debug, Clone)]
pub(super) struct Described {
    /// File, domain or process, for messages.
    pub(super) name: String,
    /// The file, if it was read from one.
    pub(super) file: Option<PathBuf>,
    /// The description.
    pub(super) text: Text,
    /// Facts that it lacks.
    pub(super) context: Context,
    /// The domain, if it is one of libvirt's.
    pub(super) domain: Option<Defined>,
    /// The VM, if its definition was read.
    pub(super) vm: Option<VmPaths>,
    /// The process, if it was read from one.
    pub(super) pid: Option<u32>,
}

impl Guests {
    /// Whether nobody named a guest.
    pub(super) fn is_empty(&self) -> bool {
        let named = [self.domain.is_some(), self.vm.is_some(), self.pid.is_some()];
        self.files.is_empty() && self.qemu_command.is_empty() && !named.contains(&true)
    }

    /// The one guest that was named. A VM of brisk's is as it is defined, not as it runs.
    pub(super) fn one(&self) -> anyhow::Result<Described> {
        if let Some(name) = &self.vm {
            return self.of_vm(name);
        }
        let mut all = self.read()?;
        match (all.pop(), all.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) => bail!(
                "no guest was named; give a FILE, --domain NAME, --vm NAME, --pid PID, or a \
                 command line of QEMU after --"
            ),
            (Some(_), more) => bail!("one guest at a time, and not {}", more + 1),
        }
    }

    /// The guests that were named, in order. A VM of brisk's is as it runs, if it does.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Described>> {
        if let Some(name) = &self.domain {
            return Ok(vec![self.of_domain(name)?]);
        }
        if let Some(name) = &self.vm {
            let paths = named::paths(name)?;
            return Ok(vec![match pid(&paths) {
                Some(pid) => self.of_process(pid, format!("VM {name}"))?,
                None => self.of_vm(name)?,
            }]);
        }
        if let Some(pid) = self.pid {
            return Ok(vec![self.of_process(pid, format!("process {pid}"))?]);
        }
        if !self.qemu_command.is_empty() {
            let text = Text::Arguments(self.qemu_command.clone());
            return Ok(vec![self.described("command line".into(), text, None)]);
        }
        self.files.iter().map(|path| self.of_file(path)).collect()
    }

    pub(super) fn of_file(&self, path: &Path) -> anyhow::Result<Described> {
        let name = path.display().to_string();
        let read = files::read_regular(path, LARGEST).map_err(anyhow::Error::from);
        let read = read.and_then(|bytes| Ok((Text::of_file(&bytes, path)?, bytes)));
        let (text, bytes) = read.with_context(|| format!("cannot read {name}"))?;
        let mut described = self.described(name, text, None);
        let os = described.context.os;
        described.context.os = os.or_else(|| Text::os_of_file(&bytes));
        described.file = Some(path.to_owned());
        Ok(described)
    }

    /// A guest that is described here; one of a file may run elsewhere.
    fn described(&self, name: String, text: Text, domain: Option<Defined>) -> Described {
        let context = Context {
            os: self.guest.map(Into::into),
            ..Context::default()
        };
        Described {
            name,
            file: None,
            text,
            context,
            domain,
            vm: None,
            pid: None,
        }
    }

    /// A VM of brisk's, as it would be started.
    pub(super) fn of_vm(&self, name: &str) -> anyhow::Result<Described> {
        let paths = named::paths(name)?;
        let text = vm::read(&paths, &Cache::open()?, &mut |_| {}).map_err(explain)?;
        let mut described = self.described(format!("VM {name}"), text, None);
        described.context.host = host::gather(Path::new("/"), None);
        described.vm = Some(paths);
        Ok(described)
    }

    pub(super) fn of_domain(&self, name: &str) -> anyhow::Result<Described> {
        let domain = Defined::find(name, self.connect.as_deref())?;
        self.of_defined(domain, name, &Capabilities::default())
    }

    /// A domain by the name it was asked for.
    pub(super) fn of_defined(
        &self,
        domain: Defined,
        name: &str,
        known: &Capabilities,
    ) -> anyhow::Result<Described> {
        let xml = domain.xml()?;
        let hardware = GuestHardware::of_xml(&xml);
        let hardware = hardware.with_context(|| format!("cannot read domain {name}"))?;
        let capabilities = known.of(&domain, &hardware);
        let mut described = self.described(name.to_owned(), Text::Xml(xml), Some(domain));
        described.context.host = host::gather(Path::new("/"), capabilities.as_deref());
        let program = hardware.emulator.as_deref();
        let program = program.filter(|_| !self.connect.as_deref().is_some_and(is_remote));
        described.context.host.qemu = program.and_then(|program| qemu_of(program, &hardware));
        Ok(described)
    }

    pub(super) fn of_process(&self, pid: u32, name: String) -> anyhow::Result<Described> {
        let root = Path::new("/");
        let hardware = GuestHardware::of_process(root, pid).map_err(of_process)?;
        let words = Procfs::default().words(pid);
        let words = words.with_context(|| format!("process {pid} has ended"))?;
        let words = words.into_iter().map(OsString::from_vec).collect();
        let mut described = self.described(name, Text::Arguments(words), None);
        described.context.host = host::gather(root, None);
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        described.context.host.qemu = program.and_then(|program| qemu_of(&program, &hardware));
        described.pid = Some(pid);
        Ok(described)
    }
}

/// What libvirt's emulators can do, by what [`Defined::capabilities`] asks for.
#[derive(Debug, Default)]
pub(super) struct Capabilities(Mutex<BTreeMap<Asked, Option<Arc<str>>>>);

/// Emulator, accelerator, architecture and machine.
type Asked = (Option<PathBuf>, Option<String>, String, String);

impl Capabilities {
    /// None for an emulator that is not installed here.
    fn of(&self, domain: &Defined, hardware: &GuestHardware) -> Option<Arc<str>> {
        let machine = &hardware.machine;
        let asked = (
            hardware.emulator.clone(),
            hardware.accelerators.first().cloned(),
            machine.arch.clone(),
            machine.kind.clone(),
        );
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&asked) {
            return found.clone();
        }
        let found = domain.capabilities(hardware).ok().map(Arc::from);
        known().insert(asked, found.clone());
        found
    }
}

/// Whether a connection URI of libvirt has another host: `qemu+ssh://host/system`.
fn is_remote(connection: &str) -> bool {
    let rest = connection.split_once("://").map(|(_, rest)| rest);
    rest.is_some_and(|rest| !rest.starts_with('/'))
}

/// Version of the QEMU of a guest on this host, where it is known.
fn qemu_of(program: &Path, hardware: &GuestHardware) -> Option<(u32, u32)> {
    host::qemu_of(program, &hardware.machine.kind, &Cache::open().ok()?)
}

/// With what to try as part of the message.
pub(super) fn explain(error: vm::Error) -> anyhow::Error {
    match error {
        vm::Error::Vm(error) => named::explain(error),
        error => error.into(),
    }
}
