//! Files of the host that a definition names.

use std::path::Path;

use brisk_host::kernel as installed;
use brisk_vm::cache::Cache;
use brisk_vm::kernel;

use super::definition::Definition;
use super::error::Error;
use super::paths::VmPaths;
use crate::guest::{self, facts, root};

/// Checks that a new VM could boot from the kernel, root, disks and directories that its definition
/// names. Nothing is unpacked, and no QEMU is looked for.
///
/// # Errors
/// What its start would say.
pub fn check_requirements(
    paths: &VmPaths,
    definition: &Definition,
    cache: &Cache,
) -> Result<(), Error> {
    let mut options = paths.options(definition)?;
    options.root.unread = true;
    if let Some(image) = options.kernel.image.as_deref() {
        let named = installed::resolve(Path::new("/"), Some(image), &installed::running());
        let named = named.map_err(guest::Error::FindKernel)?;
        kernel::vmlinux(&named.image, cache).map_err(guest::Error::from)?;
    }
    let (root, _) = root::find(&options, cache, &mut |_| {})?;
    facts::check_shares(&options)?;
    match root::attach(&options, &root) {
        // The other VM may be gone by the time it starts.
        Ok(_) | Err(guest::Error::Reserved { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
