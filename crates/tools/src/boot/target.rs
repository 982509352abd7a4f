//! Boot targets: a guest of brisk's, a QEMU command line, or a domain of libvirt's.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use brisk_host::program::Program;
use brisk_measure::{Clock, Environment};
use brisk_vm::cache::Cache;
use brisk_vm::kernel::{self, Entry};
use brisk_vm::launch::{Foreign, Running};
use brisk_vm::qemu;
use brisk_vm::qemu::agent::Agent;
use brisk_vm::qemu::cmdline::CommandLine;
use brisk_vm::qemu::watch::Extra;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::domain::Domain;
use super::ready_condition::{ReadyCondition, Until};
use super::running_vm::RunningVm;
use crate::guest::serve;
use crate::guest::{self, Error, Facts, Net, Options, Plan, Root};
use brisk_experiment::environment;

/// A target that can be booted repeatedly.
#[derive(Debug)]
pub enum BootTarget {
    /// A guest of brisk's.
    Guest(Box<Guest>),
    /// A QEMU of the user's.
    Command(Command),
    /// A domain of libvirt's.
    Domain(Box<Domain>),
}

/// A guest of brisk's, ready to be started.
#[derive(Debug)]
pub struct Guest {
    /// Options that it was made from.
    pub options: Options,
    facts: Facts,
    plan: Plan,
    script: Vec<u8>,
    /// The initramfs, if it differs from brisk's own; removed when this is dropped.
    _initramfs: Option<File>,
}

/// Extends brisk's own initramfs by another archive, which the kernel unpacks over it, each at a
/// multiple of 4 bytes (`Documentation/driver-api/early-userspace/buffer-format.rst`), and
/// compresses it. The file has no name that could be left behind.
fn remade(own: &Path, extra: Option<&Path>, gzip: bool) -> std::io::Result<File> {
    let mut bytes = std::fs::read(own)?;
    if let Some(extra) = extra {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(std::fs::read(extra)?);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let mut made = tempfile::tempfile()?;
    // QEMU opens it as another user.
    made.set_permissions(Permissions::from_mode(0o644))?;
    if gzip {
        let mut encoder = GzEncoder::new(&made, Compression::best());
        encoder.write_all(&bytes)?;
        encoder.finish()?;
    } else {
        made.write_all(&bytes)?;
    }
    Ok(made)
}

/// A command line that starts QEMU.
#[derive(Debug, Clone)]
pub struct Command {
    program: PathBuf,
    words: Vec<OsString>,
    marker: Option<ReadyCondition>,
    /// Entry of its kernel, if instructions are counted until then.
    entry: Option<Entry>,
}

impl Guest {
    /// Builds what a boot needs.
    ///
    /// # Errors
    /// As those of [`guest::gather_and_probe`] and [`guest::plan`].
    pub fn prepare(
        options: Options,
        cache: &Cache,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let facts = guest::gather_and_probe(&options, cache, progress)?;
        let mut plan = guest::plan(&options, &facts)?;
        plan.pack(cache, progress)?;
        let (extra, gzip) = (
            options.kernel.extra_initramfs.as_deref(),
            options.kernel.gzip_initramfs,
        );
        let made = (extra.is_some() || gzip)
            .then(|| remade(&plan.machine.boot.initramfs, extra, gzip))
            .transpose()
            .map_err(|error| {
                let with = extra.unwrap_or(&plan.machine.boot.initramfs).display();
                Error::unfit(
                    format!("cannot make an initramfs with {with}: {error}"),
                    "give a cpio archive",
                )
            })?;
        if let Some(made) = &made {
            plan.machine.boot.initramfs = format!("/proc/self/fd/{}", made.as_raw_fd()).into();
        }
        progress("");
        let script = if options.instructions {
            Vec::new()
        } else {
            guest::encoded(&plan.steps())?
        };
        Ok(Self {
            options,
            facts,
            plan,
            script,
            _initramfs: made,
        })
    }

    /// Plan of the guest.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Facts that the guest was made from.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Notes of the facts for the user.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.facts.notes
    }
}

