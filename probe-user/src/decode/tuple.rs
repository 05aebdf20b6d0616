//! Who talks to whom, and where.

use std::net::{IpAddr, Ipv6Addr};

use probe_common::{RawNetns, RawSock, RawTuple, packet::protocol};

use crate::event::{Endpoint, Netns, Tuple};

/// The tuple of a packet.
pub(super) fn of_packet(raw: &RawTuple) -> Option<Tuple> {
    if raw.version != 4 && raw.version != 6 {
        return None;
    }
    let has_ports = raw.flags & RawTuple::HAS_PORTS != 0;
    let (source, destination) = addresses(raw);
    Some(Tuple {
        protocol: raw.protocol,
        source: Endpoint {
            address: source,
            port: has_ports.then_some(raw.source_port),
        },
        destination: Endpoint {
            address: destination,
            port: has_ports.then_some(raw.destination_port),
        },
    })
}

/// The tuple of a socket, local → remote: there a port 0 means "none".
pub(super) fn of_socket(raw: &RawTuple) -> Option<Tuple> {
    let mut tuple = of_packet(raw)?;
    tuple.source.port = tuple.source.port.filter(|&port| port != 0);
    tuple.destination.port = tuple.destination.port.filter(|&port| port != 0);
    Some(tuple)
}

/// What a packet of this socket looks like: only if the socket is full, of IP, and bound at both ends.
pub(super) fn of_socket_packet(sock: &RawSock, is_receiver: bool) -> Option<Tuple> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    if sock.present != RawSock::PRESENT_FULL || (sock.family != AF_INET && sock.family != AF_INET6)
    {
        return None;
    }
    let Tuple {
        protocol,
        source,
        destination,
    } = of_socket(&sock.tuple)?;
    if protocol == 0 || source.address.is_unspecified() || destination.address.is_unspecified() {
        return None;
    }
    Some(if is_receiver {
        Tuple {
            protocol,
            source: destination,
            destination: source,
        }
    } else {
        Tuple {
            protocol,
            source,
            destination,
        }
    })
}

/// v4-mapped addresses are IPv4 where both ends are.
fn addresses(raw: &RawTuple) -> (IpAddr, IpAddr) {
    let (source, destination) = (
        Ipv6Addr::from(raw.source.octets()),
        Ipv6Addr::from(raw.destination.octets()),
    );
    match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
        (Some(source), Some(destination)) => (source.into(), destination.into()),
        _ => (source.into(), destination.into()),
    }
}

pub(super) fn netns(raw: RawNetns) -> Netns {
    Netns {
        inode: raw.inode,
        cookie: (raw.cookie != 0).then_some(raw.cookie),
        name: None,
    }
}

/// The record's namespace; its socket's where the record has none.
pub(super) fn netns_or(raw: RawNetns, sock: &RawSock) -> Netns {
    if raw.inode == 0 && raw.cookie == 0 && sock.present != RawSock::PRESENT_NONE {
        netns(sock.netns)
    } else {
        netns(raw)
    }
}

/// Is the socket a TCP one? Sockets that are not full (`TIME_WAIT`, request) do not say, but only TCP has them.
pub(super) fn is_tcp(sock: &RawSock) -> bool {
    sock.protocol == u16::from(protocol::TCP) || sock.present == RawSock::PRESENT_MINI
}

/// Are both namespaces known, and two?
pub(super) fn is_elsewhere(one: RawNetns, other: RawNetns) -> bool {
    let are_known = one.inode != 0 && other.inode != 0;
    are_known && (one.inode, one.cookie) != (other.inode, other.cookie)
}
