//! Where samples go.

use std::path::Path;

use brisk_measure::{Report, ReportError, Sample, Series, Unit};

/// Holds the samples of an experiment.
pub trait Store {
    /// All of them.
    fn series(&self) -> &[Series];

    /// Adds a sample to a series, which is made for its first one.
    fn push(&mut self, name: &str, unit: Unit, sample: Sample);

    /// Notes that the order of the sides is random with this seed.
    fn note_seed(&mut self, seed: u64);

    /// Keeps what there is so far.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&mut self) -> Result<(), ReportError>;
}

/// Samples in memory only.
impl Store for Vec<Series> {
    fn series(&self) -> &[Series] {
        self
    }

    fn push(&mut self, name: &str, unit: Unit, sample: Sample) {
        let place = self.iter().position(|series| series.name == name);
        let place = place.unwrap_or_else(|| {
            Vec::push(self, Series::new(name, unit));
            self.len() - 1
        });
        self[place].push(sample);
    }

    fn note_seed(&mut self, _: u64) {}

    fn save(&mut self) -> Result<(), ReportError> {
        Ok(())
    }
}

/// What the seed is called among the facts of a report.
const SEED: &str = "seed of the order";

/// A report, and the file that it is saved to after each round.
#[derive(Debug)]
pub struct Saved<'a> {
    /// The report.
    pub report: &'a mut Report,
    file: &'a Path,
}

impl<'a> Saved<'a> {
    /// Saves `report` to `file`.
    pub fn new(report: &'a mut Report, file: &'a Path) -> Self {
        Self { report, file }
    }
}

impl Store for Saved<'_> {
    fn series(&self) -> &[Series] {
        &self.report.series
    }

    fn push(&mut self, name: &str, unit: Unit, sample: Sample) {
        self.report.series_mut(name, unit).push(sample);
    }

    fn note_seed(&mut self, seed: u64) {
        // Reports without a note have the orders of the seed 0.
        if seed != 0 {
            let facts = &mut self.report.environment.extra;
            facts.insert(SEED.to_owned(), seed.to_string());
        }
    }

    fn save(&mut self) -> Result<(), ReportError> {
        self.report.save(self.file)
    }
}
