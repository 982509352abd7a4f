//! Services of Debian's kexec-tools: scripts of `/etc/init.d` that systemd stops at each shutdown.
//!
//! `kexec-load` then loads a kernel, with `LOAD_KEXEC=true` in `/etc/default/kexec` and if the machine
//! is to restart. `kexec` jumps into the kernel that is loaded, whoever loaded it, although other
//! services still stop and file systems are still mounted. A service that is stopped before a restart
//! does neither.

use std::iter;
use std::path::Path;

use super::live::systemctl;
use crate::reboot::load;

/// The services and the scripts that they are made of, in the order in which they are stopped.
const SERVICES: [(&str, &str); 2] = [
    ("kexec-load.service", "/etc/init.d/kexec-load"),
    ("kexec.service", "/etc/init.d/kexec"),
];

/// Services that would act at the next shutdown.
///
/// # Errors
/// If systemd does not say so.
pub(super) fn active() -> Result<Vec<String>, String> {
    let names = SERVICES.map(|(name, _)| name);
    let words = ["show", "--property=Id,ActiveState,SourcePath"];
    let shown = systemctl(&[&words[..], &names].concat())?;
    Ok(among(&shown))
}

/// Services that are active, of what `systemctl show` prints.
fn among(shown: &str) -> Vec<String> {
    let is_active = |(name, script): &(&str, &str)| {
        shown.split("\n\n").any(|unit| {
            let says = |line: String| unit.lines().any(|one| one == line);
            says(format!("Id={name}"))
                && says(format!("SourcePath={script}"))
                && says("ActiveState=active".to_owned())
        })
    };
    let active = SERVICES.iter().filter(|service| is_active(service));
    active.map(|(name, _)| (*name).to_owned()).collect()
}

/// Stops services, which does nothing else while no kernel is loaded.
///
/// # Errors
/// If one is loaded, which the services would start at once, or they cannot be stopped.
pub(super) fn stop(services: &[String]) -> Result<(), String> {
    if services.is_empty() {
        return Ok(());
    }
    match load::is_loaded(Path::new("/")) {
        Some(false) => act("stop", services),
        _ => Err(
            "another program has loaded a kernel, and kexec.service of kexec-tools starts it at any \
             shutdown; unload it with kexec --unload"
                .to_owned(),
        ),
    }
}

/// Starts services again, which does nothing else.
///
/// # Errors
/// If they cannot be started.
pub(super) fn start(services: &[String]) -> Result<(), String> {
    match services {
        [] => Ok(()),
        _ => act("start", services),
    }
}

fn act(verb: &str, services: &[String]) -> Result<(), String> {
    let names = services.iter().map(String::as_str);
    let words: Vec<_> = iter::once(verb).chain(names).collect();
    systemctl(&words).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_active_services_of_the_scripts_are_named() {
        let unit = |id: &str, source: &str, state: &str| {
            format!("Id={id}\nSourcePath={source}\nActiveState={state}\n")
        };
        let load = unit("kexec-load.service", "/etc/init.d/kexec-load", "active");
        let kexec = unit("kexec.service", "/etc/init.d/kexec", "active");
        assert_eq!(
            among(&format!("{kexec}\n{load}")),
            ["kexec-load.service", "kexec.service"]
        );
        let away = unit("kexec-load.service", "", "inactive");
        assert_eq!(among(&format!("{away}\n{kexec}")), ["kexec.service"]);
        // One of the administrator's own.
        let own = unit("kexec.service", "", "active");
        let ended = unit("kexec-load.service", "/etc/init.d/kexec-load", "inactive");
        assert!(among(&format!("{own}\n{ended}")).is_empty());
        assert!(among("").is_empty());
    }
}
