//! Plan of a guest, from options and facts. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use brisk_vm::cache::Cache;
use brisk_vm::guest::{INIT, Step, encode};
use brisk_vm::initramfs::{self, Content, Extra, Request, Signatures, Wanted};
use brisk_vm::kernel;
use brisk_vm::launch::Unprivileged;
use brisk_vm::qemu::{Filesystem, Transport, VmConfig};
use brisk_vm::virtiofs::Access;

use super::error::Error;
use super::facts::Facts;
use super::machine::machine;
use super::options::{Net, Options, User, Warm};
use super::pretranslator;
use super::privileges::unprivileged;
use super::root::{Attached, ImageDefaults, Root};
use super::script::{ROOT_TAG, Scene, SharedDirectory, Sharing, steps};
use super::template;
use super::user;
use super::variables::variables;
use super::vm_config::{reports_free_memory, vm_config};

/// Graphics drivers and their dependencies, which are useless in a guest without a display.
const DENY: [&str; 3] = ["virtio_gpu", "drm*", "*_drm"];

/// Plan of a session.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Configuration of the VM; the path of its initramfs is set when that is built.
    pub machine: VmConfig,
    /// Reason for the accelerator.
    pub accelerator_why: String,
    /// Contents of the initramfs.
    pub initramfs: Request,
    /// Release of the kernel.
    pub release: String,
    /// The kernel, extracted.
    vmlinux: PathBuf,
    /// Directory of its modules.
    pub modules: Option<PathBuf>,
    /// Steps of init before the command.
    pub prepare: Vec<Step>,
    /// Steps of the command and its environment.
    pub command: Vec<Step>,
    /// Part of these steps that the guest gets.
    pub part: Part,
    /// Directories for virtiofsd, and whether the guest may write there.
    pub served: Vec<(PathBuf, Access)>,
    /// User of QEMU, if not root.
    pub unprivileged: Option<Unprivileged>,
    /// Whether the command runs on a terminal.
    pub terminal: bool,
}

/// Part of init's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All steps.
    Whole,
    /// The steps before the command, and then a pause.
    Preparation,
    /// The command, for a guest that has paused.
    Command,
}

impl Plan {
    /// Builds the initramfs, or finds it in the cache.
    ///
    /// # Errors
    /// If a module is missing, or the cache cannot be written.
    pub(crate) fn pack(
        &mut self,
        cache: &Cache,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        progress("building the initramfs");
        let modules = self.modules.as_deref();
        let built = initramfs::initramfs(&self.initramfs, &self.release, modules, cache)?;
        let assumed = built.contents.builtin.iter().filter(|one| one.assumed);
        let virtio = assumed.filter(|one| one.name.starts_with("virtio"));
        let names: Vec<_> = virtio.map(|one| one.name.as_str()).collect();
        if let Some(driver) = kernel::missing_driver(&self.vmlinux, names)? {
            return Err(lacks_driver(&self.release, driver));
        }
        self.machine.boot.initramfs = built.path;
        Ok(())
    }

    /// The steps that init gets.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        match self.part {
            Part::Whole => [&*self.prepare, &self.command].concat(),
            Part::Preparation => [&*self.prepare, &[Step::Pause]].concat(),
            Part::Command => self.command.clone(),
        }
    }
}

/// A kernel cannot reach brisk or its devices: nothing of its guest would ever be seen.
pub(crate) fn lacks_driver(release: &str, driver: &str) -> Error {
    let config = kernel::option_of(driver);
    Error::unfit(
        format!(
            "kernel {release} has no {driver} built in, and its modules are not in \
             /lib/modules/{release}"
        ),
        format!(
            "install them, name their directory with --modules, or build the kernel with {config}=y"
        ),
    )
}

/// A directory of the host that the guest sees.
struct Shown {
    tag: String,
    path: PathBuf,
    access: Access,
}

