//! Measures what single operations cost in a target.

use super::{Instance, RunError};
use crate::overhead::probe::Figures;
use crate::overhead::session::Patience;
use crate::overhead::session_error::SessionError;
use crate::overhead::workload::{FIGURES, PLACE_PROBE, PROBE, probing};

impl Instance {
    /// Measures each operation of [`crate::overhead::probe::OPERATIONS`] for so many milliseconds;
    /// with 0, once. The probe goes into its work directory the first time.
    ///
    /// # Errors
    /// If the target ends, or cannot run the probe.
    pub(in crate::overhead) fn probe(
        &mut self,
        time: u32,
        patience: Patience<'_>,
    ) -> Result<Figures, RunError> {
        let result = self.probed(time, patience);
        self.started.is_lost = matches!(result, Err(RunError::Session(_)));
        result
    }

    fn probed(&mut self, time: u32, patience: Patience<'_>) -> Result<Figures, RunError> {
        let clear = "cd \"$d\" && remove \"$d/out\" && mkdir out";
        self.asked("its work directory is gone", clear, patience)?;
        if !self.has_probe {
            self.give(&[PROBE], patience)?;
            self.asked(
                "it cannot run the probe, a static program for x86-64, neither in its work \
                 directory nor in /tmp: mount one of them without noexec",
                PLACE_PROBE,
                patience,
            )?;
            self.has_probe = true;
        }
        let mut ask = |script: &str, figures: &mut Figures| -> Result<i32, SessionError> {
            self.started
                .session
                .request(script, patience, &mut |line, _| figures.take(line))
        };
        let mut figures = Figures::default();
        let status = ask(&probing(time), &mut figures)?;
        if status != 0 {
            let errors = self.errors(patience);
            return Err(RunError::Work { status, errors });
        }
        ask(FIGURES, &mut figures)?;
        Ok(figures)
    }
}
