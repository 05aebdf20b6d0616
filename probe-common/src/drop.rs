//! A packet the kernel dropped: tracepoint `skb:kfree_skb`.

use crate::{Header, RawNetns, RawSock, wire};

/// Bytes of packet headers a [`RawDrop`] carries, from the network header on. Enough for IPv6 + VXLAN + Ethernet + IPv6
/// with options + TCP.
pub const HEADER_SNAP: usize = 192;

wire! {
    /// One `skb:kfree_skb` event that is a drop.
    pub struct RawDrop {
        /// Kind [`crate::RecordKind::Drop`].
        pub header: Header,
        /// Where the kernel freed it: a code address.
        pub location: u64,
        /// Data of the packet (`head + network_header`): equal for clones of one packet; never shown.
        pub packet_id: u64,
        /// `dst_entry.input` of the packet's route: tells forwarded packets; 0 if none; never shown.
        pub route_input: u64,
        /// Namespace in which it happened.
        pub netns: RawNetns,
        /// The socket that received it (`rx_sk`, Linux 6.11) or sent it (`skb->sk`): see [`RawDrop::SOCK_IS_RECEIVER`].
        pub sock: RawSock,
        /// Drop reason; 0 where the kernel gives none (before Linux 5.17). The upper 16 bits are the subsystem.
        pub reason: u32,
        /// `skb->len`, bytes.
        pub length: u32,
        /// Packets on the wire it stands for (GSO/GRO), at least 1.
        pub segments: u32,
        /// Interface index, 0 if not known.
        pub ifindex: u32,
        /// `skb->skb_iif`: interface it came in by; 0 for packets sent by this host.
        pub iif: u32,
        /// [`RawDrop::HAS_REASON`] …
        pub flags: u32,
        /// Interface name, NUL-padded; empty if not known.
        pub ifname: [u8; 16],
        /// `skb->protocol` in host byte order: the `EtherType`, 0 if not set.
        pub ethertype: u16,
        /// VLAN tag (TCI) that was taken off the packet; meaningful if [`RawDrop::HAS_VLAN`].
        pub vlan_tci: u16,
        /// Offset in `headers` of the inner network header, where the kernel knows it; 0 if not.
        pub inner_offset: u16,
        /// Valid bytes in `headers`.
        pub headers_len: u16,
        /// `skb->pkt_type` (0 host, 1 broadcast, 2 multicast, 3 other host, 4 outgoing).
        pub packet_type: u8,
        /// Always 0.
        pub reserved: [u8; 7],
        /// The packet from its network header on.
        pub headers: [u8; HEADER_SNAP],
    }
}

impl RawDrop {
    /// `reason` is meaningful.
    pub const HAS_REASON: u32 = 1;
    /// `vlan_tci` is meaningful.
    pub const HAS_VLAN: u32 = 1 << 1;
    /// `sock` is the receiver (`rx_sk`), not the sender.
    pub const SOCK_IS_RECEIVER: u32 = 1 << 2;
    /// The packet has a network header (`headers` starts there).
    pub const HAS_NETWORK_HEADER: u32 = 1 << 3;
    /// The device type is Ethernet.
    pub const IS_ETHERNET: u32 = 1 << 4;
    /// The filters could not decide in the kernel (a subsystem's reason, the owner): user space must.
    pub const UNDECIDED: u32 = 1 << 5;
}
