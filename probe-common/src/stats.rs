//! What the kernel programs count of their own work: indices of a per-CPU array of `u64`.

use crate::wire;

macro_rules! stats {
    ($($(#[$meta:meta])* $name:ident = $index:literal,)*) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Stat { $($(#[$meta])* $name = $index,)* }

        impl Stat {
            /// All counters, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

stats! {
    /// A record was lost: the ring was full.
    RingFull = 0,
    /// A counter was lost: the counter map was full.
    CountTableFull = 1,
    /// A read of kernel memory failed; what it would have told is unknown in that record.
    ReadFault = 2,
    /// A map was busy (the per-CPU or hash update was refused).
    MapBusy = 3,
    /// Drops whose tuple could not be read while a filter needed it.
    UnmatchedNoTuple = 4,
    /// Frees of the parts of a packet that was consumed normally: not drops, counted nowhere else.
    FragmentOfConsumed = 5,
    /// Records written to the ring.
    Records = 6,
    /// The programs nested deeper than they can (Linux 5.10 only): the event was counted here and nowhere else.
    NestedTooDeep = 7,
}

/// Length of the array.
pub const STATS_LEN: u32 = 8;

wire! {
    /// A moment on two clocks: how fast jiffies run.
    pub struct Tick {
        /// `jiffies_64`
        pub jiffies: u64,
        /// `CLOCK_MONOTONIC`, ns
        pub monotonic_ns: u64,
    }
}
