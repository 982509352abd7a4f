//! Samples, statistics, timelines and reports of brisk.
