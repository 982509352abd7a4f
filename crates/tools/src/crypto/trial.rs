//! Whether a driver's device works when the driver is used: drivers may hand requests to software
//! without telling.

use std::fs;
use std::path::Path;

use super::af_alg::Direction;
use super::algorithm::Algorithm;
use super::bench::{FEW, shared};
use super::device::Lines;
use super::implementation::Implementation;
use super::kernel::Driver;
use super::local::Worker;
use super::measure::{Group, NotMeasured, Request};
use brisk_host::affinity::allowed;

/// Sizes of the requests that a driver gets, bytes; virtio-crypto does not survive much larger ones.
pub const SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16384, 65536];
/// How long it gets those of one size, seconds; and if that is for too few requests.
const SECONDS: [f64; 2] = [0.2, 2.0];
/// Requests of a size that tell something.
const ENOUGH: f64 = 10.0;

/// Requests to a driver, by size, and interrupts of its device meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Name of the driver.
    pub driver: String,
    /// Sizes that were tried.
    pub tried: Vec<Tried>,
    /// Why not all were; none if all were.
    pub ended: Option<String>,
}

/// Requests of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Bytes of a request.
    pub bytes: usize,
    /// Number of requests.
    pub operations: f64,
    /// Interrupts of the devices of the driver.
    pub interrupts: u64,
}

/// What did requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doer {
    /// The device, which raised interrupts.
    Device,
    /// Software: the device raised none.
    Software,
    /// The device raised fewer than one that did all would.
    Unclear,
}

impl Tried {
    /// What did these requests.
    #[must_use]
    pub fn doer(&self) -> Doer {
        match self.interrupts {
            0 => Doer::Software,
            1 => Doer::Unclear,
            many if (many as f64) < self.operations * FEW => Doer::Unclear,
            _ => Doer::Device,
        }
    }
}

impl Trial {
    /// Has `worker`, the machine below `root`, encrypt with a driver by AF_ALG for two seconds.
    /// `progress` gets each size.
    ///
    /// # Errors
    /// [`NotMeasured::Interrupted`] if a signal comes. Everything else is in [`Trial::ended`].
    pub fn of(
        worker: &mut dyn Worker,
        root: &Path,
        driver: &Driver,
        algorithm: &'static Algorithm,
        mut progress: impl FnMut(usize),
    ) -> Result<Self, NotMeasured> {
        let mut tried = Vec::new();
        let mut request = Request {
            algorithm: algorithm.name.to_owned(),
            direction: Direction::Encrypt,
            bytes: 0,
            seconds: SECONDS[0],
            groups: Vec::new(),
        };
        let mut all = || {
            let device = Device::idle(worker, root, driver, &request)?;
            request.groups.push(Group {
                implementation: Implementation::Driver(driver.driver.clone()),
                cpus: allowed()?.into_iter().take(1).collect(),
            });
            for bytes in SIZES {
                progress(bytes);
                request.bytes = bytes;
                tried.push(device.during_enough(worker, &mut request)?);
            }
            Ok(())
        };
        let ended = match all() {
            Ok(()) => None,
            Err(NotMeasured::Interrupted(signal)) => return Err(NotMeasured::Interrupted(signal)),
            Err(error) => Some(error.to_string()),
        };
        Ok(Self {
            driver: driver.driver.clone(),
            tried,
            ended,
        })
    }
}

fn failed<T>(reason: impl Into<String>) -> Result<T, NotMeasured> {
    Err(NotMeasured::Failed(reason.into()))
}

/// Interrupts of a driver's devices, which nobody else uses.
struct Device<'a> {
    root: &'a Path,
    lines: Lines,
}

