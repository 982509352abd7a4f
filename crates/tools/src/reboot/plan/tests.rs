//! Plans of restarts, of entries that are made here.

use brisk_host::boot_entries::{Choice, Problem};

use super::*;

struct NoFiles;

impl Files for NoFiles {
    fn kernel(&self, path: &Path) -> Entry {
        let is_there = path != Path::new("/gone");
        let problem = (!is_there).then(|| Problem::NoKernel(path.to_owned()));
        Entry {
            release: "9.9-own".into(),
            problems: problem.into_iter().collect(),
            ..entry(&path.display().to_string(), path.to_str().unwrap(), "", "")
        }
    }

    fn is_file(&self, path: &Path) -> bool {
        path != Path::new("/missing")
    }
}

fn entry(id: &str, kernel: &str, release: &str, options: &str) -> Entry {
    Entry {
        id: id.into(),
        title: format!("Title of {id}"),
        menus: Vec::new(),
        number: None,
        kind: Kind::Linux,
        release: release.into(),
        kernel: kernel.into(),
        initrds: vec![format!("{kernel}.initrd").into()],
        options: options.into(),
        source: "/boot/grub/grub.cfg".into(),
        tries: None,
        problems: Vec::new(),
    }
}

/// The next one has a newer kernel and another option than the running one.
fn boot() -> BootEntries {
    let mut entries = vec![
        entry(
            "new",
            "/boot/v-6.12",
            "6.12.3-amd64",
            "root=/dev/a ro quiet mitigations=auto",
        ),
        entry(
            "rescue",
            "/boot/v-6.1",
            "6.1.0-21-amd64",
            "root=/dev/a ro single",
        ),
        entry(
            "old",
            "/boot/v-6.1",
            "6.1.0-21-amd64",
            "root=/dev/a ro quiet",
        ),
        entry("uki", "/efi/EFI/Linux/u.efi", "6.13.1", "root=/dev/u"),
        entry("setup", "/", "", ""),
        entry("broken", "/boot/v-5", "5.10.0", "root=/dev/a"),
        entry(
            "/usr/lib/modules/6.11/vmlinuz",
            "/usr/lib/modules/6.11/vmlinuz",
            "6.11.1",
            "",
        ),
    ];
    for (index, entry) in entries.iter_mut().enumerate().take(6) {
        entry.number = Some(index.to_string());
    }
    entries[2].menus = vec!["Advanced".into()];
    entries[3].kind = Kind::Uki;
    entries[3].initrds.clear();
    entries[4].kind = Kind::Other;
    entries[5].problems = vec![Problem::NoInitrd("/boot/i-5".into())];
    BootEntries {
        loader: Loader::Grub,
        reason: "/boot/grub/grub.cfg is there".into(),
        entries,
        default: None,
        next: Some(Choice {
            entry: 0,
            reason: "default in /boot/grub/grub.cfg is \"0\"".into(),
            is_once: false,
        }),
        once: None,
        notes: Vec::new(),
    }
}

fn running() -> Running {
    Running {
        release: "6.1.0-21-amd64".into(),
        cmdline: "BOOT_IMAGE=/boot/v-6.1 root=/dev/a ro quiet\n".into(),
    }
}

fn made(request: &Request) -> Result<Plan, PlanError> {
    plan(&boot(), &running(), request, &NoFiles)
}

fn of_entry(name: &str) -> Request {
    Request {
        entry: Some(name.into()),
        ..Request::default()
    }
}

fn of_kernel(name: &str) -> Request {
    Request {
        kernel: Some(name.into()),
        ..Request::default()
    }
}

#[test]
fn a_one_shot_choice_is_taken_back_if_it_is_followed() {
    let once = Once::Variable {
        file: "/variable".into(),
        content: Vec::new(),
    };
    let mut boot = boot();
    boot.once = Some(once.clone());
    for (is_once, request, is_followed) in [
        (true, Request::default(), true),
        // It names an entry that is gone, and the default is next.
        (false, Request::default(), true),
        (true, of_entry("new"), true),
        (true, of_kernel("6.12.3"), true),
        (true, of_kernel("/boot/v-6.12"), true),
        (true, of_entry("old"), false),
        (false, of_entry("new"), false),
        (true, of_kernel("6.11.1"), false),
    ] {
        boot.next.as_mut().unwrap().is_once = is_once;
        let (target, found) = target(&boot, &running(), &request, &NoFiles).unwrap();
        assert_eq!(
            found.is_some(),
            is_followed,
            "{is_once} {request:?} {target:?}"
        );
        let made = plan(&boot, &running(), &request, &NoFiles).unwrap();
        assert_eq!(made.once, found);
    }
}

