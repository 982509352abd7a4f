//! Whether a driver's device works when the driver is used: drivers may hand requests to software
//! without telling.

use super::af_alg::Direction;
use super::algorithm::Algorithm;
use super::bench::FEW;
use super::implementation::Implementation;
use super::kernel::Driver;
use super::local::Worker;
use super::measure::{Group, NotMeasured, Request};

/// Sizes of the requests that a driver gets, bytes; virtio-crypto does not survive much larger ones.
pub const SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16384, 65536];
/// How long it gets those of one size, seconds.
const SECONDS: f64 = 0.2;

/// Requests to a driver, by size, and interrupts of its device meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Name of the driver.
    pub driver: String,
    /// What was seen, or why nothing was.
    pub seen: Result<Vec<Tried>, String>,
}

/// Requests of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Bytes of a request.
    pub bytes: usize,
    /// Number of requests.
    pub operations: f64,
    /// Interrupts of the devices of the driver's module.
    pub interrupts: u64,
}

impl Tried {
    /// Whether the device raised so many interrupts that it did the requests.
    #[must_use]
    pub fn is_by_device(&self) -> bool {
        self.interrupts > 0 && self.interrupts as f64 >= self.operations * FEW
    }
}

impl Trial {
    /// Has `worker`, the machine of the driver, encrypt with it by AF_ALG for one and a half seconds.
    /// `progress` gets each size.
    ///
    /// # Errors
    /// [`NotMeasured::Interrupted`] if a signal comes. Everything else is in [`Trial::seen`].
    pub fn of(
        worker: &mut dyn Worker,
        driver: &Driver,
        algorithm: &'static Algorithm,
        mut progress: impl FnMut(usize),
    ) -> Result<Self, NotMeasured> {
        let seen = match seen(worker, driver, algorithm, &mut progress) {
            Ok(seen) => Ok(seen),
            Err(NotMeasured::Interrupted(signal)) => return Err(NotMeasured::Interrupted(signal)),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self {
            driver: driver.driver.clone(),
            seen,
        })
    }
}

fn seen(
    worker: &mut dyn Worker,
    driver: &Driver,
    algorithm: &'static Algorithm,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Tried>, NotMeasured> {
    let failed = |reason: &str| Err(NotMeasured::Failed(reason.to_owned()));
    // The kernel counts one of its own.
    if driver.references > 1 {
        return failed("others use it now, whose interrupts are not told apart");
    }
    let about = worker.about(algorithm)?;
    let Some(cpu) = about.cpus.first() else {
        return failed("no processor may be used");
    };
    let mut all = Vec::new();
    for bytes in SIZES {
        progress(bytes);
        let request = Request {
            algorithm: algorithm.name.to_owned(),
            direction: Direction::Encrypt,
            bytes,
            seconds: SECONDS,
            groups: vec![Group {
                implementation: Implementation::Driver(driver.driver.clone()),
                cpus: vec![*cpu],
            }],
        };
        let measured = worker.measure(&request, &mut |_| ())?;
        let interrupts = measured.proof.and_then(|proof| proof.device_interrupts);
        let Some(interrupts) = interrupts else {
            return failed("no interrupts of a device of its module are known");
        };
        all.push(Tried {
            bytes,
            operations: measured.groups.iter().map(|group| group.operations).sum(),
            interrupts,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::local::About;
    use super::super::measure::{GroupRate, Mark, Measured, Proof};
    use super::super::vectors::Checked;
    use super::super::window::Window;
    use super::*;

    /// A device that does requests of so many bytes and more; its driver does the others.
    struct Threshold(usize);

    impl Worker for Threshold {
        fn about(&mut self, _: &'static Algorithm) -> Result<About, NotMeasured> {
            Ok(About {
                cpus: vec![0],
                ..About::default()
            })
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
            if self.0 == usize::MAX {
                return Err(NotMeasured::Interrupted(2));
            }
            Ok(Measured {
                groups: vec![GroupRate {
                    operations: 1000.0,
                    ..GroupRate::default()
                }],
                window: Window::default(),
                proof: (self.0 > 0).then(|| Proof {
                    drivers: Vec::new(),
                    device_interrupts: Some(if request.bytes >= self.0 { 1000 } else { 3 }),
                }),
            })
        }
    }

    fn trial(threshold: usize, references: u64) -> Result<Trial, NotMeasured> {
        let driver = Driver {
            driver: "x".to_owned(),
            references,
            ..Driver::default()
        };
        let algorithm = Algorithm::find("aes-128-cbc").unwrap();
        let mut sizes = Vec::new();
        let trial = Trial::of(&mut Threshold(threshold), &driver, algorithm, |it| {
            sizes.push(it)
        })?;
        assert!(trial.seen.is_err() || sizes == SIZES);
        Ok(trial)
    }

    #[test]
    fn interrupts_tell_what_the_device_did() {
        let seen = trial(1024, 1).unwrap().seen.unwrap();
        let by_device: Vec<_> = seen.iter().map(Tried::is_by_device).collect();
        assert_eq!(by_device, [false, false, false, true, true, true, true]);
    }

    #[test]
    fn what_cannot_be_tried_has_a_reason() {
        let unknown = trial(0, 1).unwrap().seen.unwrap_err();
        assert!(unknown.starts_with("no interrupts"), "{unknown}");
        let in_use = trial(1024, 2).unwrap().seen.unwrap_err();
        assert!(in_use.starts_with("others use it"), "{in_use}");
        let interrupted = trial(usize::MAX, 1);
        assert!(matches!(interrupted, Err(NotMeasured::Interrupted(2))));
    }
}
