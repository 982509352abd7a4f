//! A target that runs: started, given its files, and asked to work once after another.

mod files;
mod probing;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Instant;

use super::ablation::Ablation;
use super::account::{Account, Reading};
use super::clock::{Moment, Taken, stamp};
use super::counts::{Counts, DEFINITIONS};
use super::limits;
use super::metrics::{BY_CLOCK, BY_LINES, COUNTS, TIMES};
use super::probe::Figures;
use super::session::Patience;
use super::session_error::SessionError;
use super::sides::Side;
use super::started::{DISK, StartError, Started, WORK};
use super::target::Kind;
use super::vmm;
use super::work_directory::REMOVE;
use super::workload::Workload;
use brisk_host::affinity::allowed;

/// What stands before the name of an object that is another one than on the host.
pub(super) const OBJECT_DIFFERS: &str = "not comparable: it differs from the host's object ";

/// A run that gives no time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The target does not answer.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It cannot be prepared.
    #[error("cannot prepare the target: {what} (status {status}){}", colon(errors))]
    Prepare {
        /// What failed.
        what: &'static str,
        /// Exit status.
        status: i32,
        /// Messages.
        errors: String,
    },
    /// The work failed.
    #[error("the work failed with status {status}{}", colon(errors))]
    Work {
        /// Exit status.
        status: i32,
        /// Messages.
        errors: String,
    },
    /// The directory that is to be on a disk is not.
    #[error("its {DISK} is no disk, but memory: the work directory would be on the same as before")]
    DiskInRam,
    /// What the work made is not what it should be.
    #[error("the check failed with status {0}")]
    Check(i32),
    /// An object is another one than on the host.
    #[error("{OBJECT_DIFFERS}{0}")]
    Object(String),
    /// The target did not say when it began or ended.
    #[error("the target did not say when it began and ended")]
    NoTimes,
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The target cannot be counted.
    #[error("cannot read the CPU time of the target")]
    Counters(#[source] io::Error),
}

fn colon(errors: &str) -> String {
    match errors {
        "" => String::new(),
        errors => format!(": {errors}"),
    }
}

/// What one run gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    /// By the host's clock.
    pub(super) taken: Taken,
    /// Between them by the target's own clock, seconds; none if it gives no number.
    pub(super) own: Option<f64>,
    /// Where the time went; none if the counters were not read when it began and ended.
    pub(super) account: Option<Account>,
    /// Hashes of what was made, by name.
    pub(super) proofs: BTreeMap<String, String>,
    /// Pages that the target has swapped in and out meanwhile.
    pub(super) swapped: Option<u64>,
    /// What its kernel counted, in the order of [`COUNTS`].
    pub(super) counts: [Option<u64>; COUNTS.len()],
    /// What the probe measured, if that is the workload.
    pub(super) figures: Figures,
}

/// What a target says after a run.
struct After {
    proofs: BTreeMap<String, String>,
    swapped: Option<u64>,
    figures: Figures,
}

/// A target that runs. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    started: Started,
    cpus: Vec<usize>,
    /// Pages that it had swapped in and out when its last run began.
    swapped: Option<u64>,
    /// Whether its shell runs on the host's kernel, and so has its clock.
    is_here: bool,
    /// Shell text of what to do if its work directory is full.
    more_space: &'static str,
    /// Whether it has the probe, in a place where it can be executed.
    has_probe: bool,
    /// What it says of itself.
    pub(super) facts: BTreeMap<String, String>,
}

impl Instance {
    /// Starts a side on these processors and gives it the files of the workload. Its files may take so
    /// many bytes of the host's memory.
    ///
    /// # Errors
    /// If it cannot be started, or lacks what the workload needs.
    pub(super) fn start(
        side: &Side,
        cpus: &[usize],
        limit: Option<u64>,
        workload: &Workload,
        patience: Patience<'_>,
    ) -> Result<Self, RunError> {
        let change = side.change.as_ref().map(|(change, _)| change);
        // A guest has as many of its own, wherever they may run.
        let count = cpus.len();
        let cpus = match change {
            Some(Ablation::Pinning) => allowed().map_err(SessionError::Io)?,
            _ => cpus.to_vec(),
        };
        let mut instance = Self {
            started: Started::start(side, &cpus, count, limit, patience)?,
            cpus,
            swapped: None,
            is_here: false,
            more_space: match side.kind {
                Kind::Runc | Kind::Gvisor(_) => SHARE_OF_HOST,
                _ => OF_TARGET,
            },
            has_probe: false,
            facts: BTreeMap::new(),
        };
        let parents: &[&str] = match change {
            Some(Ablation::Tmpfs) => &[DISK],
            _ => &WORK,
        };
        let prepared = instance.prepare(&side.kind, workload, parents, patience);
        instance.started.is_lost = prepared.is_err();
        prepared.map(|()| instance)
    }

