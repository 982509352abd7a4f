//! Whatever kernels are installed on this machine can be extracted.

use std::path::Path;

use brisk_host::kernel::{Installed, installed};
use brisk_vm::cache::Cache;
use brisk_vm::kernel;

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
