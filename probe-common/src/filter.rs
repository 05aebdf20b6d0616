//! What is to be shown: the command line's filters, in the form the kernel programs evaluate.
//!
//! Different kinds of filter are `ANDed`, the values of one kind `ORed`. Nothing here limits what is counted.

use crate::{RawNetns, RawTuple, wire};

/// Most values one kind of filter can have.
pub const MAX_VALUES: usize = 16;
/// Core drop reasons a reason filter can tell apart; Linux 7.3 has 126.
pub const MAX_REASONS: usize = 256;

wire! {
    /// Ports from `low` to `high`, both included.
    pub struct PortRange {
        /// First port.
        pub low: u16,
        /// Last port.
        pub high: u16,
    }
}

wire! {
    /// Sixteen bytes that equal `value` where `mask` has ones: an address prefix (IPv4 as `::ffff:a.b.c.d/96+n`) or a name with
    /// its NUL. Each word holds eight bytes in their order in memory.
    pub struct Masked {
        /// The bytes; 0 where `mask` is 0.
        pub value: [u64; 2],
        /// The mask.
        pub mask: [u64; 2],
    }
}

wire! {
    /// One list of values.
    pub struct Ports {
        /// How many of `values` count; 0: the filter is not set.
        pub len: u32,
        /// The values.
        pub values: [PortRange; MAX_VALUES],
    }
}