    fn prepare(
        &mut self,
        kind: &Kind,
        workload: &Workload,
        parents: &[&str],
        patience: Patience<'_>,
    ) -> Result<(), RunError> {
        self.started.session.greet(self.started.channel, patience)?;
        self.started.find_process(patience)?;
        let (id, parents) = (&self.started.id, parents.join(" "));
        let setup = format!(
            "T={id}; say() {{ echo \"$T $*\"; }}; export LC_ALL=C; d=; for p in {parents}; do mkdir -m 700 \"$p/$T\" \
             2>/dev/null && {{ d=$p/$T; break; }}; done; trap 'cd /; for p in {parents} /tmp; do remove \"$p/$T\"; done' EXIT; trap \
             'exit 129' HUP INT TERM; if [ -n \"$EPOCHREALTIME\" ]; then now() {{ \
             now=$EPOCHREALTIME; }}; else now() {{ read -r now _ </proc/uptime; }}; fi; \
             {REMOVE}{DEFINITIONS} [ -n \"$d\" ] && mkdir \"$d/out\" && cd \"$d\""
        );
        self.asked(
            match &*parents {
                DISK => "no work directory can be made in /var/tmp",
                _ => "no work directory can be made in /dev/shm or /tmp",
            },
            &setup,
            patience,
        )?;
        self.asked("it cannot say what it is", FACTS, patience)?;
        if parents == DISK
            && self
                .facts
                .get("directory")
                .is_some_and(|kind| IN_RAM.contains(&&**kind))
        {
            return Err(RunError::DiskInRam);
        }
        self.asked("it has no /proc/vmstat", SWAPPED, patience)?;
        for (what, script) in workload.needs() {
            self.asked(what, &script, patience)?;
        }
        self.give(&workload.files(), patience)?;
        if let Some(archive) = workload.archive() {
            self.give_archive(archive, patience)?;
        }
        let tried = workload.tried();
        self.asked("its source cannot be configured", &tried, patience)?;
        if matches!(workload, Workload::Probe { .. }) {
            // A short look, for what cannot be measured here.
            let figures = self.probe(0, patience)?;
            self.facts.extend(figures.reasons());
        }
        let own = fs::read_to_string(BOOT).unwrap_or_default();
        let boot = self.facts.remove(BOOT_FACT).unwrap_or_default();
        self.is_here = has_hosts_kernel(kind) && !boot.is_empty() && boot == own.trim();
        let taken = if self.is_here { BY_CLOCK } else { BY_LINES };
        self.facts.insert(TIMES.to_owned(), taken.to_owned());
        // What the host knows counts, whatever the target says.
        let of_host = [&vmm::NAMES[..], &limits::NAMES].concat();
        self.facts
            .retain(|name, _| !of_host.contains(&&**name) && name != SWAPPED_FACT);
        self.facts.append(&mut self.started.facts);
        let processes = self.started.meter.processes();
        self.facts.extend(vmm::facts(&processes));
        self.facts.extend(limits::facts(&processes));
        Ok(())
    }

    /// Has it run a script that has to succeed, and keeps the facts that it prints.
    fn asked(
        &mut self,
        what: &'static str,
        script: &str,
        patience: Patience<'_>,
    ) -> Result<(), RunError> {
        let mut facts = Vec::new();
        let status = self
            .started
            .session
            .request(script, patience, &mut |line, _| {
                facts.extend(fact(line));
            })?;
        self.facts.extend(facts);
        match status {
            0 => Ok(()),
            status => Err(self.unprepared(what, status, patience)),
        }
    }

    fn unprepared(&mut self, what: &'static str, status: i32, patience: Patience<'_>) -> RunError {
        RunError::Prepare {
            what,
            status,
            errors: self.errors(patience),
        }
    }

