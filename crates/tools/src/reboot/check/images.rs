//! The files of a target, as they will be loaded.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use brisk_host::files;
use brisk_vm::initramfs::{self, BOOTCONFIG_TAIL, Verified, bootconfig_size};
use brisk_vm::kernel::{BzImage, Compression, Image, MAX_SIZE, Reason, Signed};
use serde::{Serialize, Serializer};

use crate::reboot::Target;
use brisk_host::chain;
use brisk_host::kernel_config::KernelConfig;

/// Bytes that kexec_file_load(2) keeps free on a command line on x86 (`MAX_ELFCOREHDR_STR_LEN` of
/// `arch/x86/kernel/kexec-bzimage64.c`).
pub(super) const RESERVED: usize = 30;

/// Bytes of a file that kexec_file_load(2) reads at most (`KEXEC_FILE_SIZE_MAX` of
/// `kernel/kexec_file.c`; older kernels read 2 GiB).
const LARGEST_FILE: u64 = 4 << 30;

/// What the line of a configuration begins with that says what is built into the kernel.
const BUILT_IN: &str = "CONFIG_INITRAMFS_SOURCE=";

/// What a file begins with that `mkimage` of U-Boot made (`IH_MAGIC` of its `image.h`).
const UBOOT_MAGIC: [u8; 4] = 0x2705_1956_u32.to_be_bytes();

/// Object identifier of SHA-256 (RFC 5754), as it is in a signature.
const SHA256_ID: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";

/// Files of a target.
#[derive(Debug, Clone)]
pub struct Images {
    /// The kernel.
    pub kernel: Result<KernelImage, Defect>,
    /// The initial RAM disks, in their order.
    pub initrds: Vec<Initrd>,
    /// Build configuration of the kernel, if it is installed.
    pub config: Option<String>,
}

/// A kernel that kexec may load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// Bytes of the image.
    pub size: u64,
    /// Memory that it takes when it starts, bytes.
    pub init_size: u64,
    /// Longest command line that it takes, bytes, without the NUL at its end.
    pub cmdline_size: usize,
    /// Whether somebody has signed it.
    pub is_signed: bool,
    /// Whether it can be loaded anywhere, as kexec_file_load(2) asks for.
    pub is_relocatable: bool,
    /// Whether an initial RAM disk is in it that starts the system; only of a target without another
    /// one.
    pub has_initrd: bool,
}

/// An initial RAM disk.
#[derive(Debug, Clone)]
pub struct Initrd {
    /// The file.
    pub path: PathBuf,
    /// Its content, or its defect.
    pub content: Result<Verified, Defect>,
}

/// Why a file cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "reason")]
pub enum Defect {
    /// It is not there.
    Missing,
    /// It may not be read.
    Forbidden,
    /// It cannot be read.
    Unreadable(String),
    /// It can be read, and not be used.
    Unusable(String),
    /// It is whole, and the kernel cannot use it.
    Unsupported(Unsupported),
    /// It can be read, and brisk cannot say whether the kernel can use it.
    Unverified(String),
}

/// What the kernel cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// Why.
    pub reason: String,
    /// What makes one that it can use.
    pub remedy: &'static str,
}

impl Serialize for Unsupported {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reason)
    }
}