#[test]
fn the_next_entry_is_planned_with_its_own_command_line() {
    let plan = made(&Request::default()).unwrap();
    assert_eq!(
        plan,
        Plan {
            target: Target {
                release: "6.12.3-amd64".into(),
                kernel: "/boot/v-6.12".into(),
                initrds: vec!["/boot/v-6.12.initrd".into()],
                cmdline: "root=/dev/a ro quiet mitigations=auto".into(),
                is_uki: false,
            },
            entry: Some(Named {
                id: "new".into(),
                title: "Title of new".into(),
            }),
            reason: "GRUB starts it next: default in /boot/grub/grub.cfg is \"0\"".into(),
            cmdline_from: Origin::Entry,
            difference: Difference {
                added: vec!["mitigations=auto".into()],
                removed: Vec::new(),
            },
            once: None,
        }
    );
}

#[test]
fn entries_and_kernels_are_chosen() {
    let same = Request {
        is_same: true,
        ..Request::default()
    };
    for (request, id, cmdline) in [
        // Not the rescue entry, which has the same kernel and comes first.
        (same, "old", "root=/dev/a ro quiet"),
        (of_entry("old"), "old", "root=/dev/a ro quiet"),
        (of_entry("1"), "rescue", "root=/dev/a ro single"),
        (
            of_entry("Advanced>Title of old"),
            "old",
            "root=/dev/a ro quiet",
        ),
        (of_entry("Title of uki"), "uki", "root=/dev/u"),
        (
            of_kernel("6.12.3-amd64"),
            "new",
            "root=/dev/a ro quiet mitigations=auto",
        ),
        (of_kernel("6.1"), "old", "root=/dev/a ro quiet"),
        (
            of_kernel("/boot/v-6.12"),
            "new",
            "root=/dev/a ro quiet mitigations=auto",
        ),
    ] {
        let plan = made(&request).unwrap();
        assert_eq!(plan.entry.unwrap().id, id, "{request:?}");
        assert_eq!(plan.target.cmdline, cmdline, "{request:?}");
    }
}

#[test]
fn kernels_without_an_entry_have_the_running_command_line() {
    for (name, release) in [("6.11.1", "6.11.1"), ("/srv/bzImage", "9.9-own")] {
        let plan = made(&of_kernel(name)).unwrap();
        assert_eq!(plan.target.release, release);
        assert_eq!(plan.entry, None);
        assert_eq!(plan.target.cmdline, "root=/dev/a ro quiet");
        assert_eq!(plan.cmdline_from, Origin::Running);
        assert_eq!(plan.difference, Difference::default());
    }
}

#[test]
fn command_lines_lose_what_a_boot_loader_added() {
    for (cmdline, expected, from) in [
        (Cmdline::Running, "root=/dev/a ro quiet", Origin::Running),
        (
            Cmdline::Entry,
            "root=/dev/a ro quiet mitigations=auto",
            Origin::Entry,
        ),
        (
            Cmdline::Text("initrd=/x a BOOT_IMAGE=y b".into()),
            "a b",
            Origin::Given,
        ),
    ] {
        let plan = made(&Request {
            cmdline,
            ..Request::default()
        })
        .unwrap();
        assert_eq!((&*plan.target.cmdline, plan.cmdline_from), (expected, from));
    }
}

#[test]
fn given_initrds_replace_those_of_the_entry() {
    let request = |name: &str, initrds: &[&str]| Request {
        initrds: initrds.iter().map(PathBuf::from).collect(),
        ..of_entry(name)
    };
    // Also one that is missing.
    let plan = made(&request("broken", &["/a", "/b"])).unwrap();
    assert_eq!(plan.target.initrds, [Path::new("/a"), Path::new("/b")]);
    assert!(matches!(
        made(&request("uki", &["/a"])),
        Err(PlanError::InitrdOfUki(_))
    ));
    assert!(matches!(
        made(&request("new", &["/missing"])),
        Err(PlanError::NoInitrd(_))
    ));
}

