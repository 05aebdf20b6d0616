<<<<<<< HEAD
//! Everything that asks or changes the running kernel.

pub mod btf;
pub mod loader;
pub mod offsets;
pub mod reasons;
=======
//! The door to the running kernel and host: what it is, what it counts, what its addresses and namespaces are called.

pub mod clock;
pub mod counters;
pub mod interfaces;
pub mod kallsyms;
pub mod netns;
pub mod preflight;
>>>>>>> host
