//! Drops: every buffer the kernel frees because something went wrong.
//!
//! The event comes before the data is released, so headers and socket are intact. It also comes for things that are no
//! network drops: messages of `AF_UNIX` and netlink sockets, copies for packet sockets, the fragments of a packet that was
//! consumed. They are told apart here.

use aya_ebpf::programs::BtfTracePointContext;
use probe_common::{
    DropCount, DropCountKey, Filters, RawDrop, RawNetns, RawTuple, RecordKind,
    filter::ReasonMatch,
    offsets::ABSENT,
    packet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, Headers},
    stats::Stat,
};

use crate::{
    emit::{Record, emit},
    globals::{filters, offset, setting},
    maps::{add, count, counter},
    read::{Address, Memory, Typed},
    skb::{self, Packet, Scratch},
    sock,
};

// SAFETY: begins with a header, plain numbers.
unsafe impl Record for RawDrop {
    const KIND: RecordKind = RecordKind::Drop;
}

const ARPHRD_ETHER: u16 = 1;

/// One drop: what is known of it before it is decided whether it is shown.
#[derive(Clone, Copy)]
#[repr(C)]
struct Seen {
    location: u64,
    /// The socket that was to receive it, or that sent it; 0: none.
    sock: Address,
    /// `skb->dev`; 0: it is none.
    device: Address,
    netns: RawNetns,
    reason: u32,
    is_receiver: u32,
    family: u32,
}

/// `kfree_skb(skb, location[, reason[, rx_sk]])`
#[inline(always)]
pub(crate) fn run(ctx: &BtfTracePointContext) {
    let reason = if setting!(FEATURES.kfree_skb_reason) != 0 {
        ctx.arg::<u32>(2)
    } else {
        0
    };
    let consumed = setting!(FEATURES.reason_consumed);
    if setting!(FEATURES.kfree_skb_reason) != 0 && consumed != 0 && reason == consumed {
        return;
    }
    let location: u64 = ctx.arg(1);
    // consume_skb() of a packet with a fragment list frees the fragments one by one, as if they were dropped.
    if setting!(FEATURES.skb_release_data_start) <= location
        && location < setting!(FEATURES.skb_release_data_end)
    {
        count(Stat::FragmentOfConsumed);
        return;
    }
    let Some(scratch) = Scratch::enter(&skb::DROP_HEADERS) else {
        return;
    };
    // SAFETY: skb is never NULL at this tracepoint.
    let skb = unsafe { Typed::argument(ctx, 0) };
    let seen = scratch.forget(look(ctx, skb, &scratch, reason, location));
    let packet = Packet::read(skb, &scratch);
    tell(skb, &seen, &packet, &scratch);
    scratch.leave();
}

#[inline(always)]
fn look(
    ctx: &BtfTracePointContext,
    skb: Typed,
    scratch: &Scratch,
    reason: u32,
    location: u64,
) -> Seen {
    let receiver = if setting!(FEATURES.kfree_skb_rx_sk) != 0 {
        scratch.argument(ctx, 3)
    } else {
        Address(0)
    };
    let device = scratch.pointer(skb, offset!(skb_dev));
    if receiver.is_kernel() {
        return Seen {
            location,
            sock: receiver,
            device,
            netns: sock::netns_of_socket(receiver).unwrap_or(RawNetns::UNKNOWN),
            reason,
            is_receiver: 1,
            family: u32::from(receiver.get::<u16>(offset!(skc_family))),
        };
    }
    // On Linux 5.10 the word of skb->sk can hold a small number instead (ip_defrag_offset).
    let sock = scratch.pointer(skb, offset!(skb_sk));
    let sock = if sock.is_kernel() { sock } else { Address(0) };
    let family: u16 = if sock.0 == 0 {
        0
    } else {
        sock.get(offset!(skc_family))
    };
    // A packet keeps its sender's socket across veth: the device says better where it is now.
    let at = skb::netns_of_device(device);
    let netns = at
        .or_else(|| {
            if sock.0 == 0 {
                None
            } else {
                sock::netns_of_socket(sock)
            }
        })
        .or_else(|| skb::netns_of_route(skb.address()))
        .unwrap_or(RawNetns::UNKNOWN);
    let device = if at.is_some() { device } else { Address(0) };
    Seen {
        location,
        sock,
        device,
        netns,
        reason,
        is_receiver: 0,
        family: u32::from(family),
    }
}

impl Seen {
    /// The device, if it really is one. A receiver's namespace was found without looking at it.
    #[inline(always)]
    fn device(&self) -> Option<Address> {
        if self.is_receiver != 0 {
            skb::netns_of_device(self.device)?;
        }
        if self.device.0 == 0 {
            None
        } else {
            Some(self.device)
        }
    }
}

