//! `brisk vm create`, `set` and `rm`.

use std::path::Path;

use anyhow::bail;
use brisk_host::quantity;
use brisk_tools::guest::ExtraDisk;
use brisk_tools::vm::{
    self as tool, Autoshutdown, Condition, Definition, Error, Network, Suspend, VmPaths, condition,
    new_uuid,
};
use brisk_vm::cache::Cache;
use brisk_vm::qemu::DiskFormat;
use brisk_vm::virtiofs::Access;
use clap::ValueEnum;

use super::super::guest::ImageFormat;

use super::named::{explain, paths};
use crate::exit;
use crate::parse::guest_memory;
use crate::ui::Ui;

/// Define a VM.
#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    /// Name of the VM: letters, digits, - _ and .
    pub(super) name: String,

    #[command(flatten)]
    settings: Settings,
}

/// Change the definition of a VM; a running VM keeps its settings until its next start.
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Name of the VM.
    pub(super) name: String,

    #[command(flatten)]
    settings: Settings,
}

/// Remove a VM that is off, with its log and its definition.
///
/// Disks that were copied for a clone are removed with it; other disks stay.
#[derive(Debug, clap::Args)]
pub(super) struct RmArgs {
    /// Name of the VM.
    pub(super) name: String,
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// Kernel: a release that is installed, or a path. `default`: as brisk run chooses.
    #[arg(long, value_name = "PATH|VERSION|default")]
    kernel: Option<String>,

    /// Root: `none`, `host`, or the path of a directory or of a raw, qcow2, ext4, erofs, OCI or tar
    /// image.
    #[arg(long, value_name = "none|host|PATH")]
    root: Option<String>,

    /// Format of the root's disk image. Default: detected when --root names the image.
    ///
    /// The definition records it, so that a guest cannot change it by what it writes to the disk.
    #[arg(long, value_enum, value_name = "FORMAT")]
    root_format: Option<ImageFormat>,

    /// Write to the root, instead of to an overlay in memory.
    ///
    /// In a directory no set-user-ID and set-group-ID bits are set, unless it is `--rw=suid`.
    #[arg(long, value_name = "BOOL|suid", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    rw: Option<Access>,

    /// Disk besides the root, a raw or qcow2 image or a block device; :ro forbids writing.
    /// Repeatable.
    ///
    /// The definition records the disk's format.
    #[arg(long, value_name = "IMAGE[:ro][,format=raw|qcow2]")]
    disk: Vec<String>,

    /// Remove the disks that the definition has.
    #[arg(long)]
    no_disks: bool,

    /// Share a directory of this host at a path of the guest; :ro forbids writing. Repeatable.
    ///
    /// Files get no set-user-ID and set-group-ID bits there, unless ,suid allows them.
    #[arg(long, value_name = "HOST:GUEST[:ro|,suid]")]
    share: Vec<String>,

    /// Remove the shared directories that the definition has.
    #[arg(long)]
    no_shares: bool,

    /// Virtual CPUs.
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,

    /// Memory, for example 512M or 2G.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<String>,

    /// Use huge pages for the memory, where this host allows them to root; the default.
    ///
    /// The guest and its suspend are quicker. The VM takes more of the host's memory where the
    /// pages that it needs are scattered.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    huge_pages: Option<bool>,

    /// Lock the memory, so that nothing of it gets to this host's swap. All of it is allocated when
    /// the VM starts, and none is given back while it runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    lock_memory: Option<bool>,

    /// Put the memory into the area of RAM that brisk reboot --keep-vms keeps, if this host has one.
    ///
    /// It counts from the next start or resume on. All of the memory is allocated then, and none is
    /// given back while the VM runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    keep_memory: Option<bool>,

    /// Network.
    #[arg(long, value_enum)]
    net: Option<Net>,

    #[command(flatten)]
    inside: InsideSettings,

    /// Start the VM, or resume it, when this host boots; see brisk vm autostart.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    autoboot: Option<bool>,

    /// Suspend, stop or end the VM when this host shuts down; see brisk vm autostop.
    #[arg(long, value_enum)]
    autoshutdown: Option<GoingDown>,

    #[command(flatten)]
    suspend: SuspendSettings,
}

/// What runs in the guest.
#[derive(Debug, clap::Args)]
struct InsideSettings {
    /// Program of the root that becomes PID 1, for example /sbin/init. Without one, or with `none`,
    /// only commands of brisk vm exec run in the guest.
    #[arg(long, value_name = "PATH|none")]
    init: Option<String>,

    /// User of the commands of brisk vm exec, by the names or numbers of the VM's own files. Default:
    /// root.
    #[arg(long, short, value_name = "USER[:GROUP]")]
    user: Option<String>,

