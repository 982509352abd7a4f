//! What units of systemd start: the restart itself, and notes of shutdowns and boots.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::restart::{
    self, Boot, Dog, Exchange, Failure, Live, Progress, Request, Restart, Stage, Step, Store,
    Times, Unattended, Watch, Way, history, is_going_down, notes, unchanged, undo_leftovers,
    with_panic,
};
use brisk_tools::vm;
use clap::Subcommand;

use super::carried::{Gpus, OwnVms};
use crate::exit;
use crate::ui::Ui;

/// What a unit does.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Note {
    /// The root's init runs.
    Up,
    /// The machine begins to go down.
    GoingDown,
    /// All services are stopped.
    Down,
    /// The boot is over.
    After,
}

/// Takes a note.
///
/// # Errors
/// If it cannot be written.
pub(super) fn note(note: Note, ui: &Ui) -> anyhow::Result<u8> {
    let store = Store::of_system();
    match note {
        Note::Up => notes::up(&store)?,
        Note::GoingDown => notes::going_down(&store)?,
        Note::Down => notes::down(&store)?,
        Note::After => {
            if let Some(end) = notes::after(&store, super::carried::running)? {
                ui.note(&history::line(&end.record));
            }
        }
    }
    Ok(exit::OK)
}

/// Restarts the machine, as was asked for.
///
/// # Errors
/// If it does not come about; all is undone then.
pub(super) fn execute(ui: &Ui) -> anyhow::Result<u8> {
    let exchange = Exchange::of_system();
    let lock = exchange
        .try_lock()
        .context("cannot make /run/brisk/reboot")?;
    ensure!(lock.is_some(), "a restart is under way already");
    let _loading = exchange
        .lock_to_load()
        .context("cannot wait for a check that loads a kernel")?;
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let request = exchange
        .take()
        .context("cannot read /run/brisk/reboot/request.json")?;
    let done = go(&request, &interrupt, &exchange, ui).and_then(|gone| {
        gone.map_or(Ok(()), |request| {
            go(&request, &interrupt, &exchange, ui).map(drop)
        })
    });
    match &done {
        Ok(()) => exchange.say(&Progress::Restarting),
        Err(error) => exchange.say(&Progress::Failed(crate::ui::error_text(error))),
    }
    done.map(|()| exit::OK)
}

/// Restarts the machine, unless it has to be done otherwise: then the result is how.
fn go(
    request: &Request,
    interrupt: &Interrupt,
    exchange: &Exchange,
    ui: &Ui,
) -> anyhow::Result<Option<Request>> {
    let root = Path::new("/");
    let mut tell = |text: &str| {
        exchange.say(&Progress::Step(text.to_owned()));
        ui.note(text);
    };
    is_as_checked(request, root)?;
    let mut restart = begun(request)?;
    let mut target = request.target.clone();
    if let (Some(target), Some(limit)) = (&mut target, request.watch) {
        let (cmdline, panic) = with_panic(&target.cmdline);
        target.cmdline = cmdline;
        restart.watch = Some(watch(root, target, limit, panic, &mut tell));
    }
    let mut vms = OwnVms::new(request.vms, request.keep)?;
    let mut devices = Gpus::new(request.quiesce, interrupt.clone())?;
    let mut live = Live {
        store: Store::of_system(),
        target,
        checked: request.target.clone().zip(request.combination.clone()),
        older_call: request.older_call,
        vms: &mut vms,
        devices: &mut devices,
        cancelled: &|| interrupt.came(),
        going_down: &is_going_down,
        tell: &mut tell,
    };
    // Of a process that was killed.
    undo_leftovers(&mut live)
        .map_err(|left| anyhow!("an earlier restart was not undone: {left}"))?;
    let Err(failure) = restart::run(&mut restart, &mut live) else {
        return Ok(None);
    };
    let cold = cold_instead(request, &failure).ok_or_else(|| anyhow!("{failure}"))?;
    tell(&format!("{failure}; it is restarted through its firmware"));
    Ok(Some(cold))
}

