//! A system below a directory, built up line by line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::reboot::config::QuiesceConfig;
use crate::reboot::quiesce::{Options, Plan, State, plan};

pub(super) const RELEASE: &str = "6.1.0-9-amd64";

/// A system with systemd and nothing else.
pub(super) struct Scene {
    root: TempDir,
    modules: String,
    pub(super) config: QuiesceConfig,
    pub(super) options: Options,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self {
            root: tempfile::tempdir().unwrap(),
            modules: String::new(),
            config: QuiesceConfig::default(),
            options: Options::default(),
        };
        scene.file("proc/sys/kernel/osrelease", &format!("{RELEASE}\n"));
        scene.file(
            "proc/self/cgroup",
            "0::/user.slice/user-0.slice/session-9.scope\n",
        );
        scene.file(
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/home/anna:/bin/sh\n",
        );
        fs::create_dir_all(scene.root().join("run/systemd/system")).unwrap();
        scene.session("9", 0, "root", "TYPE=tty\nSERVICE=sshd\nCLASS=user");
        scene
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Lines of `/proc/modules`, without addresses; all of them can be loaded again.
    pub(super) fn modules(&mut self, lines: &[&str]) {
        let mut known = String::new();
        for line in lines {
            let name = line.split(' ').next().unwrap();
            known.push_str(&format!(
                "kernel/{}.ko.xz: kernel/a.ko.xz\n",
                name.replace('_', "-")
            ));
            self.modules
                .push_str(&format!("{line} Live 0x0000000000000000\n"));
        }
        self.file("proc/modules", &self.modules.clone());
        let path = format!("lib/modules/{RELEASE}/modules.dep");
        let old = fs::read_to_string(self.root().join(&path)).unwrap_or_default();
        self.file(&path, &(old + &known));
    }

    /// A device of a class with a driver, of a module or built in.
    pub(super) fn device(&self, bus: &str, address: &str, class: &str, driver: &str) {
        let directory = format!("sys/bus/{bus}/devices/{address}");
        self.link(
            &format!("{directory}/driver"),
            &format!("../../../bus/{bus}/drivers/{driver}"),
        );
        self.file(&format!("{directory}/class"), &format!("{class}\n"));
        self.file(&format!("{directory}/vendor"), "0x8086\n");
        self.file(&format!("sys/bus/{bus}/drivers/{driver}/unbind"), "");
    }

    /// Module of a driver.
    pub(super) fn driver(&self, bus: &str, driver: &str, module: &str) {
        let link = format!("sys/bus/{bus}/drivers/{driver}/module");
        self.link(&link, &format!("../../../../module/{module}"));
    }

    /// Nodes of a graphics card.
    pub(super) fn card(&self, number: u32, device: &str) {
        for node in [format!("card{number}"), format!("renderD{}", 128 + number)] {
            self.link(
                &format!("sys/class/drm/{node}/device"),
                &format!("../../../{device}"),
            );
        }
    }

    /// Framebuffer with the text console on it.
    pub(super) fn console(&self, device: &str) {
        self.link(
            "sys/class/graphics/fb0/device",
            &format!("../../../{device}"),
        );
        self.file("sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
        self.file("sys/class/vtconsole/vtcon0/bind", "0\n");
        self.file(
            "sys/class/vtconsole/vtcon1/name",
            "(M) frame buffer device\n",
        );
        self.file("sys/class/vtconsole/vtcon1/bind", "1\n");
    }

    pub(super) fn session(&self, id: &str, uid: u32, user: &str, rest: &str) {
        let text =
            format!("# This is private data. Do not parse.\nUID={uid}\nUSER={user}\n{rest}\n");
        self.file(&format!("run/systemd/sessions/{id}"), &text);
    }

    /// GDM with a session of Anna's.
    pub(super) fn desktop(&self) {
        let link = "etc/systemd/system/display-manager.service";
        self.link(link, "/lib/systemd/system/gdm.service");
        self.process(600, "gdm3", 0, "/system.slice/gdm.service", &[]);
        self.session(
            "2",
            1000,
            "anna",
            "TYPE=x11\nSERVICE=gdm-password\nCLASS=user",
        );
    }

    /// A process of a control group that has files open.
    pub(super) fn process(&self, pid: u32, name: &str, uid: u32, group: &str, files: &[&str]) {
        let directory = format!("proc/{pid}");
        let stat =
            format!("{pid} ({name}) S 1 1 1 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 4 0 {pid}7 9 9");
        self.file(&format!("{directory}/stat"), &stat);
        self.file(&format!("{directory}/comm"), &format!("{name}\n"));
        self.file(&format!("{directory}/cgroup"), &format!("0::{group}\n"));
        let status = format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        self.file(&format!("{directory}/status"), &status);
        fs::create_dir_all(self.root().join(&directory).join("fd")).unwrap();
        for (number, file) in files.iter().enumerate() {
            self.link(&format!("{directory}/fd/{number}"), file);
        }
    }

    pub(super) fn state(&self) -> State {
        State::read(self.root())
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.state(), &self.config, self.options)
    }