impl Command {
    /// A command line from a program and its arguments.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn new(words: &[OsString], marker: Option<ReadyCondition>) -> Result<Self, Error> {
        let (program, words) = words
            .split_first()
            .ok_or_else(|| Error::unfit("there is no command", "give one after --"))?;
        let name = program.to_string_lossy();
        let program = Program::find(&name).map_err(Error::FindQemu)?;
        Ok(Self {
            program: program.path().to_owned(),
            words: words.to_vec(),
            marker,
            entry: None,
        })
    }

    /// The command line with instructions counted until the kernel is entered.
    ///
    /// # Errors
    /// If the kernel's entry is unknown, or KVM executes the guest.
    pub fn counted(mut self) -> Result<Self, Error> {
        if accelerator(&self.words) == "kvm" {
            return Err(Error::unfit(
                "a processor does not count its instructions exactly, so they cannot be counted \
                 with KVM",
                "leave KVM out of the command line",
            ));
        }
        let line = CommandLine::options(&self.words);
        let kernel = line.value("kernel").ok_or_else(|| {
            Error::unfit(
                "where the kernel is entered is read from its image, and the command line names \
                 none",
                "write QEMU's command line with -kernel FILE after --",
            )
        })?;
        self.entry = Some(kernel::entry(Path::new(kernel))?);
        self.marker = None;
        Ok(self)
    }
}

