//! Modules, drivers and consoles, by system calls, sysfs and modprobe(8).

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use brisk_host::modules;
use brisk_host::program::Program;
use brisk_host::sysfs;
use rustix::io::Errno;
use rustix::system::delete_module;

use super::{Live, in_one_line};
use crate::reboot::quiesce::action::Bound;
use crate::reboot::quiesce::state::consoles;
use brisk_host::program_output::{NoOutput, output_within};

/// `O_NONBLOCK` for delete_module(2): a module that is in use is refused, not waited for.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

impl Live {
    pub(super) fn is_loaded(&self, module: &str) -> bool {
        let state = sysfs::line(&self.root, &format!("module/{module}/initstate"));
        state.as_deref() == Some("live")
    }

    pub(super) fn is_bound(&self, device: &Bound) -> bool {
        let Bound { bus, address, .. } = device;
        let driver = sysfs::link_name(&self.root, &format!("bus/{bus}/devices/{address}/driver"));
        driver.as_ref() == Some(&device.driver)
    }

    /// Whether a virtual console is on a framebuffer.
    pub(super) fn is_on_framebuffer(&self) -> bool {
        consoles(&self.root).iter().any(|(_, is_bound)| *is_bound)
    }

    pub(super) fn unload(&self, module: &str) -> Result<(), String> {
        // Not there any more, such as after something else has unloaded it, is as good.
        if !self.root.join("sys/module").join(module).exists() {
            return Ok(());
        }
        let name = CString::new(module).map_err(|error| error.to_string())?;
        let result = within(self.limit, move || Ok(delete_module(&name, NONBLOCK)?))?;
        result.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => self.held("it is in use", &self.used_by(module), &[]),
            Some(Errno::BUSY) => "the kernel says that it cannot be unloaded".to_owned(),
            Some(Errno::PERM) => "not permitted; run it as root, outside of a container".to_owned(),
            _ => error.to_string(),
        })
    }

    /// A module and those that it uses: a node of it may be one of a device that they drive.
    fn used_by(&self, module: &str) -> Vec<String> {
        let all = modules::loaded(&self.root);
        let mut used = vec![module.to_owned()];
        let mut next = 0;
        while let Some(name) = used.get(next).cloned() {
            next += 1;
            for other in all.iter().filter(|other| other.users.contains(&name)) {
                if !used.contains(&other.name) {
                    used.push(other.name.clone());
                }
            }
        }
        used
    }

    pub(super) fn load(&self, module: &str, devices: &[Bound]) -> Result<(), String> {
        if !self.is_loaded(module) {
            let program = Program::find("modprobe").map_err(|error| error.to_string())?;
            let result = output_within(&program.arg(module), Some(self.limit), &self.never);
            result.map_err(|error| match error {
                NoOutput::Failed(error) => in_one_line(&error),
                NoOutput::Interrupted(_) => "interrupted".to_owned(),
            })?;
        }
        for device in devices {
            // The driver takes its devices when it is loaded, some of them a moment later.
            let is_there = || self.is_bound(device);
            if !self.wait(BINDING.min(self.limit), &self.never, is_there) {
                self.bind(device)?;
            }
        }
        Ok(())
    }

    pub(super) fn unbind(&self, device: &Bound) -> Result<(), String> {
        if !self.is_bound(device) {
            return Ok(());
        }
        // A driver that is told to let go of a device which is in use may wait without end.
        let address = [device.address.clone()];
        if !self.is_released(&[], &address) {
            return Err(self.held("it is in use", &[], &address));
        }
        self.write_to_driver(device, "unbind")
    }

    pub(super) fn bind(&self, device: &Bound) -> Result<(), String> {
        if self.is_bound(device) {
            return Ok(());
        }
        self.write_to_driver(device, "bind")
    }

    fn write_to_driver(&self, device: &Bound, file: &str) -> Result<(), String> {
        let Bound { bus, driver, .. } = device;
        let path = self.sys(&format!("bus/{bus}/drivers/{driver}/{file}"));
        let address = device.address.clone();
        let shown = path.display().to_string();
        within(self.limit, move || write(&path, &address))?
            .map_err(|error| format!("{shown}: {error}"))
    }

    pub(super) fn leave_framebuffer(&self) -> Result<(), String> {
        self.bind_consoles("0")
    }

    /// Puts consoles on the framebuffer again, which may be there only a moment after its driver.
    pub(super) fn enter_framebuffer(&self) -> Result<(), String> {
        let limit = BINDING.min(self.limit);
        let is_there = || !consoles(&self.root).is_empty();
        if !self.wait(limit, &self.never, is_there) {
            return Err("there is no console on a framebuffer to put back".to_owned());
        }
        self.bind_consoles("1")?;
        self.wait(limit, &self.never, || self.is_on_framebuffer());
        Ok(())
    }

    fn bind_consoles(&self, value: &'static str) -> Result<(), String> {
        for (name, is_bound) in consoles(&self.root) {
            if is_bound != (value == "1") {
                let path = self.sys(&format!("class/vtconsole/{name}/bind"));
                let shown = path.display().to_string();
                within(self.limit, move || write(&path, value))?
                    .map_err(|error| format!("{shown}: {error}"))?;
            }
        }
        Ok(())
    }

    fn sys(&self, path: &str) -> PathBuf {
        self.root.join("sys").join(path)
    }
}

/// Longest time in which a driver that was loaded takes its devices.
const BINDING: Duration = Duration::from_secs(10);

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Does something that may stay in the kernel, in a thread that is left there if it takes too long.
fn within<R: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, String> {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    let result = result.recv_timeout(limit);
    result.map_err(|_| format!("the kernel does not finish it within {} s", limit.as_secs()))
}
