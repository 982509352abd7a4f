//! Measures implementations at several sizes in interleaved rounds.

mod words;

use std::time::Duration;

use brisk_host::proc::Procfs;
use brisk_measure::{ReportError, Unit};

pub(super) use self::words::{FEW, Shown, shared, shown, unchecked};
use self::words::{no_answer, proven};
use super::af_alg::Direction;
use super::algorithm::{Algorithm, Kind};
use super::implementation::Implementation;
use super::local::{About, Worker};
use super::measure::{Group, Mark, Measured, NotMeasured, Request};
use super::metric;
use super::vectors::Checked;
use brisk_experiment::{End, Experiment, Plan, Progress, Readings, Saved, Stopped, Store, Turn};
use brisk_host::interrupt::Interrupt;

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Algorithm.
    pub algorithm: &'static Algorithm,
    /// Direction of ciphers and AEADs.
    pub direction: Direction,
    /// Implementations; empty for all that the machine has.
    pub implementations: Vec<Implementation>,
    /// Bytes of an operation, each once.
    pub sizes: Vec<usize>,
    /// Threads, each on a processor of its own.
    pub threads: usize,
    /// Length of one run, seconds.
    pub seconds: f64,
    /// Rounds at most.
    pub rounds: u32,
    /// Begin no round after so long.
    pub budget: Option<Duration>,
    /// Seed of the order.
    pub seed: u64,
}

