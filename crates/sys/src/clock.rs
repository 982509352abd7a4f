//! The time-stamp counter.
#![expect(unsafe_code, reason = "reads the time-stamp counter")]

use std::arch::x86_64::_rdtsc;
use std::time::{Duration, Instant};

/// Rate of the host's time-stamp counter in kHz, measured against `CLOCK_MONOTONIC` over
/// `span`.
///
/// Under TCG the guest's counter is the host's, so the kernel can be given this rate: its own
/// calibration is slow, and sometimes fails on a busy host.
#[must_use]
pub fn tsc_khz(span: Duration) -> u64 {
    let pair = || {
        // The closest of three readings: one may have been interrupted.
        (0..3)
            .map(|_| {
                let before = Instant::now();
                // SAFETY: every x86-64 processor has the instruction, and Linux permits it.
                let ticks = unsafe { _rdtsc() };
                (before.elapsed(), before, ticks)
            })
            .min_by_key(|(spent, ..)| *spent)
            .map_or((Instant::now(), 0), |(_, at, ticks)| (at, ticks))
    };
    let (start, first) = pair();
    std::thread::sleep(span);
    let (end, last) = pair();
    let nanos = end.duration_since(start).as_nanos().max(1);
    (u128::from(last.wrapping_sub(first)) * 1_000_000 / nanos) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree() {
        let a = tsc_khz(Duration::from_millis(20)) as f64;
        let b = tsc_khz(Duration::from_millis(20)) as f64;
        assert!(a > 100_000.0, "{a} kHz is below any x86-64 processor");
        assert!((a / b - 1.0).abs() < 0.05, "{a} and {b} kHz");
    }
}
