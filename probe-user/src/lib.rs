//! dropwatch-rs: explains every TCP retransmit and every packet the Linux kernel drops.

pub mod aggregate;
pub mod cli;
pub mod config;
pub mod decode;
pub mod enrich;
pub mod event;
pub mod exit;
pub mod kernel;
pub mod sink;
