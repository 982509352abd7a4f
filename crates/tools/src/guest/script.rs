//! Script for init: from a root to the steps that prepare it. Pure.

use brisk_vm::guest::{MountFlags, Step};

use super::root::Root;

/// Time limit for a disk to appear, milliseconds.
const DEVICE: u64 = 10_000;
/// Directory where init builds the new root.
const NEW: &str = "/newroot";
const LOWER: &str = "/lower";
const LAYER: &str = "/layer";

/// Server of a shared directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// virtiofsd.
    Virtiofs,
    /// QEMU's own 9p server.
    NineP,
}

impl Sharing {
    fn mount(self, tag: &str, target: &str, writable: bool) -> Step {
        let flags = if writable {
            MountFlags::default()
        } else {
            MountFlags::READ_ONLY
        };
        match self {
            Self::Virtiofs => Step::mount("virtiofs", tag, target, flags),
            Self::NineP => Step::Mount {
                source: tag.to_owned(),
                target: target.to_owned(),
                kind: "9p".to_owned(),
                // msize: the largest that virtio takes in one request.
                data: "trans=virtio,version=9p2000.L,msize=512000,cache=loose".to_owned(),
                flags,
            },
        }
    }
}

/// A shared directory besides the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedDirectory {
    pub(crate) tag: String,
    pub(crate) guest: String,
    pub(crate) writable: bool,
}

/// Facts that the steps depend on.
#[derive(Debug, Clone)]
pub(crate) struct Scene<'a> {
    pub(crate) root: &'a Root,
    pub(crate) writable: bool,
    pub(crate) sharing: Sharing,
    pub(crate) shares: &'a [SharedDirectory],
    pub(crate) terminal: bool,
    pub(crate) network: bool,
    pub(crate) host_name: Option<&'a str>,
    /// Whether there are disks that the guest may write to, besides the root's.
    pub(crate) disks: bool,
}

/// Tag of the root directory.
pub(crate) const ROOT_TAG: &str = "root";

/// Steps that prepare the root and everything below it.
pub(crate) fn steps(scene: &Scene<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    match scene.root {
        Root::None => {
            steps.extend([Step::directory("/proc"), Step::directory("/sys")]);
            steps.extend([Step::directory("/tmp"), Step::directory("/run")]);
            // In which every user may write.
            let flags = MountFlags::NO_SUID.and(MountFlags::NO_DEV);
            steps.push(Step::mount("tmpfs", "tmp", "/tmp", flags));
            kernel_mounts(&mut steps, "", scene.terminal);
        }
        Root::Directory { .. } => {
            let lower = scene.sharing.mount(ROOT_TAG, target(scene), scene.writable);
            steps.extend([Step::directory(target(scene)), lower]);
            finish_root(&mut steps, scene);
        }
        Root::Disk {
            device, filesystem, ..
        } => {
            let flags = if scene.writable {
                MountFlags::default()
            } else {
                MountFlags::READ_ONLY
            };
            // ext4 and xfs would write their journal back even when mounted read-only.
            let data = match (scene.writable, filesystem.as_str()) {
                (false, "ext4" | "ext3") => "noload",
                (false, "xfs") => "norecovery",
                _ => "",
            };
            steps.extend([
                Step::Wait {
                    path: device.clone(),
                    millis: DEVICE,
                },
                Step::directory(target(scene)),
                Step::Mount {
                    source: device.clone(),
                    target: target(scene).to_owned(),
                    kind: filesystem.clone(),
                    data: data.to_owned(),
                    flags,
                },
            ]);
            finish_root(&mut steps, scene);
        }
    }
    for share in scene.shares {
        steps.push(Step::directory(&share.guest));
        steps.push(
            scene
                .sharing
                .mount(&share.tag, &share.guest, share.writable),
        );
    }
    if scene.disks && !scene.writable {
        // The root is not changed; what is mounted below it may be.
        steps.push(Step::Release {
            path: "/".to_owned(),
        });
    }
    steps.extend(scene.host_name.map(|name| Step::HostName {
        name: name.to_owned(),
    }));
    steps.push(Step::Loopback);
    if scene.network {
        steps.push(Step::Address {
            interface: "eth0".to_owned(),
            // QEMU's user network: docs/system/devices/net.rst.
            address: [10, 0, 2, 15],
            netmask: [255, 255, 255, 0],
            gateway: [10, 0, 2, 2],
        });
        if !scene.writable {
            steps.push(Step::directory("/etc"));
            steps.push(Step::Write {
                path: "/etc/resolv.conf".to_owned(),
                contents: b"nameserver 10.0.2.3\n".to_vec(),
            });
        }
    }
    steps
}

/// Mount point of the root's own file system.
fn target(scene: &Scene<'_>) -> &'static str {
    if scene.writable { NEW } else { LOWER }
}

/// Adds the overlay above a root that is not to be changed, and what every system needs.
fn finish_root(steps: &mut Vec<Step>, scene: &Scene<'_>) {
    if !scene.writable {
        steps.extend([
            Step::directory(LAYER),
            Step::mount("tmpfs", "layer", LAYER, MountFlags::default()),
            Step::directory("/layer/upper"),
            Step::directory("/layer/work"),
            Step::directory(NEW),
            Step::Mount {
                source: "root".to_owned(),
                target: NEW.to_owned(),
                kind: "overlay".to_owned(),
                data: "lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work".to_owned(),
                flags: MountFlags::default(),
            },
        ]);
    }
    for directory in ["proc", "sys", "dev", "run"] {
        steps.push(Step::directory(&format!("{NEW}/{directory}")));
    }
    steps.push(Step::mount(
        "devtmpfs",
        "dev",
        "/newroot/dev",
        MountFlags::default(),
    ));
    let flags = MountFlags::NO_SUID.and(MountFlags::NO_DEV);
    steps.push(Step::mount("tmpfs", "run", "/newroot/run", flags));
    kernel_mounts(steps, NEW, true);
    steps.push(Step::directory("/newroot/dev/shm"));
    steps.push(Step::mount("tmpfs", "shm", "/newroot/dev/shm", flags));
    steps.push(Step::Root {
        path: NEW.to_owned(),
    });
    if scene.writable {
        steps.push(Step::Release {
            path: "/".to_owned(),
        });
    }
}

fn kernel_mounts(steps: &mut Vec<Step>, root: &str, terminals: bool) {
    let flags = MountFlags::NO_SUID
        .and(MountFlags::NO_DEV)
        .and(MountFlags::NO_EXEC);
    steps.push(Step::mount("proc", "proc", &format!("{root}/proc"), flags));
    steps.push(Step::mount("sysfs", "sys", &format!("{root}/sys"), flags));
    if terminals {
        steps.push(Step::directory(&format!("{root}/dev/pts")));
        steps.push(Step::Mount {
            source: "devpts".to_owned(),
            target: format!("{root}/dev/pts"),
            kind: "devpts".to_owned(),
            data: "mode=620,ptmxmode=666".to_owned(),
            flags: MountFlags::NO_SUID.and(MountFlags::NO_EXEC),
        });
    }
    for (name, target) in [
        ("fd", "fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ] {
        steps.push(Step::Symlink {
            target: format!("/proc/self/{target}"),
            path: format!("{root}/dev/{name}"),
        });
    }
}
