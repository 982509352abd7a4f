//! What was measured of a guest, and the rules that it speaks for. Only what is likely follows from
//! rates: what caused them, a measurement with and without shows.

use crate::idle::measure::Signature;

/// Usual values of Linux' CONFIG_HZ.
const HZ: [u32; 4] = [100, 250, 300, 1000];
/// How far a rate may be from a known one.
const NEAR: f64 = 0.12;

fn is_near(rate: f64, known: f64) -> bool {
    (rate - known).abs() <= known * NEAR
}

fn busiest<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().copied().fold(0.0, f64::max)
}

impl Signature {
    /// Rate of the RTC's periodic interrupt, if the main thread wakes at one that Windows or a
    /// program chooses: a power of two from 64 to 8192, in Hz. Each interrupt wakes a vCPU, too:
    /// frames of a UHCI controller do not.
    pub(super) fn rtc_rate(&self, is_windows: bool) -> Option<u32> {
        let vcpus: f64 = self.vcpu_wakeups.iter().sum();
        let busiest = busiest(&self.vcpu_wakeups);
        let mut rates = (6..=13).map(|power| 1_u32 << power);
        rates.find(|rate| {
            let rate = f64::from(*rate);
            let is_woken = match is_windows {
                true => vcpus >= rate * (1.0 - NEAR),
                // Timers of a vCPU that ticks wake the main thread as often, or twice as often.
                false => is_near(busiest, rate) && !HZ.iter().any(|hz| is_near(rate, (*hz).into())),
            };
            is_near(self.main_wakeups, rate) && is_woken
        })
    }

    /// What was measured that speaks for a rule's finding.
    pub(super) fn evidence(&self, rule: &str) -> Option<String> {
        let main = self.main_wakeups;
        let wakeups = busiest(&self.vcpu_wakeups);
        let busy = busiest(&self.vcpu_cpu);
        let polling = busiest(self.iothread_cpu.values());
        let near = |rate: f64| HZ.into_iter().find(|hz| is_near(rate, f64::from(*hz)));
        let of_main =
            |more: String| format!("the main thread wakes {main:.0} times a second{more}");
        Some(match rule {
            "hpet" if main >= 60.0 => of_main(match near(main) {
                Some(hz) => format!(", about the guest's HZ if that is {hz}"),
                None => String::new(),
            }),
            "hv-stimer" | "rtc-periodic" | "rtc-slew" if main >= 60.0 => of_main(String::new()),
            "usb-uhci" if is_near(main, 1000.0) => of_main(", as a UHCI in use has it do".into()),
            // They wake it, but not more often than this: 52 to 156 times a second were measured.
            "balloon-stats" | "cdrom" | "display-client" if (40.0..200.0).contains(&main) => {
                of_main(String::new())
            }
            "nohz" | "no-arat" if wakeups >= 90.0 => {
                format!("a vCPU wakes {wakeups:.0} times a second")
            }
            "no-lapic" if wakeups >= 36.0 => format!("a vCPU wakes {wakeups:.0} times a second"),
            "idle-poll" | "cpu-pm" | "haltpoll" | "poll-control" if busy >= 20.0 => {
                format!("a vCPU takes {busy:.0} % of a CPU")
            }
            "iothread-poll" if polling >= 10.0 => {
                format!("an I/O thread takes {polling:.0} % of a CPU")
            }
            "vhost-poll" if self.vhost_cpu >= 5.0 => {
                format!("vhost takes {:.0} % of a CPU", self.vhost_cpu)
            }
            "win-11" | "hv-usual" | "hv-time" if self.cpu >= 2.0 => {
                format!("QEMU takes {:.1} % of a CPU", self.cpu)
            }
            _ => return None,
        })
    }
}
