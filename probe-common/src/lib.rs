//! The contract between the kernel programs (`probe-ebpf`) and the user side (`probe-user`).
//!
//! Three things cross the border, and each has its file here:
//!
//! * **records** stream from the kernel through the ring buffer: [`header`], [`mod@drop`], [`retransmit`], [`reset`],
//!   [`flow`]. Every record starts with the same [`Header`], is plain numbers (any bit pattern is a valid value), and has
//!   no hidden padding;
//! * **counters** stay in per-CPU maps that user space reads: [`counts`], [`stats`];
//! * **settings** go into the read-only data of the programs before they are loaded: [`Offsets`] (where members lie in
//!   the running kernel) and [`Filters`] (what is to be shown).
//!
//! Numbers are in host byte order unless a field says otherwise. [`packet`] is the one packet parser: the kernel programs
//! use it to filter, user space uses it to decode, so both always agree on what a packet is.
#![no_std]
#![warn(missing_docs)]
#![expect(
    clippy::inline_always,
    reason = "the kernel programs have 512 bytes of stack and no cheap calls"
)]

pub mod counts;
pub mod drop;
pub mod filter;
pub mod flow;
pub mod header;
pub mod offsets;
pub mod packet;
#[cfg(feature = "user")]
pub mod pod;
pub mod reset;
pub mod retransmit;
pub mod sock;
pub mod stats;
pub mod tuple;

pub use counts::{DropCount, DropCountKey, RetransmitCount, RetransmitCountKey};
pub use drop::{HEADER_SNAP, RawDrop};
pub use filter::Filters;
pub use flow::{FlowState, RawFlowEnd, RawSample};
pub use header::{Header, RecordKind};
pub use offsets::Offsets;
pub use reset::RawReset;
pub use retransmit::{Class, RawRetransmit};
pub use sock::{RawNetns, RawSock, RawTcp};
pub use tuple::{RawAddress, RawTuple};

/// Rises with every change of a record, a map or a setting. Each record carries it.
pub const ABI_VERSION: u16 = 1;

/// Declares a `repr(C)` wire type; on the user side it can be read from and written to bytes without `unsafe`.
macro_rules! wire {
    ($(#[$meta:meta])* pub struct $name:ident { $($body:tt)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            feature = "user",
            derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
        )]
        pub struct $name { $($body)* }
    };
}
pub(crate) use wire;