    /// The last messages of what ran in the target.
    fn errors(&mut self, patience: Patience<'_>) -> String {
        let mut errors = Vec::new();
        let script = format!(
            "tail -n 3 \"$d/out/errors\" 2>/dev/null | while read -r l; do say error \"$l\"; done; \
             set -- $(stat -f -c '%a %S %b' \"$d\"); [ $(($1*$2)) -ge 65536 ] || say error \"no space \
             is left in $d, of $(($3*$2/1048576)) MiB: {}\"; set --",
            self.more_space
        );
        // Without messages there is still the status.
        let _ = self
            .started
            .session
            .request(&script, patience, &mut |line, _| {
                errors.extend(line.strip_prefix("error ").map(str::to_owned));
            });
        errors.join("; ")
    }

    /// Has it do the work once.
    ///
    /// # Errors
    /// If the target ends, or the work or its check fails.
    pub(super) fn run(
        &mut self,
        workload: &Workload,
        patience: Patience<'_>,
    ) -> Result<Run, RunError> {
        let result = self.work(workload, patience);
        self.started.is_lost = matches!(result, Err(RunError::Session(_)));
        result
    }

    /// Whether it has ended or gives no answers, so that another one has to be started.
    pub(super) fn is_lost(&self) -> bool {
        self.started.is_lost
    }

    fn work(&mut self, workload: &Workload, patience: Patience<'_>) -> Result<Run, RunError> {
        let before = format!(
            "cd \"$d\" && remove \"$d/out\" && mkdir out && {}",
            workload.before()
        );
        self.asked("what comes before the work fails", &before, patience)?;
        // What others do between its runs is not of its own.
        self.asked("it has no /proc/vmstat", SWAPPED, patience)?;
        self.swapped = pages(&self.facts);
        self.facts.remove(SWAPPED_FACT);
        let script = format!(
            "count_rest; count_calls; say begin; now; began=$now; {}; s=$?; now; say end $began $now \
             $s; count_calls; count_rest",
            workload.work()
        );
        let guest = self.started.meter.guest().map_err(RunError::Counters)?;
        let processes = self.started.meter.processes();
        let held_back = limits::held_back(&processes);
        let mut marks: Vec<(String, Instant, io::Result<Reading>)> = Vec::new();
        let (mut counted, mut counts) = (Counts::default(), Counts::default());
        let (meter, cpus) = (&self.started.meter, &self.cpus);
        let first = Moment::now();
        self.started
            .session
            .request(&script, patience, &mut |line, at| {
                let taken = match marks.is_empty() {
                    true => counted.take(line),
                    false => counts.take(line),
                };
                if !taken {
                    marks.push((line.to_owned(), at, meter.read(cpus)));
                }
            })?;
        let later = Moment::now();
        let [(begins, began, before), (ends, ended, after)] =
            <[_; 2]>::try_from(marks).map_err(|_| RunError::NoTimes)?;
        let words: Vec<_> = ends.split_whitespace().collect();
        let ["end", begin, end, status] = words[..] else {
            return Err(RunError::NoTimes);
        };
        if begins.trim() != "begin" {
            return Err(RunError::NoTimes);
        }
        match status.parse() {
            Ok(0) => {}
            Ok(status) => {
                let errors = self.errors(patience);
                return Err(RunError::Work { status, errors });
            }
            Err(_) => return Err(RunError::NoTimes),
        }
        let (before, after) = before
            .and_then(|before| Ok((before, after?)))
            .map_err(RunError::Counters)?;
        let stamps = stamp(begin).zip(stamp(end));
        let here = stamps.filter(|_| self.is_here);
        let here = here.and_then(|(begin, end)| first.between(&later, begin, end));
        let own = stamps.and_then(|(begin, end)| end.checked_sub(begin));
        let taken = Taken::by(here, ended.duration_since(began), own);
        let now = self.started.meter.guest().map_err(RunError::Counters)?;
        let guest = now.saturating_sub(guest);
        let held_back = limits::held_back(&processes).saturating_sub(held_back);
        let account = Account::between(&before, &after, guest, self.cpus.len());
        let After {
            proofs,
            swapped,
            figures,
        } = self.after(workload, patience)?;
        let account = account.held_back(held_back);
        Ok(Run {
            taken,
            own: own_time(begin, end),
            account: Some(account).filter(|account| account.is_of(taken.time, self.cpus.len())),
            proofs,
            swapped,
            counts: counts.since(&counted),
            figures,
        })
    }

