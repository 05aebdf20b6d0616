//! dropwatch-rs: explains every TCP retransmit and every packet the Linux kernel drops.

pub mod aggregate;
pub mod event;
pub mod kernel;
