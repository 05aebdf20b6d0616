//! Everything that asks or changes the running kernel.

pub mod btf;
pub mod clock;
pub mod counters;
mod hz;
pub mod interfaces;
pub mod kallsyms;
pub mod loader;
pub mod maps;
pub mod netns;
pub mod offsets;
pub mod preflight;
pub mod reasons;