impl Defect {
    fn reading(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

impl Images {
    /// Reads the files of a target on the system below `root`, all of them to their ends.
    #[must_use]
    pub fn read(root: &Path, target: &Target) -> Self {
        let kernel = open(&files::below(root, &target.kernel)).and_then(|file| {
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            if size > MAX_SIZE as u64 {
                return Err(Defect::Unusable("it is larger than a kernel".to_owned()));
            }
            let mut bytes = Vec::new();
            let read = file.take(MAX_SIZE as u64).read_to_end(&mut bytes);
            read.map_err(|error| Defect::reading(&error))?;
            Ok(bytes)
        });
        let mut initrds: Vec<_> = target
            .initrds
            .iter()
            .map(|path| initrd(root, path, Some(path) == target.initrds.last()))
            .collect();
        if let Ok(Image::Uki(uki)) = kernel
            .as_deref()
            .map_err(|_| ())
            .and_then(|bytes| Image::parse(bytes).map_err(|_| ()))
        {
            initrds.extend(uki.initrd.map(|bytes| Initrd {
                path: target.kernel.clone(),
                content: verified(bytes),
            }));
        }
        let config = KernelConfig::installed(root, &target.release).map(|config| config.text);
        let source = config
            .as_deref()
            .and_then(|it| it.lines().find_map(|line| line.strip_prefix(BUILT_IN)));
        let is_alone = initrds.is_empty();
        let kernel = kernel
            .and_then(|bytes| of_bytes(&bytes, is_alone))
            .map(|kernel| KernelImage {
                has_initrd: kernel.has_initrd || is_alone && source.is_some_and(|it| it != "\"\""),
                ..kernel
            });
        Self {
            kernel,
            initrds,
            config,
        }
    }

    /// Most memory that loading takes, bytes: the kernel reads the files, copies them to their
    /// places, and frees what it read (`kimage_file_post_load_cleanup` of `kernel/kexec_file.c`);
    /// several initial RAM disks are put together before.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let kernel = self.kernel.as_ref().map_or(0, |kernel| kernel.size);
        let sizes = self
            .initrds
            .iter()
            .filter_map(|initrd| initrd.content.as_ref().ok());
        let (count, initrds) = sizes.fold((0, 0), |(count, sum), one| (count + 1, sum + one.size));
        let joined = if count > 1 { initrds } else { 0 };
        2 * (kernel + initrds) + joined
    }

    /// Memory that the new kernel and its initial RAM disks have at the jump, bytes.
    #[must_use]
    pub fn placed(&self) -> u64 {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_or(0, |kernel| kernel.size.max(kernel.init_size));
        let contents = self
            .initrds
            .iter()
            .filter_map(|initrd| initrd.content.as_ref().ok());
        kernel + contents.map(|one| one.size).sum::<u64>()
    }

    /// Memory of the initial RAM disks in the new kernel when it unpacks them, bytes.
    #[must_use]
    pub fn unpacked(&self) -> u64 {
        let contents = self
            .initrds
            .iter()
            .filter_map(|initrd| initrd.content.as_ref().ok());
        contents.map(|one| one.size + one.unpacked).sum()
    }
}

fn open(path: &Path) -> Result<File, Defect> {
    files::open_regular(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Defect::Unusable(error.to_string()),
        _ => Defect::reading(&error),
    })
}

fn initrd(root: &Path, path: &Path, is_last: bool) -> Initrd {
    let content = open(&files::below(root, path)).and_then(|file| {
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        if size > LARGEST_FILE {
            let reason = "it is larger than the 4 GiB that kexec_file_load reads".to_owned();
            return Err(Defect::Unusable(reason));
        }
        if is_of_uboot(&file).map_err(|error| Defect::reading(&error))? {
            let reason = "it has a header of U-Boot (mkimage), which U-Boot takes off and kexec does \
                          not; name the file that it was made of with --initrd";
            return Err(Defect::Unusable(reason.to_owned()));
        }
        // The kernel looks for one at the end of all initial RAM disks.
        let config = match is_last {
            true => bootconfig(&file, size).map_err(|error| Defect::reading(&error))?,
            false => 0,
        };
        let archives = (&file).take(size - config);
        let mut found = verified(BufReader::new(archives))?;
        found.size += config;
        match found.junk {
            // The kernel gets all of them as one, and stops at what is none.
            Some(start) if !is_last => Err(Defect::Unusable(format!(
                "at byte {start} begins what is no archive, and the kernel does not come to the \
                 initial RAM disks behind it"
            ))),
            _ => Ok(found),
        }
    });
    Initrd {
        path: path.to_owned(),
        content,
    }
}

fn is_of_uboot(file: &File) -> io::Result<bool> {
    let mut magic = [0; UBOOT_MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| magic == UBOOT_MAGIC),
    }
}