wire! {
    /// One list of values.
    pub struct MaskedList {
        /// The values.
        pub values: [Masked; MAX_VALUES],
        /// How many of `values` count; 0: the filter is not set.
        pub len: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

wire! {
    /// A set of core drop reasons.
    pub struct ReasonSet {
        /// One bit a reason.
        pub bits: [u64; MAX_REASONS / 64],
        /// 0: the filter is not set.
        pub active: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

wire! {
    /// All filters.
    pub struct Filters {
        /// Either end's address.
        pub host: MaskedList,
        /// Source address.
        pub source: MaskedList,
        /// Destination address.
        pub destination: MaskedList,
        /// Drop reasons to show.
        pub reason: ReasonSet,
        /// Drop reasons not to show.
        pub exclude_reason: ReasonSet,
        /// Namespaces; an entry with a cookie is compared by it, one without by the inode.
        pub netns: [RawNetns; MAX_VALUES],
        /// Interface names.
        pub interface: MaskedList,
        /// IANA protocol numbers.
        pub protocol: [u8; MAX_VALUES],
        /// Either end's port.
        pub port: Ports,
        /// Source port.
        pub source_port: Ports,
        /// Destination port.
        pub destination_port: Ports,
        /// How many of `netns` count; 0: the filter is not set.
        pub netns_len: u32,
        /// How many of `protocol` count; 0: the filter is not set.
        pub protocol_len: u32,
        /// 1: user space filters by owner (`--pid`, `--cgroup`), so events without a socket do not match and the others
        /// are passed on undecided.
        pub by_owner: u32,
        /// 1: `--only retransmits`: no drops.
        pub no_drops: u32,
        /// 1: no retransmits, samples and flow ends: `--only drops`, or a filter by what only drops have.
        pub no_retransmits: u32,
        /// 1: no resets: `--only`, or a filter by what only drops have.
        pub no_resets: u32,
        /// 1: some filter needs the tuple.
        pub needs_tuple: u32,
    }
}

/// What a reason filter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonMatch {
    /// It is shown.
    Yes,
    /// It is not shown.
    No,
    /// Only user space can tell: a subsystem's reason.
    Undecided,
}

impl Filters {
    /// No filter: everything is shown.
    pub const NONE: Self = {
        const MASKED: MaskedList = MaskedList {
            values: [Masked {
                value: [0; 2],
                mask: [0; 2],
            }; MAX_VALUES],
            len: 0,
            reserved: 0,
        };
        const PORTS: Ports = Ports {
            len: 0,
            values: [PortRange { low: 0, high: 0 }; MAX_VALUES],
        };
        const REASONS: ReasonSet = ReasonSet {
            bits: [0; MAX_REASONS / 64],
            active: 0,
            reserved: 0,
        };
        Self {
            host: MASKED,
            source: MASKED,
            destination: MASKED,
            reason: REASONS,
            exclude_reason: REASONS,
            netns: [RawNetns::UNKNOWN; MAX_VALUES],
            interface: MASKED,
            protocol: [0; MAX_VALUES],
            port: PORTS,
            source_port: PORTS,
            destination_port: PORTS,
            netns_len: 0,
            protocol_len: 0,
            by_owner: 0,
            no_drops: 0,
            no_retransmits: 0,
            no_resets: 0,
            needs_tuple: 0,
        }
    };

    /// Does one packet (or socket) match the address, port and protocol filters?
    #[must_use]
    #[inline(always)]
    pub fn matches_tuple(&self, tuple: &RawTuple) -> bool {
        let has_ports = tuple.flags & RawTuple::HAS_PORTS != 0;
        let (sport, dport) = (tuple.source_port, tuple.destination_port);
        if self.port.len != 0
            && !(has_ports && (self.port.contain(sport) || self.port.contain(dport)))
        {
            return false;
        }
        if self.source_port.len != 0 && !(has_ports && self.source_port.contain(sport)) {
            return false;
        }
        if self.destination_port.len != 0 && !(has_ports && self.destination_port.contain(dport)) {
            return false;
        }
        if self.protocol_len != 0 && !self.has_protocol(tuple.protocol) {
            return false;
        }
        let (src, dst) = (tuple.source.words, tuple.destination.words);
        if self.host.len != 0 && !(self.host.contain(src) || self.host.contain(dst)) {
            return false;
        }
        if self.source.len != 0 && !self.source.contain(src) {
            return false;
        }
        self.destination.len == 0 || self.destination.contain(dst)
    }

    /// Does an event in that namespace match?
    #[must_use]
    #[inline(always)]
    pub fn matches_netns(&self, netns: RawNetns) -> bool {
        if self.netns_len == 0 {
            return true;
        }
        let mut i = 0;
        while i < MAX_VALUES {
            if i >= self.netns_len as usize {
                break;
            }
            let Some(want) = self.netns.get(i) else { break };
            if (want.cookie != 0 && want.cookie == netns.cookie)
                || (want.cookie == 0 && want.inode == netns.inode)
            {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Does a drop at that interface match?
    #[must_use]
    #[inline(always)]
    pub fn matches_interface(&self, name: &[u8; 16]) -> bool {
        self.interface.len == 0 || self.interface.contain(words(name))
    }

    /// Does a drop with that reason match?
    #[must_use]
    #[inline(always)]
    pub fn matches_reason(&self, reason: u32) -> ReasonMatch {
        if self.reason.active == 0 && self.exclude_reason.active == 0 {
            return ReasonMatch::Yes;
        }
        if reason as usize >= MAX_REASONS {
            return ReasonMatch::Undecided;
        }
        if (self.reason.active == 0 || self.reason.contains(reason))
            && !(self.exclude_reason.active != 0 && self.exclude_reason.contains(reason))
        {
            ReasonMatch::Yes
        } else {
            ReasonMatch::No
        }
    }

    #[inline(always)]
    fn has_protocol(&self, protocol: u8) -> bool {
        let mut i = 0;
        while i < MAX_VALUES {
            if i >= self.protocol_len as usize {
                break;
            }
            if self.protocol.get(i) == Some(&protocol) {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl Ports {
    #[inline(always)]
    fn contain(&self, port: u16) -> bool {
        let mut i = 0;
        while i < MAX_VALUES {
            if i >= self.len as usize {
                break;
            }
            let Some(range) = self.values.get(i) else {
                break;
            };
            if range.low <= port && port <= range.high {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl MaskedList {
    #[inline(always)]
    fn contain(&self, bytes: [u64; 2]) -> bool {
        let mut i = 0;
        while i < MAX_VALUES {
            if i >= self.len as usize {
                break;
            }
            let Some(want) = self.values.get(i) else {
                break;
            };
            if (bytes[0] & want.mask[0]) == want.value[0]
                && (bytes[1] & want.mask[1]) == want.value[1]
            {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl ReasonSet {
    #[inline(always)]
    fn contains(&self, reason: u32) -> bool {
        // The compiler knows that it is small enough, the verifier must see it.
        let reason = core::hint::black_box(reason) as usize & (MAX_REASONS - 1);
        self.bits
            .get(reason / 64)
            .is_some_and(|word| (word >> (reason % 64)) & 1 != 0)
    }

    /// Adds a core reason; those beyond [`MAX_REASONS`] are left to user space.
    pub fn insert(&mut self, reason: u32) {
        if let Some(word) = self.bits.get_mut(reason as usize / 64) {
            *word |= 1 << (reason % 64);
        }
    }
}

/// Sixteen bytes as [`Masked`] holds them.
#[must_use]
#[inline(always)]
pub const fn words(bytes: &[u8; 16]) -> [u64; 2] {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => [u64::from_ne_bytes(*first), u64::from_ne_bytes(*last)],
        _ => [0; 2],
    }
}
