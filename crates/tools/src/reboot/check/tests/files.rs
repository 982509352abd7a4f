//! Cases of rules about the files and the command line.

use std::io::Write;

use brisk_vm::initramfs::cpio::{FILE, Writer};

use super::cases::{Case, case};
use super::of;
use super::scene::{RELEASE, Scene, initrd, kernel, uki};
use crate::reboot::check::Consequence::{Cold, Note, Refuse, Warn};

const KERNEL: &str = "boot/vmlinuz-6.1.0-9-amd64";
pub(super) const INITRD: &str = "boot/initrd.img-6.1.0-9-amd64";

pub(super) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An initial RAM disk of many zeros.
fn large(mib: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    let zeros = vec![0; mib << 20];
    writer.add("zeros", FILE | 0o644, (0, 0), &zeros).unwrap();
    writer.finish().unwrap()
}

/// An initial RAM disk with a boot configuration of this check sum behind it.
fn configured(sum: u32) -> Vec<u8> {
    let mut bytes = initrd();
    bytes.extend(b"a=");
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(sum.to_le_bytes());
    bytes.extend(b"#BOOTCONFIG\n");
    bytes
}

/// A kernel that takes so much memory.
fn of_size(mib: u32) -> Vec<u8> {
    let mut image = kernel();
    image[0x260..0x264].copy_from_slice(&(mib << 20).to_le_bytes());
    image
}

/// A root at a place, with no initial RAM disk.
pub(super) fn alone(scene: &mut Scene, root: &str) {
    scene.target.initrds.clear();
    scene.file("proc/cmdline", root);
    scene.cmdline(root);
}

