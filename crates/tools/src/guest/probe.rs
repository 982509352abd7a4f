//! Trying KVM by a bounded boot of a real guest.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Instant;

use brisk_sys::wait_for;
use brisk_vm::cache::Cache;
use brisk_vm::guest::{Decoder, Event};
use brisk_vm::initramfs;
use brisk_vm::launch::Running;
use brisk_vm::qemu::Accelerator;
use rustix::event::{PollFd, PollFlags};

use super::accelerator::{KIND, LIMIT, outcome};
use super::error::Error;
use super::facts::{Facts, gather};
use super::options::Options;
use super::plan::plan;
use super::root::Root;

impl Facts {
    /// Boots a guest with KVM to see whether it works, where that matters and is not known yet for
    /// this boot of the host.
    ///
    /// # Errors
    /// If that guest cannot be prepared or started.
    pub fn probe(
        &mut self,
        options: &Options,
        cache: &Cache,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let Some(key) = self.untried.take() else {
            return Ok(());
        };
        let entry = cache.get_or_build(KIND, &key, |_: &mut File| {
            progress("trying KVM, once in a boot of this host");
            let begun = Instant::now();
            let works = boots_within_limit(options, self, cache)?;
            Ok::<_, Error>(works.then(|| begun.elapsed().as_millis() as u64))
        })?;
        self.accelerator = outcome(entry.meta);
        Ok(())
    }
}

/// [`gather`] and [`Facts::probe`].
///
/// # Errors
/// Of either.
pub fn gather_and_probe(
    options: &Options,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<Facts, Error> {
    let mut facts = gather(options, cache, progress)?;
    facts.probe(options, cache, progress)?;
    Ok(facts)
}

/// Whether the kernel reaches our init with KVM in time.
fn boots_within_limit(options: &Options, facts: &Facts, cache: &Cache) -> Result<bool, Error> {
    let mut facts = facts.clone();
    facts.accelerator = (Accelerator::Kvm, String::new());
    facts.root = Root::None;
    facts.busybox = facts.busybox.or(Some(facts.qemu.clone()));
    let mut options = options.clone();
    options.hardware.shares.clear();
    options.command.terminal = None;
    options.command.user = None;
    options.hardware.qemu_args.clear();
    let mut plan = plan(&options, &facts)?;
    plan.initramfs.files.clear();
    let built = initramfs::initramfs(
        &plan.initramfs,
        &plan.release,
        plan.modules.as_deref(),
        cache,
    )?;
    plan.machine.boot.initramfs = built.path;
    let deadline = Instant::now() + LIMIT;
    let mut running = Running::start(&plan.machine, Vec::new(), plan.unprivileged)?;
    let mut decoder = Decoder::new();
    let mut buffer = [0; 4096];
    loop {
        let mut fds = [PollFd::from_borrowed_fd(
            running.guest.as_fd(),
            PollFlags::IN,
        )];
        if !matches!(wait_for(&mut fds, Some(deadline)), Ok(1..)) {
            return Ok(false);
        }
        match running.guest.read(&mut buffer) {
            Ok(count @ 1..) => decoder.push(&buffer[..count]),
            _ => return Ok(false),
        }
        match decoder.next_event() {
            Ok(Some(Event::Hello(_))) => return Ok(true),
            Ok(None) => {}
            _ => return Ok(false),
        }
    }
}
