//! Everything that asks or changes the running kernel.

pub mod btf;
pub mod loader;
pub mod offsets;
pub mod reasons;
