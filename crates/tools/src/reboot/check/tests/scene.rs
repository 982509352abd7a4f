//! A machine below a directory: one that passes all rules, to be changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use brisk_host::boot_entries::Once;
use brisk_vm::initramfs::cpio::{DIR, Writer};
use tempfile::TempDir;

use crate::reboot::Target;
use crate::reboot::check::{Preflight, Trial};

/// Release that runs, and that is to be started.
pub(super) const RELEASE: &str = "6.1.0-9-amd64";
/// Vendor of EFI variables of the specification.
pub(super) const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
const CMDLINE: &str = "root=UUID=5f3c ro quiet";

/// A machine.
pub(super) struct Scene {
    root: TempDir,
    pub(super) target: Target,
    pub(super) trial: Trial,
    pub(super) once: Option<(Once, Option<String>)>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self {
            root: tempfile::tempdir().unwrap(),
            target: Target {
                release: RELEASE.to_owned(),
                kernel: format!("/boot/vmlinuz-{RELEASE}").into(),
                initrds: vec![format!("/boot/initrd.img-{RELEASE}").into()],
                cmdline: CMDLINE.to_owned(),
                is_uki: false,
            },
            trial: Trial::Passed,
            once: None,
        };
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"),
            ("proc/sys/kernel/kexec_load_disabled", "0\n"),
            ("proc/sys/kernel/kexec_load_limit_reboot", "-1\n"),
            ("proc/sys/kernel/bootloader_type", "114\n"),
            (
                "proc/cmdline",
                "BOOT_IMAGE=/boot/vmlinuz-6.1.0-9-amd64 root=UUID=5f3c ro quiet\n",
            ),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz\n\
                 flags\t\t: fpu vme sse2 aes\nbugs\t\t: cpu_meltdown spectre_v1\n",
            ),
            ("proc/mounts", "/dev/sda2 / ext4 rw,relatime 0 0\n"),
            ("proc/modules", "ext4 983040 1 - Live 0x0000000000000000\n"),
            (
                "proc/self/status",
                "Name:\tbrisk\nCapEff:\t000001ffffffffff\n",
            ),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("sys/kernel/kexec_loaded", "0\n"),
            (
                "sys/kernel/security/lockdown",
                "[none] integrity confidentiality\n",
            ),
            ("sys/class/graphics/fb0/name", "EFI VGA\n"),
            ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
            ("sys/class/dmi/id/product_name", "PowerEdge R640\n"),
            (
                "dev/kmsg",
                "6,1,0,-;Linux version 6.1.0-9-amd64\n6,2,0,-;Command line: ro\n",
            ),
            (
                "boot/config-6.1.0-9-amd64",
                "CONFIG_RD_GZIP=y\n# CONFIG_RD_LZ4 is not set\n",
            ),
            ("etc/crypttab", "# name device key options\n"),
        ] {
            scene.file(path, text);
        }
        scene.memory(8 << 20, 6 << 20);
        scene.variable("SecureBoot", GLOBAL, &[0]);
        scene.bytes("boot/vmlinuz-6.1.0-9-amd64", &kernel());
        scene.bytes("boot/initrd.img-6.1.0-9-amd64", &initrd());
        scene
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn read(&self) -> Preflight {
        let mut preflight = Preflight::read(self.root(), &self.target, None);
        preflight.once = self.once.clone();
        preflight.trial = self.trial.clone();
        preflight
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        self.bytes(path, text.as_bytes());
    }

    pub(super) fn bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A program.
    pub(super) fn program(&self, path: &str) {
        self.file(path, "");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.root().join(path), mode).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A device that a driver has, on a bus.
    pub(super) fn device(&self, bus: &str, address: &str, driver: &str) {
        let link = format!("sys/bus/{bus}/devices/{address}/driver");
        self.link(&link, &format!("../../../bus/{bus}/drivers/{driver}"));
    }

    /// A graphics card with a connector.
    pub(super) fn card(&self, driver: &str, status: &str) {
        let link = "sys/class/drm/card0/device/driver";
        self.link(link, &format!("../../../bus/pci/drivers/{driver}"));
        self.file("sys/class/drm/card0-HDMI-A-1/status", status);
        self.file("sys/class/drm/version", "drm 1.1.0\n");
    }

    pub(super) fn variable(&self, name: &str, vendor: &str, value: &[u8]) {
        let path = format!("sys/firmware/efi/efivars/{name}-{vendor}");
        self.bytes(&path, &[&[7, 0, 0, 0], value].concat());
    }

    /// Memory in KiB, all and what is available.
    pub(super) fn memory(&self, all: u64, available: u64) {
        let text = format!(
            "MemTotal:       {all} kB\nMemFree:          1024 kB\nMemAvailable:   {available} kB\n"
        );
        self.file("proc/meminfo", &text);
    }

    pub(super) fn cmdline(&mut self, text: &str) {
        text.clone_into(&mut self.target.cmdline);
    }
}

/// A vmlinux of one segment in the upper half.
fn vmlinux() -> Vec<u8> {
    let mut elf = vec![0; 0x200];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
    let mut put = |at: usize, value: u64, size: usize| {
        elf[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    put(20, 1, 4);
    put(32, 64, 8);
    put(52, 64, 2);
    put(54, 56, 2);
    put(56, 1, 2);
    // PT_LOAD, offset, addresses, sizes, alignment.
    put(64, 1, 4);
    put(72, 0x100, 8);
    put(80, 0xffff_ffff_8100_0000, 8);
    put(88, 0x100_0000, 8);
    put(96, 0x100, 8);
    put(104, 0x100, 8);
    put(112, 0x20_0000, 8);
    elf
}

/// A bzImage of protocol 2.15 whose payload is not compressed.
pub(super) fn kernel() -> Vec<u8> {
    kernel_with(&[])
}

/// The same with something behind its code.
pub(super) fn kernel_with(built_in: &[u8]) -> Vec<u8> {
    let payload = [&vmlinux()[..], built_in].concat();
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
    image[0x211] = 1;
    image[0x236..0x238].copy_from_slice(&0x7f_u16.to_le_bytes());
    image[0x238..0x23c].copy_from_slice(&2047_u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image
}

/// A unified kernel image of these sections.
pub(super) fn uki(sections: &[(&[u8; 8], &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x40;
    bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
    bytes[0x44..0x46].copy_from_slice(&0x8664_u16.to_le_bytes());
    bytes[0x46] = sections.len() as u8;
    bytes[0x54] = 240;
    bytes[0x58..0x5a].copy_from_slice(&0x20b_u16.to_le_bytes());
    bytes[0x58 + 60..0x58 + 64].copy_from_slice(&0x400_u32.to_le_bytes());
    bytes[0x58 + 108] = 16;
    for (number, (name, content)) in sections.iter().enumerate() {
        let at = 0x58 + 240 + 40 * number;
        let (start, size) = (bytes.len() as u32, content.len() as u32);
        bytes[at..at + 8].copy_from_slice(*name);
        for (place, value) in [(8, size), (12, start), (16, size), (20, start)] {
            bytes[at + place..at + place + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes.extend(*content);
    }
    bytes
}

/// An initial RAM disk that is not compressed.
pub(super) fn initrd() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.add("bin", DIR | 0o755, (0, 0), &[]).unwrap();
    writer.finish().unwrap()
}
