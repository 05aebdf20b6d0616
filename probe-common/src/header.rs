//! What every record starts with.

use crate::wire;

wire! {
    /// First bytes of every record in the ring.
    pub struct Header {
        /// A [`RecordKind`].
        pub kind: u16,
        /// [`crate::ABI_VERSION`] of the programs that wrote the record.
        pub abi: u16,
        /// Length of the whole record in bytes, this header included.
        pub len: u32,
        /// CPU on which the event happened.
        pub cpu: u32,
        /// Always 0.
        pub reserved: u32,
        /// Time of the event: `CLOCK_BOOTTIME`, ns (`bpf_ktime_get_boot_ns`, Linux 5.8).
        pub ktime_ns: u64,
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// [`crate::RawDrop`]
    Drop = 1,
    /// [`crate::RawRetransmit`]
    Retransmit = 2,
    /// [`crate::RawSample`]
    Sample = 3,
    /// [`crate::RawFlowEnd`]
    FlowEnd = 4,
    /// [`crate::RawReset`]
    Reset = 5,
}

impl RecordKind {
    /// The kind with that number, if there is one.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Drop,
            2 => Self::Retransmit,
            3 => Self::Sample,
            4 => Self::FlowEnd,
            5 => Self::Reset,
            _ => return None,
        })
    }
}

/// Least time between two wake-ups of the reader by one CPU, ns.
pub const WAKE_INTERVAL_NS: u64 = 8_000_000;
/// How soon the reader looks again after it found records, ns. Longer than [`WAKE_INTERVAL_NS`]: a record that comes after the
/// reader has looked in vain is the first since then, and wakes it.
pub const LOOK_AGAIN_NS: u64 = 10_000_000;
