//! What the VM of a rehearsal gets, open for reading.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use brisk_host::boot_entries::words;
use brisk_vm::kernel::{BzImage, MAX_SIZE};
use brisk_vm::launch::{Descriptor, open_backing};
use brisk_vm::qemu::{Disk, DiskFormat, Fds};
use rustix::fs::OFlags;

use super::argv::{LAYERS, VmDisk};
use super::attachment::{Attachment, Bus};
use super::cmdline::last;
use super::disks::{self, DisksError, HostDisk};
use super::emulator::Emulator;
use super::layer::layer;
use super::request::{Origin, RehearseError, Request};
use super::verdict::RehearsedDisk;
use crate::guest::backing;
use crate::reboot::load::{LoadError, Loadable};

/// Memory of a VM by default, MiB, without its initial RAM disk.
const MEMORY: u64 = 768;
/// Least memory by default with its initial RAM disk, MiB.
const USUAL_MEMORY: u64 = 1024;
/// Memory of a VM on a host that has little, MiB, without its initial RAM disk.
const LITTLE_MEMORY: u64 = 384;
/// How much memory an initial RAM disk takes, unpacked and packed, in its sizes.
const UNPACKED: u64 = 5;
/// Memory that the layers of all disks take at most, bytes.
pub(super) const LAYER: u64 = 512 << 20;

/// A disk, open for reading.
#[derive(Debug)]
pub(super) struct OpenDisk {
    pub(super) disk: VmDisk,
    file: File,
    /// Bytes.
    size: u64,
    unlike: Option<String>,
    /// The kernel's name of a block device.
    pub(super) name: Option<String>,
}

impl OpenDisk {
    /// Whether it is a block device of the host.
    pub(super) fn is_device(&self) -> bool {
        self.disk.disk.device
    }

    pub(super) fn shown(&self) -> RehearsedDisk {
        RehearsedDisk {
            path: self.disk.disk.path.to_string_lossy().into_owned(),
            bus: self.disk.bus,
            unlike: self.unlike.clone(),
            written_meanwhile: None,
        }
    }

    /// Opens an image or a block device; `host` is known of one of the host's.
    fn open(path: &Path, host: Option<HostDisk>, bus: Bus) -> Result<Self, RehearseError> {
        let failed = |source| RehearseError::Open {
            path: path.to_owned(),
            source,
        };
        let kind = path.metadata().map_err(failed)?;
        let mut options = File::options();
        if kind.file_type().is_block_device() {
            // As QEMU wants it: see `file` of the command line.
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        let mut file = options.read(true).open(path).map_err(failed)?;
        let host = host.or_else(|| {
            let number = kind.rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            let is_device = kind.file_type().is_block_device();
            is_device.then(|| HostDisk::of_number(Path::new("/"), major, minor))?
        });
        let found = brisk_rootfs::image(path, None).map_err(RehearseError::Image)?;
        let format = match found.format {
            brisk_rootfs::Format::Raw => DiskFormat::Raw,
            brisk_rootfs::Format::Qcow2 => DiskFormat::Qcow2,
        };
        let size = match format {
            DiskFormat::Raw => file.seek(SeekFrom::End(0)).map_err(failed)?,
            // `size` of the header (`docs/interop/qcow2.rst` of QEMU).
            DiskFormat::Qcow2 => {
                let mut size = [0; 8];
                file.read_exact_at(&mut size, 24).map_err(failed)?;
                u64::from_be_bytes(size)
            }
        };
        let attachment = match &host {
            Some(host) => host.attachment.clone(),
            None => Attachment { bus, unlike: None },
        };
        Ok(Self {
            disk: VmDisk {
                disk: Disk {
                    path: found.path,
                    format,
                    backing: backing(&found.backing),
                    device: found.device,
                    writable: false,
                    sector_size: found.sector_size,
                },
                bus: attachment.bus,
                serial: host.as_ref().and_then(|host| host.serial.clone()),
            },
            unlike: attachment.unlike,
            name: host.map(|host| host.name),
            file,
            size,
        })
    }
}

/// What a VM gets, open.
#[derive(Debug)]
pub(super) struct Files {
    kernel: File,
    pub(super) initrd: Option<File>,
    pub(super) disks: Vec<OpenDisk>,
    /// Longest command line, bytes, or why the file is no kernel.
    pub(super) most: Result<usize, String>,
    /// Memory that the VM should have.
    pub(super) memory: Memory,
}

/// Memory that a VM should have, MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// On a host that has enough.
    pub(super) usual: u64,
    /// Less would not hold the kernel, its initial RAM disk and the first programs.
    pub(super) least: u64,
}

