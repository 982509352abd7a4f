//! The running system: which modules, devices, consoles, processes and units hold a graphics card.
//!
//! Everything is read from files below a root; units also from systemd, see [`State::ask`].

mod devices;
mod processes;
mod systemd;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use brisk_host::files;
use brisk_host::modules::{self, Module};

pub use devices::{Device, Framebuffer, Kind};
pub use processes::{Hold, Holder};
pub(super) use systemd::PROPERTIES;
pub use systemd::{UnitFacts, parse};
pub use unit::{Session, Unit};

/// What holds graphics cards, and what else is to be released.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Modules that are loaded.
    pub modules: Vec<Module>,
    /// Names of the modules that modprobe(8) can load; none if the list of them is not there.
    pub installed: Option<BTreeSet<String>>,
    /// Devices with a driver.
    pub devices: Vec<Device>,
    /// Framebuffers.
    pub framebuffers: Vec<Framebuffer>,
    /// Whether a virtual console is on a framebuffer.
    pub has_console: bool,
    /// Processes that have devices open.
    pub holders: Vec<Holder>,
    /// Processes whose descriptors this user may not see.
    pub hidden: usize,
    /// Sessions of users.
    pub sessions: Vec<Session>,
    /// Names of users whose services run without a session.
    pub lingering: BTreeSet<String>,
    /// Service of the display manager, whether it runs or not.
    pub display_manager: Option<String>,
    /// Whether systemd is the system's manager (sd_booted(3)).
    pub has_systemd: bool,
    /// Unit of this process.
    pub own: Option<Unit>,
    /// Units of which something is known.
    pub units: BTreeMap<String, UnitFacts>,
}

impl State {
    /// Looks at the system below a root. Of units it only knows which services have processes.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let devices = devices::devices(root);
        let nodes = devices::Nodes::read(root);
        let processes = processes::read(root, &nodes, &devices);
        let sessions = unit::sessions(root);
        let lingering = sessions.iter().map(|session| &session.user);
        let lingering = lingering.filter(|user| unit::lingers(root, user));
        let own = files::text(&root.join("proc/self/cgroup")).unwrap_or_default();
        let running = processes.services.into_iter();
        Self {
            modules: modules::loaded(root),
            installed: installed(root),
            framebuffers: devices::framebuffers(root),
            has_console: devices::consoles(root)
                .iter()
                .any(|(_, is_bound)| *is_bound),
            holders: processes.holders,
            hidden: processes.hidden,
            lingering: lingering.cloned().collect(),
            sessions,
            display_manager: unit::display_manager(root),
            has_systemd: root.join("run/systemd/system").is_dir(),
            own: Unit::of(&own),
            units: running.map(|name| (name, UnitFacts::active())).collect(),
            devices,
        }
    }

    /// Asks systemd about units, and about those that stop with them, until nothing new is known.
    /// `show` is given names, and returns what `systemctl show` says of their [`PROPERTIES`].
    ///
    /// # Errors
    /// What `show` says.
    pub fn ask<E>(
        &mut self,
        units: &[String],
        mut show: impl FnMut(&[String]) -> Result<String, E>,
    ) -> Result<(), E> {
        let mut asked = BTreeSet::new();
        let mut open = units.to_vec();
        while !open.is_empty() {
            asked.extend(open.iter().cloned());
            let facts = parse(&show(&open)?);
            let next = facts.values().filter(|facts| facts.is_active);
            let next: BTreeSet<_> = next.flat_map(|facts| facts.stops.iter().cloned()).collect();
            self.units.extend(facts);
            open = next
                .into_iter()
                .filter(|name| !asked.contains(name))
                .collect();
        }
        Ok(())
    }

    /// A module that is loaded.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name == name)
    }

    /// Whether a unit is active, as far as is known.
    #[must_use]
    pub fn is_active(&self, unit: &str) -> bool {
        self.units.get(unit).is_some_and(|facts| facts.is_active)
    }
}

/// Names of modules in `modules.dep` of the running kernel (modules.dep(5)).
fn installed(root: &Path) -> Option<BTreeSet<String>> {
    let release = files::text_within(&root.join("proc/sys/kernel/osrelease"), 256)?;
    let release = release.trim();
    if release.is_empty() || release.contains('/') {
        return None;
    }
    let list = root.join("lib/modules").join(release).join("modules.dep");
    let text = files::text(&list)?;
    let names = text.lines().filter_map(|line| {
        let file = line.split_once(':')?.0.rsplit('/').next()?;
        let name = file.split_once(".ko")?.0;
        Some(name.replace('-', "_"))
    });
    Some(names.collect())
}

/// Names of virtual consoles on the framebuffer, and whether each is bound to it.
pub(super) fn consoles(root: &Path) -> Vec<(String, bool)> {
    devices::consoles(root)
}
