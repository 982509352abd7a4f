//! Units that are stopped so that nothing has the devices open, and obstacles to that.

use std::collections::BTreeSet;

use brisk_host::modules;

use super::drivers::Drivers;
use super::{Options, Plan};
use crate::reboot::config::QuiesceConfig;
use crate::reboot::quiesce::action::Action;
use crate::reboot::quiesce::state::{Device, Hold, Holder, Kind, Session, State, Unit};

/// Units that no machine goes on without. They hold devices for others, as systemd-logind does for
/// the sessions of a display manager, and systemd itself for systemd-logind (`FDSTORE=1` of
/// sd_notify(3)).
const NEVER_STOPPED: [&str; 8] = [
    "init.scope",
    "systemd-logind.service",
    "systemd-journald.service",
    "systemd-udevd.service",
    "dbus.service",
    "dbus-broker.service",
    "ssh.service",
    "sshd.service",
];

/// Users of devices that are to be released.
pub(super) struct Users<'a> {
    state: &'a State,
    config: &'a QuiesceConfig,
    drivers: &'a Drivers<'a>,
    /// Processes that hold them.
    pub(super) relevant: Vec<&'a Holder>,
    /// The display manager, if it runs and is to stop.
    display_manager: Option<&'a str>,
}

/// How a process lets go of its devices.
enum Course {
    /// Its service is stopped.
    Stop(String),
    /// It ends with the display manager.
    EndsWithDisplayManager,
    /// Not by itself; it may be ended by force.
    Stays(&'static str),
    /// Not at all.
    Never(String),
}

impl<'a> Users<'a> {
    pub(super) fn find(
        state: &'a State,
        config: &'a QuiesceConfig,
        drivers: &'a Drivers<'a>,
    ) -> Self {
        let modules = drivers.modules();
        let addresses = drivers.addresses();
        let holders = state.holders.iter();
        let relevant = holders.filter(|one| is_relevant(one, &modules, &addresses));
        let is_stopped = |name: &&str| state.is_active(name) && !is_in(&config.keep, name);
        Self {
            relevant: relevant.collect(),
            display_manager: state
                .display_manager
                .as_deref()
                .filter(|name| drivers.has_gpu() && is_stopped(name)),
            state,
            config,
            drivers,
        }
    }

    /// Adds what is stopped and ended.
    pub(super) fn stop(&self, options: Options, plan: &mut Plan) {
        let mut stopped = BTreeSet::new();
        if let Some(name) = self.display_manager {
            let count = self.ending_sessions().count();
            let sessions = match count {
                0 => String::new(),
                1 => "; a session ends with it".to_owned(),
                count => format!("; {count} sessions end with it"),
            };
            let reason = format!("it is the display manager{sessions}");
            self.stop_unit(name, &reason, &mut stopped, plan);
        }
        let mut ends = Vec::new();
        for holder in &self.relevant {
            match self.course(holder) {
                Course::Stop(unit) => self.stop_unit(&unit, &opens(holder), &mut stopped, plan),
                Course::EndsWithDisplayManager => {}
                Course::Stays(_) if options.force => ends.push(*holder),
                Course::Stays(fix) => {
                    plan.obstacle(format!("{}, and is of no service", describe(holder)), fix)
                }
                Course::Never(fix) => plan.obstacle(describe(holder), fix),
            }
        }
        for unit in &self.config.stop {
            if self.state.is_active(unit) && !is_in(&self.config.keep, unit) {
                self.stop_unit(unit, "the configuration says so", &mut stopped, plan);
            }
        }
        for holder in ends {
            plan.step(
                Action::End {
                    pid: holder.pid,
                    start_ticks: holder.start_ticks,
                    name: holder.name.clone(),
                },
                format!(
                    "{}, and is of no service; it cannot be put back",
                    opens(holder)
                ),
            );
        }
        if !stopped.is_empty() && !self.state.has_systemd {
            plan.obstacle(
                "services have to stop, and systemd is not the manager of this system",
                "stop what has the devices open by hand",
            );
        }
        self.look_at_caller(&stopped, plan);
    }

