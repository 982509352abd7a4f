//! What virtualisation costs: a workload in several targets, in rounds, timed on the host.
//!
//! A [`Target`] is started once and stays: a shell in it takes requests, so that its boot is in no
//! time. On the host's kernel the shell takes the times itself; otherwise the host's clock stamps the
//! lines of begin and end as they come through the pipe. The host's counters say where the time of the processors went, as an [`Account`]; what the target
//! says itself is evidence only. The host takes part twice: by what the two differ is noise.

mod ablation;
mod account;
mod answer;
mod clock;
mod console;
mod continued;
mod counts;
mod disturbance;
mod evidence;
mod existing;
mod explain;
pub mod guest;
mod import;
mod instance;
mod judgement;
mod kernel;
mod kit;
mod launch;
mod limits;
mod memory;
mod meter;
mod metrics;
mod plan;
pub mod probe;
mod remedies;
mod report;
pub mod rules;
mod run;
mod session;
mod session_error;
mod sides;
mod started;
mod target;
mod targets_file;
mod vmm;
mod work_directory;
mod workload;

pub use ablation::{Ablation, AblationError, Here};
pub use account::Account;
pub use answer::is_by_cpu;
pub use continued::ANSWER;
pub use continued::{ContinueError, go_on};
pub use evidence::Evidence;
pub use existing::ExistingError;
pub use explain::{Explanation, LOSSES, explain};
pub use import::{Entry, ImportError, Imported, Joined, MEAN, Origin, joined, read};
pub use instance::RunError;
pub use judgement::{Judged, judge};
pub use kernel::{Config, Kernel, Source, TINY};
pub use kit::{Kit, KitError, UNITS, kit};
pub use metrics::{COUNTS, CPU, DISTURBED, OWN, PARTS, PROCESSORS, SPEED, SWAPPED, TIME};
pub use plan::{Options, PlanError, check, plan};
pub use remedies::{Remedy, remedies};
pub use report::{Change, Row, changes, rows};
pub use run::{OverheadError, Step, run};
pub use session_error::SessionError;
pub use sides::{Side, Trial, names, sides, sides_of_trial};
pub use started::StartError;
pub use target::{Engine, Kind, Target, TargetError, Via};
pub use targets_file::{TargetsFileError, targets};
pub use workload::{FLAGS, Workload};