impl BootTarget {
    /// Starts the target; the time is that of the execution of QEMU, or of the request to libvirt.
    /// With a breakpoint the VM waits for a debugger before it runs.
    pub(crate) fn start(
        &self,
        breakpoint: bool,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<(RunningVm, Instant), Error> {
        match self {
            Self::Guest(guest) => {
                // What serves the guest starts before QEMU and is not part of its boot.
                let served = serve(&guest.plan, &guest.facts)?;
                let mut machine = guest.plan.machine.clone();
                machine.stopped = breakpoint;
                machine.debugging.debugger = breakpoint;
                let executed = Instant::now();
                let running = Running::start(&machine, served, guest.plan.unprivileged)?;
                let script = guest.script.clone();
                Ok((RunningVm::Guest(Box::new(running), script), executed))
            }
            Self::Command(command) => {
                let executed = Instant::now();
                let marker = command.marker.as_ref().and_then(ReadyCondition::extra);
                let extra = if breakpoint {
                    Some(Extra::Debugger)
                } else {
                    marker
                };
                let foreign = Foreign::start(&command.program, &command.words, extra)?;
                let marker = command.marker.clone();
                Ok((
                    RunningVm::Foreign(Box::new(foreign), marker, Agent::default()),
                    executed,
                ))
            }
            Self::Domain(domain) => {
                let (machine, asked) = domain.start(stopped)?;
                Ok((RunningVm::Domain(Box::new(machine)), asked))
            }
        }
    }

    /// Entry of the kernel, if instructions are counted until then.
    ///
    /// # Errors
    /// If the entry of this kernel is unknown.
    pub(crate) fn entry(&self, until: Until) -> Result<Option<Entry>, Error> {
        match self {
            Self::Guest(guest) if guest.options.instructions && until == Until::Kernel => {
                Ok(Some(kernel::entry(&guest.plan.machine.boot.kernel)?))
            }
            Self::Command(command) if until == Until::Kernel => Ok(command.entry),
            Self::Guest(_) | Self::Command(_) | Self::Domain(_) => Ok(None),
        }
    }

    /// Clock of the measurements.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        match self {
            Self::Guest(guest) if guest.options.instructions => Clock::Instructions,
            Self::Command(command) if command.entry.is_some() => Clock::Instructions,
            Self::Guest(_) | Self::Command(_) | Self::Domain(_) => Clock::HostMonotonic,
        }
    }

    /// Name of the event at which the time of a boot begins.
    #[must_use]
    pub const fn beginning(&self) -> &'static str {
        match self {
            Self::Guest(_) | Self::Command(_) => "exec",
            Self::Domain(_) => "virsh start",
        }
    }

    /// Note on the begin and the end of the times.
    #[must_use]
    pub fn endpoints(&self) -> Option<String> {
        matches!(self, Self::Domain(_)).then(|| {
            "time begins when libvirt is asked to start the domain; the guest is held until its \
             console is open, which is left out; the start of QEMU's process is known to 10 ms"
                .to_owned()
        })
    }

    /// Reasons why boots may differ, even with the instruction clock.
    #[must_use]
    pub fn indeterminate(&self) -> Vec<String> {
        let Self::Guest(guest) = self else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        let options = &guest.options;
        match &guest.facts.root {
            Root::None => {}
            Root::Directory { .. } => {
                reasons.push("the root is served by another process, which answers when it does");
            }
            Root::Disk { .. } => {
                reasons.push("the disk is read by other threads, which are done when they are");
            }
        }
        if options.hardware.cpus > 1 {
            reasons.push("several processors take turns by the host's time");
        }
        if options.hardware.net != Net::None {
            reasons.push("the network answers when it does");
        }
        if !options.hardware.shares.is_empty() {
            reasons.push("shared directories are served by another process");
        }
        reasons.into_iter().map(str::to_owned).collect()
    }

    /// Environment of the measurements.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let mut environment = environment::here();
        match self {
            Self::Guest(guest) => {
                let machine = &guest.plan.machine;
                environment.qemu_version = Some(guest.facts.capabilities.package.clone());
                environment.accelerator = Some(machine.accelerator.name().to_owned());
                environment.guest_kernel = Some(guest.facts.kernel.version.clone());
                let line: Vec<_> = machine.boot.parameters.iter().map(|p| &*p.text).collect();
                let firmware = match &machine.firmware {
                    qemu::Firmware::Qboot(path) => path.display().to_string(),
                    qemu::Firmware::Default => "SeaBIOS".to_owned(),
                };
                for (name, value) in [
                    ("machine", machine.machine.name().to_owned()),
                    ("firmware", firmware),
                    ("CPU", machine.processors.model.clone()),
                    ("CPUs", machine.processors.count.to_string()),
                    ("guest memory", format!("{} MiB", machine.memory.mib)),
                    ("kernel command line", line.join(" ")),
                ] {
                    environment.extra.insert(name.to_owned(), value);
                }
            }
            Self::Command(command) => {
                environment.qemu_version = qemu_version(&command.program);
                environment.accelerator = Some(accelerator(&command.words));
                let line = Program::at(&command.program)
                    .args(command.words.iter().cloned())
                    .shell_quoted();
                environment.extra.insert("QEMU command".to_owned(), line);
            }
            Self::Domain(domain) => domain.describe(&mut environment),
        }
        environment
    }
}

/// Version of a QEMU program.
pub(super) fn qemu_version(program: &Path) -> Option<String> {
    let text = Program::at(program).arg("--version").run().ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().next()?;
    Some(line.trim_start_matches("QEMU emulator version ").to_owned())
}

/// The accelerator that QEMU tries first.
fn accelerator(words: &[OsString]) -> String {
    let all = CommandLine::options(words).accelerators();
    all.into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn archives_follow_one_another_at_multiples_of_four_also_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let [own, extra] = ["own", "extra"].map(|name| dir.path().join(name));
        std::fs::write(&own, b"070701").unwrap();
        std::fs::write(&extra, b"x").unwrap();
        let bytes = |extra: Option<&Path>, gzip| {
            let mut file = remade(&own, extra, gzip).unwrap();
            file.rewind().unwrap();
            let mut bytes = Vec::new();
            match gzip {
                true => GzDecoder::new(file).read_to_end(&mut bytes).unwrap(),
                false => file.read_to_end(&mut bytes).unwrap(),
            };
            bytes
        };
        for gzip in [false, true] {
            assert_eq!(bytes(Some(&extra), gzip), b"070701\0\0x\0\0\0");
        }
        assert_eq!(bytes(None, true), b"070701");
    }
}