impl<'a> Device<'a> {
    fn idle(
        worker: &mut dyn Worker,
        root: &'a Path,
        driver: &Driver,
        idle: &Request,
    ) -> Result<Self, NotMeasured> {
        // The kernel counts one reference of its own.
        let is_sibling = |it: &Driver| it.module == driver.module || it.driver == driver.driver;
        let all = Driver::below(root);
        let mut users = all.iter().filter(|it| is_sibling(it) && it.references > 1);
        if let Some(used) = users.next() {
            return failed(format!(
                "others use {} now, and interrupts are not told apart",
                used.driver
            ));
        }
        let Some(lines) = Lines::of_algorithms(root, &driver.module) else {
            return failed("no device of its module is known");
        };
        let device = Self { root, lines };
        let text = device.text()?;
        if let Some(others) = device.lines.shared_with(&text) {
            return failed(shared(&others));
        }
        if !device.lines.is_taken(&text) {
            return failed("its device has no interrupt that a driver takes: it may be polled");
        }
        let before = device.count()?;
        worker.measure(idle, &mut |_| ())?;
        if device.count()? > before {
            return failed("its device raises interrupts while nobody uses the driver");
        }
        Ok(device)
    }

    fn text(&self) -> Result<String, NotMeasured> {
        Ok(fs::read_to_string(self.root.join("proc/interrupts"))?)
    }

    fn count(&self) -> Result<u64, NotMeasured> {
        Ok(self.lines.count(&self.text()?))
    }

    /// Requests of a size, for longer if they are too few to tell something.
    fn during_enough(
        &self,
        worker: &mut dyn Worker,
        request: &mut Request,
    ) -> Result<Tried, NotMeasured> {
        for seconds in SECONDS {
            request.seconds = seconds;
            let tried = self.during(worker, request)?;
            if tried.operations >= ENOUGH {
                return Ok(tried);
            }
        }
        failed(format!(
            "too few requests of {} bytes in 2 s",
            request.bytes
        ))
    }

