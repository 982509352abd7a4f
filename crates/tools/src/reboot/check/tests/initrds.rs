//! Cases of rules about initial RAM disks that the kernel unpacks, or does not.

use brisk_vm::initramfs::cpio::{FILE, Writer};

use super::cases::{Case, case};
use super::files::{INITRD, alone, gzipped};
use super::scene::{initrd, kernel_with};
use crate::reboot::check::Consequence::{Note, Refuse, Warn};

/// Begins a file of lzop, as that writes it.
const LZO: &[u8] = b"\x89LZO\0\r\n\x1a\n\x10\x30\x20\xa0\x09\x40\x01\x05\x03\0\0\x01";
/// An initial RAM disk as `xz --check=crc32` makes it.
const CRC32: &[u8] =
    b"\xfd7zXZ\x00\x00\x01i\"\xde6\x02\x00!\x01\x0c\x00\x00\x00\x8f\x98A\x9c\xe0\x01\xff\x00X]\
      \x00\x18\x0d\xdd\x04b2\x14\xda\xdd\xe9*'S\xf2\xc7,\\`\xd4`\xd6\xde\x17\xd4\xdd\x00\xc0L,x\
      \x93\xdc\x82\x16\xdb&\xe7\x9d\xc7`\xa8\xa2\xeb\xa1\xfe\xa9\x10\xfe\xd8@N\xe4\x8a+x,\xb7\
      \xa8a7\xb3Gx<@\xff\xea\x8b\xfa\x11\xd8-6/?\xe9K\xdb\xbc\x98(]\x9d\xb15\x04\x00\x00\x00\
      \x18\xb25D\x00\x01p\x80\x04\x00\x00\x00\xd9\xfe\xf3\xf6>0\x0d\x8b\x02\x00\x00\x00\x00\x01\
      YZ";
/// The same by xz without options.
const CRC64: &[u8] =
    b"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x02\x00!\x01\x0c\x00\x00\x00\x8f\x98A\x9c\xe0\x01\xff\
      \x00X]\x00\x18\x0d\xdd\x04b2\x14\xda\xdd\xe9*'S\xf2\xc7,\\`\xd4`\xd6\xde\x17\xd4\xdd\x00\
      \xc0L,x\x93\xdc\x82\x16\xdb&\xe7\x9d\xc7`\xa8\xa2\xeb\xa1\xfe\xa9\x10\xfe\xd8@N\xe4\x8a+x\
      ,\xb7\xa8a7\xb3Gx<@\xff\xea\x8b\xfa\x11\xd8-6/?\xe9K\xdb\xbc\x98(]\x9d\xb15\x04\x00\x00\
      \x00\xb8})\xfa\xb6\xd7/#\x00\x01t\x80\x04\x00\x00\x00\xcf\xbcbm\xb1\xc4g\xfb\x02\x00\x00\
      \x00\x00\x04YZ";
/// The same by `xz --check=crc32 --x86 --lzma2`.
const X86: &[u8] =
    b"\xfd7zXZ\x00\x00\x01i\"\xde6\x02\x01\x04\x00!\x01\x0c\x00\xd6|\x18\xaf\xe0\x01\xff\x00X]\
      \x00\x18\x0d\xdd\x04b2\x14\xda\xdd\xe9*'S\xf2\xc7,\\`\xd4`\xd6\xde\x17\xd4\xdd\x00\xc0L,x\
      \x93\xdc\x82\x16\xdb&\xe7\x9d\xc7`\xa8\xa2\xeb\xa1\xfe\xa9\x10\xfe\xd8@N\xe4\x8a+x,\xb7\
      \xa8a7\xb3Gx<@\xff\xea\x8b\xfa\x11\xd8-6/?\xe9K\xdb\xbc\x98(]\x9d\xb15\x04\x00\x00\x00\
      \x18\xb25D\x00\x01p\x80\x04\x00\x00\x00\xd9\xfe\xf3\xf6>0\x0d\x8b\x02\x00\x00\x00\x00\x01\
      YZ";

