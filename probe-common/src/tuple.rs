//! Who talks to whom.

use crate::wire;

wire! {
    /// An IPv6 address, or an IPv4 address as `::ffff:a.b.c.d`. Two words instead of sixteen bytes, so that the kernel programs
    /// keep it in registers; the bytes are in network order.
    pub struct RawAddress {
        /// The bytes 0–7 and 8–15, each word in their order in memory.
        pub words: [u64; 2],
    }
}

impl RawAddress {
    /// `::`
    pub const UNSPECIFIED: Self = Self { words: [0; 2] };

    /// `a.b.c.d` as `::ffff:a.b.c.d`.
    #[must_use]
    #[inline(always)]
    pub const fn mapped(v4: [u8; 4]) -> Self {
        Self {
            words: [
                0,
                u64::from_ne_bytes([0, 0, 0xff, 0xff, v4[0], v4[1], v4[2], v4[3]]),
            ],
        }
    }

    /// From the two halves of the sixteen bytes.
    #[must_use]
    #[inline(always)]
    pub const fn from_halves(high: [u8; 8], low: [u8; 8]) -> Self {
        Self {
            words: [u64::from_ne_bytes(high), u64::from_ne_bytes(low)],
        }
    }

    /// Is it `::ffff:a.b.c.d`?
    #[must_use]
    #[inline(always)]
    pub const fn is_mapped(self) -> bool {
        let [a, b, c, d, ..] = self.words[1].to_ne_bytes();
        self.words[0] == 0 && u32::from_be_bytes([a, b, c, d]) == 0xffff
    }

    /// The sixteen bytes in network order.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        let mut octets = [0; 16];
        let (high, low) = octets.split_at_mut(8);
        high.copy_from_slice(&self.words[0].to_ne_bytes());
        low.copy_from_slice(&self.words[1].to_ne_bytes());
        octets
    }
}

wire! {
    /// Both ends of a packet or a socket.
    pub struct RawTuple {
        /// Source (local) address.
        pub source: RawAddress,
        /// Destination (remote) address.
        pub destination: RawAddress,
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
        source: RawAddress::UNSPECIFIED,
        destination: RawAddress::UNSPECIFIED,
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        version: 0,
        flags: 0,
        reserved: 0,
    };
}

/// What is shown as IPv4: both addresses are v4-mapped.
#[must_use]
#[inline(always)]
pub const fn version(source: RawAddress, destination: RawAddress) -> u8 {
    if source.is_mapped() && destination.is_mapped() {
        4
    } else {
        6
    }
}
