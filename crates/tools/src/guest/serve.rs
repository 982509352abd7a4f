//! Daemons that serve directories of the host to a guest.

use brisk_vm::virtiofs::Served;

use super::error::Error;
use super::facts::Facts;
use super::plan::Plan;

/// Starts a virtiofsd for each directory that needs one.
pub(crate) fn serve(plan: &Plan, facts: &Facts) -> Result<Vec<Served>, Error> {
    let mut served = Vec::new();
    for (path, access) in &plan.served {
        let daemon = facts
            .virtiofsd
            .as_ref()
            .ok_or_else(|| Error::unfit("there is no virtiofsd", "install virtiofsd"))?;
        let serve = |source| Error::Serve {
            path: path.clone(),
            source,
        };
        served.push(daemon.serve(path, *access).map_err(serve)?);
    }
    Ok(served)
}
