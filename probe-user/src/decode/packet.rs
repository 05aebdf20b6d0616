//! What the bytes of a dropped packet say.

use probe_common::packet::{
    self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, Encapsulated, Ip,
    protocol,
};

use super::tuple;
use crate::event::{IcmpHeader, TcpHeader, TunnelInfo, Tuple};

/// The packet, as far as it can be read.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// Innermost.
    pub(super) tuple: Option<Tuple>,
    pub(super) tunnel: Option<TunnelInfo>,
    pub(super) tcp: Option<TcpHeader>,
    pub(super) icmp: Option<IcmpHeader>,
    /// Behind VLAN tags.
    pub(super) ethertype: u16,
    /// Tag that is still in the packet.
    pub(super) vlan_tci: Option<u16>,
}

/// `hint`: offset of the inner network header if the kernel knows it, else 0. `length`: bytes of the whole packet, used
/// where its IP header claims no length.
pub(super) fn packet(headers: &[u8], ethertype: u16, hint: u16, length: u32) -> Packet {
    let tagged = ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ;
    let (at, ethertype) = packet::skip_vlan(headers, ethertype);
    let mut found = Packet {
        ethertype,
        vlan_tci: if tagged && at != 0 {
            packet::Headers::be16(headers, 0)
        } else {
            None
        },
        ..Packet::default()
    };
    let Some(outer) = network(headers, at, ethertype) else {
        return found;
    };
    let tunnel = packet::encapsulated(headers, &outer, hint.into());
    let inner = tunnel.and_then(|tunnel| Some((tunnel, packet::ip(headers, tunnel.inner)?)));
    let (start, innermost) = match inner {
        Some((tunnel, inner)) => {
            found.tunnel = tunnel_info(tunnel, &outer);
            (tunnel.inner, inner)
        }
        None => (at, outer),
    };
    found.tuple = tuple::of_packet(&innermost.tuple);
    found.tcp = tcp(headers, start, &innermost, length);
    found.icmp = icmp(headers, &innermost);
    found
}

/// The IP header at `at`, if the `EtherType` does not speak against it (0: not set, as in packets TCP has just built).
fn network(headers: &[u8], at: u32, ethertype: u16) -> Option<Ip> {
    let first = packet::Headers::byte(headers, at)?;
    let agrees = match ethertype {
        0 => true,
        ETHERTYPE_IPV4 => first >> 4 == 4,
        ETHERTYPE_IPV6 => first >> 4 == 6,
        _ => false,
    };
    if agrees {
        packet::ip(headers, at)
    } else {
        None
    }
}

fn tunnel_info(tunnel: Encapsulated, outer: &Ip) -> Option<TunnelInfo> {
    Some(TunnelInfo {
        kind: tunnel.tunnel,
        id: tunnel.has_id.then_some(tunnel.id),
        outer: tuple::of_packet(&outer.tuple)?,
    })
}

fn tcp(headers: &[u8], start: u32, ip: &Ip, length: u32) -> Option<TcpHeader> {
    if ip.tuple.protocol != protocol::TCP || ip.transport == 0 {
        return None;
    }
    let header = packet::tcp(headers, ip.transport)?;
    // Only beyond 64 KiB does an IP header claim no length; there the packet's own is within a link-layer header of it.
    let total = if ip.total_length == 0 {
        length
    } else {
        ip.total_length
    };
    let before_payload = (ip.transport - start).saturating_add(header.header_length);
    Some(TcpHeader {
        flags: header.flags,
        seq: header.seq,
        ack: header.ack,
        payload: total.saturating_sub(before_payload),
    })
}

fn icmp(headers: &[u8], ip: &Ip) -> Option<IcmpHeader> {
    if ip.transport == 0 || !matches!(ip.tuple.protocol, protocol::ICMP | protocol::ICMPV6) {
        return None;
    }
    let [kind, code] = packet::Headers::array(headers, ip.transport)?;
    let quoted = packet::quoted(headers, ip).and_then(|at| packet::ip(headers, at));
    Some(IcmpHeader {
        kind,
        code,
        quoted: quoted.and_then(|quoted| tuple::of_packet(&quoted.tuple)),
    })
}