    /// NVIDIA's four modules on a desktop, with a daemon and a computation.
    pub(super) fn nvidia() -> Self {
        let mut scene = Self::new();
        scene.modules(&[
            "nvidia_uvm 1540096 2 -",
            "nvidia_drm 77824 5 -",
            "nvidia_modeset 1142784 6 nvidia_drm,",
            "nvidia 56692736 300 nvidia_uvm,nvidia_modeset,",
            "drm_kms_helper 208896 1 nvidia_drm,",
            "drm 614400 8 drm_kms_helper,nvidia,nvidia_drm,",
        ]);
        scene.device("pci", "0000:01:00.0", "0x030000", "nvidia");
        scene.driver("pci", "nvidia", "nvidia");
        scene.card(0, "0000:01:00.0");
        scene.desktop();
        let session = "/user.slice/user-1000.slice/session-2.scope";
        let nodes = [
            "/dev/dri/card0",
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/nvidia-modeset",
        ];
        scene.process(812, "Xorg", 0, session, &nodes);
        let logind = "/system.slice/systemd-logind.service";
        scene.process(500, "systemd-logind", 0, logind, &["/dev/dri/card0"]);
        // systemd keeps descriptors for systemd-logind.
        scene.process(1, "systemd", 0, "/init.scope", &["/dev/dri/card0"]);
        let daemon = "/system.slice/nvidia-persistenced.service";
        scene.process(
            700,
            "nvidia-persiste",
            0,
            daemon,
            &["/dev/nvidia0", "/dev/null"],
        );
        let service = "/system.slice/system-render.slice/render@1.service";
        scene.process(
            901,
            "blender",
            1000,
            service,
            &["/dev/nvidia-uvm", "/dev/nvidia0"],
        );
        scene
    }

    /// i915 with sound and the text console on it, and GNOME's services of a user.
    pub(super) fn i915() -> Self {
        let mut scene = Self::new();
        scene.modules(&[
            "snd_hda_intel 61440 3 -",
            "i915 3051520 27 -",
            "drm_kms_helper 208896 1 i915,",
            "drm 614400 15 drm_kms_helper,i915,",
        ]);
        scene.device("pci", "0000:00:02.0", "0x030000", "i915");
        scene.driver("pci", "i915", "i915");
        scene.device("pci", "0000:00:1f.3", "0x040300", "snd_hda_intel");
        scene.driver("pci", "snd_hda_intel", "snd_hda_intel");
        scene.link("sys/class/sound/card0/device", "../../../0000:00:1f.3");
        scene.card(0, "0000:00:02.0");
        scene.console("0000:00:02.0");
        scene.desktop();
        let user = "/user.slice/user-1000.slice/user@1000.service/session.slice";
        let shell = format!("{user}/org.gnome.Shell@wayland.service");
        scene.process(
            1200,
            "gnome-shell",
            1000,
            &shell,
            &["/dev/dri/card0", "/dev/dri/renderD128"],
        );
        let audio = format!("{user}/wireplumber.service");
        scene.process(
            1201,
            "wireplumber",
            1000,
            &audio,
            &["/dev/snd/controlC0", "/dev/snd/seq"],
        );
        scene
    }

    /// virtio-gpu, of which DRM names the PCI device, with a user at a terminal.
    pub(super) fn virtio() -> Self {
        let mut scene = Self::new();
        scene.modules(&[
            "virtio_gpu 90112 1 -",
            "drm_shmem_helper 20480 1 virtio_gpu,",
            "drm 614400 4 drm_shmem_helper,virtio_gpu,",
            "virtio_pci 24576 0 -",
        ]);
        scene.device("pci", "0000:00:05.0", "0x038000", "virtio-pci");
        scene.driver("pci", "virtio-pci", "virtio_pci");
        fs::create_dir(
            scene
                .root()
                .join("sys/bus/pci/devices/0000:00:05.0/virtio2"),
        )
        .unwrap();
        scene.device("virtio", "virtio2", "", "virtio_gpu");
        scene.driver("virtio", "virtio_gpu", "virtio_gpu");
        scene.card(0, "0000:00:05.0");
        scene.session("4", 1000, "anna", "TYPE=tty\nSERVICE=login\nCLASS=user");
        let session = "/user.slice/user-1000.slice/session-4.scope";
        scene.process(77, "kmscube", 1000, session, &["/dev/dri/card0"]);
        scene
    }

    /// amdgpu with the sound on its card, and a network card that the configuration names.
    pub(super) fn amdgpu() -> Self {
        let mut scene = Self::new();
        scene.modules(&[
            "mlx5_ib 466944 0 -",
            "mlx5_core 2179072 1 mlx5_ib,",
            "snd_hda_intel 61440 3 -",
            "amdgpu 9797632 3 -",
            "gpu_sched 53248 1 amdgpu,",
        ]);
        scene.device("pci", "0000:03:00.0", "0x030000", "amdgpu");
        scene.driver("pci", "amdgpu", "amdgpu");
        scene.device("pci", "0000:03:00.1", "0x040300", "snd_hda_intel");
        scene.device("pci", "0000:00:1f.3", "0x040300", "snd_hda_intel");
        scene.driver("pci", "snd_hda_intel", "snd_hda_intel");
        scene.device("pci", "0000:05:00.0", "0x020000", "mlx5_core");
        scene.driver("pci", "mlx5_core", "mlx5_core");
        scene.device("pci", "0000:06:00.0", "0x020000", "mlx4_core");
        scene.card(0, "0000:03:00.0");
        scene.process(
            300,
            "ollama",
            999,
            "/system.slice/ollama.service",
            &["/dev/kfd"],
        );
        scene.config.modules = vec!["mlx5_core".to_owned(), "ioatdma".to_owned()];
        scene.config.unbind = vec!["0000:06:00.0".to_owned(), "0000:99:00.0".to_owned()];
        scene
    }
}