impl Memory {
    /// `initrd`: size of the initial RAM disk, bytes.
    fn with_initrd(initrd: u64) -> Self {
        let unpacked = UNPACKED * (initrd >> 20);
        Self {
            usual: (MEMORY + unpacked).max(USUAL_MEMORY),
            least: LITTLE_MEMORY + unpacked,
        }
    }

    /// As much of it as a host has, MiB; `free`: memory that the VM may take, MiB.
    pub(super) fn fitting(self, free: u64) -> u64 {
        free.clamp(self.least, self.usual)
    }
}

impl Files {
    /// # Errors
    /// If a file or a disk cannot be opened.
    pub(super) fn open(request: &Request<'_>) -> Result<Self, RehearseError> {
        let (mut kernel, initrd) = Loadable::open(request.target)?.into_files();
        let size = initrd
            .as_ref()
            .map_or(0, |file| file.metadata().map_or(0, |meta| meta.len()));
        Ok(Self {
            most: most(&mut kernel).map_err(|source| LoadError::Read {
                path: request.target.kernel.clone(),
                source,
            })?,
            kernel,
            initrd,
            disks: open_disks(request)?,
            memory: Memory::with_initrd(size),
        })
    }

    /// Attaches disks to something that this QEMU has.
    pub(super) fn fit(&mut self, emulator: &Emulator) {
        let has = |bus: Bus| emulator.capabilities.devices.contains(bus.device());
        for disk in &mut self.disks {
            if !has(disk.disk.bus) {
                disk.unlike = Some(disk.disk.bus.name().to_owned());
                disk.disk.bus = match disk.disk.bus.family() {
                    "sd" => Bus::Ahci,
                    _ => Bus::VirtioBlk,
                };
            }
        }
    }

    /// The files with their numbers in QEMU.
    ///
    /// # Errors
    /// If a backing file cannot be opened, or there is no memory for a layer.
    pub(super) fn descriptors(self) -> Result<Vec<Descriptor>, RehearseError> {
        let mut list = Vec::new();
        let mut add = |file, number, by_name| {
            list.push(Descriptor {
                file,
                number,
                by_name,
            });
        };
        add(self.kernel, Fds::KERNEL, true);
        if let Some(initrd) = self.initrd {
            add(initrd, Fds::INITRAMFS, true);
        }
        let most = LAYER / self.disks.len().max(1) as u64;
        let mut numbers = Fds::BACKING..;
        for (index, disk) in (0..).zip(self.disks) {
            for (one, number) in disk.disk.disk.backing.iter().zip(&mut numbers) {
                add(open_backing(&one.path)?.into(), number, false);
            }
            add(disk.file, Fds::DISKS + index, false);
            let layer = layer(disk.size, most).map_err(RehearseError::Layer)?;
            add(layer, LAYERS + index, false);
        }
        Ok(list)
    }
}

/// Longest command line that a kernel takes, or why it is none that kexec takes.
fn most(kernel: &mut File) -> io::Result<Result<usize, String>> {
    let mut bytes = Vec::new();
    Read::by_ref(kernel)
        .take(MAX_SIZE as u64)
        .read_to_end(&mut bytes)?;
    kernel.rewind()?;
    let header = BzImage::parse(&bytes);
    Ok(header
        .map(|header| header.cmdline_size as usize)
        .map_err(|reason| brisk_host::chain(&reason)))
}

fn open_disks(request: &Request<'_>) -> Result<Vec<OpenDisk>, RehearseError> {
    let words = words(&request.target.cmdline);
    let root = last(&words, "root").and_then(|root| root.strip_prefix("/dev/"));
    let by_name = root.and_then(Bus::of_name).unwrap_or(Bus::VirtioBlk);
    let opened = match &request.disks {
        Origin::Named(paths) if paths.len() > disks::MOST => {
            return Err(DisksError::TooMany(paths.len()).into());
        }
        Origin::Named(paths) => {
            let opened = paths.iter().map(|path| OpenDisk::open(path, None, by_name));
            opened.collect::<Result<Vec<_>, _>>()?
        }
        Origin::System => {
            let all = request.goal.is_of_systemd();
            let found = disks::of_system(Path::new("/"), all)?;
            let opened = found.into_iter().map(|disk| {
                let path = Path::new("/dev").join(disk.name.replace('!', "/"));
                OpenDisk::open(&path, Some(disk), by_name)
            });
            opened.collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_host_gives_less_memory() {
        let small = Memory::with_initrd(40 << 20);
        assert_eq!(
            small,
            Memory {
                usual: 1024,
                least: 584
            }
        );
        assert_eq!(small.fitting(8000), 1024);
        assert_eq!(small.fitting(1000), 1000);
        // The caller refuses then: there is less than the least.
        assert_eq!(small.fitting(100), 584);
        assert_eq!(Memory::with_initrd(200 << 20).fitting(8000), 1768);
        assert_eq!(Memory::with_initrd(0).fitting(0), 384);
    }
}
