//! A dropped packet.

use probe_common::packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use probe_common::{RawDrop, RawSock};

use super::{Hints, names::Names, owner, packet, socket_id, tuple};
use crate::event::{
    Buffers, Drop, DropClass, Interface, Location, Owner, PacketInfo, Reason, SocketInfo, TcpState,
    Tuple,
};

const TCP_LISTEN: u8 = 10;

pub(super) fn hints(raw: &RawDrop) -> Hints {
    Hints {
        reason: (raw.flags & RawDrop::HAS_REASON != 0).then_some(raw.reason),
        outcome_unsure: false,
        route_input: raw.route_input,
        iif: raw.iif,
        ifindex: raw.ifindex,
        packet_type: raw.packet_type,
        packet_id: raw.packet_id,
    }
}

pub(super) fn drop(raw: &RawDrop, names: &mut Names) -> Drop {
    let headers = if raw.flags & RawDrop::HAS_NETWORK_HEADER != 0 {
        raw.headers
            .get(..usize::from(raw.headers_len))
            .unwrap_or(&raw.headers)
    } else {
        &[]
    };
    let packet = packet::packet(headers, raw.ethertype, raw.inner_offset, raw.length);
    let is_receiver = is_receiver(raw, packet.tuple.as_ref());
    let may_be_ip = matches!(raw.ethertype, 0 | ETHERTYPE_IPV4 | ETHERTYPE_IPV6);
    let from_socket = || {
        if may_be_ip {
            tuple::of_socket_packet(&raw.sock, is_receiver)
        } else {
            None
        }
    };
    let vlan_tci = (raw.flags & RawDrop::HAS_VLAN != 0)
        .then_some(raw.vlan_tci)
        .or(packet.vlan_tci);
    // A packet keeps its sender's socket on its way into another namespace: that one has nothing to do with a drop there.
    let is_foreign = !is_receiver && tuple::is_elsewhere(raw.netns, raw.sock.netns);
    Drop {
        count: 1,
        netns: tuple::netns_or(raw.netns, &raw.sock),
        tuple: packet.tuple.or_else(from_socket),
        tunnel: packet.tunnel,
        packet: PacketInfo {
            ethertype: (packet.ethertype != 0).then_some(packet.ethertype),
            vlan: vlan_tci.map(|tci| tci & 0x0fff),
            length: raw.length,
            segments: raw.segments.max(1),
            tcp: packet.tcp,
            icmp: packet.icmp,
        },
        reason: reason(raw, names),
        location: Location {
            address: raw.location,
            ..Location::default()
        },
        interface: interface(raw, names),
        direction: None,
        socket: if is_foreign {
            None
        } else {
            socket(&raw.sock, is_receiver)
        },
        owner: if is_foreign {
            Owner::default()
        } else {
            owner(&raw.sock)
        },
    }
}

/// Is the socket the one the packet was for? Early in its way in a packet has its receiver where a packet on its way out
/// has its sender (early demux): there the ends tell.
fn is_receiver(raw: &RawDrop, packet: Option<&Tuple>) -> bool {
    raw.flags & RawDrop::SOCK_IS_RECEIVER != 0
        || packet
            .zip(tuple::of_socket(&raw.sock.tuple))
            .is_some_and(|(packet, sock)| {
                raw.sock.present != RawSock::PRESENT_NONE
                    && packet.source != packet.destination
                    && packet.source == sock.destination
                    && packet.destination == sock.source
            })
}

/// The number, until it is looked up.
fn reason(raw: &RawDrop, names: &mut Names) -> Reason {
    let has_reason = raw.flags & RawDrop::HAS_REASON != 0;
    Reason {
        code: if has_reason { raw.reason } else { 0 },
        name: if has_reason {
            names.number(raw.reason)
        } else {
            names.not_specified()
        },
        subsystem: None,
        class: DropClass::Unspecified,
        meaning: None,
        advice: None,
    }
}

fn interface(raw: &RawDrop, names: &mut Names) -> Option<Interface> {
    (raw.ifindex != 0).then(|| Interface {
        index: raw.ifindex,
        name: names.fixed(&raw.ifname),
    })
}

fn socket(sock: &RawSock, is_receiver: bool) -> Option<SocketInfo> {
    if sock.present == RawSock::PRESENT_NONE {
        return None;
    }
    let is_tcp = tuple::is_tcp(sock);
    let is_listener = is_tcp && sock.state == TCP_LISTEN;
    let buffers = (sock.present == RawSock::PRESENT_FULL).then_some(Buffers {
        receive_queue_bytes: sock.receive_queue_bytes,
        receive_buffer_bytes: sock.receive_buffer_bytes,
        backlog_bytes: sock.backlog_bytes,
        accept_queue: is_listener.then_some(sock.accept_queue),
        accept_queue_max: is_listener.then_some(sock.accept_queue_max),
        drops: sock.drops,
    });
    Some(SocketInfo {
        id: socket_id(sock),
        is_receiver,
        state: (is_tcp && sock.state != 0).then_some(TcpState(sock.state)),
        buffers,
    })
}