pub(super) const CASES: &[Case] = &[
    case(
        "kernel-missing",
        "there is no /boot/vmlinuz-6.1.0-9-amd64",
        Refuse,
        |scene| scene.remove(KERNEL),
        |scene| scene.bytes(KERNEL, b""),
    ),
    case(
        "kernel-unusable",
        "it is not a kernel but a script",
        Refuse,
        |scene| scene.file(KERNEL, "#!/bin/sh\n"),
        |scene| scene.remove(KERNEL),
    ),
    case(
        "kernel-unusable",
        "truncated",
        Refuse,
        |scene| scene.bytes(KERNEL, &kernel()[..1100]),
        |scene| scene.bytes(KERNEL, &[kernel(), vec![0; 100]].concat()),
    ),
    case(
        "kernel-unusable",
        "for arm64",
        Refuse,
        // The magic number of an arm64 Image.
        |scene| {
            let mut image = vec![0; 4096];
            image[56..60].copy_from_slice(b"ARM\x64");
            scene.bytes(KERNEL, &image);
        },
        |_| {},
    ),
    case(
        "kernel-unusable",
        "takes a bzImage",
        Refuse,
        |scene| scene.bytes(KERNEL, &gzipped(&kernel())),
        |_| {},
    ),
    case(
        "kernel-unusable",
        "it is not a regular file",
        Refuse,
        |scene| scene.target.kernel = "/boot".into(),
        |_| {},
    ),
    case(
        "kernel-fixed",
        "cannot be loaded above 4 GiB",
        Cold,
        |scene| {
            let mut image = kernel();
            // XLF_KERNEL_64 alone.
            image[0x236] = 1;
            scene.bytes(KERNEL, &image);
        },
        |scene| {
            let mut image = kernel();
            image[0x236] = 3;
            scene.bytes(KERNEL, &image);
        },
    ),
    case(
        "kernel-older",
        "6.1.0-8-amd64 is older than the running kernel 6.1.0-9-amd64",
        Note,
        |scene| "6.1.0-8-amd64".clone_into(&mut scene.target.release),
        |scene| "6.1.0-10-amd64".clone_into(&mut scene.target.release),
    ),
    case(
        "initrd-missing",
        "/boot/initrd.img-6.1.0-9-amd64 is missing",
        Refuse,
        |scene| scene.remove(INITRD),
        |scene| scene.bytes(INITRD, b""),
    ),
    case(
        "initrd-missing",
        "/boot/second is missing",
        Refuse,
        |scene| scene.target.initrds.push("/boot/second".into()),
        |scene| scene.target.initrds.clear(),
    ),
    case(
        "initrd-unusable",
        "truncated",
        Refuse,
        |scene| scene.bytes(INITRD, &gzipped(&initrd())[..60]),
        |scene| scene.bytes(INITRD, &gzipped(&initrd())),
    ),
    case(
        "initrd-unusable",
        "neither a cpio archive nor a known compression",
        Refuse,
        |scene| scene.bytes(INITRD, &[&initrd()[..], b"hsqs"].concat()),
        |scene| scene.bytes(INITRD, &[&initrd()[..], &[0; 8], &initrd()].concat()),
    ),
    case(
        "initrd-unusable",
        "has a header of U-Boot",
        Refuse,
        |scene| {
            scene.bytes(
                INITRD,
                &[&b"\x27\x05\x19\x56"[..], &[0; 60], &initrd()[..]].concat(),
            )
        },
        |scene| scene.bytes(INITRD, &initrd()),
    ),
    case(
        "initrd-unusable",
        "empty",
        Refuse,
        |scene| scene.bytes(INITRD, &[0; 512]),
        |_| {},
    ),
    case(
        "initrd-compression",
        "compressed by gzip, and the kernel is built without CONFIG_RD_GZIP",
        Refuse,
        |scene| {
            scene.bytes(INITRD, &gzipped(&initrd()));
            scene.file("boot/config-6.1.0-9-amd64", "# CONFIG_RD_GZIP is not set\n");
        },
        |scene| scene.bytes(INITRD, &gzipped(&initrd())),
    ),
    case(
        "initrd-compression",
        "CONFIG_RD_GZIP",
        Refuse,
        |scene| {
            scene.bytes(INITRD, &gzipped(&initrd()));
            scene.remove("boot/config-6.1.0-9-amd64");
            scene.file("usr/lib/modules/6.1.0-9-amd64/config", "CONFIG_RD_ZSTD=y\n");
        },
        |scene| {
            scene.bytes(INITRD, &gzipped(&initrd()));
            scene.remove("boot/config-6.1.0-9-amd64");
        },
    ),
    case(
        "initrd-none",
        "the root is UUID=5f3c",
        Refuse,
        |scene| alone(scene, "root=UUID=5f3c"),
        |scene| alone(scene, "root=PARTUUID=5f3c"),
    ),
    case(
        "initrd-none",
        "/dev/mapper/root",
        Refuse,
        |scene| alone(scene, "root=/dev/sda1 root=/dev/mapper/root"),
        |scene| alone(scene, "root=/dev/mapper/root root=/dev/sda1"),
    ),
    case(
        "command-line-long",
        "2017 bytes, and kexec takes 2016",
        Refuse,
        |scene| {
            let text = format!("root=UUID=5f3c {}", "x".repeat(2017 - 15));
            scene.cmdline(&text);
        },
        |scene| {
            let text = format!("root=UUID=5f3c {}", "x".repeat(2016 - 15));
            scene.cmdline(&text);
        },
    ),
    case(
        "initrd-none",
        "there is no initial RAM disk, and the running kernel was started with one",
        Warn,
        |scene| {
            alone(scene, "root=/dev/sda2 ro");
            let mut page = vec![0; 4096];
            page[0x21d] = 1;
            scene.bytes("sys/kernel/boot_params/data", &page);
        },
        |scene| {
            alone(scene, "root=/dev/sda2 ro");
            scene.bytes("sys/kernel/boot_params/data", &[0; 4096]);
        },
    ),
    // A boot configuration, whose check sum is right or not.
    case(
        "initrd-unusable",
        "neither a cpio archive nor a known compression",
        Refuse,
        |scene| scene.bytes(INITRD, &configured(3)),
        |scene| scene.bytes(INITRD, &configured(u32::from(b'a') + u32::from(b'='))),
    ),
    case(
        "initrd-unusable",
        "larger than the 4 GiB",
        Refuse,
        |scene| {
            let file = std::fs::File::create(scene.root().join(INITRD)).unwrap();
            file.set_len((4 << 30) + 1).unwrap();
        },
        |_| {},
    ),
    case(
        "command-line-root",
        "has no root=, and the running kernel's has root=UUID=5f3c",
        Refuse,
        |scene| scene.cmdline("ro quiet rootflags=subvol=@"),
        |scene| {
            scene.cmdline("ro quiet");
            scene.file("proc/cmdline", "ro quiet rootwait\n");
        },
    ),
    case(
        "command-line-root",
        "the root is UUID=77aa, and UUID=5f3c of the running kernel",
        Warn,
        |scene| scene.cmdline("root=UUID=77aa ro"),
        |scene| scene.cmdline("ro root=UUID=77aa root=UUID=5f3c crashkernel=256M"),
    ),
    case(
        "command-line-root",
        "the image's command line has no root=",
        Warn,
        |scene| {
            scene.target.is_uki = true;
            scene.cmdline("ro quiet");
        },
        |scene| scene.target.is_uki = true,
    ),
    case(
        "initrd-compression",
        "compressed by gzip",
        Refuse,
        |scene| {
            scene.bytes(INITRD, &gzipped(&initrd()));
            scene.file("boot/config-6.1.0-9-amd64", "# CONFIG_RD_GZIP is not set\n");
        },
        |scene| {
            scene.bytes(INITRD, &gzipped(&initrd()));
            scene.file("boot/config-6.1.0-9-amd64", "");
        },
    ),
    case(
        "memory",
        "loading takes up to 16 MiB, and 15 MiB are available",
        Warn,
        |scene| {
            scene.bytes(INITRD, &large(8));
            scene.memory(64 << 10, 15 << 10);
        },
        |scene| {
            scene.bytes(INITRD, &large(8));
            scene.memory(64 << 10, 17 << 10);
        },
    ),
    // Two of them are put together before.
    case(
        "memory",
        "loading takes up to 24 MiB",
        Warn,
        |scene| {
            scene.bytes("boot/first", &large(4));
            scene.bytes(INITRD, &large(4));
            scene.target.initrds.insert(0, "/boot/first".into());
            scene.memory(64 << 10, 20 << 10);
        },
        |scene| {
            scene.bytes(INITRD, &large(8));
            scene.memory(64 << 10, 20 << 10);
        },
    ),
    case(
        "memory",
        "take 8 MiB, and kexec allows half of the machine's 12 MiB",
        Refuse,
        |scene| {
            scene.bytes(INITRD, &large(8));
            scene.memory(12 << 10, 11 << 10);
        },
        |_| {},
    ),
    // What the kernel takes beyond its image.
    case(
        "memory",
        "take 40 MiB, and kexec allows half of the machine's 64 MiB",
        Refuse,
        |scene| {
            scene.bytes(KERNEL, &of_size(40));
            scene.memory(64 << 10, 60 << 10);
        },
        |scene| {
            scene.bytes(KERNEL, &of_size(31));
            scene.memory(64 << 10, 60 << 10);
        },
    ),
    case(
        "memory",
        "loading takes 24 MiB, and the machine has 20 MiB",
        Refuse,
        |scene| {
            scene.bytes("boot/first", &large(4));
            scene.bytes(INITRD, &large(4));
            scene.target.initrds.insert(0, "/boot/first".into());
            scene.memory(20 << 10, 19 << 10);
        },
        |_| {},
    ),
    case(
        "memory",
        "unpacks to are 1 MiB",
        Refuse,
        |scene| {
            scene.bytes(INITRD, &gzipped(&large(1)));
            scene.memory(1 << 10, 1 << 10);
        },
        |scene| {
            scene.bytes(INITRD, &gzipped(&large(1)));
            scene.memory(64 << 10, 15 << 10);
        },
    ),
];