    /// Stops a unit, with those that would stop with it or start it again: what is stopped by name is
    /// started again by name.
    fn stop_unit(&self, unit: &str, reason: &str, stopped: &mut BTreeSet<String>, plan: &mut Plan) {
        let mut units = Vec::new();
        let mut open = vec![unit];
        while let Some(unit) = open.pop() {
            if !stopped.insert(unit.to_owned()) {
                continue;
            }
            units.push(unit.to_owned());
            let facts = self.state.units.get(unit).into_iter();
            let others = facts.flat_map(|facts| facts.stops.iter().map(String::as_str));
            open.extend(others.filter(|other| self.state.is_active(other)));
        }
        if units.is_empty() {
            return;
        }
        // systemd does not start the socket of a service that runs already.
        units.sort_by_key(|unit| unit.ends_with(".service"));
        let reason = match units.len() {
            1 => reason.to_owned(),
            _ => format!("{reason}; the others stop with it, or start it again"),
        };
        plan.step(Action::Stop { units }, reason);
    }

    fn course(&self, holder: &Holder) -> Course {
        match &holder.unit {
            Some(Unit::Service(name) | Unit::Other(name)) if NEVER_STOPPED.contains(&&**name) => {
                match self.display_manager.is_some() && self.ending_sessions().next().is_some() {
                    true => Course::EndsWithDisplayManager,
                    false => Course::Never(format!(
                        "{name} is not stopped; end the session that it has the device open for"
                    )),
                }
            }
            Some(Unit::Service(name)) if is_in(&self.config.keep, name) => Course::Never(format!(
                "the configuration keeps {name}; take it out of keep in reboot.toml"
            )),
            Some(Unit::Service(name)) => Course::Stop(name.clone()),
            Some(Unit::Session(id)) => {
                match self.ending_sessions().any(|session| &session.id == id) {
                    true => Course::EndsWithDisplayManager,
                    false => Course::Stays(
                        "end it, or log its user out, or use --force, which ends it by SIGTERM",
                    ),
                }
            }
            Some(Unit::User(uid)) => match self.ends_with_display_manager(*uid) {
                true => Course::EndsWithDisplayManager,
                false => Course::Stays(
                    "have its user stop it (systemctl --user stop), or log the user out, or use \
                     --force, which ends it by SIGTERM",
                ),
            },
            Some(Unit::Other(_)) => Course::Stays(
                "stop the container or virtual machine, or use --force, which ends it by SIGTERM",
            ),
            None => Course::Stays("end it, or use --force, which ends it by SIGTERM"),
        }
    }

    /// Sessions that end with the display manager.
    fn ending_sessions(&self) -> impl Iterator<Item = &'a Session> {
        let is_stopped = self.display_manager.is_some();
        let sessions = self.state.sessions.iter();
        sessions.filter(move |session| is_stopped && session.is_graphical)
    }

    /// Whether the services of a user end with the display manager: all sessions of the user do, and
    /// the services do not outlive them.
    fn ends_with_display_manager(&self, uid: u32) -> bool {
        let mut sessions = self.state.sessions.iter().filter(|one| one.uid == uid);
        let is_ending = self.ending_sessions().any(|session| session.uid == uid);
        let ends = |session: &Session| session.is_graphical || session.is_manager;
        let lingers = |session: &Session| self.state.lingering.contains(&session.user);
        is_ending && sessions.all(|session| ends(session) && !lingers(session))
    }

    /// A process that ends with what it stops would leave it half done.
    fn look_at_caller(&self, stopped: &BTreeSet<String>, plan: &mut Plan) {
        let ends = match &self.state.own {
            Some(Unit::Service(name) | Unit::Other(name)) => stopped.contains(name),
            Some(Unit::Session(id)) => self.ending_sessions().any(|session| &session.id == id),
            Some(Unit::User(uid)) => self.ending_sessions().any(|session| session.uid == *uid),
            None => false,
        };
        if let Some(own) = self.state.own.as_ref().filter(|_| ends) {
            plan.obstacle(
                format!("brisk itself runs in {}, which would end", own.name()),
                "run it over SSH or on a text console, or in a unit of its own: systemd-run --pipe \
                 --wait brisk reboot quiesce",
            );
        }
    }

