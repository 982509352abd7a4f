use std::collections::BTreeMap;

use brisk_measure::{Environment, Report};

use super::*;
use crate::crypto::measure::{GroupRate, Proof};
use crate::crypto::metric::{Row, rows};
use crate::crypto::window::Window;

/// A machine whose implementations take known times: an idle one uses a tenth of a CPU.
struct Known {
    /// Runs that are made before it is lost.
    left: u32,
    cpus: Vec<usize>,
    /// Runs without an answer.
    silences: u32,
}

/// Bytes of an operation that the device does not answer.
const SILENT: usize = 131_072;

impl Known {
    fn new() -> Self {
        Self {
            left: u32::MAX,
            cpus: vec![0, 1],
            silences: 0,
        }
    }
}

/// Seconds of an operation.
fn time(implementation: &Implementation, bytes: usize) -> f64 {
    match implementation {
        Implementation::Driver(_) => 100e-6 + 1e-9 * bytes as f64,
        _ => 1e-6 + 10e-9 * bytes as f64,
    }
}

impl Worker for Known {
    fn about(&mut self, _: &'static Algorithm) -> Result<About, NotMeasured> {
        Ok(About {
            kernel: "6.1".to_owned(),
            cpus: self.cpus.clone(),
            implementations: vec![
                Implementation::OpenSsl,
                Implementation::Driver("device".to_owned()),
                Implementation::Driver("wrong".to_owned()),
            ],
            ..About::default()
        })
    }

    fn check(
        &mut self,
        implementation: &Implementation,
        _: &'static Algorithm,
    ) -> Result<Checked, NotMeasured> {
        match implementation {
            Implementation::Driver(name) if name == "wrong" => {
                Err(NotMeasured::Failed("a wrong result".to_owned()))
            }
            Implementation::OpenSsl => Ok(Checked::No("it is a script".to_owned())),
            _ => Ok(Checked::Yes),
        }
    }

    fn measure(
        &mut self,
        request: &Request,
        mark: &mut dyn FnMut(Mark),
    ) -> Result<Measured, NotMeasured> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| NotMeasured::System(std::io::Error::other("the guest has ended")))?;
        mark(Mark::Begin);
        mark(Mark::End);
        let mut window = Window {
            seconds: 2.0,
            cpus: 2,
            idle: 4.0 - 0.2,
            ..Window::default()
        };
        let Some(group) = request.groups.first() else {
            return Ok(Measured {
                groups: Vec::new(),
                window,
                proof: None,
            });
        };
        let is_device = matches!(group.implementation, Implementation::Driver(_));
        if is_device && request.bytes == 64 {
            return Err(NotMeasured::Failed("the driver is gone".to_owned()));
        }
        if is_device && request.bytes == SILENT {
            self.silences += 1;
            return Err(NotMeasured::NoAnswer("it waits".to_owned()));
        }
        let rate = 1.0 / time(&group.implementation, request.bytes);
        let operations = rate * 2.0;
        // Of two seconds the thread computes one, a thread of the kernel half of one, and
        // interrupts, which are seen, a quarter.
        window.idle -= 1.0 + 0.5 + 0.25 + 0.125;
        window.interrupts = 0.25;
        window.kernel_threads = BTreeMap::from([("virtio0-engine".to_owned(), 0.5)]);
        window.device_interrupts = is_device.then_some(operations as u64);
        Ok(Measured {
            groups: vec![GroupRate {
                operations,
                rate,
                cpu: 0.5,
            }],
            window,
            proof: is_device.then(|| Proof {
                drivers: vec!["device".to_owned()],
                device_interrupts: Some(operations as u64),
                shared_with: None,
            }),
        })
    }
}

fn options() -> Options {
    Options {
        algorithm: Algorithm::find("aes-128-cbc").unwrap(),
        direction: Direction::Encrypt,
        implementations: Vec::new(),
        sizes: vec![16, 64, 4096],
        threads: 1,
        seconds: 2.0,
        rounds: 2,
        budget: None,
        seed: 1,
    }
}

fn run(machine: &mut Known, options: &Options) -> (Report, Result<End, BenchError>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let mut report = Report::new("crypto", "2026-01-01T00:00:00Z", Environment::default());
    let interrupt = Interrupt::new().unwrap();
    let mut saved = Saved::new(&mut report, &file);
    let ended = bench(machine, options, &mut saved, &interrupt, &mut |_| {});
    if file.exists() {
        let kept = Report::load(&file).unwrap();
        assert_eq!(kept.series, report.series);
    }
    (report, ended)
}

fn row<'a>(rows: &'a [Row], implementation: &str, bytes: u64) -> &'a Row {
    let mut all = rows.iter();
    all.find(|row| row.implementation == implementation && row.bytes == bytes)
        .unwrap()
}