    /// Has it say, after the time, what the work gave.
    fn after(&mut self, workload: &Workload, patience: Patience<'_>) -> Result<After, RunError> {
        let mut proofs = BTreeMap::new();
        let mut figures = Figures::default();
        let mut facts = BTreeMap::new();
        let script = format!("{}; s=$?; {SWAPPED}; (exit $s)", workload.proof());
        let status = self
            .started
            .session
            .request(&script, patience, &mut |line, _| {
                let proof = line
                    .strip_prefix("proof ")
                    .and_then(|text| text.split_once(' '));
                proofs.extend(proof.map(|(hash, name)| (name.to_owned(), hash.to_owned())));
                facts.extend(fact(line));
                figures.take(line);
            })?;
        match status {
            0 => {}
            status => return Err(RunError::Check(status)),
        }
        let swapped = pages(&facts)
            .zip(self.swapped)
            .map(|(now, before)| now.saturating_sub(before));
        Ok(After {
            proofs,
            swapped,
            figures,
        })
    }
}

/// Shell text for what a target says of itself.
const FACTS: &str = "\
say fact cpus $(nproc)
say fact kernel $(uname -r)
read -r b </proc/sys/kernel/random/boot_id && say fact boot $b
say fact directory $(stat -f -c %T \"$d\")
while read -r n m v; do case \"$n $m\" in 'model name') say \"fact processor ${v#: }\"; break;; esac; \
done </proc/cpuinfo
while read -r n v _; do case $n in MemTotal:) say fact memory $v;; esac; done </proc/meminfo
h=/sys/kernel/mm/transparent_hugepage/enabled
if [ -r $h ]; then read -r h <$h; h=${h#*[}; say fact hugepages ${h%]*}; fi
m=; for f in /sys/devices/system/cpu/vulnerabilities/*; do if [ -r \"$f\" ]; then \
read -r l <\"$f\"; m=\"$m${m:+; }${f##*/}=$l\"; fi; done
if [ -n \"$m\" ]; then say \"fact mitigations $m\"; fi
";

/// Identifies a boot of a kernel (proc_sys_kernel(5)), which containers have in common with the host.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Name of what [`FACTS`] says of it.
const BOOT_FACT: &str = "boot";

/// Whether a kind of target may run on the host's kernel: guests have their own, whatever they say.
fn has_hosts_kernel(kind: &Kind) -> bool {
    match kind {
        Kind::Host | Kind::Command(_) | Kind::Runc | Kind::Container { .. } => true,
        Kind::Gvisor(_)
        | Kind::Uml(_)
        | Kind::Brisk(_)
        | Kind::Qemu(_)
        | Kind::Libvirt { .. }
        | Kind::Vm(_) => false,
    }
}

/// What to do if a work directory is full that the target itself has.
const OF_TARGET: &str = "give the target more memory, or a larger ${d%/*}";
/// What to do if one is full that brisk gives it.
const SHARE_OF_HOST: &str = "it is a share of the host's free memory: free some of that, measure fewer \
                             targets, or measure on a disk with --ablate tmpfs";

/// File systems without a disk, as `stat -f` names them.
const IN_RAM: [&str; 2] = ["tmpfs", "ramfs"];

/// Name of what [`SWAPPED`] says.
const SWAPPED_FACT: &str = "swapped";

/// Shell text for the pages that a target has swapped.
const SWAPPED: &str = "w=0; while read -r n v; do case $n in pswpin|pswpout) w=$((w+v));; esac; done \
                       </proc/vmstat; say fact swapped $w";

fn pages(facts: &BTreeMap<String, String>) -> Option<u64> {
    facts.get(SWAPPED_FACT)?.parse().ok()
}

fn fact(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("fact ")?.split_once(' ')?;
    Some((name.to_owned(), value.to_owned()))
}

/// Seconds between two readings of a target's clock.
fn own_time(begin: &str, end: &str) -> Option<f64> {
    let (begin, end): (f64, f64) = (begin.trim().parse().ok()?, end.trim().parse().ok()?);
    Some(end - begin).filter(|time| time.is_finite() && *time >= 0.0)
}