    /// Add a kernel parameter. Repeatable.
    #[arg(long, value_name = "PARAMETER", allow_hyphen_values = true)]
    append: Vec<String>,

    /// Remove the kernel parameters that the definition has.
    #[arg(long)]
    no_append: bool,
}

/// How the VM is suspended.
#[derive(Debug, clap::Args)]
struct SuspendSettings {
    /// Image to suspend to; %{name} stands for the VM's name, %{uuid} for its UUID. `default`:
    /// in the VM's directory.
    #[arg(long, value_name = "FILE|default")]
    suspend_path: Option<String>,

    /// Compression of the image: zstd[:LEVEL], lz4[:ACCELERATION] or none.
    #[arg(long, value_name = "NAME")]
    compression: Option<String>,

    /// Encrypt the image to this host's key; the default.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    host_key: Option<bool>,

    /// Encrypt the image to this public key of age, too. Repeatable.
    #[arg(long, value_name = "age1…")]
    recipient: Vec<String>,

    /// Remove the public keys that the definition has.
    #[arg(long)]
    no_recipients: bool,

    /// Encrypt the image to a passphrase, too: suspend asks for it, or reads it from
    /// --passphrase-file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    passphrase: Option<bool>,

    /// Threads that compress and encrypt; 0: one for each processor.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Most bytes a second that are written to the image, for example 200M; none: no limit.
    #[arg(long, value_name = "RATE|none", value_parser = rate)]
    bandwidth: Option<String>,

    /// Write only what changed since the last image, which is kept as the base image while the VM
    /// runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    incremental: Option<bool>,

    /// Leave out the guest's page cache, which the guest drops before the suspend.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    drop_cache: Option<bool>,
}

/// Values of [`Settings::net`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Net {
    /// No network but loopback.
    None,
    /// QEMU's user network: outgoing connections only.
    User,
}

/// Values of [`Settings::autoshutdown`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum GoingDown {
    /// Suspend the VM to its image.
    Suspend,
    /// Ask the VM to shut down. This is the default.
    Shutdown,
    /// End the VM, as by a power cut.
    Off,
}

impl Settings {
    fn apply(&self, definition: &mut Definition, paths: &VmPaths) -> anyhow::Result<()> {
        if let Some(kernel) = &self.kernel {
            definition.kernel = match kernel.as_str() {
                "default" => None,
                path if path.contains('/') => Some(absolute("--kernel", path)?),
                release => Some(release.to_owned()),
            };
        }
        if let Some(root) = &self.root {
            definition.root = match root.as_str() {
                "none" | "host" => root.clone(),
                path => absolute("--root", path)?,
            };
            definition.root_format = None;
            if self.root_format.is_none() && definition.root.starts_with('/') {
                let format = format_of(Path::new(&definition.root));
                definition.root_format = format?.map(tool::ImageFormat::from);
            }
        }
        if let Some(format) = self.root_format {
            definition.root_format = Some(DiskFormat::from(format).into());
        }
        put(&mut definition.rw, &self.rw);
        if self.no_disks {
            definition.disks.clear();
        }
        for disk in &self.disk {
            let mut disk = ExtraDisk::parse(&absolute("--disk", disk)?);
            if disk.format.is_none() {
                disk.format = format_of(&disk.path)?;
            }
            definition.disks.push(disk.to_string());
        }
        if self.no_shares {
            definition.shares.clear();
        }
        for share in &self.share {
            definition.shares.push(absolute("--share", share)?);
        }
        put(&mut definition.cpus, &self.cpus);
        put(&mut definition.memory, &self.memory);
        put(&mut definition.huge_pages, &self.huge_pages);
        put(&mut definition.lock_memory, &self.lock_memory);
        put(&mut definition.keep_memory, &self.keep_memory);
        if let Some(net) = self.net {
            definition.net = match net {
                Net::None => Network::None,
                Net::User => Network::User,
            };
        }
        self.inside.apply(definition);
        put(&mut definition.autoboot, &self.autoboot);
        if let Some(what) = self.autoshutdown {
            definition.autoshutdown = match what {
                GoingDown::Suspend => Autoshutdown::Suspend,
                GoingDown::Shutdown => Autoshutdown::Shutdown,
                GoingDown::Off => Autoshutdown::Off,
            };
        }
        self.suspend.apply(&mut definition.suspend)?;
        if definition.uuid.is_none() {
            definition.uuid = match tool::recorded_uuid(paths) {
                None => Some(new_uuid().map_err(explain)?),
                noted => noted,
            };
        }
        Ok(())
    }
}

impl InsideSettings {
    fn apply(&self, definition: &mut Definition) {
        if let Some(init) = &self.init {
            definition.init = Some(init.clone()).filter(|init| init != "none");
        }
        if let Some(user) = &self.user {
            definition.user = Some(user.clone()).filter(|user| user != "root");
        }
        if self.no_append {
            definition.append.clear();
        }
        definition.append.extend(self.append.iter().cloned());
    }
}

