//! Options for the boot target, the clock and the end of the measured time.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::bail;
use brisk_tools::boot::domain::Domain;
use brisk_tools::boot::ready_condition::{ReadyCondition, Until as ToolUntil};
use brisk_tools::boot::target::{BootTarget, Command, Guest};
use brisk_tools::guest::{Accel, Options};
use brisk_vm::cache::Cache;
use brisk_vm::libvirt;
use clap::ValueEnum;

use super::super::guest::{GuestArgs, MachineArgs};
use crate::output::explain;
use crate::parse::duration;
use crate::ui::{Spinner, Ui};

/// Boot target, and the milestone up to which it is measured.
#[derive(Debug, clap::Args)]
#[command(mut_arg("root", |root| root.default_value("none")))]
pub struct SubjectArgs {
    /// Kernel, root and modules.
    #[command(flatten)]
    pub guest: GuestArgs,

    /// Processors, memory, accelerator.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Milestone at which the measured time ends.
    ///
    /// The time begins when QEMU is executed. The default is `init`, and `ready` with --ready; of
    /// brisk boot range, where commits build the firmware alone, `kernel`. With `exit` and --ready,
    /// a boot fails if the ready condition is not met.
    #[arg(long, value_enum)]
    pub until: Option<Until>,

    /// Clock: the host's wall-clock time, or the number of instructions that the guest executes.
    ///
    /// The count of instructions is the same number at every boot, on every host (QEMU's
    /// -icount).
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    pub clock: Clock,

    /// Ready condition of a guest that is not brisk's.
    ///
    /// console:REGEX (a line of the console matches), port:NUMBER (the guest writes a byte to this
    /// I/O port; not for domains), qmp:EVENT, or agent (the QEMU guest agent answers).
    #[arg(long, value_name = "MARKER")]
    pub ready: Option<ReadyCondition>,

    /// Time limit of one boot, for example 90, 90s or 5m.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "60s")]
    pub timeout: Duration,

    /// Boot this libvirt domain instead of a guest of brisk's.
    ///
    /// The domain must be shut off, and is shut off again after each boot. The time begins when
    /// libvirt is asked to start it. Its definition stays as it is; its disks are written to as at
    /// any boot.
    #[arg(long, value_name = "NAME", conflicts_with = "qemu_command")]
    pub domain: Option<String>,

    /// libvirt connection of the domain, such as qemu:///system. Default: as virsh chooses.
    #[arg(long, value_name = "URI", requires = "domain")]
    pub connect: Option<String>,

    /// How to end a domain after the measured time.
    #[arg(long, value_enum, default_value_t = Stop::Shutdown, requires = "domain")]
    pub stop: Stop,

    /// QEMU command line to boot instead of a guest of brisk's.
    ///
    /// brisk adds devices for watching the guest; drives, ports and all else are as written.
    #[arg(last = true, value_name = "QEMU")]
    pub qemu_command: Vec<OsString>,
}

/// Milestones for [`SubjectArgs::until`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Until {
    /// First output of the kernel on the console; with --clock instructions, the kernel's entry.
    Kernel,
    /// First instruction of init.
    Init,
    /// Init executes the command; the ready condition of a guest that is not brisk's.
    Ready,
    /// QEMU has ended.
    Exit,
}

/// Clocks for [`SubjectArgs::clock`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Clock {
    /// The host's monotonic clock.
    Wall,
    /// Instructions of the guest.
    Instructions,
}

/// Ways to end a domain, for [`SubjectArgs::stop`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Stop {
    /// Ask the guest to shut down; cut its power after --timeout.
    Shutdown,
    /// Cut its power: quick, and its file systems are as after a power failure.
    Destroy,
}

impl Until {
    pub(super) const fn tool(self) -> ToolUntil {
        match self {
            Self::Kernel => ToolUntil::Kernel,
            Self::Init => ToolUntil::Init,
            Self::Ready => ToolUntil::Ready,
            Self::Exit => ToolUntil::Exit,
        }
    }
}

