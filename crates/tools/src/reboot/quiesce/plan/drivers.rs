//! Which drivers let go of which devices, and in which order.

use std::collections::BTreeSet;

use brisk_host::modules::{self, Module};

use super::Plan;
use crate::reboot::config::QuiesceConfig;
use crate::reboot::quiesce::action::{Action, Bound};
use crate::reboot::quiesce::state::{Device, Kind, State};

/// Drivers and devices that are to be released.
#[derive(Debug, Default)]
pub(super) struct Drivers<'a> {
    state: Option<&'a State>,
    /// Modules to unload, in order.
    pub(super) unload: Vec<&'a Module>,
    /// Modules that were asked for, or that drive a graphics card; the others use these.
    targets: BTreeSet<String>,
    /// Sound devices to unbind before.
    pub(super) sound: Vec<&'a Device>,
    /// Devices to unbind, with the reason.
    pub(super) unbind: Vec<(&'a Device, String)>,
    /// All of the devices.
    pub(super) released: Vec<Device>,
    /// Whether a framebuffer is on one of them, and a console on a framebuffer.
    pub(super) has_console: bool,
}

impl<'a> Drivers<'a> {
    /// Finds them. What is left alone, and what cannot be released, is said in the plan.
    pub(super) fn find(state: &'a State, config: &QuiesceConfig, plan: &mut Plan) -> Self {
        let is_kept = |name: &str| {
            config
                .keep
                .iter()
                .any(|kept| kept.replace('-', "_") == name.replace('-', "_"))
        };
        let mut found = Self {
            state: Some(state),
            ..Self::default()
        };
        let mut built_in = Vec::new();
        for device in state.devices.iter().filter(|one| one.kind == Kind::Gpu) {
            let names = [
                Some(&device.address),
                Some(&device.driver),
                device.module.as_ref(),
            ];
            if names.into_iter().flatten().any(|name| is_kept(name)) {
                plan.notes.push(format!(
                    "{} stays with {}: the configuration keeps it",
                    device.address, device.driver
                ));
                continue;
            }
            match &device.module {
                Some(module) => drop(found.targets.insert(module.clone())),
                None => built_in.push(device),
            }
        }
        for name in config.modules.iter().filter(|name| !is_kept(name)) {
            match state.module(name) {
                Some(_) => drop(found.targets.insert(name.clone())),
                None => plan.notes.push(format!("module {name} is not loaded")),
            }
        }
        found.choose(state, &is_kept, plan);
        for device in built_in {
            found.add_unbind(
                device,
                format!("its driver {} is built into the kernel", device.driver),
                plan,
            );
        }
        for address in config.unbind.iter().filter(|address| !is_kept(address)) {
            match state.devices.iter().find(|one| &one.address == address) {
                Some(device) => {
                    found.add_unbind(device, "the configuration says so".to_owned(), plan)
                }
                None => plan.notes.push(format!(
                    "{address} has no driver, or there is no such device"
                )),
            }
        }
        found.add_sound(state, plan);
        found.finish(state);
        found
    }

    /// Divides targets into those that are unloaded, with all that use them, and those whose devices
    /// are unbound instead.
    fn choose(&mut self, state: &'a State, is_kept: &dyn Fn(&str) -> bool, plan: &mut Plan) {
        for name in self.targets.clone() {
            let order = modules::unloading(&state.modules, &[&name]);
            let Some(reason) = order
                .iter()
                .find_map(|one| reason_to_stay(one, &name, is_kept))
            else {
                continue;
            };
            self.targets.remove(&name);
            let devices: Vec<_> = of_module(state, &name).collect();
            if devices.is_empty() {
                plan.obstacle(
                    format!("module {name} cannot be unloaded: {reason}"),
                    format!(
                        "leave it alone: keep = [\"{name}\"] in section [quiesce] of reboot.toml"
                    ),
                );
            }
            for device in devices {
                self.add_unbind(
                    device,
                    format!("module {name} cannot be unloaded: {reason}"),
                    plan,
                );
            }
        }
        // The newest first, so that they are loaded again in the order in which they were: numbers of
        // cards follow it.
        let newest_first = state.modules.iter().map(|module| &*module.name);
        let names: Vec<_> = newest_first
            .filter(|name| self.targets.contains(*name))
            .collect();
        self.unload = modules::unloading(&state.modules, &names);
        for module in &self.unload {
            let is_installed = state
                .installed
                .as_ref()
                .map(|all| all.contains(&module.name));
            if is_installed != Some(true) {
                plan.notes.push(format!(
                    "module {} is not in the modules.dep of this kernel: if something fails, it may \
                     not be loaded again",
                    module.name
                ));
            }
        }
    }

    fn add_unbind(&mut self, device: &'a Device, reason: String, plan: &mut Plan) {
        if self
            .unbind
            .iter()
            .any(|(other, _)| other.address == device.address)
        {
            return;
        }
        if !device.can_unbind {
            plan.obstacle(
                format!(
                    "{}: {reason}, and its driver {} does not let go of devices",
                    device.address, device.driver
                ),
                "restart the machine through its firmware, or leave the device alone with keep in \
                 section [quiesce] of reboot.toml",
            );
            return;
        }
        self.unbind.push((device, reason));
    }

