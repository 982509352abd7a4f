//! The rounds of a measurement.

use std::path::Path;

use brisk_host::proc::Procfs;
use brisk_measure::{CompareOptions, Report, Test};
use brisk_vm::cache::Cache;

use super::live::{Program, can_flush};
use super::{AGAIN, BenchError, Caches, OFF, ON, Place, Quantity, SIDES, Settings, metric};
use crate::ktext::emulated::{BuiltKernel, Machine, Plan};
use crate::ktext::source::Source;
use crate::ktext::worker::{Answer, Operation, Step};
use crate::ktext::{Status, switch};
use brisk_experiment::{Experiment, Plan as Rounds, Progress, Readings, Saved};
use brisk_host::interrupt::Interrupt;

/// Time that the repetitions of an operation are to take, nanoseconds.
const REPEATED: f64 = 3e7;
/// Memory that the load takes on each CPU, bytes: as `guest/probe` has it.
const LOAD: u64 = 2 * (64 << 20);
/// Repetitions at most.
const MOST: u32 = 100_000;
/// Something that does steps.
trait Subject {
    fn step(&mut self, step: &Step<'_>) -> Result<Answer, BenchError>;
}

impl Subject for Machine<'_> {
    fn step(&mut self, step: &Step<'_>) -> Result<Answer, BenchError> {
        Ok(Machine::step(self, step)?)
    }
}

impl Subject for Program<'_> {
    fn step(&mut self, step: &Step<'_>) -> Result<Answer, BenchError> {
        Program::step(self, step)
    }
}

/// Measures on the live machine; replication is as before afterwards.
///
/// # Errors
/// If the kernel does not replicate, no CPU has a copy, or the user interrupts. What was measured
/// before is in the report.
pub fn live(
    settings: &Settings,
    cpu: Option<u32>,
    is_loaded: bool,
    saved: &mut Saved<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let status = has_copies(Path::new("/"))?;
    let place = Place::find(&status, cpu)?;
    if is_loaded {
        has_memory(place.load.len())?;
    }
    let switch = Source::find(Path::new("/"))?.path("active");
    let mut program = Program::start(status.stats.is_active, &switch, settings.limit, interrupt)?;
    let environment = &mut saved.report.environment;
    let load = if is_loaded { &place.load[..] } else { &[] };
    note(environment, &place, load);
    if is_loaded {
        program.step(&Step::Load(place.load))?;
    }
    let caches: &[Caches] = match can_flush() {
        true => &[Caches::Hot, Caches::Cold],
        false => &[Caches::Hot],
    };
    let run = Run {
        settings,
        cpu: place.cpu,
        caches,
        quantity: Quantity::Time,
    };
    let measured = run.all(&mut program, saved, interrupt, progress);
    let restored = program.finish();
    measured.and(restored)
}

/// State of the kernel of the system below `root`, which has copies.
///
/// # Errors
/// If it has none, or does not show them.
pub fn has_copies(root: &Path) -> Result<Status, BenchError> {
    let status = Status::read(root)?;
    switch::has_copies(&status.stats)?;
    Ok(status)
}

/// Whether so many CPUs can copy memory.
fn has_memory(cpus: usize) -> Result<(), BenchError> {
    let needed = cpus as u64 * LOAD;
    match Procfs::default().less_memory_than(needed) {
        Some(available) => Err(BenchError::Memory { needed, available }),
        None => Ok(()),
    }
}

/// A machine to be emulated.
#[derive(Debug)]
pub struct Emulated {
    /// The kernel.
    pub kernel: BuiltKernel,
    /// The machine. Its CPUs take turns.
    pub plan: Plan,
    /// Facts about QEMU.
    pub cache: Cache,
}

/// Measures in an emulated machine, whose last node is not the one that has the kernel.
///
/// # Errors
/// If there is no such machine, its kernel does not replicate, or the user interrupts.
pub fn emulated(
    settings: &Settings,
    emulated: &Emulated,
    saved: &mut Saved<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let Emulated { kernel, cache, .. } = emulated;
    let plan = Plan {
        counts: true,
        ..emulated.plan.clone()
    };
    let mut machine = Machine::start(&plan, kernel, None, cache, settings.limit, interrupt)?;
    let node = plan.nodes - 1;
    let place = Place {
        cpu: plan.cpus(node).start,
        node,
        load: Vec::new(),
    };
    let environment = &mut saved.report.environment;
    environment.qemu_version = Some(machine.emulator.clone());
    environment.accelerator = Some("tcg icount".to_owned());
    environment.guest_kernel = Some(machine.release.clone());
    environment
        .extra
        .insert("nodes".into(), plan.nodes.to_string());
    note(environment, &place, &[]);
    let run = Run {
        settings,
        cpu: place.cpu,
        // Its caches are not emulated.
        caches: &[Caches::Hot],
        quantity: Quantity::Instructions,
    };
    run.all(&mut machine, saved, interrupt, progress)
}