#[test]
fn times_and_the_account_are_those_of_the_machine() {
    let (report, ended) = run(&mut Known::new(), &options());
    assert_eq!(ended.unwrap(), End::AllRounds);
    let rows = rows(&report);
    assert_eq!(rows.len(), 6);
    let device = row(&rows, "af-alg:device", 4096);
    let close = |metric: &str, expected: f64| {
        let found = device.get(metric).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-5, "{metric}: {found}");
    };
    let time = 100e-6 + 4096e-9;
    close(metric::TIME, time);
    close(metric::PROCESS, time * 0.5);
    close(metric::KERNEL_THREADS, time * 0.25);
    close(metric::INTERRUPTS, time * 0.125);
    close(metric::SYSTEM, time * 0.75);
    // The idle system's share is taken away, and what is left over is named.
    close(metric::WHOLE, time * 0.9375);
    close(metric::REST, time * 0.1875);
    close(metric::DEVICE, 1.0);
    assert!((device.throughput().unwrap() - 4096.0 / time).abs() < 1.0);
    assert!(
        device
            .proof
            .as_ref()
            .unwrap()
            .contains("1.00 interrupts an operation")
    );
    // A size that fails does not end the others.
    let gone = row(&rows, "af-alg:device", 64);
    assert_eq!(gone.failure.as_deref(), Some("the driver is gone"));
    assert_eq!(gone.get(metric::TIME), None);
    assert_eq!(row(&rows, "openssl", 16).failure, None);
    // An idle system is measured twice in each round.
    let idle = report.series("idle: CPUs in use").unwrap().values();
    assert_eq!(idle.len(), 2);
    assert!((idle[0] - 0.1).abs() < 1e-9);
    assert!(report.series("idle again: CPUs in use").is_some());
    let notes = report.notes.join("\n");
    assert!(
        notes.contains("af-alg:wrong is left out: a wrong result"),
        "{notes}"
    );
    let unchecked =
        "openssl was not checked by a published test vector of aes-128-cbc: it is a script";
    assert!(notes.contains(unchecked), "{notes}");
    let names: Vec<_> = rows.iter().map(|row| &*row.implementation).collect();
    assert_eq!(names[0], "openssl", "as the machine names them");
}

#[test]
fn what_gives_no_answer_is_not_asked_again() {
    let mut machine = Known::new();
    let options = Options {
        sizes: vec![16, SILENT],
        ..options()
    };
    let (report, ended) = run(&mut machine, &options);
    assert_eq!(ended.unwrap(), End::AllRounds);
    assert_eq!(machine.silences, 1);
    let rows = rows(&report);
    for bytes in [16, SILENT as u64] {
        assert_eq!(row(&rows, "openssl", bytes).failure, None);
    }
    let failure = row(&rows, "af-alg:device", SILENT as u64).failure.as_ref();
    assert_eq!(
        failure.unwrap(),
        "not asked again: no answer to 131072 B: it waits: the device may need a reset, or the \
         machine a restart"
    );
}

#[test]
fn a_machine_that_is_lost_leaves_what_was_measured() {
    let mut machine = Known::new();
    // One idle run, the warm-up and a half round.
    machine.left = 1 + 8 + 4;
    let (report, ended) = run(&mut machine, &options());
    let error = ended.unwrap_err();
    assert_eq!(error.to_string(), "cannot measure: the guest has ended");
    let samples: usize = report
        .series
        .iter()
        .map(|series| series.samples.len())
        .sum();
    assert!(samples > 8, "{samples}");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_runs() {
    let only = |implementation: &str| Options {
        implementations: vec![implementation.parse().unwrap()],
        ..options()
    };
    let (_, ended) = run(&mut Known::new(), &only("af-alg:wrong"));
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("no implementation of aes-128-cbc"),
        "{error}"
    );
    assert!(error.contains("a wrong result"), "{error}");
    let (_, ended) = run(&mut Known::new(), &only("ktls"));
    assert!(ended.unwrap_err().to_string().contains("AEADs only"));
    let many = Options {
        threads: 3,
        ..options()
    };
    let (_, ended) = run(&mut Known::new(), &many);
    let error = ended.unwrap_err().to_string();
    assert_eq!(
        error,
        "a processor for each of 3 threads is needed, and there are 2"
    );
}

#[test]
fn a_device_without_interrupts_proves_nothing() {
    let proof = |drivers: &[&str], device_interrupts| Proof {
        drivers: drivers.iter().map(|name| (*name).to_owned()).collect(),
        device_interrupts,
        shared_with: None,
    };
    let text = |proof: &Proof| proven(proof, 1000.0);
    assert!(text(&proof(&[], None)).ends_with("not proven"));
    assert!(text(&proof(&["cbc-aes-aesni"], None)).ends_with("has no device"));
    assert!(text(&proof(&["virtio"], Some(2))).contains("not proven, software may"));
    assert!(text(&proof(&["virtio"], Some(1000))).contains("1.00 interrupts"));
    let shared = |count| {
        let proof = proof(&["virtio"], count);
        let usb = Some("usb1".to_owned());
        let text = text(&Proof {
            shared_with: usb,
            ..proof
        });
        (shown(&text), text)
    };
    let line = "virtio was in use; its device shares its interrupt line with usb1, so that \
                interrupts show nothing";
    for count in [None, Some(2)] {
        assert_eq!(shared(count), (Shown::Nothing, line.to_owned()));
    }
    // A line of its own proves it.
    assert_eq!(shared(Some(1000)).0, Shown::AtWork);
    assert_eq!(shown(&text(&proof(&["virtio"], Some(2)))), Shown::NotAtWork);
}
