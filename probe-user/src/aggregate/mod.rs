//! Counts: pure, no clock, no I/O, driven by events alone.

pub mod reconcile;
pub mod summary;
