//! Threads of a VM's QEMU, by its own account.

use serde_json::json;

use super::error::Error;
use super::paths::VmPaths;
use super::process::{GLANCE, connect_within, glance};

/// Numbers of the threads that run the virtual CPUs, in the order of the CPUs (QMP
/// `query-cpus-fast`). Under TCG one thread may run them all. None if the VM does not run.
///
/// # Errors
/// If QEMU does not answer soon: another command may talk to it.
pub fn vcpu_threads(paths: &VmPaths) -> Result<Vec<u32>, Error> {
    let Some(stream) = connect_within(paths, GLANCE)? else {
        return Ok(Vec::new());
    };
    let mut control = glance(&stream);
    control.execute("qmp_capabilities", &json!(null))?;
    let answer = control.execute("query-cpus-fast", &json!(null))?;
    let list = answer.as_array().map_or(&[][..], Vec::as_slice);
    let mut threads: Vec<(u64, u32)> = list
        .iter()
        .filter_map(|cpu| {
            let thread = u32::try_from(cpu["thread-id"].as_u64()?).ok()?;
            Some((cpu["cpu-index"].as_u64()?, thread))
        })
        .collect();
    threads.sort_unstable();
    Ok(threads.into_iter().map(|(_, thread)| thread).collect())
}