    fn add_sound(&mut self, state: &'a State, plan: &mut Plan) {
        let is_released = |device: &Device| {
            let is_unbound = self
                .unbind
                .iter()
                .any(|(one, _)| one.address == device.address);
            is_unbound
                || device
                    .module
                    .as_ref()
                    .is_some_and(|module| self.targets.contains(module))
        };
        let has_gpu = state
            .devices
            .iter()
            .any(|one| one.kind == Kind::Gpu && is_released(one));
        let sound = state
            .devices
            .iter()
            .filter(|one| one.kind == Kind::Sound && has_gpu);
        let is_other = |device: &&Device| {
            !self
                .unbind
                .iter()
                .any(|(one, _)| one.address == device.address)
        };
        let sound: Vec<_> = sound.filter(is_other).collect();
        for device in sound {
            match device.can_unbind {
                true => self.sound.push(device),
                false => plan.obstacle(
                    format!("{} keeps the graphics driver in use, and {} does not let go of it", device.address, device.driver),
                    "unload the sound driver: modules = [\"…\"] in section [quiesce] of reboot.toml",
                ),
            }
        }
    }

    fn finish(&mut self, state: &State) {
        let unloaded: BTreeSet<_> = self.unload.iter().map(|module| &*module.name).collect();
        let by_module = state.devices.iter().filter(|device| {
            device
                .module
                .as_deref()
                .is_some_and(|module| unloaded.contains(module))
        });
        let single = self.unbind.iter().map(|(device, _)| *device);
        let all = by_module.chain(single).chain(self.sound.iter().copied());
        for device in all {
            if !self.released.contains(device) {
                self.released.push(device.clone());
            }
        }
        let is_released = |address: &str| self.released.iter().any(|one| one.address == address);
        let mut framebuffers = state.framebuffers.iter();
        self.has_console = state.has_console && framebuffers.any(|one| is_released(&one.device));
    }

    /// Whether there is nothing to release.
    pub(super) fn is_empty(&self) -> bool {
        self.unload.is_empty() && self.unbind.is_empty()
    }

    /// Whether a graphics card is among what is released.
    pub(super) fn has_gpu(&self) -> bool {
        self.released.iter().any(|device| device.kind == Kind::Gpu)
    }

    /// Names of the modules.
    pub(super) fn modules(&self) -> Vec<String> {
        self.unload
            .iter()
            .map(|module| module.name.clone())
            .collect()
    }

    /// Addresses of the devices.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.released
            .iter()
            .map(|device| device.address.clone())
            .collect()
    }

    /// Adds the steps.
    pub(super) fn release(&self, plan: &mut Plan) {
        let Some(state) = self.state else { return };
        if self.has_console {
            plan.step(
                Action::LeaveFramebuffer,
                "the text console keeps the graphics driver in use",
            );
        }
        for device in &self.sound {
            plan.step(
                Action::Unbind {
                    device: bound(device),
                },
                "the sound of the graphics card keeps its driver in use",
            );
        }
        for module in &self.unload {
            let devices: Vec<_> = of_module(state, &module.name).collect();
            let reason = match (self.targets.contains(&module.name), devices.as_slice()) {
                (true, []) => "the configuration says so".to_owned(),
                (false, []) => format!("it uses {}", self.used_by(module)),
                (_, devices) => {
                    let addresses: Vec<_> = devices.iter().map(|one| &*one.address).collect();
                    format!("it drives {}", addresses.join(", "))
                }
            };
            let devices = devices.into_iter().map(bound).collect();
            let module = module.name.clone();
            plan.step(Action::Unload { module, devices }, reason);
        }
        for (device, reason) in &self.unbind {
            plan.step(
                Action::Unbind {
                    device: bound(device),
                },
                reason.clone(),
            );
        }
    }

    /// Names of the modules in the list that a module uses.
    fn used_by(&self, module: &Module) -> String {
        let used = self
            .unload
            .iter()
            .filter(|other| other.users.contains(&module.name));
        let used: Vec<_> = used.map(|other| &*other.name).collect();
        used.join(", ")
    }
}

/// Why a module has to stay, which `name` is or is used by.
fn reason_to_stay(module: &Module, name: &str, is_kept: &dyn Fn(&str) -> bool) -> Option<String> {
    let subject = match module.name == name {
        true => "it".to_owned(),
        false => format!("{}, which uses it,", module.name),
    };
    if module.is_permanent {
        return Some(format!("{subject} is permanent"));
    }
    if !module.is_live {
        return Some(format!("{subject} is being loaded or unloaded"));
    }
    is_kept(&module.name).then(|| format!("{subject} is kept by the configuration"))
}

fn of_module<'a>(state: &'a State, name: &str) -> impl Iterator<Item = &'a Device> {
    let name = name.to_owned();
    let devices = state.devices.iter();
    devices.filter(move |device| device.module.as_ref() == Some(&name))
}

fn bound(device: &Device) -> Bound {
    Bound {
        bus: device.bus.to_owned(),
        address: device.address.clone(),
        driver: device.driver.clone(),
    }
}
