//! Whatever kernels are installed on this machine can be extracted, and their modules packed.

use std::path::Path;

use brisk_host::kernel::{Installed, installed};
use brisk_vm::cache::Cache;
use brisk_vm::initramfs::{Content, Request, Signatures, Wanted, cpio, initramfs};
use brisk_vm::kernel;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

fn kernels() -> Vec<Installed> {
    let kernels = installed(Path::new("/"));
    assert!(
        !kernels.is_empty(),
        "no kernel is installed to test with; try: apt install linux-image-cloud-amd64"
    );
    kernels
}

#[test]
fn every_kernel_is_extracted_and_cached() {
    for installed in kernels() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let first = kernel::vmlinux(&installed.image, &cache).unwrap();
        assert_eq!(first.version, installed.version);
        assert!(first.fresh);
        let whole = kernel::extract(&installed.image).unwrap();
        let slim = std::fs::read(&first.path).unwrap();
        assert_eq!(kernel::pvh_entry(&whole), kernel::pvh_entry(&slim));
        assert_eq!(first.pvh, kernel::pvh_entry(&slim).is_some());
        assert!(slim.len() < whole.len());
        let second = kernel::vmlinux(&installed.image, &cache).unwrap();
        assert!(!second.fresh);
        assert_eq!(second.path, first.path);
    }
}

fn request(signatures: Signatures) -> Request {
    let modules = [
        "overlay",
        "virtio_blk",
        "virtio-mmio",
        "erofs",
        "ext4",
        "virtiofs",
    ];
    Request {
        init: Content::Bytes(b"init".to_vec()),
        modules: modules
            .map(|name| Wanted {
                module: name.to_owned(),
                reason: "test".to_owned(),
            })
            .to_vec(),
        deny: Vec::new(),
        files: Vec::new(),
        signatures,
    }
}

/// Names and contents of the sections that a loader keeps or needs.
fn sections(module: &[u8]) -> Vec<(usize, String, Vec<u8>)> {
    let file = ElfFile64::<LittleEndian>::parse(module).expect("a module is an ELF");
    file.sections()
        .map(|s| {
            (
                s.index().0,
                s.name().expect("its names are whole").to_owned(),
                s.data().expect("its sections are whole").to_vec(),
            )
        })
        .filter(|(_, name, _)| {
            !name.is_empty()
                && ![".BTF", ".BTF.base", ".comment", ".note.GNU-stack"].contains(&name.as_str())
        })
        .collect()
}

#[test]
fn modules_are_packed_in_order_and_lose_nothing_the_loader_needs() {
    for installed in kernels() {
        let modules = installed
            .modules
            .as_deref()
            .expect("a kernel package has modules");
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let make = |signatures| {
            initramfs(
                &request(signatures),
                &installed.version,
                Some(modules),
                &cache,
            )
            .unwrap()
        };
        let (dropped, kept) = (make(Signatures::Drop), make(Signatures::Keep));
        assert!(dropped.fresh && !make(Signatures::Drop).fresh);
        let (small, whole) = (
            std::fs::read(&dropped.path).unwrap(),
            std::fs::read(&kept.path).unwrap(),
        );
        let (small, whole) = (cpio::read(&small).unwrap(), cpio::read(&whole).unwrap());
        let count = small
            .entries
            .iter()
            .filter(|e| e.path.ends_with(".ko"))
            .count();
        assert_eq!(count, dropped.contents.modules.len());
        assert!(count > 0 || dropped.contents.builtin.len() == 6);
        for (small, whole) in small.entries.iter().zip(&whole.entries) {
            assert_eq!(small.path, whole.path);
            if small.path.ends_with(".ko") {
                assert!(
                    sections(small.data) == sections(whole.data),
                    "{}",
                    small.path
                );
                assert!(small.data.len() < whole.data.len(), "{}", small.path);
            }
        }
        let list: String = dropped
            .contents
            .modules
            .iter()
            .map(|m| format!("/{}\n", m.path))
            .collect();
        let listed = small.entries.iter().find(|e| e.path == "modules").unwrap();
        assert_eq!(listed.data, list.as_bytes());
    }
}
