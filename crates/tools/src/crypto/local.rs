//! Machines that are measured: this one, or one on which a worker of brisk's runs.

use std::cmp::Reverse;
use std::path::PathBuf;

use brisk_host::cpu::Cpu;
use serde::{Deserialize, Serialize};

use super::af_alg::Transform;
use super::algorithm::Algorithm;
use super::implementation::Implementation;
use super::kernel::{self, Driver};
use super::measure::{Mark, Measured, NotMeasured, Request, ktls, measure};
use super::vectors::{self, Checked};
use brisk_host::affinity::allowed;
use brisk_host::interrupt::Interrupt;

/// What a machine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Release of its kernel.
    pub kernel: String,
    /// Model of its processor.
    pub cpu: Option<String>,
    /// First line of `openssl version`; none if that cannot be run.
    pub openssl: Option<String>,
    /// Numbers of the processors that may be used.
    pub cpus: Vec<usize>,
    /// Implementations that can be measured.
    pub implementations: Vec<Implementation>,
    /// Why others cannot.
    pub notes: Vec<String>,
}

/// A machine that is measured.
pub trait Worker {
    /// What it is, and which implementations of an algorithm it has.
    ///
    /// # Errors
    /// If it does not say.
    fn about(&mut self, algorithm: &'static Algorithm) -> Result<About, NotMeasured>;

    /// Checks an implementation by published test vectors.
    ///
    /// # Errors
    /// If it gives wrong results, or none.
    fn check(
        &mut self,
        implementation: &Implementation,
        algorithm: &'static Algorithm,
    ) -> Result<Checked, NotMeasured>;

    /// Measures. `mark` is called at the begin and at the end.
    ///
    /// # Errors
    /// If an implementation fails, or a signal comes.
    fn measure(
        &mut self,
        request: &Request,
        mark: &mut dyn FnMut(Mark),
    ) -> Result<Measured, NotMeasured>;

    /// Processes on this host that are the machine, if it is a guest whose QEMU can be seen.
    fn host_processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// This machine.
#[derive(Debug, Clone)]
pub struct Local {
    root: PathBuf,
    interrupt: Interrupt,
    program: Option<PathBuf>,
}

impl Local {
    /// This machine; `interrupt` ends a measurement.
    #[must_use]
    pub fn new(interrupt: Interrupt) -> Self {
        Self {
            root: PathBuf::from("/"),
            interrupt,
            program: None,
        }
    }

    /// With the program `brisk`, a process of which asks libcrypto. Without it what no command of
    /// OpenSSL does is not checked.
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }
}

impl Worker for Local {
    fn about(&mut self, algorithm: &'static Algorithm) -> Result<About, NotMeasured> {
        let cpu = Cpu::below(&self.root);
        let mut about = About {
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            cpu: cpu.model(),
            cpus: allowed()?,
            ..About::default()
        };
        let has_aes = ["aes", "sha_ni"]
            .iter()
            .any(|flag| cpu.flags().contains(flag));
        match super::correct::version() {
            Ok(version) => {
                about.openssl = Some(version);
                about.implementations.push(Implementation::OpenSsl);
                if has_aes {
                    about.implementations.push(Implementation::OpenSslPlain);
                }
            }
            Err(reason) => about.notes.push(reason),
        }
        // The kernel loads modules for what is asked for, and lists their drivers then.
        let key = vectors::vector(algorithm).key;
        match Transform::new(algorithm.kernel, algorithm, &key) {
            Ok(_) => {
                // One that has a device for it does not load software.
                let portable = algorithm.kernel.replace("(aes)", "(aes-generic)");
                let _ = Transform::new(&portable, algorithm, &key);
                let found = bindable(&Driver::below(&self.root), algorithm);
                about
                    .implementations
                    .extend(found.into_iter().map(Implementation::Driver));
            }
            Err(error) => about.notes.push(format!("no route by AF_ALG: {error}")),
        }
        Ok(about)
    }

    fn check(
        &mut self,
        implementation: &Implementation,
        algorithm: &'static Algorithm,
    ) -> Result<Checked, NotMeasured> {
        match implementation.bound_name(algorithm) {
            _ if *implementation == Implementation::Ktls => ktls::check(algorithm)
                .map(|()| Checked::Yes)
                .map_err(NotMeasured::Failed),
            // Nothing is encrypted.
            _ if *implementation == Implementation::Tcp => Ok(Checked::Yes),
            _ if matches!(implementation, Implementation::DmCrypt(_)) => Ok(Checked::No(
                "dm-crypt gives each sector a vector of its own, and none is published for that"
                    .to_owned(),
            )),
            Some(driver) => vectors::check(driver, algorithm)
                .map(|()| Checked::Yes)
                .map_err(|error| NotMeasured::Failed(error.to_string())),
            None => super::correct::check(
                self.program.as_deref(),
                implementation,
                algorithm,
                &self.interrupt,
            ),
        }
    }

    fn measure(
        &mut self,
        request: &Request,
        mark: &mut dyn FnMut(Mark),
    ) -> Result<Measured, NotMeasured> {
        measure(&self.root, request, &self.interrupt, mark)
    }
}

/// Names of the drivers of an algorithm that sockets may be bound to, the most preferred first.
fn bindable(all: &[Driver], algorithm: &Algorithm) -> Vec<String> {
    let mut found = kernel::of(all, algorithm.kernel);
    found.retain(|driver| driver.is_tested && !driver.is_internal);
    found.sort_by_key(|driver| Reverse(driver.priority));
    let mut names: Vec<String> = Vec::new();
    for driver in found {
        if !names.contains(&driver.driver) {
            names.push(driver.driver.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_can_be_bound_are_found_by_priority() {
        let block = |name: &str, driver: &str, priority: i32, selftest: &str, internal: &str| {
            format!(
                "name         : {name}\ndriver       : {driver}\nmodule       : x\n\
                 priority     : {priority}\nrefcnt       : 1\nselftest     : {selftest}\n\
                 internal     : {internal}\ntype         : skcipher\n"
            )
        };
        let text = [
            block("cbc(aes)", "cbc(aes-generic)", 100, "passed", "no"),
            block("cbc(aes)", "cbc-aes-aesni", 400, "passed", "no"),
            block("cbc(aes)", "broken", 900, "unknown", "no"),
            block("cbc(aes)", "__cbc-aes-aesni", 400, "passed", "yes"),
            block("ctr(aes)", "ctr-aes-aesni", 400, "passed", "no"),
        ]
        .join("\n");
        let found = bindable(
            &Driver::parse(&text),
            Algorithm::find("aes-128-cbc").unwrap(),
        );
        assert_eq!(found, ["cbc-aes-aesni", "cbc(aes-generic)"]);
    }
}
