//! Samples, statistics, timelines and reports of brisk.
//!
//! The way of a measurement: every run leaves a [`Sample`], the samples of one quantity are a
//! [`Series`], a [`Summary`] says what they amount to and a [`Comparison`] whether two series
//! differ. A [`Timeline`] says where the time of one run went. A [`Report`] keeps all of it with
//! the [`Environment`] it was measured in, and [`render`] turns a report into text and pictures.
//!
//! Everything here is pure, except that a [`Report`] can be saved to and loaded from a file.

mod bootstrap;
mod comparison;
mod crossing;
mod distribution;
mod environment;
mod history;
mod outlier;
mod permutation;
mod random;
pub mod render;
mod report;
mod sample;
mod series;
mod signed_rank;
mod summary;
mod timeline;
mod unit;
mod warning;

pub use bootstrap::{Interval, Statistic};
pub use comparison::{CompareOptions, Comparison, Pairing, Test, Verdict, noise_floor};
pub use crossing::{Crossing, Reach, SizeOrder};
pub use distribution::student_two_sided;
pub use environment::{Difference, Environment};
pub use history::{Change, History, Point, Reading};
pub use outlier::{OUTLIER_SCORE, modified_z_scores};
pub use permutation::{PValue, paired_test, two_sample_test};
pub use random::{SplitMix64, turns};
pub use report::{Report, ReportError, SCHEMA, json_schema};
pub use sample::{Outcome, Phase, Sample, Value, ValueError};
pub use series::Series;
pub use signed_rank::{PairedRatio, paired_ratio, signed_rank_test};
pub use summary::{Outlier, Statistics, Summary};
pub use timeline::{Activity, Clock, Event, Gap, Node, Span, Timeline};
pub use unit::{Better, Unit};
pub use warning::Warning;