/// Decides.
///
/// # Errors
/// If options contradict each other or this host.
pub fn plan(options: &Options, facts: &Facts) -> Result<Plan, Error> {
    let machine = machine(options, facts)?;
    let transport = machine.transport();
    let sharing = sharing(facts, transport)?;
    let shares = shares(options);
    let scene = Scene {
        root: &facts.root,
        writable: options.root.access.is_writable(),
        sharing,
        shares: &shares,
        terminal: options.command.terminal.is_some() || options.warm != Warm::No,
        network: options.hardware.net == Net::User,
        host_name: options.host_name.as_deref(),
        disks: facts.disks.iter().any(|attached| attached.disk.writable),
    };
    let directories = directories(options, facts, &shares);
    have_names(&directories)?;
    let serves = sharing == Sharing::Virtiofs && !directories.is_empty();
    let prepare = steps(&scene);
    let command = command(options, facts)?;
    let filesystems = filesystems(&directories, sharing);
    let mut plan = Plan {
        machine: vm_config(options, facts, machine, serves, filesystems)?,
        accelerator_why: facts.accelerator.1.clone(),
        initramfs: Request {
            init: Content::Bytes(INIT.to_vec()),
            modules: modules(options, facts, transport, sharing, !directories.is_empty()),
            deny: DENY.iter().map(|&name| name.to_owned()).collect(),
            files: files(options, facts, &[&*prepare, &command].concat())?,
            signatures: if options.kernel.signed_modules {
                Signatures::Keep
            } else {
                Signatures::Drop
            },
        },
        release: facts.kernel.version.clone(),
        vmlinux: facts.image.path.clone(),
        modules: facts.kernel.modules.clone(),
        prepare,
        command,
        part: Part::Whole,
        served: if serves {
            let served = directories.into_iter();
            served.map(|shown| (shown.path, shown.access)).collect()
        } else {
            Vec::new()
        },
        unprivileged: unprivileged(facts, sharing, !shares.is_empty(), facts.accelerator.0),
        terminal: options.command.terminal.is_some(),
    };
    // Who waits to be taught does so in a guest that is kept.
    if options.warm == Warm::No || template::unfit(&plan, options, facts).is_none() {
        pretranslator::apply(&mut plan.machine, options, facts);
    }
    Ok(plan)
}

/// The shared directories, besides the root.
fn shares(options: &Options) -> Vec<SharedDirectory> {
    let numbered = options.hardware.shares.iter().enumerate();
    let shares = numbered.map(|(index, share)| SharedDirectory {
        tag: format!("share{index}"),
        guest: share.guest.clone(),
        writable: share.access.is_writable(),
    });
    shares.collect()
}

/// The root, if it is a directory, and the shared ones.
fn directories(options: &Options, facts: &Facts, shares: &[SharedDirectory]) -> Vec<Shown> {
    let root = match &facts.root {
        Root::Directory { path, .. } => Some(Shown {
            tag: ROOT_TAG.to_owned(),
            path: path.clone(),
            access: options.root.access,
        }),
        _ => None,
    };
    let shared = options.hardware.shares.iter().zip(shares);
    let shared = shared.map(|(share, shared)| Shown {
        tag: shared.tag.clone(),
        path: share.host.clone(),
        access: share.access,
    });
    root.into_iter().chain(shared).collect()
}

/// Checks that QEMU and virtiofsd can be told which directories they are: another one may have the
/// name that is left of one that is no text.
fn have_names(directories: &[Shown]) -> Result<(), Error> {
    let mut paths = directories.iter().map(|shown| &shown.path);
    match paths.find(|path| path.to_str().is_none()) {
        None => Ok(()),
        Some(path) => Err(Error::unfit(
            format!("the path of {} is not UTF-8", path.display()),
            "rename it, or bind-mount it elsewhere",
        )),
    }
}

/// Devices that show directories to the guest.
fn filesystems(directories: &[Shown], sharing: Sharing) -> Vec<Filesystem> {
    let devices = directories.iter().map(|shown| match sharing {
        Sharing::Virtiofs => Filesystem::Virtiofs {
            tag: shown.tag.clone(),
        },
        Sharing::NineP => Filesystem::NineP {
            tag: shown.tag.clone(),
            path: shown.path.clone(),
            access: shown.access,
        },
    });
    devices.collect()
}

/// virtiofs where it is possible, else 9p.
fn sharing(facts: &Facts, transport: Transport) -> Result<Sharing, Error> {
    let suffix = transport.suffix();
    let has = |device: &str| {
        facts
            .capabilities
            .devices
            .contains(&format!("{device}-{suffix}"))
    };
    let in_kernel = |module| facts.is_in_kernel(module);
    let virtiofs = facts.virtiofsd.is_some() && has("vhost-user-fs") && in_kernel("virtiofs");
    let nine_p = has("virtio-9p") && in_kernel("9p");
    let needed = facts.root.is_directory();
    match (virtiofs, nine_p) {
        (true, _) => Ok(Sharing::Virtiofs),
        (false, true) => Ok(Sharing::NineP),
        (false, false) if !needed => Ok(Sharing::Virtiofs),
        (false, false) if facts.virtiofsd.is_none() => Err(Error::unfit(
            "sharing directories needs virtiofsd, or 9p in the kernel, and there is neither",
            "install virtiofsd (Debian 13: apt install virtiofsd; elsewhere: cargo install \
             virtiofsd), boot a kernel with the module 9p, or use --root none or an image",
        )),
        (false, false) => Err(Error::unfit(
            format!(
                "kernel {} has neither virtiofs nor 9p",
                facts.kernel.version
            ),
            "boot another with --kernel, or use --root none or an image",
        )),
    }
}