    fn during(&self, worker: &mut dyn Worker, request: &Request) -> Result<Tried, NotMeasured> {
        let before = self.count()?;
        let measured = worker.measure(request, &mut |_| ())?;
        Ok(Tried {
            bytes: request.bytes,
            operations: measured.groups.iter().map(|group| group.operations).sum(),
            interrupts: self.count()?.saturating_sub(before),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::super::local::About;
    use super::super::measure::{GroupRate, Mark, Measured};
    use super::super::vectors::Checked;
    use super::super::window::Window;
    use super::*;

    /// A machine with a device that does requests of so many bytes and more; its driver does the
    /// others.
    struct Threshold {
        root: TempDir,
        bytes: usize,
        operations: f64,
        interrupts: u64,
        /// Interrupts that come without requests, in each run.
        stray: u64,
    }

    impl Threshold {
        fn new(bytes: usize) -> Self {
            let root = tempfile::tempdir().unwrap();
            let device = root.path().join("sys/devices/pci0000:00/0000:00:04.0");
            fs::create_dir_all(&device).unwrap();
            let driver = root.path().join("sys/module/x/drivers/pci:x");
            fs::create_dir_all(&driver).unwrap();
            symlink(&device, driver.join("0000:00:04.0")).unwrap();
            fs::create_dir_all(root.path().join("proc")).unwrap();
            let machine = Self {
                root,
                bytes,
                operations: 1000.0,
                interrupts: 0,
                stray: 0,
            };
            machine.write("24", "0000:00:04.0");
            machine.crypto(1);
            machine
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join("proc").join(name)
        }

        fn write(&self, number: &str, name: &str) {
            let count = self.interrupts;
            let text = format!("     CPU0\n {number}: {count} IO-APIC 4-edge {name}\n");
            fs::write(self.path("interrupts"), text).unwrap();
        }

        /// What uses a driver beside the one that is tried.
        fn crypto(&self, references: u64) {
            let text = format!(
                "name: xts(aes)\ndriver: xts-x\nmodule: x\nrefcnt: {references}\n\n\
                 name: cbc(aes)\ndriver: cbc-x\nmodule: x\nrefcnt: 1\n"
            );
            fs::write(self.path("crypto"), text).unwrap();
        }

        fn trial(&mut self) -> Result<Trial, NotMeasured> {
            let driver = Driver {
                driver: "cbc-x".to_owned(),
                module: "x".to_owned(),
                ..Driver::default()
            };
            let algorithm = Algorithm::find("aes-128-cbc").unwrap();
            let mut sizes = Vec::new();
            let root = self.root.path().to_owned();
            let trial = Trial::of(self, &root, &driver, algorithm, |it| sizes.push(it))?;
            assert!(trial.ended.is_some() || sizes == SIZES);
            Ok(trial)
        }

        fn ended(&mut self) -> String {
            let trial = self.trial().unwrap();
            assert_eq!(trial.tried, []);
            trial.ended.unwrap()
        }
    }

    impl Worker for Threshold {
        fn about(&mut self, _: &'static Algorithm) -> Result<About, NotMeasured> {
            unreachable!("a trial knows its driver")
        }

        fn check(
            &mut self,
            _: &Implementation,
            _: &'static Algorithm,
        ) -> Result<Checked, NotMeasured> {
            unreachable!("a trial checks no results")
        }

        fn measure(
            &mut self,
            request: &Request,
            _: &mut dyn FnMut(Mark),
        ) -> Result<Measured, NotMeasured> {
            if self.bytes == usize::MAX {
                return Err(NotMeasured::Interrupted(2));
            }
            let is_by_device = !request.groups.is_empty() && request.bytes >= self.bytes;
            if is_by_device {
                self.interrupts += self.operations as u64;
            }
            self.interrupts += self.stray;
            self.write("24", "0000:00:04.0");
            Ok(Measured {
                groups: vec![GroupRate {
                    operations: self.operations * request.seconds,
                    ..GroupRate::default()
                }],
                window: Window::default(),
                proof: None,
            })
        }
    }

    #[test]
    fn interrupts_tell_what_the_device_did() {
        let trial = Threshold::new(1024).trial().unwrap();
        let doers: Vec<_> = trial.tried.iter().map(Tried::doer).collect();
        let (own, other) = (Doer::Device, Doer::Software);
        assert_eq!(doers, [other, other, other, own, own, own, own]);
        assert_eq!(trial.ended, None);
    }

    #[test]
    fn few_interrupts_are_not_clear() {
        let of = |operations, interrupts| {
            let tried = Tried {
                bytes: 16,
                operations,
                interrupts,
            };
            tried.doer()
        };
        assert_eq!(of(1e4, 0), Doer::Software);
        assert_eq!(of(10.0, 1), Doer::Unclear);
        assert_eq!(of(1e4, 49), Doer::Unclear);
        // A driver that coalesces interrupts.
        assert_eq!(of(1e4, 300), Doer::Device);
        assert_eq!(of(10.0, 10), Doer::Device);
    }

    #[test]
    fn a_slow_device_gets_more_time() {
        let mut slow = Threshold::new(0);
        slow.operations = 6.0;
        let trial = slow.trial().unwrap();
        assert!(
            trial.tried.iter().all(|it| it.operations == 12.0),
            "{trial:?}"
        );
        slow.operations = 4.0;
        assert!(slow.ended().starts_with("too few requests of 16 bytes"));
    }

    #[test]
    fn what_cannot_be_tried_has_a_reason() {
        let mut machine = Threshold::new(16);
        machine.crypto(2);
        assert!(machine.ended().starts_with("others use xts-x now"));
        machine.crypto(1);
        machine.stray = 1;
        assert!(machine.ended().contains("while nobody uses the driver"));
        machine.stray = 0;
        machine.write("24", "another");
        assert!(machine.ended().contains("it may be polled"));
        machine.write("24", "usb1, 0000:00:04.0");
        assert_eq!(
            machine.ended(),
            "its device shares its interrupt line with usb1, so that interrupts show nothing"
        );
        fs::remove_dir_all(machine.root.path().join("sys")).unwrap();
        assert!(machine.ended().starts_with("no device of its module"));
        let interrupted = Threshold::new(usize::MAX).trial();
        assert!(matches!(interrupted, Err(NotMeasured::Interrupted(2))));
    }
}