/// An initial RAM disk with the program that the kernel starts.
fn with_init() -> Vec<u8> {
    let mut writer = Writer::default();
    let script = b"#!/bin/sh\n";
    writer.add("init", FILE | 0o755, (0, 0), script).unwrap();
    writer.finish().unwrap()
}

pub(super) const CASES: &[Case] = &[
    case(
        "initrd-unusable",
        "compressed by LZO",
        Warn,
        |scene| {
            scene.bytes(INITRD, LZO);
            scene.file("boot/config-6.1.0-9-amd64", "CONFIG_RD_LZO=y\n");
        },
        |_| {},
    ),
    case(
        "initrd-unusable",
        "the kernel is built without CONFIG_RD_LZO",
        Refuse,
        |scene| scene.bytes(INITRD, LZO),
        |_| {},
    ),
    case(
        "initrd-unusable",
        "its check is CRC64, which is xz's default",
        Refuse,
        |scene| scene.bytes(INITRD, CRC64),
        |scene| scene.bytes(INITRD, CRC32),
    ),
    case(
        "initrd-unusable",
        "LZ4's frame format",
        Refuse,
        |scene| {
            let frame = &b"\x04\x22\x4d\x18abcdefgh"[..];
            scene.bytes(INITRD, &[&initrd()[..], frame].concat());
        },
        |_| {},
    ),
    case(
        "initrd-unusable",
        "bytes behind its archives, from byte",
        Warn,
        |scene| scene.bytes(INITRD, &[&with_init()[..], b"hsqs"].concat()),
        |scene| scene.bytes(INITRD, &[&with_init()[..], &[0; 8]].concat()),
    ),
    case(
        "initrd-unusable",
        "the kernel does not come to the initial RAM disks behind it",
        Refuse,
        |scene| {
            scene.bytes("boot/first", &[&with_init()[..], b"hsqs"].concat());
            scene.target.initrds.insert(0, "/boot/first".into());
        },
        |scene| {
            scene.bytes("boot/first", &with_init());
            scene.target.initrds.insert(0, "/boot/first".into());
        },
    ),
    case(
        "initrd-compression",
        "the kernel is built without CONFIG_XZ_DEC_X86",
        Refuse,
        |scene| {
            scene.bytes(INITRD, X86);
            scene.file("boot/config-6.1.0-9-amd64", "CONFIG_RD_XZ=y\n");
        },
        |scene| {
            scene.bytes(INITRD, X86);
            let text = "CONFIG_RD_XZ=y\nCONFIG_XZ_DEC_X86=y\n";
            scene.file("boot/config-6.1.0-9-amd64", text);
        },
    ),
    case(
        "initrd-none",
        "but the one that is built into the kernel",
        Note,
        |scene| {
            alone(scene, "root=UUID=5f3c");
            scene.file(
                "boot/config-6.1.0-9-amd64",
                "CONFIG_INITRAMFS_SOURCE=\"/usr/src/initramfs\"\n",
            );
        },
        |scene| {
            alone(scene, "root=/dev/sda1");
            let text = "CONFIG_INITRAMFS_SOURCE=\"\"\n";
            scene.file("boot/config-6.1.0-9-amd64", text);
        },
    ),
    // Without its configuration, as one that somebody built.
    case(
        "initrd-none",
        "but the one that is built into the kernel",
        Note,
        |scene| {
            alone(scene, "root=UUID=5f3c");
            scene.remove("boot/config-6.1.0-9-amd64");
            scene.bytes(
                "boot/vmlinuz-6.1.0-9-amd64",
                &kernel_with(&gzipped(&with_init())),
            );
        },
        |scene| {
            alone(scene, "root=/dev/sda1");
            scene.bytes(
                "boot/vmlinuz-6.1.0-9-amd64",
                &kernel_with(&gzipped(&initrd())),
            );
        },
    ),
];