impl SuspendSettings {
    fn apply(&self, suspend: &mut Suspend) -> anyhow::Result<()> {
        if let Some(path) = &self.suspend_path {
            suspend.path = match path.as_str() {
                "default" => None,
                path => Some(absolute("--suspend-path", path)?),
            };
        }
        put(&mut suspend.compression, &self.compression);
        put(&mut suspend.host_key, &self.host_key);
        put(&mut suspend.incremental, &self.incremental);
        put(&mut suspend.drop_cache, &self.drop_cache);
        if self.no_recipients {
            suspend.recipients.clear();
        }
        suspend.recipients.extend(self.recipient.iter().cloned());
        put(&mut suspend.passphrase, &self.passphrase);
        put(&mut suspend.threads, &self.threads);
        put(&mut suspend.bandwidth, &self.bandwidth);
        Ok(())
    }
}

fn memory(text: &str) -> Result<String, String> {
    guest_memory(text).map(|_| text.to_owned())
}

fn rate(text: &str) -> Result<String, String> {
    match text == "none" || quantity::rate(text).is_some() {
        true => Ok(text.to_owned()),
        false => Err("not a rate; write for example 200M, which are bytes a second".to_owned()),
    }
}

/// Changes what an option names, if it is given.
fn put<T: Clone>(to: &mut T, from: &Option<T>) {
    if let Some(value) = from {
        to.clone_from(value);
    }
}

/// The format of a disk image that is there already.
fn format_of(path: &Path) -> anyhow::Result<Option<DiskFormat>> {
    Ok(brisk_rootfs::format_of(path)?.map(|format| match format {
        brisk_rootfs::Format::Raw => DiskFormat::Raw,
        brisk_rootfs::Format::Qcow2 => DiskFormat::Qcow2,
    }))
}

/// Makes a path absolute, so that it names the same file from every directory.
fn absolute(option: &str, path: &str) -> anyhow::Result<String> {
    match std::path::absolute(path)?.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => bail!("{option} {path}: the path is not UTF-8"),
    }
}

pub(super) fn create(args: &CreateArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let mut definition = Definition::default();
    args.settings.apply(&mut definition, &paths)?;
    if let Err(error @ Error::Undefined { .. }) = paths.must_be_new() {
        return Err(explain(error).context(format!(
            "{} has files of a VM whose definition is gone; choose another name, put the \
             definition back, or remove them with brisk vm rm {0}",
            paths.name
        )));
    }
    tool::check_requirements(&paths, &definition, &Cache::open()?).map_err(explain)?;
    paths.define(&definition, true).map_err(explain)?;
    warn_of_image(&paths, &definition, ui);
    ui.note(&format!(
        "defined in {}; brisk vm start {} boots it",
        paths.file().display(),
        paths.name
    ));
    Ok(exit::OK)
}

pub(super) fn set(args: &SetArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let _lock = paths.lock("set").map_err(explain)?;
    let mut definition = paths.definition().map_err(explain)?;
    let image = paths.image(&definition);
    args.settings.apply(&mut definition, &paths)?;
    let elsewhere = paths.image(&definition) != image;
    if elsewhere {
        tool::may_move_image(&paths, &definition).map_err(explain)?;
    }
    paths.define(&definition, false).map_err(explain)?;
    if elsewhere {
        warn_of_image(&paths, &definition, ui);
    }
    Ok(exit::OK)
}

/// Warns of two VMs that are suspended to one file: the second suspend is refused.
fn warn_of_image(paths: &VmPaths, definition: &Definition, ui: &Ui) {
    if let Some(other) = paths.shares_image_with(definition) {
        ui.note(&format!(
            "warning: {other} has the same image, {}: only one of both can be suspended at a time; \
             write %{{name}} or %{{uuid}} in the path",
            paths.image(definition).display()
        ));
    }
}

pub(super) fn rm(args: &RmArgs) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let lock = paths.lock("rm").map_err(explain)?;
    let now = condition(&paths).map_err(explain)?;
    let name = &paths.name;
    match now {
        Condition::Off => {}
        Condition::Suspended => {
            bail!("{name} is suspended; brisk vm discard removes its image")
        }
        Condition::CutOff => bail!(
            "the last resume of {name} was cut off, and its image is left; brisk vm resume --again \
             goes on from there, brisk vm discard removes it"
        ),
        Condition::Missing => {
            bail!("{name} is suspended, and its image is not there; brisk vm discard forgets it")
        }
        _ => bail!(
            "{name} is {}; brisk vm stop or brisk vm kill ends it first",
            now.name()
        ),
    }
    paths.remove(lock).map_err(explain)?;
    Ok(exit::OK)
}
