//! Counters that see every drop and every retransmit before any filter; per-CPU hash maps, summed by user space.

use crate::{RawNetns, wire};

wire! {
    /// Which drops are counted together.
    pub struct DropCountKey {
        /// Namespace in which it happened.
        pub netns: RawNetns,
        /// Drop reason; 0 where the kernel gives none.
        pub reason: u32,
        /// `EtherType` in host byte order.
        pub ethertype: u16,
        /// IANA protocol number of an IP packet, else 0.
        pub protocol: u8,
        /// One of the `DOMAIN_…` values.
        pub domain: u8,
    }
}

impl DropCountKey {
    /// A packet on its way through the network stack.
    pub const DOMAIN_NETWORK: u8 = 0;
    /// A message between `AF_UNIX` sockets: no network drop.
    pub const DOMAIN_UNIX: u8 = 1;
    /// A netlink message: no network drop.
    pub const DOMAIN_NETLINK: u8 = 2;
    /// The copy made for a packet socket (tcpdump): a capture's own loss.
    pub const DOMAIN_PACKET: u8 = 3;
    /// Another socket family.
    pub const DOMAIN_OTHER: u8 = 4;
}

wire! {
    /// How often.
    pub struct DropCount {
        /// Events: one buffer freed.
        pub packets: u64,
        /// Packets on the wire (GSO/GRO).
        pub segments: u64,
        /// Of `packets`: those that matched the filters.
        pub matched: u64,
        /// Of `matched`: those whose record could not be written.
        pub no_record: u64,
    }
}

wire! {
    /// Which retransmits are counted together.
    pub struct RetransmitCountKey {
        /// Namespace of the socket.
        pub netns: RawNetns,
        /// [`crate::Class`]
        pub class: u8,
        /// [`crate::retransmit::Outcome`]
        pub outcome: u8,
        /// Always 0.
        pub reserved: [u8; 6],
    }
}

wire! {
    /// How often.
    pub struct RetransmitCount {
        /// Events.
        pub events: u64,
        /// Segments, as `TcpRetransSegs` counts them.
        pub segments: u64,
        /// Of `events`: those that matched the filters.
        pub matched: u64,
        /// Of `matched`: those whose record could not be written.
        pub no_record: u64,
        /// Of `segments`: those of events that matched.
        pub matched_segments: u64,
        /// Payload bytes of events that matched.
        pub matched_bytes: u64,
    }
}

/// Capacity of each of the two maps.
pub const MAX_COUNT_KEYS: u32 = 4096;
