//! A rehearsal: its VM is started and watched.

use std::path::Path;
use std::time::{Duration, Instant};

use brisk_host::proc::Procfs;
use brisk_vm::cache::Cache;
use brisk_vm::launch::Custom;
use brisk_vm::qemu::Accelerator;

use super::argv::{Vm, argv};
use super::cmdline::{Rehearsed, rehearsed};
use super::console::{Console, Ending, Stage};
use super::disks::HostDisk;
use super::emulator::Emulator;
use super::files::{Files, LAYER, OpenDisk};
use super::notes;
use super::request::{RehearseError, Request, Step};
use super::verdict::{Outcome, RehearsedVm, Verdict};
use super::watch::{End, Watch};
use crate::guest::{last_line, unprivileged_for};
use brisk_host::interrupt::Interrupt;

/// Memory that QEMU takes itself, bytes.
const QEMU: u64 = 256 << 20;

/// Rehearses. The VM has ended afterwards, and the disks are as they were: they are open for reading
/// alone.
///
/// # Errors
/// If it cannot be rehearsed, or somebody interrupts.
pub fn rehearse(
    request: &Request<'_>,
    cache: &Cache,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Verdict, RehearseError> {
    let mut files = Files::open(request)?;
    let rehearsed = rehearsed(&request.target.cmdline, &request.goal);
    let mut verdict = unknown(request, &files, &rehearsed);
    let most = match &files.most {
        Ok(most) => *most,
        Err(reason) => {
            verdict.line = Some(reason.clone());
            return Ok(verdict);
        }
    };
    let length = rehearsed.line.len();
    if length > most {
        return Err(RehearseError::CommandLine { length, most });
    }
    has_memory(request, &files, &mut verdict)?;
    progress(Step::Preparing("asking QEMU what it can do"));
    let emulator = Emulator::choose(cache, &mut |what| progress(Step::Preparing(what)))?;
    files.fit(&emulator);
    verdict.vm.accelerator = emulator.accelerator.name();
    verdict.vm.disks = files.disks.iter().map(OpenDisk::shown).collect();
    if files.disks.iter().any(OpenDisk::is_device) {
        progress(Step::Preparing("writing out what programs have written"));
        // The VM reads the disk, not the page cache of its file systems.
        rustix::fs::sync();
    }
    let vm = Vm {
        accelerator: emulator.accelerator,
        memory_mib: verdict.vm.memory_mib,
        cpus: request.cpus,
        cmdline: rehearsed.line,
        has_initrd: files.initrd.is_some(),
        disks: files.disks.iter().map(|disk| disk.disk.clone()).collect(),
    };
    let (console, end) = watched(&vm, &emulator, files, &mut verdict, |running, console| {
        let mut watch = Watch {
            vm: running,
            console,
            started: Instant::now(),
            limit: request.limit,
            interrupt,
        };
        watch.run(&mut |stage, since| progress(Step::Running { stage, since }))
    })?;
    verdict.outcome = outcome(&end, console.stage);
    finish(&mut verdict, console, &emulator);
    Ok(verdict)
}

/// A verdict before anything was seen.
fn unknown(request: &Request<'_>, files: &Files, rehearsed: &Rehearsed) -> Verdict {
    Verdict {
        target: request.target.clone(),
        goal: request.goal.clone(),
        outcome: Outcome::NoKernel,
        stage: Stage::Nothing,
        took: Duration::ZERO,
        line: None,
        causes: Vec::new(),
        init: None,
        program: None,
        last_lines: Vec::new(),
        vm: RehearsedVm {
            accelerator: Accelerator::Tcg.name(),
            memory_mib: request.memory_mib.unwrap_or(files.memory.usual),
            cpus: request.cpus,
            disks: files.disks.iter().map(OpenDisk::shown).collect(),
            departures: rehearsed.departures.clone(),
        },
        notes: Vec::new(),
    }
}

/// Starts the VM, has it watched, and ends it; adds to the verdict how long that took and what was
/// written to the disks meanwhile.
fn watched(
    vm: &Vm,
    emulator: &Emulator,
    files: Files,
    verdict: &mut Verdict,
    watch: impl FnOnce(&mut Custom, &mut Console) -> std::io::Result<End>,
) -> Result<(Console, End), RehearseError> {
    let names: Vec<_> = files.disks.iter().map(|disk| disk.name.clone()).collect();
    let written = || {
        names
            .iter()
            .map(|name| HostDisk::written(Path::new("/"), name.as_ref()?))
    };
    let before: Vec<_> = written().collect();
    let descriptors = files.descriptors()?;
    let user = unprivileged_for(emulator.accelerator);
    let started = Instant::now();
    let mut running = Custom::start(&emulator.path, &argv(vm), descriptors, user)?;
    let mut console = Console::new(&verdict.target.cmdline, &verdict.goal);
    let end = watch(&mut running, &mut console);
    verdict.took = started.elapsed();
    let stderr = running.end();
    for ((disk, before), after) in verdict.vm.disks.iter_mut().zip(before).zip(written()) {
        let both = before.zip(after);
        disk.written_meanwhile = both.map(|(before, after)| after.saturating_sub(before));
    }
    match end.map_err(RehearseError::Watch)? {
        End::Interrupted(signal) => Err(RehearseError::Interrupted(signal)),
        End::Gone => Err(RehearseError::Ended(last_line(&stderr))),
        end => Ok((console, end)),
    }
}

/// Adds what the console has shown.
fn finish(verdict: &mut Verdict, console: Console, emulator: &Emulator) {
    let cmdline = verdict.target.cmdline.clone();
    let vm = &verdict.vm;
    verdict.notes.extend(notes::of_boot(&cmdline, &console));
    verdict
        .notes
        .extend(notes::of_cmdline(&cmdline, vm.memory_mib, &vm.disks));
    verdict.notes.extend(notes::of_disks(&vm.disks));
    if emulator.accelerator == Accelerator::Tcg && emulator.capabilities.cmpxchg16b_is_wrong() {
        verdict.notes.push(format!(
            "QEMU {} emulates cmpxchg16b wrongly, by which newer kernels such as 6.12 may crash",
            emulator.capabilities.package
        ));
    }
    verdict.stage = console.stage;
    verdict.last_lines = console.last_lines();
    let telling = console.panic.as_ref().or(console.telling.as_ref());
    verdict.line = telling
        .cloned()
        .or_else(|| verdict.last_lines.last().cloned());
    verdict.causes = console.causes;
    verdict.init = console.root_init;
    verdict.program = console.program;
    if verdict.outcome == Outcome::Reached {
        verdict.line = None;
    }
}

fn outcome(end: &End, stage: Stage) -> Outcome {
    match end {
        End::Console(Ending::Reached) => Outcome::Reached,
        End::Console(Ending::Panicked) => Outcome::Panicked,
        End::Console(Ending::Corrupt) => Outcome::Corrupt,
        End::Console(Ending::Shell) => Outcome::Shell,
        End::Console(Ending::Passphrase) => Outcome::Passphrase,
        End::PoweredOff => Outcome::PoweredOff,
        End::Reset => Outcome::Reset,
        _ if stage == Stage::Nothing => Outcome::Silent,
        _ => Outcome::Stopped,
    }
}

/// Gives the VM less by default where the host has less.
fn has_memory(
    request: &Request<'_>,
    files: &Files,
    verdict: &mut Verdict,
) -> Result<(), RehearseError> {
    let beside = LAYER + QEMU;
    let Some(available) = Procfs::default().available_memory() else {
        return Ok(());
    };
    if request.memory_mib.is_none() {
        let free = available.saturating_sub(beside) >> 20;
        let fitting = files.memory.fitting(free);
        if fitting < files.memory.usual {
            verdict
                .notes
                .push(notes::of_little_memory(fitting, files.memory.usual));
        }
        verdict.vm.memory_mib = fitting;
    }
    let needed = (verdict.vm.memory_mib << 20).saturating_add(beside);
    match available < needed {
        true => Err(RehearseError::Memory { needed, available }),
        false => Ok(()),
    }
}