fn modules(
    options: &Options,
    facts: &Facts,
    transport: Transport,
    sharing: Sharing,
    shares: bool,
) -> Vec<Wanted> {
    let mut list = Vec::new();
    let mut want = |module: &str, reason: &str| {
        list.push(Wanted {
            module: module.to_owned(),
            reason: reason.to_owned(),
        });
    };
    match transport {
        Transport::Pci => want("virtio_pci", "virtio devices on the PCI bus"),
        Transport::Mmio => want("virtio_mmio", "memory-mapped virtio devices"),
    }
    want("virtio_console", "the channel to brisk");
    if shares {
        match sharing {
            Sharing::Virtiofs => want("virtiofs", "directories of the host"),
            Sharing::NineP => {
                want("9pnet_virtio", "directories of the host");
                want("9p", "directories of the host");
            }
        }
    }
    if let Root::Disk {
        modules,
        filesystem,
        ..
    } = &facts.root
    {
        want("virtio_blk", "the disk of the root");
        for module in modules {
            want(module, &format!("the root is {filesystem}"));
        }
    }
    for Attached { disk, modules } in &facts.disks {
        want("virtio_blk", "a disk that was asked for with --disk");
        // A guest may have no use for a file system that this kernel does not know.
        for module in modules.iter().filter(|name| facts.is_in_kernel(name)) {
            want(module, &format!("on the disk {}", disk.path.display()));
        }
    }
    if facts.root != Root::None && !options.root.access.is_writable() {
        want(
            "overlay",
            "a layer of memory above a root that is not changed",
        );
    }
    if options.hardware.net == Net::User {
        want("virtio_net", "the network card");
    }
    if reports_free_memory(options, facts) {
        want("virtio_balloon", "telling the host which memory is free");
    }
    for module in &options.kernel.extra_modules {
        want(module, "asked for with --module");
    }
    list
}

fn files(options: &Options, facts: &Facts, steps: &[Step]) -> Result<Vec<Extra>, Error> {
    let file = |path: &str, bytes: Vec<u8>| Extra::File {
        path: path.into(),
        content: Content::Bytes(bytes),
        mode: 0o444,
    };
    let mut files = match (&facts.root, &facts.busybox) {
        (Root::None, Some(busybox)) => vec![
            Extra::File {
                path: "/bin/busybox".into(),
                content: Content::File(busybox.clone()),
                mode: 0o755,
            },
            Extra::Symlink {
                path: "/bin/sh".into(),
                target: "busybox".into(),
            },
        ],
        _ => Vec::new(),
    };
    if options.trace {
        files.push(file("/trace", Vec::new()));
    }
    if options.instructions {
        // A script from the host would arrive after a number of instructions that depends on it.
        files.push(file("/script", encoded(steps)?));
    }
    Ok(files)
}

/// Encodes the script for init.
///
/// # Errors
/// If an argument has a NUL byte in it.
pub(crate) fn encoded(steps: &[Step]) -> Result<Vec<u8>, Error> {
    encode(steps).map_err(|_| {
        Error::unfit(
            "an argument has a NUL byte in it",
            "no program could receive it",
        )
    })
}

/// Steps of the command and its environment.
fn command(options: &Options, facts: &Facts) -> Result<Vec<Step>, Error> {
    let defaults = match &facts.root {
        Root::Disk { image, .. } => image.clone(),
        _ => ImageDefaults::default(),
    };
    let mut steps = Vec::new();
    if let Some((rows, columns)) = options.command.terminal {
        steps.push(Step::Terminal { rows, columns });
    }
    let mut words: Vec<OsString> = defaults.entrypoint.iter().map(OsString::from).collect();
    if options.command.words.is_empty() {
        words.extend(defaults.cmd.iter().map(OsString::from));
    } else {
        words.extend(options.command.words.iter().cloned());
    }
    if words.is_empty() {
        words.push("/bin/sh".into());
    }
    if facts.root == Root::None && facts.busybox.is_none() {
        return Err(Error::unfit(
            "--root none has no program to run: there is no static busybox on the host",
            "install busybox-static (Debian) or busybox (Fedora, Arch), or use another root",
        ));
    }
    let who = options
        .command
        .user
        .clone()
        .or_else(|| defaults.user.as_deref().map(User::parse));
    let identity = who
        .map(|who| user::resolve(&who, &facts.root))
        .transpose()?;
    let home = identity.as_ref().and_then(|identity| identity.home.clone());
    let home = home.unwrap_or_else(|| if identity.is_some() { "/" } else { "/root" }.to_owned());
    if let Some(identity) = &identity {
        steps.push(Step::User {
            user: identity.user,
            group: identity.group,
        });
    }
    let more = defaults.env.iter().map(OsString::from);
    let more = more.chain(options.command.env.iter().cloned());
    steps.extend(variables(&home, options.command.terminal.is_some(), more));
    let directory = match (&options.command.workdir, &facts.root, defaults.workdir) {
        (Some(dir), ..) => OsString::from(dir),
        (None, Root::Directory { host: true, .. }, _) => facts.current_dir.clone().into(),
        (None, _, Some(dir)) => dir.into(),
        (None, ..) => "/".into(),
    };
    steps.push(Step::Directory {
        path: directory.into_vec(),
    });
    steps.extend(words.into_iter().map(|word| Step::Argument {
        text: word.into_vec(),
    }));
    Ok(steps)
}