/// How far it is.
#[derive(Debug)]
pub enum Step<'a> {
    /// The machine answers.
    About(&'a About),
    /// An implementation is checked.
    Check(&'a Implementation),
    /// One run begins.
    Run(String),
    /// A round is done.
    Round(Progress),
}

/// Reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A signal came. What was measured is saved.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// No implementation of those that were asked for can be measured.
    #[error("no implementation of {algorithm} can be measured here:\n{reasons}")]
    Nothing {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// A reason in each line.
        reasons: String,
    },
    /// More threads than processors.
    #[error("a processor for each of {wanted} threads is needed, and there are {there}")]
    Processors {
        /// Threads.
        wanted: usize,
        /// Processors.
        there: usize,
    },
    /// The machine cannot be measured any more. What was measured is saved.
    #[error(transparent)]
    Machine(NotMeasured),
    /// The report cannot be saved.
    #[error(transparent)]
    Save(#[from] ReportError),
}

impl From<NotMeasured> for BenchError {
    fn from(error: NotMeasured) -> Self {
        match error {
            NotMeasured::Interrupted(signal) => Self::Interrupted(signal),
            other => Self::Machine(other),
        }
    }
}

impl From<Stopped<NotMeasured>> for BenchError {
    fn from(stopped: Stopped<NotMeasured>) -> Self {
        match stopped {
            Stopped::Interrupted(signal) => Self::Interrupted(signal),
            Stopped::Save(error) => error.into(),
            Stopped::Run(error) => error.into(),
        }
    }
}

/// One implementation at one size; none of them is the idle system.
#[derive(Debug, Clone)]
struct Side {
    name: String,
    what: Option<(Implementation, usize)>,
}

/// Measures, into a report that is saved after each round.
///
/// # Errors
/// If nothing can be measured, a signal comes, or the machine is lost.
pub fn bench(
    machine: &mut dyn Worker,
    options: &Options,
    saved: &mut Saved<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<End, BenchError> {
    let about = machine.about(options.algorithm)?;
    progress(Step::About(&about));
    if options.threads > about.cpus.len() {
        return Err(BenchError::Processors {
            wanted: options.threads,
            there: about.cpus.len(),
        });
    }
    note_machine(saved, &about, options);
    let implementations = checked(machine, options, &about, saved, progress)?;
    let names = implementations.iter().map(ToString::to_string);
    let names = names.collect::<Vec<_>>().join(", ");
    let facts = &mut saved.report.environment.extra;
    facts.insert(metric::IMPLEMENTATIONS.to_owned(), names);
    let sides = sides(&implementations, &options.sizes);
    let idle = sides.len() - 2;
    let names = sides.iter().map(|side| side.name.clone());
    let plan = Plan::new(names, options.rounds)
        .warmups(1)
        .seed(options.seed)
        .repeats(idle + 1, idle);
    let plan = match options.budget {
        Some(budget) => plan.within(budget),
        None => plan,
    };
    let mut bench = Bench {
        machine,
        options,
        // The last ones: the first has the processors' interrupts.
        cpus: about.cpus[about.cpus.len() - options.threads..].to_vec(),
        baseline: Vec::new(),
        proofs: Vec::new(),
        busiest: 0.0,
        silent: Vec::new(),
    };
    // The first rounds need an idle system to compare with, too.
    bench.idle()?;
    let shared = std::cell::RefCell::new(progress);
    let experiment = Experiment::new(&plan, interrupt).on_round(|round| {
        (shared.borrow_mut())(Step::Round(*round));
    });
    let ended = experiment.run(saved, |turn: Turn, readings: &mut Readings| {
        let side = &sides[turn.side];
        (shared.borrow_mut())(Step::Run(side.name.clone()));
        bench.turn(side, readings)
    });
    bench.note(saved);
    saved.save()?;
    Ok(ended?)
}

/// All sides; the last two are the idle system.
fn sides(implementations: &[Implementation], sizes: &[usize]) -> Vec<Side> {
    let measured = implementations.iter().flat_map(|implementation| {
        sizes.iter().map(move |bytes| Side {
            name: metric::side(implementation, *bytes),
            what: Some((implementation.clone(), *bytes)),
        })
    });
    let idle = [metric::IDLE, metric::IDLE_AGAIN].map(|name| Side {
        name: name.to_owned(),
        what: None,
    });
    measured.chain(idle).collect()
}

/// Facts about the machine, in the report.
fn note_machine(saved: &mut Saved<'_>, about: &About, options: &Options) {
    let facts = &mut saved.report.environment.extra;
    let mut add = |name: &str, value: String| {
        facts.insert(name.to_owned(), value);
    };
    add(metric::ALGORITHM, options.algorithm.name.to_owned());
    let direction = match (options.algorithm.kind, options.direction) {
        (Kind::Hash, _) => "hash",
        (_, Direction::Encrypt) => "encrypt",
        (_, Direction::Decrypt) => "decrypt",
    };
    add("direction", direction.to_owned());
    add("threads", options.threads.to_string());
    add("length of a run", format!("{} s", options.seconds));
    add(metric::KERNEL, about.kernel.clone());
    if let Some(cpu) = &about.cpu {
        add(metric::PROCESSOR, cpu.clone());
    }
    if let Some(openssl) = &about.openssl {
        add(metric::LIBRARY, openssl.clone());
    }
    saved.report.notes.extend(about.notes.iter().cloned());
}

/// Implementations that give the published results; why others do not is noted.
fn checked(
    machine: &mut dyn Worker,
    options: &Options,
    about: &About,
    saved: &mut Saved<'_>,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Vec<Implementation>, BenchError> {
    let wanted = if options.implementations.is_empty() {
        &about.implementations
    } else {
        &options.implementations
    };
    let mut good = Vec::new();
    let mut reasons = about.notes.clone();
    for implementation in wanted {
        progress(Step::Check(implementation));
        if let Some(reason) = implementation.excludes(options.algorithm) {
            reasons.push(format!("{implementation}: {reason}"));
            continue;
        }
        match machine.check(implementation, options.algorithm) {
            Ok(is_checked) => {
                if let Checked::No(reason) = is_checked {
                    let note = unchecked(implementation, options.algorithm, &reason);
                    saved.report.notes.push(note);
                }
                good.push(implementation.clone());
            }
            Err(NotMeasured::Failed(reason)) => {
                let note = format!("{implementation} is left out: {reason}");
                saved.report.notes.push(note.clone());
                reasons.push(note);
            }
            Err(other) => return Err(other.into()),
        }
    }
    if good.is_empty() {
        return Err(BenchError::Nothing {
            algorithm: options.algorithm.name,
            reasons: reasons.join("\n"),
        });
    }
    Ok(good)
}

struct Bench<'a> {
    machine: &'a mut dyn Worker,
    options: &'a Options,
    cpus: Vec<usize>,
    /// CPUs in use while nothing is measured.
    baseline: Vec<f64>,
    /// Sides and what was proven of them last.
    proofs: Vec<(String, String)>,
    /// CPUs that other programs used at most.
    busiest: f64,
    /// Implementations that gave no answer, and what is known of it. They are not asked again.
    silent: Vec<(Implementation, String)>,
}

impl Bench<'_> {
    fn turn(&mut self, side: &Side, readings: &mut Readings) -> Result<(), NotMeasured> {
        let Some((implementation, bytes)) = &side.what else {
            let used = self.idle()?;
            readings.put(metric::IN_USE, Unit::Ratio, used);
            return Ok(());
        };
        let request = Request {
            groups: vec![Group {
                implementation: implementation.clone(),
                cpus: self.cpus.clone(),
            }],
            bytes: *bytes,
            ..self.request()
        };
        let silent = self.silent.iter().find(|(name, _)| name == implementation);
        let reason = if let Some((_, reason)) = silent {
            format!("not asked again: {reason}")
        } else {
            match self.run(&request) {
                Ok((measured, host)) => {
                    self.put(side, &measured, host, readings);
                    return Ok(());
                }
                Err(NotMeasured::Failed(reason)) => reason,
                Err(NotMeasured::NoAnswer(reason)) => {
                    let reason = no_answer(implementation, *bytes, &reason);
                    self.silent.push((implementation.clone(), reason.clone()));
                    reason
                }
                Err(other) => return Err(other),
            }
        };
        let none = brisk_measure::Outcome::Failed { reason };
        readings.put(metric::TIME, Unit::Seconds, none);
        Ok(())
    }

    fn request(&self) -> Request {
        Request {
            algorithm: self.options.algorithm.name.to_owned(),
            direction: self.options.direction,
            bytes: 0,
            seconds: self.options.seconds,
            groups: Vec::new(),
        }
    }

    /// CPUs in use while nothing is measured.
    fn idle(&mut self) -> Result<f64, NotMeasured> {
        let (measured, _) = self.run(&self.request())?;
        let window = &measured.window;
        let used = window.busy() / window.seconds.max(f64::MIN_POSITIVE);
        self.baseline.push(used);
        Ok(used)
    }

    /// Measures once, with the CPU time of the machine's processes on this host, if it has any.
    fn run(&mut self, request: &Request) -> Result<(Measured, Option<f64>), NotMeasured> {
        let processes = self.machine.host_processes();
        let (mut begin, mut end) = (None, None);
        let mut mark = |mark| match mark {
            Mark::Begin => begin = on_host(&processes),
            Mark::End => end = on_host(&processes),
        };
        let measured = self.machine.measure(request, &mut mark)?;
        let host = begin.zip(end).map(|(begin, end)| end - begin);
        Ok((measured, host))
    }

    fn put(
        &mut self,
        side: &Side,
        measured: &Measured,
        host: Option<f64>,
        readings: &mut Readings,
    ) {
        let group = measured.groups.first().copied().unwrap_or_default();
        let window = &measured.window;
        let operations = group.rate * window.seconds;
        if !(group.rate > 0.0 && operations > 0.0) {
            let reason = "no operation ended in the time of a run: name more --seconds".to_owned();
            let none = brisk_measure::Outcome::Failed { reason };
            readings.put(metric::TIME, Unit::Seconds, none);
            return;
        }
        self.busiest = self.busiest.max(window.others / window.seconds);
        let idle = median(&self.baseline) * window.seconds;
        let process = group.cpu * window.seconds;
        let threads = window.in_kernel_threads();
        let whole = window.busy() - idle;
        let mut put = |name: &str, seconds: f64| {
            readings.put(name, Unit::Seconds, seconds / operations);
        };
        put(metric::TIME, window.seconds);
        put(metric::PROCESS, process);
        put(metric::KERNEL_THREADS, threads);
        put(metric::INTERRUPTS, window.interrupts);
        // Time in interrupts is that of the threads that they come to, too, unless those are idle.
        put(metric::SYSTEM, process + threads);
        let mut put_whole = |name: &str, seconds: f64| {
            let outcome = match too_busy(idle / window.seconds) {
                Some(reason) => brisk_measure::Outcome::Failed { reason },
                None => (seconds / operations).into(),
            };
            readings.put(name, Unit::Seconds, outcome);
        };
        put_whole(metric::REST, whole - process - threads);
        put_whole(metric::WHOLE, whole);
        if let Some(host) = host {
            readings.put(metric::HOST, Unit::Seconds, host / operations);
        }
        readings.put(metric::OPERATIONS, Unit::Count, group.operations);
        if let Some(count) = window.device_interrupts {
            let each = count as f64 / operations;
            readings.put(metric::DEVICE, Unit::Count, each);
        }
        if let Some((joules, (_, bytes))) = window.joules.zip(side.what.as_ref()) {
            let gigabytes = operations * *bytes as f64 / 1e9;
            readings.put(metric::ENERGY, Unit::Count, joules / gigabytes);
        }
        if let Some(proof) = &measured.proof {
            let text = proven(proof, operations);
            match self.proofs.iter_mut().find(|(name, _)| *name == side.name) {
                Some((_, known)) => *known = text,
                None => self.proofs.push((side.name.clone(), text)),
            }
        }
    }

    /// Writes down what concerns all rounds.
    fn note(&self, saved: &mut Saved<'_>) {
        let facts = &mut saved.report.environment.extra;
        for (side, proof) in &self.proofs {
            facts.insert(format!("{}{side}", metric::PROOF), proof.clone());
        }
        let used = median(&self.baseline);
        facts.insert("CPUs in use when idle".to_owned(), format!("{used:.3}"));
        facts.insert(metric::OTHERS.to_owned(), format!("{:.3}", self.busiest));
        if self.busiest > BUSY {
            saved.report.notes.push(format!(
                "the machine was busy: other programs used up to {:.0} % of a CPU in a run; times \
                 and CPU times are not those of the work alone",
                self.busiest * 100.0
            ));
        }
        saved.report.notes.extend(too_busy(used));
    }
}

/// CPUs that others may use before it is said.
const BUSY: f64 = 0.05;
/// CPUs that an idle system may use: more than that changes too much to be taken away.
pub(super) const TOO_BUSY: f64 = 0.25;

/// Why the CPU time of the whole system says nothing; none if it does.
fn too_busy(used: f64) -> Option<String> {
    (used > TOO_BUSY).then(|| {
        format!(
            "the idle system used {:.0} % of a CPU: what the work takes of the whole system cannot \
             be told from that; end other programs",
            used * 100.0
        )
    })
}

/// CPU time of processes on this host, seconds; none if there are none.
fn on_host(processes: &[u32]) -> Option<f64> {
    let proc = Procfs::default();
    let of = |pid: &u32| {
        let process = proc.tasks(*pid, None).ok()?;
        let times = process.tasks.iter().map(|task| task.schedule.on_cpu);
        Some(times.sum::<u64>() as f64 / 1e9)
    };
    let times: Vec<_> = processes.iter().filter_map(of).collect();
    (!times.is_empty()).then(|| times.iter().sum())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