/// Counts it, and shows it if it matches.
#[inline(always)]
fn tell(skb: Typed, seen: &Seen, packet: &Packet, scratch: &Scratch) {
    let domain = domain(seen);
    let key = scratch.forget(key(seen, packet, domain));
    let segments = scratch.forget(segments(skb, packet));
    let Some(counts) = counter!(DROP_COUNTS, key, ZERO) else {
        return;
    };
    // SAFETY: a live map value of this CPU.
    let counts = unsafe { &mut *counts };
    add(&mut counts.packets, 1);
    add(&mut counts.segments, u64::from(segments));
    if key.domain != DropCountKey::DOMAIN_NETWORK {
        return;
    }
    let filters = filters();
    let Some(undecided) = matches(filters, skb, seen, packet, key.protocol) else {
        return;
    };
    let undecided = scratch.forget(undecided);
    add(&mut counts.matched, 1);
    let emitted = emit::<RawDrop>(|record| {
        record.segments = segments;
        record.flags = if undecided { RawDrop::UNDECIDED } else { 0 };
        fill(record, skb, seen, packet);
    });
    if !emitted {
        add(&mut counts.no_record, 1);
    }
}

const ZERO: DropCount = DropCount {
    packets: 0,
    segments: 0,
    matched: 0,
    no_record: 0,
};

/// Is it a network drop? By the family of the socket it belongs to.
#[inline(always)]
fn domain(seen: &Seen) -> u8 {
    match seen.family as u16 {
        0 | sock::AF_INET | sock::AF_INET6 => DropCountKey::DOMAIN_NETWORK,
        sock::AF_UNIX => DropCountKey::DOMAIN_UNIX,
        sock::AF_NETLINK => DropCountKey::DOMAIN_NETLINK,
        // What a packet socket sends is a packet like any other; what it would have received is a copy.
        sock::AF_PACKET if seen.is_receiver == 0 && seen.device.0 != 0 => {
            DropCountKey::DOMAIN_NETWORK
        }
        sock::AF_PACKET => DropCountKey::DOMAIN_PACKET,
        _ => DropCountKey::DOMAIN_OTHER,
    }
}

#[inline(always)]
fn key(seen: &Seen, packet: &Packet, domain: u8) -> DropCountKey {
    let mut ethertype = packet.ethertype;
    let mut protocol = 0;
    if packet.headers.len != 0 && maybe_ip(packet.ethertype) {
        let (at, inner) = packet::skip_vlan(&packet.headers, packet.ethertype);
        if let Some(found) = packet::transport_protocol(&packet.headers, at) {
            protocol = found;
            ethertype = inner;
        }
    } else if packet.network == 0 && domain == DropCountKey::DOMAIN_NETWORK && seen.sock.0 != 0 {
        // Not a packet yet (or no longer): the socket says what it was to be.
        let state: u8 = seen.sock.get(offset!(skc_state));
        if sock::is_full(state) {
            protocol = seen.sock.get::<u16>(offset!(sk_protocol)) as u8;
            ethertype = if seen.family as u16 == sock::AF_INET6 {
                ETHERTYPE_IPV6
            } else {
                ETHERTYPE_IPV4
            };
        }
    }
    DropCountKey {
        netns: seen.netns,
        reason: seen.reason,
        ethertype,
        protocol,
        domain,
    }
}

/// Locally built packets do not have their EtherType yet.
#[inline(always)]
fn maybe_ip(ethertype: u16) -> bool {
    matches!(
        ethertype,
        0 | ETHERTYPE_IPV4 | ETHERTYPE_IPV6 | ETHERTYPE_VLAN | ETHERTYPE_QINQ
    )
}

/// Packets on the wire it stands for.
#[inline(always)]
fn segments(skb: Typed, packet: &Packet) -> u32 {
    let end: u32 = skb.get(offset!(skb_end));
    let shared = Address(packet.head + u64::from(end));
    let size: u16 = shared.get(offset!(gso_size));
    if size == 0 {
        return 1;
    }
    let segments: u16 = shared.get(offset!(gso_segs));
    if segments != 0 {
        return u32::from(segments);
    }
    let length: u32 = skb.get(offset!(skb_len));
    length.div_ceil(u32::from(size))
}

/// Is it shown? `None`: no. `Some(true)`: user space must decide.
#[inline(always)]
fn matches(
    filters: &Filters,
    skb: Typed,
    seen: &Seen,
    packet: &Packet,
    protocol: u8,
) -> Option<bool> {
    if filters.no_drops != 0 || !filters.matches_netns(seen.netns) {
        return None;
    }
    let mut undecided = filters.by_owner != 0;
    if filters.by_owner != 0 && seen.sock.0 == 0 {
        return None;
    }
    match filters.matches_reason(seen.reason) {
        ReasonMatch::Yes => {}
        ReasonMatch::No => return None,
        ReasonMatch::Undecided => undecided = true,
    }
    if filters.interface.len != 0
        && !filters.matches_interface(&seen.device()?.get(offset!(dev_name)))
    {
        return None;
    }
    if filters.needs_tuple != 0 && !matches_packet(filters, skb, seen, packet, protocol) {
        return None;
    }
    Some(undecided)
}

