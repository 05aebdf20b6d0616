//! Everything that asks or changes the running kernel.

pub mod btf;
pub mod offsets;
pub mod reasons;
