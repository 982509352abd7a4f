//! Reports that the tests draw.

use crate::{
    Change, Clock, CompareOptions, Comparison, Environment, History, Phase, Point, Reading, Report,
    Sample, Series, Timeline, Unit,
};

const US: u64 = 1_000;

/// A small report with a bit of everything, calm names and hostile ones.
pub(crate) fn report() -> Report {
    let environment = Environment {
        cpu_model: Some("AMD EPYC 7B13".to_owned()),
        logical_cpus: Some(2),
        memory: Some(8 << 30),
        host_kernel: Some("6.12.9".to_owned()),
        qemu_version: Some("10.0.2".to_owned()),
        accelerator: Some("tcg".to_owned()),
        load: Some(0.12),
        command: vec!["brisk".to_owned(), "boot".to_owned(), "measure".to_owned()],
        ..Environment::default()
    };
    let mut report = Report::new("boot", "2025-01-01T12:00:00Z", environment);
    let pc = [
        3.21, 3.18, 3.30, 3.25, 3.19, 3.22, 3.95, 3.20, 3.24, 3.27, 3.23, 3.21,
    ];
    let microvm = [
        1.78, 1.74, 1.75, 1.77, 1.76, 1.73, 1.79, 1.75, 1.74, 1.76, 1.78, 1.75,
    ];
    let mut a = Series::of_values("pc, bzImage: exec to exit", Unit::Seconds, pc);
    a.samples.insert(0, Sample::warmup(0, 4.5));
    let mut b = Series::of_values("microvm, vmlinux: exec to exit", Unit::Seconds, microvm);
    b.push(Sample::failed(12, Phase::Measured, "no marker <\x1b[1m>"));
    b.push(Sample::timed_out(13, Phase::Measured));
    let options = CompareOptions {
        noise_floor: Some(0.015),
        ..CompareOptions::default()
    };
    report.comparisons.push(Comparison::of(&a, &b, &options));
    let memory = Series::of_values("=memory & <peak>", Unit::Bytes, [5e7, 5.1e7, 5e7]);
    report.series.extend([a, b, memory]);
    report.timeline = Some(timeline());
    report.notes.push("Runs were interleaved.".to_owned());
    report.warn();
    report
}

/// A boot of some tens of milliseconds: nested, overlapping, tiny and hostile.
pub(crate) fn timeline() -> Timeline {
    let clock = Clock::HostMonotonic;
    let mut timeline = Timeline::new(clock);
    timeline
        .event("exec", 0, clock)
        .event("kernel entry", 31_000 * US, clock)
        .event("/init", 118_000 * US, clock)
        .event("first output", 140_000 * US, clock)
        .event("exit", 165_000 * US, clock)
        .activity("QEMU start", "host", 1_000 * US, 18_000 * US, clock)
        .activity("firmware (qboot)", "firmware", 18_500 * US, 31_000 * US, clock)
        .activity("kernel", "kernel", 31_000 * US, 118_000 * US, clock)
        .activity("start_kernel", "kernel", 32_000 * US, 55_000 * US, clock)
        .activity("ftrace_init", "kernel", 40_000 * US, 44_000 * US, clock)
        .activity("initcalls", "kernel", 58_000 * US, 110_000 * US, clock)
        .activity("pci_subsys_init", "initcall", 58_200 * US, 71_000 * US, clock)
        .activity("acpi_init", "initcall", 71_000 * US, 86_000 * US, clock)
        .activity("a <script>alert('\"&')</script> \x1b[31m name that is far too long for any column there is", "initcall", 86_500 * US, 92_000 * US, clock)
        .activity("i8042_init", "initcall", 92_000 * US, 92_040 * US, clock)
        .activity("serial8250_init", "initcall", 92_100 * US, 92_110 * US, clock)
        .activity("virtio_blk_init", "initcall", 95_000 * US, 104_000 * US, clock)
        .activity("userspace", "userspace", 118_000 * US, 158_000 * US, clock)
        .activity("insmod virtiofs.ko", "userspace", 119_000 * US, 130_000 * US, clock)
        .activity("insmod overlay.ko", "userspace", 121_000 * US, 134_000 * US, clock)
        .activity("run true", "userspace", 138_000 * US, 141_000 * US, clock)
        .activity("power off", "shutdown", 158_000 * US, 163_000 * US, clock);
    timeline
}