impl SubjectArgs {
    pub(super) const fn until(&self) -> ToolUntil {
        match (self.until, &self.ready) {
            (Some(until), _) => until.tool(),
            (None, Some(_)) => ToolUntil::Ready,
            (None, None) => ToolUntil::Init,
        }
    }

    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let instructions = self.clock == Clock::Instructions;
        let mut options = self.machine.options(&self.guest)?;
        if instructions && options.hardware.accel == Accel::Auto {
            options.hardware.accel = Accel::Tcg;
        }
        if instructions && options.hardware.accel == Accel::Kvm {
            bail!("--clock instructions with --accel kvm: a processor does not count them exactly");
        }
        options.instructions = instructions;
        options.command.words = vec!["true".into()];
        Ok(options)
    }

    /// Prepares the boot target: finds the kernel, builds the initramfs, checks the options.
    pub(super) fn subject(&self, ui: &Ui) -> anyhow::Result<BootTarget> {
        let instructions = self.clock == Clock::Instructions;
        if self.is_foreign() {
            self.check_foreign()?;
        }
        if let Some(name) = &self.domain {
            return self.domain(name, ui);
        }
        if !self.qemu_command.is_empty() {
            let command = Command::new(&self.qemu_command, self.ready.clone());
            let mut command = command.map_err(explain)?;
            if instructions {
                command = command.counted().map_err(explain)?;
            }
            return Ok(BootTarget::Command(command));
        }
        if self.ready.is_some() {
            bail!(
                "--ready is for a QEMU command line after --, or for --domain; use --until with \
                 brisk's guest"
            );
        }
        let options = self.options()?;
        guest(options, ui)
    }

    /// Whether the boot target is a QEMU command line or a domain, not a guest of brisk's.
    fn is_foreign(&self) -> bool {
        self.domain.is_some() || !self.qemu_command.is_empty()
    }

    fn check_foreign(&self) -> anyhow::Result<()> {
        let until = self.until();
        if until == ToolUntil::Init {
            bail!(
                "--until init needs a guest of brisk's: of another only its console, its ports \
                 and its events are seen; use --ready, or --until kernel or exit"
            );
        }
        if until == ToolUntil::Ready && self.ready.is_none() {
            bail!("--until ready needs --ready, for example --ready 'console:login: $'");
        }
        if self.clock == Clock::Instructions && self.domain.is_some() {
            bail!("--clock instructions with --domain: libvirt's QEMU counts none");
        }
        if self.clock == Clock::Instructions && until != ToolUntil::Kernel {
            bail!(
                "--clock instructions needs a guest of brisk's, whose init counts them; of a \
                 command line after -- they are counted with --until kernel"
            );
        }
        Ok(())
    }

    fn domain(&self, name: &str, ui: &Ui) -> anyhow::Result<BootTarget> {
        let stop = match self.stop {
            Stop::Shutdown => libvirt::Stop::Shutdown,
            Stop::Destroy => libvirt::Stop::Destroy,
        };
        let spinner = ui.spinner("asking libvirt");
        let found = Domain::find(
            name,
            self.connect.as_deref(),
            self.ready.clone(),
            stop,
            self.timeout,
        );
        drop(spinner);
        let domain = found.map_err(explain)?;
        if self.until() == ToolUntil::Kernel && !domain.has_console() {
            bail!(
                "--until kernel: domain {name} has no console that could be read; virt-xml {name} \
                 --add-device --console pty adds one"
            );
        }
        Ok(BootTarget::Domain(Box::new(domain)))
    }

    /// Boot targets without and with the guest's trace; a guest that is not brisk's has no trace.
    pub(super) fn with_trace(&self, ui: &Ui) -> anyhow::Result<(BootTarget, Option<BootTarget>)> {
        let plain = self.subject(ui)?;
        if self.is_foreign() {
            return Ok((plain, None));
        }
        let options = Options {
            trace: true,
            ..self.options()?
        };
        Ok((plain, Some(guest(options, ui)?)))
    }
}

/// Prepares a guest of brisk's as the boot target.
pub(super) fn guest(options: Options, ui: &Ui) -> anyhow::Result<BootTarget> {
    let cache = Cache::open()?;
    let mut spinner: Option<Spinner> = None;
    let mut progress = |text: &str| {
        spinner = (!text.is_empty()).then(|| ui.spinner(text));
    };
    let guest = Guest::prepare(options, &cache, &mut progress).map_err(explain)?;
    drop(spinner);
    for note in guest.notes() {
        ui.note(note);
    }
    Ok(BootTarget::Guest(Box::new(guest)))
}
