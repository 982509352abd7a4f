//! KVM or TCG, found out by a bounded real boot.
//!
//! That `/dev/kvm` opens says little: inside some virtual machines it does and yet runs a
//! guest's kernel hundreds of times slower than TCG.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use brisk_host::proc::Procfs;
use brisk_sys::wait_for;
use brisk_vm::cache::Cache;
use brisk_vm::guest::{Decoder, Event};
use brisk_vm::initramfs;
use brisk_vm::launch::Running;
use brisk_vm::qemu::Accelerator;
use rustix::event::{PollFd, PollFlags};

use super::error::Error;
use super::facts::Facts;
use super::options::{Accel, Options};
use super::plan::plan;
use super::root::Root;

/// Kind of the entries in the cache that hold the outcomes of trials.
const KIND: &str = "host";
/// A boot that has not reached init by then is slower than TCG.
const LIMIT: Duration = Duration::from_millis(2500);

/// The accelerator, as far as it can be known without a boot; TCG where a trial is still to be made.
pub(crate) fn known(
    options: &Options,
    facts: &Facts,
    cache: &Cache,
) -> Result<(Accelerator, String), Error> {
    let choice = match without_trial(options)? {
        Trial::Decided(accelerator, reason) => (accelerator, reason),
        Trial::Needed { boot } => match cache.get::<Option<u64>>(KIND, &key(&boot, facts)) {
            Some(entry) => outcome(entry.meta),
            None => (Accelerator::Tcg, "KVM was not tried yet".into()),
        },
    };
    Ok(choice)
}

/// The accelerator, trying KVM where that was not done yet in this boot of the host.
pub(crate) fn probe(
    options: &Options,
    facts: &Facts,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<(Accelerator, String), Error> {
    let boot = match without_trial(options)? {
        Trial::Decided(accelerator, reason) => return Ok((accelerator, reason)),
        Trial::Needed { boot } => boot,
    };
    let entry = cache.get_or_build(KIND, &key(&boot, facts), |_: &mut File| {
        progress("trying KVM, once in a boot of this host");
        let begun = Instant::now();
        let works = boots_within_limit(options, facts, cache)?;
        Ok::<_, Error>(works.then(|| begun.elapsed().as_millis() as u64))
    })?;
    Ok(outcome(entry.meta))
}

/// What is known without a trial.
enum Trial {
    /// This accelerator, and why.
    Decided(Accelerator, String),
    /// Nothing.
    Needed {
        /// Identifies this boot of the host.
        boot: String,
    },
}

fn without_trial(options: &Options) -> Result<Trial, Error> {
    let forced = options.accel == Accel::Kvm;
    // Permission can change at any time, so this is not cached.
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        let reason = format!("/dev/kvm cannot be opened: {error}");
        return if forced {
            Err(Error::unfit(
                reason,
                "load kvm_intel or kvm_amd, add yourself to the group kvm, or use --accel tcg",
            ))
        } else {
            Ok(Trial::Decided(Accelerator::Tcg, reason))
        };
    }
    if forced {
        let reason = "asked for with --accel kvm".into();
        return Ok(Trial::Decided(Accelerator::Kvm, reason));
    }
    Ok(match Procfs::default().boot_id() {
        Some(boot) => Trial::Needed { boot },
        None => Trial::Decided(
            Accelerator::Tcg,
            "this machine does not tell its boot_id".into(),
        ),
    })
}

/// Names the outcome of a trial in the cache.
fn key(boot: &str, facts: &Facts) -> String {
    let identity = format!(
        "{boot} {} {}",
        facts.qemu.display(),
        facts.capabilities.package
    );
    format!("kvm-{}", brisk_vm::cache::key(identity.as_bytes()))
}

/// What a trial decides that took so many milliseconds, or did not reach init in time.
fn outcome(millis: Option<u64>) -> (Accelerator, String) {
    match millis {
        Some(millis) => (Accelerator::Kvm, format!("a trial boot took {millis} ms")),
        None => (
            Accelerator::Tcg,
            format!(
                "a trial boot with KVM did not reach init within {} ms",
                LIMIT.as_millis()
            ),
        ),
    }
}

/// Whether the kernel reaches our init with KVM in time.
fn boots_within_limit(options: &Options, facts: &Facts, cache: &Cache) -> Result<bool, Error> {
    let mut facts = facts.clone();
    facts.accelerator = (Accelerator::Kvm, String::new());
    facts.root = Root::None;
    facts.busybox = facts.busybox.or(Some(facts.qemu.clone()));
    let mut options = options.clone();
    options.shares.clear();
    options.terminal = None;
    options.user = None;
    options.qemu_args.clear();
    let mut plan = plan(&options, &facts)?;
    plan.initramfs.files.clear();
    let built = initramfs::initramfs(
        &plan.initramfs,
        &plan.release,
        plan.modules.as_deref(),
        cache,
    )?;
    plan.machine.initramfs = built.path;
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