/// The cold restart in place of a warm one that came to nothing, if that may be. The boot loader takes
/// back itself what could not be taken back here.
fn cold_instead(request: &Request, failure: &Failure) -> Option<Request> {
    let may = failure.step == Some(Step::Once) && failure.left.is_empty() && !request.warm_only;
    may.then(|| Request {
        way: Way::Cold,
        target: None,
        combination: None,
        once: None,
        keep: None,
        reasons: vec![format!(
            "the one-shot choice of the boot loader could not be consumed: {}",
            failure.reason
        )],
        ..request.clone()
    })
}

/// What watches over a restart. A watchdog that nothing would stop after it is not armed.
fn watch(
    root: &Path,
    target: &Target,
    limit: u32,
    panic: Option<u32>,
    tell: &mut dyn FnMut(&str),
) -> Watch {
    let dog = Dog::find(root);
    let unattended = dog
        .as_ref()
        .and_then(|dog| Unattended::find(root, target, Some(dog)));
    let watch = Watch::over(root, dog.filter(|_| unattended.is_none()), limit, panic);
    match (&unattended, watch.watchdog) {
        (Some(reason), _) => tell(&format!(
            "note: no watchdog is armed, for nothing would stop it after the restart: {}; if the new \
             kernel hangs, the machine has to be reset by hand; try: {}",
            reason.text(),
            reason.remedy()
        )),
        (None, None) => tell(
            "note: there is no watchdog that outlives the kernel: if the new kernel hangs, the machine \
             has to be reset by hand",
        ),
        (None, Some(_)) if !watch.stays => tell(
            "note: the driver of the watchdog may stop it at the jump; it does not with \
             stop_on_reboot=0 as an option of the module watchdog",
        ),
        (None, Some(_)) => {}
    }
    watch
}

/// Ensures that what is loaded is what was checked and rehearsed, and what is barred if it fails.
fn is_as_checked(request: &Request, root: &Path) -> anyhow::Result<()> {
    if let (Some(target), Some(checked)) = (&request.target, &request.combination) {
        unchanged(root, target, checked)?;
    }
    Ok(())
}

/// A restart that begins.
fn begun(request: &Request) -> anyhow::Result<Restart> {
    let root = Path::new("/");
    let before = notes::census(super::carried::running());
    let id = vm::new_uuid()?;
    let digits = id.chars().filter(char::is_ascii_hexdigit);
    Ok(Restart {
        id: digits.take(16).collect(),
        way: request.way,
        reasons: request.reasons.clone(),
        stage: Stage::Begun,
        from: Boot::read(root),
        release: request
            .target
            .as_ref()
            .map_or_else(String::new, |it| it.release.clone()),
        combination: request.combination.clone(),
        times: Times {
            begun: Some(notes::now()),
            ..Times::default()
        },
        vms: Vec::new(),
        suspends: request.vms,
        away_before: Vec::new(),
        releases: request.quiesce,
        may_be_loaded: false,
        watch: None,
        once: request.once.clone(),
        before,
        up: None,
    })
}

