//! dropwatch-rs: explains every TCP retransmit and every packet the Linux kernel drops.

pub mod aggregate;
pub mod cli;
pub mod config;
pub mod event;
<<<<<<< HEAD
<<<<<<< HEAD
pub mod kernel;
=======
pub mod exit;
pub mod sink;
>>>>>>> sink
=======
pub mod kernel;
>>>>>>> host