#[test]
fn errors_say_what_to_try() {
    let mut twice = boot();
    twice.entries[0].title = "Linux".into();
    twice.entries[1].title = "Linux".into();
    let mut nothing = boot();
    nothing.next = None;
    nothing.notes = vec!["/boot/grub2/grub.cfg cannot be read: denied; try it as root".into()];
    let entry_cmdline = Request {
        cmdline: Cmdline::Entry,
        ..of_kernel("6.11.1")
    };
    let gone = Running {
        release: "4.19".into(),
        ..running()
    };
    let same = Request {
        is_same: true,
        ..Request::default()
    };
    for (boot, running, request, text) in [
        (
            boot(),
            running(),
            of_entry("none"),
            "no entry is called \"none\"; there are 0 (Title of new), 1 (Title of rescue), 2 (Title of old), 3 (Title of uki), 4 (Title of setup), 5 (Title of broken), /usr/lib/modules/6.11/vmlinuz; brisk reboot list shows all",
        ),
        (
            boot(),
            Running::default(),
            same.clone(),
            "--same asks for the running kernel, and this tree has no /proc/sys/kernel/osrelease that says it; leave out --same, or name a kernel with --kernel",
        ),
        (
            boot(),
            running(),
            of_kernel("/gone"),
            "--kernel /gone: the kernel /gone is not there; check the path, or choose one of brisk reboot list",
        ),
        (
            twice,
            running(),
            of_entry("Linux"),
            "more than one entry is called \"Linux\": new, rescue; give the identifier or the number",
        ),
        (
            boot(),
            running(),
            of_entry("setup"),
            "the entry \"Title of setup\" starts no Linux kernel; choose another one of brisk reboot list with --entry, or a kernel with --kernel",
        ),
        (
            boot(),
            running(),
            of_entry("broken"),
            "\"Title of broken\" cannot be started: the initial RAM disk /boot/i-5 is not there; choose another one of brisk reboot list with --entry",
        ),
        (
            boot(),
            running(),
            of_kernel("6.2"),
            "no kernel 6.2 is installed; there are 6.12.3-amd64, 6.1.0-21-amd64, 6.13.1, 5.10.0, 6.11.1; give one of them, or the path of an image with a / in it",
        ),
        (
            boot(),
            running(),
            entry_cmdline,
            "no entry has the kernel /usr/lib/modules/6.11/vmlinuz, so there is no --cmdline entry; try --cmdline running",
        ),
        (
            boot(),
            gone,
            same,
            "no entry has the running kernel 4.19, which may have been removed; leave out --same, or name an image with --kernel",
        ),
        (
            nothing,
            running(),
            Request::default(),
            "nothing says which entry is next (/boot/grub2/grub.cfg cannot be read: denied; try it as root); choose one of brisk reboot list with --entry, or a kernel with --kernel",
        ),
    ] {
        let error = plan(&boot, &running, &request, &NoFiles).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn errors_list_what_there_is() {
    let empty = BootEntries {
        entries: Vec::new(),
        next: None,
        reason: "no configuration of a boot loader was found".into(),
        ..boot()
    };
    let mut xen = boot();
    xen.entries[4].kernel = "/boot/xen.gz".into();
    let mut menus = boot();
    menus.entries[1].number = Some("1>0".into());
    menus.entries[2].number = Some("1>2".into());
    for (boot, running, request, text) in [
        (
            menus.clone(),
            running(),
            of_entry("9"),
            "no entry is called \"9\" that starts something; there are 0 (Title of new), 1>0 (Title of rescue), 1>2 (Title of old), 3 (Title of uki), 4 (Title of setup), 5 (Title of broken), /usr/lib/modules/6.11/vmlinuz; brisk reboot list shows all",
        ),
        (
            menus.clone(),
            running(),
            of_entry("1"),
            "\"1\" is a menu, of which one entry is to be chosen: 1>0 (Title of rescue), 1>2 (Title of old)",
        ),
        (
            menus,
            running(),
            of_entry("Advanced"),
            "\"Advanced\" is a menu, of which one entry is to be chosen: 1>2 (Title of old)",
        ),
        (
            empty.clone(),
            running(),
            Request::default(),
            "nothing says which entry is next (no configuration of a boot loader was found); name an image with --kernel, with a / in its path",
        ),
        (
            empty,
            running(),
            of_kernel("6.1"),
            "no kernel 6.1 is installed; none was found; give the path of an image with a / in it",
        ),
        (
            xen,
            running(),
            of_entry("setup"),
            "the entry \"Title of setup\" starts no Linux kernel but /boot/xen.gz; choose another one of brisk reboot list with --entry, or a kernel with --kernel",
        ),
    ] {
        let error = plan(&boot, &running, &request, &NoFiles).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn differences_count_words() {
    let found = difference("a b b c=\"1 2\"", "b d a c=\"1 3\"");
    assert_eq!(found.added, ["d", "c=\"1 3\""]);
    assert_eq!(found.removed, ["b", "c=\"1 2\""]);
}