fn note(environment: &mut brisk_measure::Environment, place: &Place, load: &[u32]) {
    let extra = &mut environment.extra;
    extra.insert(
        "CPU".into(),
        format!("{} of node {}", place.cpu, place.node),
    );
    let load: Vec<_> = load.iter().map(u32::to_string).collect();
    let load = match load.is_empty() {
        true => "none".to_owned(),
        false => format!("CPUs {}", load.join(",")),
    };
    extra.insert("memory load".into(), load);
}

/// Repetitions of an operation that give one figure.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    operation: Operation,
    caches: Caches,
    times: u32,
}

/// A measurement of a subject.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    settings: &'a Settings,
    cpu: u32,
    caches: &'a [Caches],
    quantity: Quantity,
}

impl Run<'_> {
    fn all(
        self,
        subject: &mut dyn Subject,
        saved: &mut Saved<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), BenchError> {
        let plan = Rounds::new(SIDES, self.settings.rounds)
            .warmups(1)
            .repeats(AGAIN, OFF)
            .seed(self.settings.seed);
        let times = self.times(subject)?;
        let ended =
            Experiment::new(&plan, interrupt)
                .on_round(progress)
                .run(saved, |turn, readings| {
                    subject.step(&Step::Switch(turn.side == ON))?;
                    for repeated in &times {
                        self.measure(subject, *repeated, readings)?;
                    }
                    Ok::<_, BenchError>(())
                });
        compare(saved.report, &plan, &times);
        ended?;
        Ok(())
    }

    fn step(self, operation: Operation, times: u32) -> Step<'static> {
        Step::Operation {
            operation,
            cpu: self.cpu,
            times,
        }
    }

    /// How often each operation is to be done for a figure.
    fn times(self, subject: &mut dyn Subject) -> Result<Vec<Repeated>, BenchError> {
        let mut found = Vec::new();
        for caches in self.caches {
            self.flush(subject, *caches)?;
            for operation in &self.settings.operations {
                // The first ones are slower.
                subject.step(&self.step(*operation, 4))?;
                let answer = subject.step(&self.step(*operation, 4))?;
                let each = answer.numbers.first().copied().unwrap_or(REPEATED);
                let times = (REPEATED / each.max(1.0)).ceil();
                found.push(Repeated {
                    operation: *operation,
                    caches: *caches,
                    times: (times as u32).clamp(2, MOST),
                });
            }
        }
        self.flush(subject, Caches::Hot)?;
        Ok(found)
    }

    fn flush(self, subject: &mut dyn Subject, caches: Caches) -> Result<(), BenchError> {
        if self.caches.contains(&Caches::Cold) {
            subject.step(&Step::Cold(caches == Caches::Cold))?;
        }
        Ok(())
    }

    fn measure(
        self,
        subject: &mut dyn Subject,
        repeated: Repeated,
        readings: &mut Readings,
    ) -> Result<(), BenchError> {
        let Repeated {
            operation,
            caches,
            times,
        } = repeated;
        self.flush(subject, caches)?;
        let answer = subject.step(&self.step(operation, times))?;
        let figure = self.quantity.of(&answer.numbers);
        let outcome = figure.ok_or_else(|| "the answer has no figure".to_owned());
        readings.put(metric(operation, caches), self.quantity.unit(), outcome);
        self.flush(subject, Caches::Hot)
    }
}

fn compare(report: &mut Report, plan: &Rounds, all: &[Repeated]) {
    let options = CompareOptions {
        test: Test::SignedRank,
        ..CompareOptions::default()
    };
    for one in all {
        let name = metric(one.operation, one.caches);
        let found = plan.comparisons(&report.series, &name, OFF, &options);
        report.comparisons.extend(found);
    }
}
