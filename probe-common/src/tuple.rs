//! Who talks to whom.

use crate::wire;

wire! {
    /// Both ends of a packet or a socket.
    pub struct RawTuple {
        /// Source (local) address, network byte order; an IPv4 address is stored as `::ffff:a.b.c.d`.
        pub source: [u8; 16],
        /// Destination (remote) address, same form.
        pub destination: [u8; 16],
        /// Source (local) port, host byte order. Meaningful if [`RawTuple::HAS_PORTS`].
        pub source_port: u16,
        /// Destination (remote) port, host byte order. Meaningful if [`RawTuple::HAS_PORTS`].
        pub destination_port: u16,
        /// IANA protocol number.
        pub protocol: u8,
        /// 4, 6, or 0: no tuple. A v4-mapped IPv6 address counts as 4.
        pub version: u8,
        /// [`RawTuple::HAS_PORTS`]
        pub flags: u8,
        /// Always 0.
        pub reserved: u8,
    }
}

impl RawTuple {
    /// The ports are known (not so in a later fragment, in ICMP, or where the packet was cut short).
    pub const HAS_PORTS: u8 = 1;

    /// "No tuple".
    pub const NONE: Self = Self {
        source: [0; 16],
        destination: [0; 16],
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        version: 0,
        flags: 0,
        reserved: 0,
    };
}

/// `a.b.c.d` as `::ffff:a.b.c.d`.
#[must_use]
#[inline(always)]
pub const fn mapped(v4: [u8; 4]) -> [u8; 16] {
    [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4[0], v4[1], v4[2], v4[3],
    ]
}