/// Bytes of a boot configuration at the end of a file of this size.
fn bootconfig(file: &File, size: u64) -> io::Result<u64> {
    let start = size.saturating_sub(BOOTCONFIG_TAIL as u64);
    let mut tail = vec![0; (size - start) as usize];
    file.read_exact_at(&mut tail, start)?;
    Ok(bootconfig_size(&tail) as u64)
}

fn verified(reader: impl io::BufRead) -> Result<Verified, Defect> {
    initramfs::verify(reader).map_err(|defect| match &defect {
        initramfs::Defect::Read(error) => Defect::reading(error),
        initramfs::Defect::NotUnpacked { .. } => Defect::Unverified(defect.to_string()),
        initramfs::Defect::Unsupported { remedy, .. } => Defect::Unsupported(Unsupported {
            reason: defect.to_string(),
            remedy,
        }),
        _ => Defect::Unusable(defect.to_string()),
    })
}

/// The kernel in a file, decompressed once: what kexec_file_load(2) takes may still be corrupt. If it is
/// alone, an initial RAM disk is looked for in it.
fn of_bytes(bytes: &[u8], is_alone: bool) -> Result<KernelImage, Defect> {
    let unusable = |error: &dyn std::error::Error| Defect::Unusable(chain(error));
    let refused = |reason: Reason| match reason {
        Reason::Foreign(_) | Reason::ThirtyTwoBit => Defect::Unsupported(Unsupported {
            reason: reason.to_string(),
            remedy: "choose an x86-64 kernel with --kernel or --entry, or check on the machine \
                     that this one is for",
        }),
        reason => unusable(&reason),
    };
    let image = Image::parse(bytes).map_err(refused)?;
    let linux = match &image {
        Image::BzImage(_) => bytes,
        Image::Uki(uki) => uki.linux,
        Image::Vmlinux(_) => return Err(not_taken("an uncompressed vmlinux")),
        Image::Compressed(compression, _) => {
            return Err(not_taken(&format!("a vmlinux compressed by {compression}")));
        }
        _ => return Err(not_taken("an image of another kind")),
    };
    let header = BzImage::parse(linux).map_err(refused)?;
    let vmlinux = image.vmlinux().map_err(refused)?;
    let signed = Signed::parse(linux);
    if signed.as_ref().is_some_and(differs) {
        let reason = "it is corrupt: its content is not the one that was signed";
        return Err(Defect::Unusable(reason.to_owned()));
    }
    Ok(KernelImage {
        size: linux.len() as u64,
        init_size: header.init_size.into(),
        cmdline_size: header.cmdline_size as usize,
        is_signed: signed.is_some(),
        is_relocatable: header.is_relocatable,
        has_initrd: is_alone && initramfs::is_built_in(&vmlinux),
    })
}

/// Whether the content of an image is another than its signature says, if that is by SHA-256. LZ4, by
/// which kernels may be compressed, does not notice all damage.
fn differs(signed: &Signed<'_>) -> bool {
    let has = |part: &[u8]| {
        signed
            .signature
            .windows(part.len())
            .any(|window| window == part)
    };
    let mut context = Context::new(&SHA256);
    for part in &signed.parts {
        context.update(part);
    }
    has(SHA256_ID) && !has(context.finish().as_ref())
}

fn not_taken(what: &str) -> Defect {
    Defect::Unusable(format!("it is {what}, and kexec_file_load takes a bzImage"))
}

/// Option of the kernel's configuration that unpacks an initial RAM disk.
pub(super) const fn option(compression: Compression) -> &'static str {
    match compression {
        Compression::Gzip => "CONFIG_RD_GZIP",
        Compression::Xz => "CONFIG_RD_XZ",
        Compression::Lzma => "CONFIG_RD_LZMA",
        Compression::Zstd => "CONFIG_RD_ZSTD",
        Compression::Lz4 => "CONFIG_RD_LZ4",
        Compression::Bzip2 => "CONFIG_RD_BZIP2",
    }
}