/// A boot of two hundred initcalls, most of them tiny, counted in instructions.
pub(crate) fn long() -> Report {
    let clock = Clock::Instructions;
    let mut random = crate::random::SplitMix64::new(5);
    let mut timeline = Timeline::new(clock);
    let mut at = 2_000_000;
    for number in 0..200 {
        let scale = 10u64.pow(random.below(4) as u32 + 3);
        let took = random.next() % scale;
        let name = format!(
            "subsystem_{number}_{}_init",
            ["pci", "acpi", "net"][number % 3]
        );
        timeline.activity(name, "initcall", at, at + took, clock);
        at += took + random.next() % 20_000;
    }
    timeline
        .activity("kernel", "kernel", 1_000_000, at + 500_000, clock)
        .event("kernel entry", 1_000_000, clock)
        .event(
            "an event whose name nobody wanted to be as long as it is",
            at,
            clock,
        )
        .event("/init", at + 500_000, clock);
    let mut report = Report::new("boot", "2025-01-01T12:00:00Z", Environment::default());
    report.timeline = Some(timeline);
    let noisy = |name: &str, level: f64, random: &mut crate::random::SplitMix64| {
        let values = (0..60).map(|_| level * (1.0 + 0.1 * random.unit() * random.unit()));
        Series::of_values(name, Unit::Seconds, values.collect::<Vec<_>>())
    };
    for (name, level) in [("q35", 0.0523), ("pc", 0.0541), ("microvm", 0.0498)] {
        report.series.push(noisy(name, level, &mut random));
    }
    report
}

/// Forty commits: one made it slower, one was no help, some could not be built.
pub(crate) fn history() -> Report {
    let mut random = crate::random::SplitMix64::new(9);
    let mut report = Report::new("boot range", "2025-01-01T12:00:00Z", Environment::default());
    let mut history = History::default();
    for number in 0..40usize {
        let subject = match number {
            13 => "acpi: Wait for the <embedded> controller \x1b[31m & look again".to_owned(),
            30 => "tty: Do not wait for a UART that is not there".to_owned(),
            _ => format!("subsystem {number}: A change of no consequence"),
        };
        let id = format!("{:016x}{:016x}{number:08x}", random.next(), random.next());
        let name = format!("{} {subject}", &id[..12]);
        let level = match number {
            0..13 => 1.75,
            13..30 => 1.93,
            _ => 1.82,
        };
        let noise = (0..10).map(|_| level * (1.0 + 0.06 * random.unit() * random.unit()));
        let noise: Vec<f64> = noise.collect();
        let reading = match number {
            5 | 6 => Reading::NotBuilt {
                reason: "exit status 2\nld: undefined <reference>".to_owned(),
            },
            21 => Reading::NotBooted {
                reason: "no marker within 60 s".to_owned(),
            },
            33..37 => Reading::NotTried,
            _ => {
                let series = Series::of_values(name.clone(), Unit::Seconds, noise);
                let before = report.series.last().cloned();
                report.series.push(series.clone());
                if let Some(before) = before {
                    let options = CompareOptions::default();
                    report
                        .comparisons
                        .push(Comparison::of(&before, &series, &options));
                }
                Reading::Measured { series: name }
            }
        };
        history.points.push(Point {
            id,
            subject,
            date: "2025-01-01T12:00:00Z".to_owned(),
            reading,
        });
    }
    for (before, after, ratio, line) in [
        (
            12,
            13,
            1.103,
            "+181.0 ms in acpi_init (12.00 ms → 193.0 ms)",
        ),
        (29, 30, 0.943, "gone: serial8250_init, 110.0 ms"),
    ] {
        history.changes.push(Change {
            before,
            after,
            ratio,
            p_value: None,
            explanation: vec![line.to_owned()],
        });
    }
    report.history = Some(history);
    report
}
