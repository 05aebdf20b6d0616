//! The program on the running kernel, in network namespaces made for each test.
//!
//! What it reports is held against readings that do not come from it: the counters of each namespace, those of
//! netfilter rules and queueing disciplines, `ss`, `iperf3`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends"
)]

mod end;
mod filters;
mod host;
mod loss;
mod packets;
mod retransmits;
mod sockets;
mod support;
