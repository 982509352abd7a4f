//! Records of restarts.

use brisk_host::boot_entries::Once;
use serde::{Deserialize, Serialize};

use super::boot::Boot;
use super::census::Census;
use super::watchdog::Watch;

/// How a machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By kexec, without the firmware.
    Warm,
    /// Through the firmware.
    Cold,
}

impl Way {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// How far a restart has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nothing was changed.
    Begun,
    /// The kernel is being loaded, or is loaded.
    Load,
    /// VMs are being suspended, or are.
    Vms,
    /// GPUs are being released, or are.
    Quiesce,
    /// The watchdog is being armed, or is.
    Arm,
    /// The one-shot choice of the boot loader is being consumed, or is.
    Once,
    /// systemd was asked to restart.
    Restart,
    /// All services are stopped.
    Down,
    /// The root's init ran after the jump.
    Up,
}

impl Stage {
    /// What happened meanwhile, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Begun => "before anything was changed",
            Self::Load => "while the kernel was loaded",
            Self::Vms => "while VMs were suspended",
            Self::Quiesce => "while GPUs were released",
            Self::Arm => "while the watchdog was armed",
            Self::Once => "while the one-shot choice was consumed",
            Self::Restart => "while services were stopped",
            Self::Down => "between the jump and the root's init",
            Self::Up => "between the root's init and the end of the boot",
        }
    }
}

/// What an older record means, which does not say.
const fn yes() -> bool {
    true
}

/// A restart that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Identifies it: 16 hexadecimal digits.
    pub id: String,
    /// How.
    pub way: Way,
    /// Why not warm, if it is cold: sentences.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// How far it has come.
    pub stage: Stage,
    /// Boot that ends with it.
    pub from: Boot,
    /// Release of the kernel that is to be started; empty if not known.
    #[serde(default)]
    pub release: String,
    /// [`combination`](super::combination()) of a warm restart.
    #[serde(default)]
    pub combination: Option<String>,
    /// Times.
    #[serde(default)]
    pub times: Times,
    /// VMs that were suspended for it.
    #[serde(default)]
    pub vms: Vec<String>,
    /// Whether VMs are suspended for it: what suspended others is not undone with it.
    #[serde(default = "yes")]
    pub suspends: bool,
    /// Those that were suspended with the host before it.
    #[serde(default)]
    pub away_before: Vec<String>,
    /// Whether GPUs are released for it.
    #[serde(default = "yes")]
    pub releases: bool,
    /// Whether its kernel may be loaded: a kernel that is, before that, is another program's.
    #[serde(default = "yes")]
    pub may_be_loaded: bool,
    /// Watchdog and `panic=` that are armed.
    #[serde(default)]
    pub watch: Option<Watch>,
    /// What the boot loader would have taken back.
    #[serde(default)]
    pub once: Option<Once>,
    /// What ran before.
    #[serde(default)]
    pub before: Census,
    /// Boot of [`Stage::Up`].
    #[serde(default)]
    pub up: Option<Boot>,
}

/// Times of a restart, seconds since 1970 by the clock of the machine. Its hardware clock, which a
/// kernel reads as it starts, has whole seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// It was asked for.
    pub begun: Option<f64>,
    /// systemd was asked to restart.
    pub handed: Option<f64>,
    /// All services are stopped.
    pub down: Option<f64>,
    /// The new kernel started.
    pub kernel: Option<f64>,
    /// The root's init started.
    pub userspace: Option<f64>,
    /// multi-user.target was reached.
    pub up: Option<f64>,
}

/// Seconds that two times, of the hardware clock and of a kernel's own, may be the wrong way round.
const ROUNDING: f64 = 2.0;
/// Seconds that no restart takes: a week. More is a clock that was wrong before.
const LONGEST: f64 = 7.0 * 86400.0;

impl Times {
    /// Seconds from one to the other; none if one is not known, or the clock was set between them.
    pub(super) fn between(from: Option<f64>, to: Option<f64>) -> Option<f64> {
        let time = to? - from?;
        (-ROUNDING..=LONGEST).contains(&time).then(|| time.max(0.0))
    }

    /// Phases in their order: name and seconds.
    #[must_use]
    pub fn phases(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("preparation", Self::between(self.begun, self.handed)),
            ("shutdown", Self::between(self.handed, self.down)),
            ("firmware or kexec", Self::between(self.down, self.kernel)),
            (
                "kernel and initrd",
                Self::between(self.kernel, self.userspace),
            ),
            ("userspace", Self::between(self.userspace, self.up)),
        ]
    }

    /// Seconds in which services were away: from asking systemd, or if that is not known from the
    /// end of the services, to multi-user.target.
    #[must_use]
    pub fn downtime(&self) -> Option<f64> {
        Self::between(self.handed.or(self.down), self.up)
    }
}

/// Mark of a shutdown, by whatever it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Down {
    /// Boot that ends.
    pub boot: Boot,
    /// When all services were stopped, seconds since 1970; none if that is not known: the shutdown
    /// did not come so far, or the unit that notes it is not there.
    #[serde(default)]
    pub at: Option<f64>,
    /// When systemd was asked, if that is known.
    #[serde(default)]
    pub asked: Option<f64>,
    /// Target of systemd: reboot, kexec, poweroff, halt, soft-reboot.
    pub target: String,
}

/// What came of a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result", content = "phase")]
pub enum Outcome {
    /// The machine restarted without its firmware.
    Warm,
    /// The machine restarted through its firmware, as it was to.
    Cold,
    /// It was to restart without its firmware, and went through it.
    ColdInstead(Phase),
    /// It ended before the machine went down.
    Interrupted(Stage),
}

/// Where a warm restart failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// While services were stopped.
    Shutdown,
    /// Between the jump and the root's init.
    Kernel,
    /// Between the root's init and multi-user.target.
    Userspace,
}

impl Phase {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Shutdown => "while services were stopped",
            Self::Kernel => "between the jump and the root's init: in the kernel or the initrd",
            Self::Userspace => "between the root's init and multi-user.target",
        }
    }
}

/// A restart with its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Identifier of the restart; that of the boot if brisk was not asked.
    pub id: String,
    /// Whether `brisk reboot` was asked.
    pub by_brisk: bool,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Why it was cold.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Boot before.
    pub from: Boot,
    /// Boot after.
    pub to: Boot,
    /// Times.
    pub times: Times,
    /// Combination, of a warm restart.
    #[serde(default)]
    pub combination: Option<String>,
    /// What ran before.
    #[serde(default)]
    pub before: Census,
    /// What runs after.
    #[serde(default)]
    pub after: Census,
}

/// A kernel with its initrds and command line that is not restarted into without the firmware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Barred {
    /// [`combination`](super::combination()).
    pub combination: String,
    /// Release of the kernel.
    pub release: String,
    /// Where it failed.
    pub phase: Phase,
    /// When it failed, seconds since 1970.
    pub at: f64,
}

impl Barred {
    /// As many digits of the combination as a person types.
    #[must_use]
    pub fn short(&self) -> &str {
        self.combination.get(..12).unwrap_or(&self.combination)
    }
}