/// Undoes what a restart has done whose process was killed.
///
/// # Errors
/// What could not be undone.
pub(super) fn undo(ui: &Ui) -> anyhow::Result<u8> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may undo a restart; try: sudo brisk reboot undo"
    );
    let exchange = Exchange::of_system();
    let lock = exchange
        .try_lock()
        .context("cannot make /run/brisk/reboot")?;
    ensure!(
        lock.is_some(),
        "a restart is under way; stop it with systemctl stop {}",
        restart::UNIT
    );
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let (mut vms, mut devices) = (OwnVms::new(true, None)?, Gpus::to_give_back(interrupt));
    let mut live = Live {
        store: Store::of_system(),
        target: None,
        checked: None,
        older_call: false,
        vms: &mut vms,
        devices: &mut devices,
        cancelled: &|| false,
        going_down: &is_going_down,
        tell: &mut |text| ui.note(text),
    };
    match undo_leftovers(&mut live) {
        Ok(true) => {
            let reason = "the process of the restart ended; what it had done is undone".to_owned();
            exchange.say(&Progress::Failed(reason));
        }
        Ok(false) if is_going_down() == Some(true) => {
            ui.note("nothing is undone: the machine goes down")
        }
        Ok(false) => ui.note("there is nothing to undo"),
        Err(left) => {
            exchange.say(&Progress::Failed(format!("not undone: {left}")));
            return Err(anyhow!("not undone: {left}"));
        }
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use brisk_tools::reboot::restart::combination;

    use super::*;

    #[test]
    fn a_watchdog_that_nothing_would_stop_is_not_armed() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/class/watchdog/watchdog0/identity", "IPMI\n");
        write("proc/sys/kernel/osrelease", "6.1\n");
        for target in ["multi-user.target", "default.target", "sysinit.target"] {
            let text = "[Unit]\nRequires=sysinit.target multi-user.target\n";
            write(&format!("usr/lib/systemd/system/{target}"), text);
        }
        // As make install leaves them.
        write("usr/bin/brisk", "");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(root.path().join("usr/bin/brisk"), mode).unwrap();
        for (name, text) in [
            (
                "brisk-reboot",
                include_str!("../../../../../packaging/brisk-reboot.service.in"),
            ),
            (
                "brisk-reboot-early",
                include_str!("../../../../../packaging/brisk-reboot-early.service.in"),
            ),
        ] {
            write(
                &format!("usr/lib/systemd/system/{name}.service"),
                &text.replace("@BINDIR@", "/usr/bin"),
            );
        }
        let target = Target {
            release: "6.1".to_owned(),
            kernel: "/kernel".into(),
            initrds: Vec::new(),
            cmdline: "quiet".to_owned(),
            is_uki: false,
        };
        let mut said = Vec::new();
        let mut limit = || {
            watch(root.path(), &target, 120, None, &mut |text| {
                said.push(text.to_owned())
            })
            .watchdog
        };
        assert_eq!(limit(), None);
        for (name, target) in [
            ("brisk-reboot", "multi-user"),
            ("brisk-reboot-early", "sysinit"),
        ] {
            write(
                &format!("etc/systemd/system/{target}.target.wants/{name}.service"),
                "[Unit]\n",
            );
        }
        assert_eq!(limit(), Some(120));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("brisk-reboot-early.service is not enabled"),
            "{said:?}"
        );
        assert!(
            said[0].contains("try: sudo systemctl enable brisk-reboot.service"),
            "{said:?}"
        );
    }

    #[test]
    fn where_the_choice_cannot_be_consumed_the_restart_is_cold() {
        let mut request = Request {
            way: Way::Warm,
            target: None,
            combination: Some("c".to_owned()),
            older_call: false,
            once: None,
            warm_only: false,
            reasons: Vec::new(),
            vms: true,
            keep: Some(restart::Keep::Alone),
            quiesce: true,
            watch: Some(120),
        };
        let mut failure = Failure {
            step: Some(Step::Once),
            reason: "no".to_owned(),
            left: Vec::new(),
        };
        let cold = cold_instead(&request, &failure).unwrap();
        // Memory in RAM would be lost.
        assert_eq!((cold.way, cold.keep, cold.vms), (Way::Cold, None, true));
        assert!(
            cold.reasons[0].ends_with("could not be consumed: no"),
            "{cold:?}"
        );
        failure.left.push("resume VMs: web".to_owned());
        assert_eq!(cold_instead(&request, &failure), None);
        failure.left.clear();
        request.warm_only = true;
        assert_eq!(cold_instead(&request, &failure), None);
        request.warm_only = false;
        failure.step = Some(Step::Arm);
        assert_eq!(cold_instead(&request, &failure), None);
    }

    #[test]
    fn what_was_changed_since_it_was_checked_is_not_started() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("kernel"), "kernel").unwrap();
        fs::write(root.path().join("initrd"), "initrd").unwrap();
        let target = Target {
            release: String::new(),
            kernel: "/kernel".into(),
            initrds: vec!["/initrd".into()],
            cmdline: "quiet".to_owned(),
            is_uki: false,
        };
        let request = Request {
            way: Way::Warm,
            combination: Some(combination(root.path(), &target).unwrap()),
            target: Some(target),
            older_call: false,
            once: None,
            warm_only: false,
            reasons: Vec::new(),
            vms: false,
            keep: None,
            quiesce: false,
            watch: None,
        };
        is_as_checked(&request, root.path()).unwrap();
        fs::write(root.path().join("initrd"), "another").unwrap();
        let error = is_as_checked(&request, root.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/kernel or its initrds were changed since they were checked, as by an upgrade; try \
             again"
        );
        fs::remove_file(root.path().join("initrd")).unwrap();
        let error = is_as_checked(&request, root.path()).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /kernel or its initrds");
    }
}
