//! Plans of captured-like systems, and what stands against some.

use std::fs;

use super::scene::Scene;
use crate::reboot::quiesce::state::UnitFacts;
use crate::reboot::quiesce::{Action, Options, json, plan, text};

#[test]
fn nvidia_on_a_desktop() {
    insta::assert_snapshot!(text(&Scene::nvidia().plan()), @r"
    device        driver  module
    0000:01:00.0  nvidia  nvidia

    In use: systemd (PID 1, init.scope, user root) has /dev/dri/card0 open
    In use: systemd-logind (PID 500, systemd-logind.service, user root) has /dev/dri/card0 open
    In use: nvidia-persiste (PID 700, nvidia-persistenced.service, user root) has /dev/nvidia0 open
    In use: Xorg (PID 812, session-2.scope, user root) has /dev/dri/card0, /dev/nvidia-modeset, /dev/nvidia0 and 1 more open
    In use: blender (PID 901, render@1.service, user anna) has /dev/nvidia-uvm, /dev/nvidia0 open

       step                              because
    1  stop gdm.service                  it is the display manager; a session ends with it
    2  stop nvidia-persistenced.service  it has /dev/nvidia0 open
    3  stop render@1.service             it has /dev/nvidia-uvm, /dev/nvidia0 open
    4  wait for processes to let go      services and sessions that were stopped may take a moment to close devices
    5  unload nvidia_drm                 it uses nvidia_modeset
    6  unload nvidia_modeset             it uses nvidia
    7  unload nvidia_uvm                 it uses nvidia
    8  unload nvidia                     it drives 0000:01:00.0
    ");
}

#[test]
fn i915_with_sound_and_the_console() {
    insta::assert_snapshot!(text(&Scene::i915().plan()), @r"
    device        driver         module
    0000:00:02.0  i915           i915
    0000:00:1f.3  snd_hda_intel  snd_hda_intel

    In use: gnome-shell (PID 1200, user@1000.service, user anna) has /dev/dri/card0, /dev/dri/renderD128 open
    In use: wireplumber (PID 1201, user@1000.service, user anna) has /dev/snd/controlC0 open

       step                                    because
    1  stop gdm.service                        it is the display manager; a session ends with it
    2  wait for processes to let go            services and sessions that were stopped may take a moment to close devices
    3  leave the framebuffer console           the text console keeps the graphics driver in use
    4  unbind 0000:00:1f.3 from snd_hda_intel  the sound of the graphics card keeps its driver in use
    5  unload i915                             it drives 0000:00:02.0
    ");
}

#[test]
fn amdgpu_and_what_the_configuration_names() {
    insta::assert_snapshot!(text(&Scene::amdgpu().plan()), @r"
    device        driver         module
    0000:03:00.0  amdgpu         amdgpu
    0000:05:00.0  mlx5_core      mlx5_core
    0000:06:00.0  mlx4_core      built in
    0000:03:00.1  snd_hda_intel  snd_hda_intel

    In use: ollama (PID 300, ollama.service, user 999) has /dev/kfd open

       step                                    because
    1  stop ollama.service                     it has /dev/kfd open
    2  wait for processes to let go            services and sessions that were stopped may take a moment to close devices
    3  unbind 0000:03:00.1 from snd_hda_intel  the sound of the graphics card keeps its driver in use
    4  unload mlx5_ib                          it uses mlx5_core
    5  unload mlx5_core                        it drives 0000:05:00.0
    6  unload amdgpu                           it drives 0000:03:00.0
    7  unbind 0000:06:00.0 from mlx4_core      the configuration says so
    Note: module ioatdma is not loaded
    Note: 0000:99:00.0 has no driver, or there is no such device
    ");
}

#[test]
fn virtio_gpu_in_use_of_a_session() {
    insta::assert_snapshot!(text(&Scene::virtio().plan()), @r"
    device   driver      module
    virtio2  virtio_gpu  virtio_gpu

    In use: kmscube (PID 77, session-4.scope, user anna) has /dev/dri/card0 open

       step                          because
    1  wait for processes to let go  services and sessions that were stopped may take a moment to close devices
    2  unload virtio_gpu             it drives virtio2
    refuse: kmscube (PID 77, session-4.scope, user anna) has /dev/dri/card0 open, and is of no service
        fix: end it, or log its user out, or use --force, which ends it by SIGTERM
    ");
}

#[test]
fn virtio_gpu_in_use_of_a_session_by_force() {
    let mut scene = Scene::virtio();
    scene.options = Options { force: true };
    insta::assert_snapshot!(text(&scene.plan()), @r"
    device   driver      module
    virtio2  virtio_gpu  virtio_gpu

    In use: kmscube (PID 77, session-4.scope, user anna) has /dev/dri/card0 open

       step                          because
    1  end kmscube (PID 77)          it has /dev/dri/card0 open, and is of no service; it cannot be put back
    2  wait for processes to let go  services and sessions that were stopped may take a moment to close devices
    3  unload virtio_gpu             it drives virtio2
    ");
}

/// A graphics card of a driver that is built in, and what the firmware has set up, which stays.
fn built_in() -> Scene {
    let scene = Scene::new();
    scene.device("pci", "0000:00:02.0", "0x030000", "i915");
    scene.device("platform", "simple-framebuffer.0", "", "simple-framebuffer");
    scene.card(0, "0000:00:02.0");
    scene.console("0000:00:02.0");
    scene
}

#[test]
fn a_driver_that_is_built_in_is_unbound() {
    let scene = built_in();
    insta::assert_snapshot!(text(&scene.plan()), @r"
    device        driver  module
    0000:00:02.0  i915    built in

       step                           because
    1  leave the framebuffer console  the text console keeps the graphics driver in use
    2  unbind 0000:00:02.0 from i915  its driver i915 is built into the kernel
    ");
    fs::remove_file(scene.root().join("sys/bus/pci/drivers/i915/unbind")).unwrap();
    let plan = scene.plan();
    assert!(
        plan.obstacles[0]
            .what
            .contains("i915 does not let go of devices"),
        "{plan:?}"
    );
}

#[test]
fn a_framebuffer_of_the_firmware_is_left_alone() {
    let scene = Scene::new();
    scene.device("platform", "simple-framebuffer.0", "", "simple-framebuffer");
    scene.card(0, "simple-framebuffer.0");
    scene.console("simple-framebuffer.0");
    insta::assert_snapshot!(text(&scene.plan()), @"Nothing to do: no graphics card has a driver, and the configuration names nothing that is there.");
}

/// A card of a driver whose module says so much of itself.
fn module(line: &str) -> Scene {
    let mut scene = Scene::new();
    scene.modules(&[line, "helper 4096 0 -"]);
    scene.device("pci", "0000:01:00.0", "0x030000", "gpu");
    scene.driver("pci", "gpu", "gpu");
    scene.card(0, "0000:01:00.0");
    scene
}

#[test]
fn a_permanent_module_is_unbound_from_its_devices() {
    insta::assert_snapshot!(text(&module("gpu 4096 1 [permanent],").plan()), @r"
    device        driver  module
    0000:01:00.0  gpu     gpu

       step                          because
    1  unbind 0000:01:00.0 from gpu  module gpu cannot be unloaded: it is permanent
    ");
    let mut without = Scene::new();
    without.modules(&["fixed 4096 1 [permanent],"]);
    without.config.modules = vec!["fixed".to_owned()];
    insta::assert_snapshot!(text(&without.plan()), @r#"
    Nothing to do: no graphics card has a driver, and the configuration names nothing that is there.
    refuse: module fixed cannot be unloaded: it is permanent
        fix: leave it alone: keep = ["fixed"] in section [quiesce] of reboot.toml
    "#);
}

#[test]
fn what_nothing_visible_holds_is_said() {
    let mut scene = module("gpu 4096 2 -");
    insta::assert_snapshot!(text(&scene.plan()), @r"
    device        driver  module
    0000:01:00.0  gpu     gpu

       step        because
    1  unload gpu  it drives 0000:01:00.0
    refuse: module gpu has 2 references of no other module, and no process, console or sound device is seen that has them
        fix: as root, look for containers and for drivers that use it; --force tries it all the same, and puts everything back if the module stays
    ");
    scene.options.force = true;
    let by_force = scene.plan();
    assert_eq!(by_force.obstacles, []);
    assert!(by_force.notes[0].contains("2 references"), "{by_force:?}");
    // A display manager may have what cannot be seen.
    scene.options.force = false;
    scene.desktop();
    assert_eq!(scene.plan().obstacles, []);
}

#[test]
fn a_process_without_a_unit_is_no_service() {
    let scene = module("gpu 4096 1 -");
    scene.process(9, "render", 0, "/", &["/dev/dri/renderD128"]);
    let plan = scene.plan();
    assert_eq!(
        plan.obstacles[0].what,
        "render (PID 9, user root) has /dev/dri/renderD128 open, and is of no service"
    );
}

#[test]
fn a_container_is_not_stopped() {
    let scene = module("gpu 4096 1 -");
    let group = "/system.slice/docker-1f.scope";
    scene.process(9, "render", 0, group, &["/dev/dri/renderD128"]);
    let plan = scene.plan();
    assert!(
        plan.obstacles[0].fix.starts_with("stop the container"),
        "{plan:?}"
    );
}

#[test]
fn what_the_configuration_keeps_stays() {
    let mut scene = Scene::nvidia();
    scene.config.keep = vec!["nvidia".to_owned()];
    let plan = scene.plan();
    assert_eq!((plan.steps.len(), plan.obstacles.len()), (0, 0));
    assert!(plan.notes[0].contains("keeps it"), "{plan:?}");
    // One that uses it keeps it loaded: the card is unbound.
    scene.config.keep = vec!["nvidia-uvm".to_owned()];
    let last = scene.plan().actions().last();
    assert!(matches!(last, Some(Action::Unbind { .. })), "{last:?}");
    scene.config.keep = vec!["nvidia-persistenced.service".to_owned()];
    let plan = scene.plan();
    assert!(
        plan.obstacles[0].fix.contains("take it out of keep"),
        "{plan:?}"
    );
}

#[test]
fn brisk_does_not_stop_what_it_runs_in() {
    for (own, is_refused) in [
        ("/user.slice/user-1000.slice/session-2.scope", true),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope",
            true,
        ),
        ("/system.slice/nvidia-persistenced.service", true),
        ("/user.slice/user-0.slice/session-9.scope", false),
        ("/system.slice/run-u1.service", false),
        ("/", false),
    ] {
        let scene = Scene::nvidia();
        scene.file("proc/self/cgroup", &format!("0::{own}\n"));
        let obstacles = scene.plan().obstacles;
        assert_eq!(
            obstacles.len(),
            usize::from(is_refused),
            "{own} {obstacles:?}"
        );
    }
}

#[test]
fn services_of_a_user_outlive_the_desktop_of_one_who_is_elsewhere_too() {
    let scene = Scene::i915();
    assert_eq!(scene.plan().obstacles, []);
    scene.session("5", 1000, "anna", "TYPE=unspecified\nCLASS=manager");
    assert_eq!(scene.plan().obstacles, []);
    scene.file("var/lib/systemd/linger/anna", "");
    assert_eq!(scene.plan().obstacles.len(), 2);
    let scene = Scene::i915();
    scene.session("5", 1000, "anna", "TYPE=tty\nSERVICE=sshd\nCLASS=user");
    let plan = scene.plan();
    assert_eq!(plan.obstacles.len(), 2);
    assert!(
        plan.obstacles[0].fix.contains("systemctl --user stop"),
        "{plan:?}"
    );
}

#[test]
fn sessions_that_were_started_by_hand_do_not_end_with_the_display_manager() {
    let mut scene = Scene::nvidia();
    scene.session("2", 1000, "anna", "TYPE=x11\nSERVICE=login\nCLASS=user");
    let plan = scene.plan();
    let names: Vec<_> = plan.obstacles.iter().map(|one| &*one.what).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].starts_with("systemd (PID 1,"), "{names:?}");
    assert!(names[1].starts_with("systemd-logind (PID 500"), "{names:?}");
    assert!(
        names[2].starts_with("Xorg (PID 812, session-2.scope"),
        "{names:?}"
    );
    // Neither does --force end systemd.
    scene.options.force = true;
    assert_eq!(scene.plan().obstacles.len(), 2);
}

#[test]
fn units_that_stop_with_another_or_start_it_again_stop_at_once_with_it() {
    let scene = Scene::nvidia();
    let mut state = scene.state();
    let known = "Id=nvidia-persistenced.service\nActiveState=active\n\
                 TriggeredBy=nvidia-persistenced.socket\nRequiredBy=dcgm.service off.service\n";
    let mut asked = Vec::new();
    let result = state.ask(&["nvidia-persistenced.service".to_owned()], |units| {
        asked.push(units.join(" "));
        Ok::<_, String>(match asked.len() {
            1 => known.to_owned(),
            _ => "Id=nvidia-persistenced.socket\nActiveState=active\n\nId=dcgm.service\n\
                  ActiveState=active\nBoundBy=nvidia-persistenced.service\n\nId=off.service\n\
                  ActiveState=failed\n"
                .to_owned(),
        })
    });
    result.unwrap();
    assert_eq!(
        asked,
        [
            "nvidia-persistenced.service",
            "dcgm.service nvidia-persistenced.socket off.service"
        ]
    );
    assert!(!state.is_active("off.service"));
    let plan = plan(&state, &scene.config, scene.options);
    let units = plan.actions().filter_map(|action| match action {
        Action::Stop { units } => Some(units.join(" ")),
        _ => None,
    });
    assert_eq!(
        units.collect::<Vec<_>>(),
        [
            "gdm.service",
            "nvidia-persistenced.socket nvidia-persistenced.service dcgm.service",
            "render@1.service"
        ]
    );
}

#[test]
fn units_of_the_configuration_stop_if_they_are_active() {
    let mut scene = Scene::nvidia();
    scene.config.stop = vec!["dcgm.service".to_owned(), "off.service".to_owned()];
    let mut state = scene.state();
    let active = UnitFacts {
        is_active: true,
        stops: Vec::new(),
    };
    state.units.insert("dcgm.service".to_owned(), active);
    let plan = plan(&state, &scene.config, scene.options);
    let stops = |name: &str| {
        let mut actions = plan.actions();
        actions.any(|one| matches!(one, Action::Stop { units } if units == [name]))
    };
    assert!(stops("dcgm.service") && !stops("off.service"));
}

#[test]
fn without_systemd_services_cannot_be_stopped() {
    let scene = Scene::nvidia();
    fs::remove_dir(scene.root().join("run/systemd/system")).unwrap();
    let plan = scene.plan();
    assert!(
        plan.obstacles[0]
            .what
            .contains("systemd is not the manager"),
        "{plan:?}"
    );
}

#[test]
fn modules_that_cannot_be_loaded_again_are_said() {
    let scene = module("gpu 4096 0 -");
    assert_eq!(scene.plan().notes, [""; 0]);
    scene.file("lib/modules/6.1.0-9-amd64/modules.dep", "kernel/a.ko:\n");
    assert!(scene.plan().notes[0].contains("module gpu is not in the modules.dep"));
}

#[test]
fn programs_get_all_of_it() {
    let value = json(&Scene::virtio().plan());
    assert_eq!(value["schema"], "brisk.reboot.quiesce/1");
    assert_eq!(value["devices"][0]["address"], "virtio2");
    assert_eq!(value["devices"][0]["kind"], "gpu");
    assert_eq!(value["holders"][0]["unit"]["session"], "4");
    assert_eq!(value["steps"][1]["action"], "unload");
    assert_eq!(value["steps"][1]["module"], "virtio_gpu");
    assert!(value["obstacles"][0]["fix"].is_string());
}