    /// Whether the console or a sound device keeps the driver of a graphics card in use.
    fn pins(&self, device: &Device) -> bool {
        let mut framebuffers = self.state.framebuffers.iter();
        let has_console = self.drivers.has_console
            && framebuffers.any(|framebuffer| framebuffer.device == device.address);
        has_console || device.kind == Kind::Gpu && !self.drivers.sound.is_empty()
    }

    /// Looks for modules that more hold than can be seen.
    pub(super) fn look_for_hidden(&self, options: Options, plan: &mut Plan) {
        let holds = || self.state.holders.iter().flat_map(|holder| &holder.holds);
        for module in &self.drivers.unload {
            // A node may be that of a module which uses the driver of its device.
            let is_explained = |by: &str| {
                let users = modules::unloading(&self.state.modules, &[by]);
                users.iter().any(|user| user.name == module.name)
            };
            let drivers = self.drivers.released.iter();
            let drivers = drivers.filter(|device| self.pins(device));
            let mut by = holds().filter_map(|hold| hold.module.as_deref());
            let mut by_other = drivers.filter_map(|device| device.module.as_deref());
            let others = module.uses.saturating_sub(module.users.len() as u64);
            if others == 0
                || holds().any(|hold| hold.is_buffer)
                || by.any(is_explained)
                || by_other.any(is_explained)
            {
                continue;
            }
            let references = match others {
                1 => "1 reference".to_owned(),
                others => format!("{others} references"),
            };
            let what = format!(
                "module {} has {references} of no other module, and no process, console or sound \
                 device is seen that has them",
                module.name
            );
            // Without root, most processes cannot be seen.
            let may_end = self.display_manager.is_some() || options.force || self.state.hidden > 0;
            match may_end {
                true => plan.notes.push(what),
                false => plan.obstacle(
                    what,
                    "as root, look for containers and for drivers that use it; --force tries it all \
                     the same, and puts everything back if the module stays",
                ),
            }
        }
    }
}

/// Whether a process holds one of these modules or devices.
pub(in crate::reboot::quiesce) fn is_relevant(
    holder: &Holder,
    modules: &[String],
    addresses: &[String],
) -> bool {
    let is_one = |hold: &Hold| {
        let of_module = hold
            .module
            .as_ref()
            .is_some_and(|one| modules.contains(one));
        let of_device = hold
            .device
            .as_ref()
            .is_some_and(|one| addresses.contains(one));
        let of_any = hold.is_buffer && hold.module.is_none();
        of_module || of_device || of_any
    };
    holder.holds.iter().any(is_one)
}

/// A process and what it has open: `Xorg (PID 812, session-2.scope, user anna) has /dev/dri/card0
/// open`.
pub(in crate::reboot::quiesce) fn describe(holder: &Holder) -> String {
    let unit = holder
        .unit
        .as_ref()
        .map(|unit| format!(", {}", unit.name()));
    format!(
        "{} (PID {}{}, user {}) has {} open",
        holder.name,
        holder.pid,
        unit.unwrap_or_default(),
        holder.user,
        nodes(holder)
    )
}

/// What a process has open, where it is clear which process.
fn opens(holder: &Holder) -> String {
    format!("it has {} open", nodes(holder))
}

fn nodes(holder: &Holder) -> String {
    const MOST: usize = 3;
    let nodes: Vec<_> = holder.holds.iter().map(|hold| &*hold.node).collect();
    let more = match nodes.len() {
        0..=MOST => String::new(),
        count => format!(" and {} more", count - MOST),
    };
    format!("{}{more}", nodes[..nodes.len().min(MOST)].join(", "))
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one == name)
}