/// The packet itself, the one in its tunnel, or the one an ICMP error quotes.
#[inline(always)]
fn matches_packet(
    filters: &Filters,
    skb: Typed,
    seen: &Seen,
    packet: &Packet,
    protocol: u8,
) -> bool {
    let headers = &packet.headers;
    if packet.network == 0 && matches!(seen.family as u16, sock::AF_INET | sock::AF_INET6) {
        return filters.matches_tuple(&sock::tuple(seen.sock, seen.family as u16, protocol));
    }
    if !maybe_ip(packet.ethertype) {
        return false;
    }
    let hint = inner_offset(skb, packet);
    let (mut at, _) = packet::skip_vlan(headers, packet.ethertype);
    let mut tunnel_left = true;
    let mut readable = false;
    let mut layer = 0;
    while layer < MAX_LAYERS {
        let Some(ip) = packet::ip(headers, at) else {
            break;
        };
        if filters.matches_tuple(&ip.tuple) {
            return true;
        }
        readable = ip.transport != 0
            && (ip.tuple.flags & RawTuple::HAS_PORTS != 0 || !packet::has_ports(ip.tuple.protocol));
        let tunnel = if tunnel_left {
            packet::encapsulated(headers, &ip, hint)
        } else {
            None
        };
        tunnel_left = false;
        let next = tunnel
            .map(|tunnel| tunnel.inner)
            .or_else(|| packet::quoted(headers, &ip));
        let Some(next) = next else { break };
        at = headers.forget(next);
        layer += 1;
    }
    if !readable {
        count(Stat::UnmatchedNoTuple);
    }
    false
}

/// Outer packet, inner packet, the packet that one quotes.
const MAX_LAYERS: u32 = 3;

/// Where the kernel itself says the inner packet begins; 0: it does not.
#[inline(always)]
fn inner_offset(skb: Typed, packet: &Packet) -> u32 {
    if skb.bits(offset!(skb_encapsulation)) == 0 {
        return 0;
    }
    let inner: u16 = skb.get(offset!(skb_inner_network_header));
    if inner > packet.network_offset {
        u32::from(inner - packet.network_offset)
    } else {
        0
    }
}

#[inline(always)]
fn fill(record: &mut RawDrop, skb: Typed, seen: &Seen, packet: &Packet) {
    record.location = seen.location;
    record.reason = seen.reason;
    record.netns = seen.netns;
    record.packet_id = packet.network;
    record.ethertype = packet.ethertype;
    record.length = skb.get(offset!(skb_len));
    record.iif = skb.get(offset!(skb_iif));
    record.packet_type = skb.bits(offset!(skb_pkt_type));
    record.inner_offset = inner_offset(skb, packet) as u16;
    record.headers_len = packet.headers.len as u16;
    packet.headers.copy_to(&mut record.headers);
    if setting!(FEATURES.kfree_skb_reason) != 0 {
        record.flags |= RawDrop::HAS_REASON;
    }
    if packet.network != 0 {
        record.flags |= RawDrop::HAS_NETWORK_HEADER;
    }
    if has_vlan(skb) {
        record.flags |= RawDrop::HAS_VLAN;
        record.vlan_tci = skb.get(offset!(skb_vlan_tci));
    } else if let Some(tci) = tag_in_front(packet) {
        record.flags |= RawDrop::HAS_VLAN;
        record.vlan_tci = tci;
    }
    if let Some(device) = seen.device() {
        record.ifindex = device.get(offset!(dev_ifindex));
        record.ifname = device.get(offset!(dev_name));
        let kind: u16 = device.get(offset!(dev_type));
        if kind == ARPHRD_ETHER {
            record.flags |= RawDrop::IS_ETHERNET;
        }
    }
    if let Some(route) = skb::route(skb.address()) {
        record.route_input = route.get(offset!(dst_input));
    }
    if seen.sock.0 != 0 {
        if seen.is_receiver != 0 {
            record.flags |= RawDrop::SOCK_IS_RECEIVER;
        }
        sock::fill(&mut record.sock, seen.sock, seen.sock);
    }
}

/// The VLAN tag that is still in the packet, but in front of its network header.
#[inline(always)]
fn tag_in_front(packet: &Packet) -> Option<u16> {
    let is_tagged = matches!(packet.ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ);
    if !is_tagged
        || packet.network_offset < 4
        || packet::skip_vlan(&packet.headers, packet.ethertype).0 != 0
    {
        return None;
    }
    let tag: [u8; 4] = Address(packet.network - 4).read()?;
    let [high, low, _, _] = tag;
    Some(u16::from_be_bytes([high, low]))
}

/// Was a VLAN tag taken off?
#[inline(always)]
fn has_vlan(skb: Typed) -> bool {
    let (present, all) = (offset!(skb_vlan_present), offset!(skb_vlan_all));
    if present != ABSENT {
        return skb.bits(present) != 0;
    }
    all != ABSENT && skb.get::<u32>(all) != 0
}
