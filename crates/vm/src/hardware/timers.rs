//! Timers and clocks of a guest.

use crate::qemu::cmdline::{Fields, Global};

/// What becomes of ticks that the guest had no time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickPolicy {
    /// They come at the normal rate, and time in the guest stays behind.
    Delay,
    /// They come faster until the guest has caught up (QEMU's `slew`).
    Catchup,
    /// Several become one.
    Merge,
    /// They are lost.
    Discard,
}

/// The time stamp counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tsc {
    /// Frequency in Hz.
    pub frequency: Option<u64>,
    /// Mode of libvirt, such as `native` or `emulate`.
    pub mode: Option<String>,
    /// Policy for ticks.
    pub policy: Option<TickPolicy>,
}

/// Timers and clocks. None where they are left to QEMU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timers {
    /// Whether there is KVM's clock.
    pub kvmclock: Option<bool>,
    /// Whether there is Hyper-V's reference time (`hv-time`, `hypervclock`).
    pub hypervclock: Option<bool>,
    /// Whether there is an HPET. QEMU's default is that there is one, but not in a microvm.
    pub hpet: Option<bool>,
    /// Whether there is a PIT.
    pub pit: Option<bool>,
    /// Policy of the PIT.
    pub pit_policy: Option<TickPolicy>,
    /// Time that the RTC shows: `utc`, `localtime` or a date.
    pub rtc_base: Option<String>,
    /// Clock by which the RTC runs: `host`, `rt` or `vm`.
    pub rtc_clock: Option<String>,
    /// Policy of the RTC.
    pub rtc_policy: Option<TickPolicy>,
    /// The time stamp counter.
    pub tsc: Tsc,
}

impl TickPolicy {
    /// From the word of QEMU (`driftfix`, `lost_tick_policy`) or of libvirt (`tickpolicy`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "delay" => Self::Delay,
            "catchup" | "slew" => Self::Catchup,
            "merge" => Self::Merge,
            "discard" => Self::Discard,
            _ => return None,
        })
    }
}

impl Timers {
    /// Adds what `-rtc` says.
    pub(super) fn rtc(&mut self, rtc: &Fields) {
        let get = |key| rtc.get(key).map(str::to_owned);
        self.rtc_base = get("base");
        self.rtc_clock = get("clock");
        self.rtc_policy = rtc.get("driftfix").and_then(TickPolicy::parse);
    }

    /// Adds what properties of the timers' drivers say.
    pub(super) fn globals(&mut self, globals: &[Global]) {
        for global in globals {
            let policy = TickPolicy::parse(&global.value);
            // QEMU takes both spellings of a property.
            match (&*global.driver, &*global.property.replace('-', "_")) {
                ("kvm-pit" | "isa-pit", "lost_tick_policy") => self.pit_policy = policy,
                ("mc146818rtc", "lost_tick_policy") => self.rtc_policy = policy,
                _ => {}
            }
        }
    }
}
