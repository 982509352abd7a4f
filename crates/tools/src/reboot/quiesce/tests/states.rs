//! Reading of systems that may be anything.

use std::fs;

use super::scene::Scene;
use crate::reboot::quiesce::state::Unit;
use crate::reboot::quiesce::{Action, text};

#[test]
fn a_process_is_found_by_descriptors_mappings_and_buffers() {
    let scene = Scene::virtio();
    let group = "/system.slice/a.service";
    scene.process(101, "mapped", 0, group, &["/dev/null"]);
    let maps =
        "7f00-7f01 rw-s 00000000 00:06 4 /dev/dri/renderD128\n7f02-7f03 r--p 0 08:01 5 /lib/x.so\n";
    scene.file("proc/101/maps", maps);
    scene.process(102, "buffer", 0, group, &["/dmabuf:"]);
    scene.file(
        "proc/102/fdinfo/0",
        "pos:\t0\nsize:\t4096\ncount:\t1\nexp_name:\tdrm\n",
    );
    scene.process(103, "camera", 0, group, &["/dmabuf:"]);
    scene.file("proc/103/fdinfo/0", "exp_name:\tvideobuf2_common\n");
    scene.process(104, "deleted", 0, group, &["/dev/dri/card0 (deleted)"]);
    scene.process(
        105,
        "other",
        0,
        group,
        &["/dev/dri/card7", "/dev/sda", "pipe:[1]"],
    );
    let state = scene.state();
    let names: Vec<_> = state.holders.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["kmscube", "mapped", "buffer", "deleted"]);
    assert_eq!(
        state.holders[1].holds[0].module.as_deref(),
        Some("virtio_gpu")
    );
    assert_eq!(state.holders[1].holds[0].device.as_deref(), Some("virtio2"));
    assert_eq!(state.holders[1].user, "root");
    assert_eq!(state.holders[0].user, "anna");
    assert_eq!(state.holders[0].unit, Some(Unit::Session("4".to_owned())));
}

#[test]
fn processes_that_vanish_are_left_out() {
    let scene = Scene::virtio();
    // A process that ends while it is read leaves this.
    for (pid, missing) in [(201, "stat"), (202, "fd"), (203, "comm"), (204, "status")] {
        scene.process(
            pid,
            "gone",
            0,
            "/system.slice/a.service",
            &["/dev/dri/card0"],
        );
        let path = scene.root().join(format!("proc/{pid}/{missing}"));
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    fs::create_dir(scene.root().join("proc/205")).unwrap();
    let state = scene.state();
    let numbers: Vec<_> = state.holders.iter().map(|one| one.pid).collect();
    assert_eq!(numbers, [77, 203, 204]);
    assert_eq!(state.holders[2].user, "?");
}

#[test]
fn names_that_are_anything_do_not_move_a_terminal() {
    let scene = Scene::virtio();
    let group = "/system.slice/a.service\n0::/system.slice/b.service";
    scene.process(301, "x\n\u{1b}[2Jrefuse: y", 0, group, &["/dev/dri/card0"]);
    scene.process(
        302,
        "z",
        0,
        "/system.slice/$(reboot).service",
        &["/dev/dri/card0"],
    );
    scene.process(
        303,
        "z",
        0,
        "/system.slice/--all.service",
        &["/dev/dri/card0"],
    );
    let text = text(&scene.plan());
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(
        text.contains("x \u{fffd}[2Jrefuse: y (PID 301, a.service, user root)"),
        "{text}"
    );
    assert!(
        !text.contains("stop $(reboot)") && !text.contains("stop --all"),
        "{text}"
    );
}

#[test]
fn trees_that_are_anything_are_no_harm() {
    let long = "x,".repeat(40_000);
    for content in [
        "\0\n\n:,=",
        "",
        &long,
        "a b c d e f g h i j k l m n o p q r s t u v w",
    ] {
        for path in [
            "proc/modules",
            "proc/77/stat",
            "proc/77/cgroup",
            "proc/77/status",
            "proc/77/comm",
            "proc/77/maps",
            "proc/sys/kernel/osrelease",
            "etc/passwd",
            "run/systemd/sessions/4",
            "sys/class/vtconsole/vtcon1/name",
        ] {
            let scene = Scene::virtio();
            scene.file(path, content);
            let text = text(&scene.plan());
            assert!(!text.contains('\0') && text.len() < 300_000, "{path}");
        }
    }
}

#[test]
fn a_large_list_of_mappings_is_read_to_its_limit() {
    let scene = Scene::virtio();
    scene.process(
        401,
        "large",
        0,
        "/system.slice/a.service",
        &["/dev/dri/card0"],
    );
    let line = "7f00-7f01 r--p 00000000 08:01 5 /lib/x.so\n";
    scene.file("proc/401/maps", &line.repeat((17 << 20) / line.len()));
    assert_eq!(scene.state().holders.len(), 2);
}

#[test]
fn modules_that_use_each_other_come_to_an_end() {
    let mut scene = Scene::new();
    scene.modules(&["a 1 1 b,", "b 1 1 a,"]);
    scene.device("pci", "0000:01:00.0", "0x030000", "a");
    scene.driver("pci", "a", "a");
    let plan = scene.plan();
    let unloads = plan
        .actions()
        .filter(|one| matches!(one, Action::Unload { .. }));
    assert_eq!(unloads.count(), 2);
}
