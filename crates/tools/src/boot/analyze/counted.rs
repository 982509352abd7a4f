//! Reduction of a boot to the events that have a count of instructions.

use crate::boot::{Observation, TimedEvent};
use crate::run::Milestone;
use brisk_measure::Clock;

/// Keeps only events that are counted in instructions: the guest's own times, moved by the counter
/// that init read so that power-on is 0.
pub(crate) fn counted(observation: &mut Observation) -> Option<()> {
    let cycles = i64::try_from(observation.cycles?).ok()?;
    let init = i64::try_from(observation.stamp(Milestone::Init.name())?).ok()?;
    let end = i64::try_from(observation.stamp(Milestone::CommandEnd.name())?).ok()?;
    let offset = cycles.checked_sub(init)?;
    let end = u64::try_from(end.checked_add(offset)?).ok()?;
    observation.clock = Clock::Instructions;
    observation.guest_offset = Some(offset);
    observation.console.clear();
    observation.firmware.clear();
    observation.qmp.clear();
    for (name, at) in [(Milestone::Exec, 0), (Milestone::QemuGone, end)] {
        observation
            .moments
            .retain(|moment| moment.name != name.name());
        observation.moments.push(TimedEvent {
            at,
            name: name.name().to_owned(),
        });
    }
    let kept = [Milestone::Exec.name(), Milestone::QemuGone.name()];
    observation.moments.retain(|m| kept.contains(&&*m.name));
    Some(())
}
