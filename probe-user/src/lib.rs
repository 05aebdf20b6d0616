//! dropwatch-rs: explains every TCP retransmit and every packet the Linux kernel drops.

pub mod aggregate;
pub mod decode;
pub mod enrich;
pub mod event;