#[test]
fn a_unified_kernel_image_brings_its_own_initial_ram_disk() {
    let mut scene = Scene::new();
    scene.target.initrds.clear();
    scene.target.is_uki = true;
    let good = uki(&[(b".linux\0\0", &kernel()), (b".initrd\0", &initrd())]);
    scene.bytes(KERNEL, &good);
    let preflight = scene.read();
    assert_eq!(preflight.findings(), []);
    assert_eq!(preflight.images.initrds.len(), 1);

    let bad = uki(&[(b".linux\0\0", &kernel()), (b".initrd\0", b"junk")]);
    scene.bytes(KERNEL, &bad);
    let findings = scene.read().findings();
    let found = of("initrd-unusable", &findings);
    assert!(
        found[0]
            .what
            .starts_with("the initial RAM disk in /boot/vmlinuz-"),
        "{found:?}"
    );

    let corrupt = uki(&[(b".linux\0\0", &kernel()[..1100])]);
    scene.bytes(KERNEL, &corrupt);
    assert_eq!(of("kernel-unusable", &scene.read().findings()).len(), 1);
}

#[test]
fn a_release_leads_to_no_other_directory() {
    let mut scene = Scene::new();
    scene.bytes(INITRD, &gzipped(&initrd()));
    scene.file("secret", "CONFIG_RD_ZSTD=y\n");
    for release in ["x/../../secret", "../secret", ""] {
        release.clone_into(&mut scene.target.release);
        assert_eq!(scene.read().images.config, None, "{release}");
    }
    RELEASE.clone_into(&mut scene.target.release);
    assert!(scene.read().images.config.is_some());
}
