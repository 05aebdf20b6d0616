//! The one packet parser, for headers that may be cut short, wrong or hostile.
//!
//! It runs twice: in the kernel programs, to filter, and in user space, to decode. That is why it reads through
//! [`Headers`], uses bounded loops only, and never assumes that a length in a packet is true.
//! Sources: RFC 791, 8200 (IP), 9293 (TCP), 768 (UDP), 792 and 4443 (ICMP), 7348 (VXLAN), 8926 (Geneve), 2784 and 2890
//! (GRE), 2003 (IPIP), 4213 (SIT), IEEE 802.1Q.

use crate::{RawAddress, RawTuple, tuple};

/// IPv4 `EtherType`.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// IPv6 `EtherType`.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// 802.1Q `EtherType`.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// 802.1ad `EtherType`.
pub const ETHERTYPE_QINQ: u16 = 0x88a8;
const ETHERTYPE_ETHERNET: u16 = 0x6558;

/// IANA protocol numbers.
pub mod protocol {
    #![expect(missing_docs, reason = "the names say it")]
    pub const ICMP: u8 = 1;
    pub const IPIP: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    pub const IPV6: u8 = 41;
    pub const GRE: u8 = 47;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
    pub const UDPLITE: u8 = 136;
}

/// Longest chain of IPv6 extension headers that is followed.
const MAX_EXTENSIONS: usize = 8;

/// Bytes of a packet, from its network header on.
pub trait Headers {
    /// The `N` bytes at `at`, if they are there.
    fn array<const N: usize>(&self, at: u32) -> Option<[u8; N]>;

    /// The same number. In the kernel it goes through memory, where the verifier loses track of it: otherwise it would look at
    /// everything that follows once for each way to get here.
    #[inline(always)]
    fn forget(&self, number: u32) -> u32 {
        number
    }

    /// The byte at `at`.
    #[inline(always)]
    fn byte(&self, at: u32) -> Option<u8> {
        let [byte] = self.array(at)?;
        Some(byte)
    }

    /// The 16-bit number at `at` (network byte order).
    #[inline(always)]
    fn be16(&self, at: u32) -> Option<u16> {
        Some(u16::from_be_bytes(self.array(at)?))
    }
}

impl Headers for [u8] {
    fn array<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        self.get(at as usize..)?.first_chunk().copied()
    }
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Addresses, protocol and, where they can be read, ports.
    pub tuple: RawTuple,
    /// Offset of the transport header; 0: not there (a later fragment, a broken or very long extension chain).
    pub transport: u32,
    /// Length the IP header claims for the whole packet, header included; 0: it claims none (beyond 64 KiB).
    pub total_length: u32,
}

/// A tunnel's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// UDP 4789 or 8472, or the kernel marked it as encapsulated.
    Vxlan,
    /// UDP 6081, or the kernel marked it as encapsulated.
    Geneve,
    /// Protocol 47.
    Gre,
    /// Protocol 4.
    Ipip,
    /// Protocol 41.
    Sit,
}

/// Where a tunnel's inner packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulated {
    /// Kind.
    pub tunnel: Tunnel,
    /// VNI or GRE key; meaningful if `has_id`.
    pub id: u32,
    /// The tunnel has an id.
    pub has_id: bool,
    /// Offset of the inner IP header.
    pub inner: u32,
}

/// The IP header at `at`. The version is taken from the header itself.
#[inline(always)]
pub fn ip<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Ip> {
    let mut found = match headers.byte(at)? >> 4 {
        4 => ipv4(headers, at)?,
        6 => ipv6(headers, at)?,
        _ => return None,
    };
    found.transport = headers.forget(found.transport);
    if found.transport != 0
        && has_ports(found.tuple.protocol)
        && covers_ports(&found, at)
        && let Some(ports) = headers.array::<4>(found.transport)
    {
        found.tuple.source_port = u16::from_be_bytes([ports[0], ports[1]]);
        found.tuple.destination_port = u16::from_be_bytes([ports[2], ports[3]]);
        found.tuple.flags = RawTuple::HAS_PORTS;
    }
    let [protocol, ..] = headers
        .forget(u32::from(found.tuple.protocol))
        .to_le_bytes();
    found.tuple.protocol = protocol;
    Some(found)
}

/// Are the ports inside the packet by its own account? If not, the bytes there are padding of the frame. A length of 0
/// is that of TCP super-packets beyond 64 KiB ("BIG TCP") and of nothing else.
#[inline(always)]
fn covers_ports(ip: &Ip, at: u32) -> bool {
    if ip.total_length == 0 {
        ip.tuple.protocol == protocol::TCP
    } else {
        ip.total_length >= ip.transport - at + 4
    }
}

/// The transport protocol of the IP packet at `at`, without the rest of [`ip`].
#[inline(always)]
pub fn transport_protocol<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<u8> {
    match headers.byte(at)? >> 4 {
        4 => headers.byte(at + 9),
        6 => {
            let next = headers.byte(at + 6)?;
            if is_extension(next) {
                Some(ipv6_transport(headers, at, next).0)
            } else {
                Some(next)
            }
        }
        _ => None,
    }
}

/// Do packets of that protocol begin with two ports?
#[must_use]
#[inline(always)]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDPLITE
    )
}

#[inline(always)]
fn ipv4<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Ip> {
    let fixed: [u8; 20] = headers.array(at)?;
    let header_length = u32::from(fixed[0] & 0xf) * 4;
    if header_length < 20 {
        return None;
    }
    let later_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    Some(Ip {
        tuple: RawTuple {
            source: RawAddress::mapped([fixed[12], fixed[13], fixed[14], fixed[15]]),
            destination: RawAddress::mapped([fixed[16], fixed[17], fixed[18], fixed[19]]),
            protocol: fixed[9],
            version: 4,
            ..RawTuple::NONE
        },
        transport: if later_fragment {
            0
        } else {
            at + header_length
        },
        total_length: u32::from(u16::from_be_bytes([fixed[2], fixed[3]])),
    })
}

#[inline(always)]
fn ipv6<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Ip> {
    let fixed: [u8; 8] = headers.array(at)?;
    let source = address(headers, at + 8)?;
    let destination = address(headers, at + 24)?;
    let (next, transport) = ipv6_transport(headers, at, fixed[6]);
    Some(Ip {
        tuple: RawTuple {
            source,
            destination,
            protocol: next,
            version: tuple::version(source, destination),
            ..RawTuple::NONE
        },
        transport,
        total_length: match u16::from_be_bytes([fixed[4], fixed[5]]) {
            0 => 0,
            payload => 40 + u32::from(payload),
        },
    })
}

#[inline(always)]
fn address<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<RawAddress> {
    Some(RawAddress::from_halves(
        headers.array(at)?,
        headers.array(at + 8)?,
    ))
}

/// Walks the extension headers: the transport protocol and where its header is (0: not there).
#[inline(always)]
fn ipv6_transport<H: Headers + ?Sized>(headers: &H, at: u32, first: u8) -> (u8, u32) {
    let mut next = first;
    let mut offset = at + 40;
    let mut step = 0;
    while step < MAX_EXTENSIONS {
        if !is_extension(next) {
            return (next, offset);
        }
        let Some(extension) = headers.array::<4>(offset) else {
            break;
        };
        if next == 44 && u16::from_be_bytes([extension[2], extension[3]]) & 0xfff8 != 0 {
            return (extension[0], 0);
        }
        offset += match next {
            44 => 8,
            51 => (u32::from(extension[1]) + 2) * 4,
            _ => (u32::from(extension[1]) + 1) * 8,
        };
        next = extension[0];
        step += 1;
    }
    (next, 0)
}

/// Hop-by-hop, routing, fragment, authentication, destination options, mobility.
#[inline(always)]
const fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 51 | 60 | 135)
}

/// Where the inner packet of a tunnel begins. `hint`: the kernel's own offset of the inner network header, 0 if it has
/// none; it finds tunnels on ports of their own.
#[inline(always)]
pub fn encapsulated<H: Headers + ?Sized>(
    headers: &H,
    outer: &Ip,
    hint: u32,
) -> Option<Encapsulated> {
    if outer.transport == 0 {
        return None;
    }
    let at = outer.transport;
    match outer.tuple.protocol {
        protocol::IPIP => Some(Encapsulated {
            tunnel: Tunnel::Ipip,
            id: 0,
            has_id: false,
            inner: version(headers, at, 4)?,
        }),
        protocol::IPV6 => Some(Encapsulated {
            tunnel: Tunnel::Sit,
            id: 0,
            has_id: false,
            inner: version(headers, at, 6)?,
        }),
        protocol::GRE => gre(headers, at),
        protocol::UDP => {
            let at = at + 8;
            match outer.tuple.destination_port {
                4789 | 8472 => vxlan(headers, at),
                6081 => geneve(headers, at),
                _ if hint != 0 => vxlan(headers, at)
                    .filter(|found| found.inner == hint)
                    .or_else(|| geneve(headers, at).filter(|found| found.inner == hint)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[inline(always)]
fn vxlan<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Encapsulated> {
    let header: [u8; 8] = headers.array(at)?;
    if header[0] & 0x08 == 0 {
        return None;
    }
    let inner = ethernet(headers, at + 8)?;
    let id = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    Some(Encapsulated {
        tunnel: Tunnel::Vxlan,
        id,
        has_id: true,
        inner,
    })
}

#[inline(always)]
fn geneve<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Encapsulated> {
    let header: [u8; 8] = headers.array(at)?;
    if header[0] & 0xc0 != 0 {
        return None;
    }
    let payload = at + 8 + u32::from(header[0] & 0x3f) * 4;
    let inner = payload_of(headers, u16::from_be_bytes([header[2], header[3]]), payload)?;
    let id = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    Some(Encapsulated {
        tunnel: Tunnel::Geneve,
        id,
        has_id: true,
        inner,
    })
}

#[inline(always)]
fn gre<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Encapsulated> {
    let flags = headers.be16(at)?;
    // Version 0 without source routes, as Linux takes it.
    if flags & 0x4007 != 0 {
        return None;
    }
    let mut next = at + 4;
    if flags & 0x8000 != 0 {
        next += 4;
    }
    let has_id = flags & 0x2000 != 0;
    let mut id = 0;
    if has_id {
        id = u32::from_be_bytes(headers.array(next)?);
        next += 4;
    }
    if flags & 0x1000 != 0 {
        next += 4;
    }
    let inner = payload_of(headers, headers.be16(at + 2)?, next)?;
    Some(Encapsulated {
        tunnel: Tunnel::Gre,
        id,
        has_id,
        inner,
    })
}

#[inline(always)]
fn payload_of<H: Headers + ?Sized>(headers: &H, ethertype: u16, at: u32) -> Option<u32> {
    match ethertype {
        ETHERTYPE_IPV4 => version(headers, at, 4),
        ETHERTYPE_IPV6 => version(headers, at, 6),
        ETHERTYPE_ETHERNET => ethernet(headers, at),
        _ => None,
    }
}

/// `at`, if an IP header of that version begins there.
#[inline(always)]
fn version<H: Headers + ?Sized>(headers: &H, at: u32, version: u8) -> Option<u32> {
    if headers.byte(at)? >> 4 == version {
        Some(at)
    } else {
        None
    }
}

/// Offset of the IP header behind an Ethernet header at `at`, one VLAN tag allowed.
#[inline(always)]
fn ethernet<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<u32> {
    let (ethertype, payload) = match headers.be16(at + 12)? {
        ETHERTYPE_VLAN | ETHERTYPE_QINQ => (headers.be16(at + 16)?, at + 18),
        ethertype => (ethertype, at + 14),
    };
    match ethertype {
        ETHERTYPE_IPV4 => version(headers, payload, 4),
        ETHERTYPE_IPV6 => version(headers, payload, 6),
        _ => None,
    }
}

/// Offset of the IP header that an ICMP or `ICMPv6` error quotes.
#[inline(always)]
pub fn quoted<H: Headers + ?Sized>(headers: &H, error: &Ip) -> Option<u32> {
    if error.transport == 0 {
        return None;
    }
    let kind = match error.tuple.protocol {
        protocol::ICMP | protocol::ICMPV6 => headers.byte(error.transport)?,
        _ => return None,
    };
    let is_error = match error.tuple.protocol {
        protocol::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => matches!(kind, 1..=4),
    };
    is_error.then_some(error.transport + 8)
}

/// A TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags: bit 0 FIN, 1 SYN, 2 RST, 3 PSH, 4 ACK, 5 URG, 6 ECE, 7 CWR.
    pub flags: u8,
    /// Header length in bytes.
    pub header_length: u32,
}

/// The TCP header at `at`.
#[inline(always)]
pub fn tcp<H: Headers + ?Sized>(headers: &H, at: u32) -> Option<Tcp> {
    let fixed: [u8; 14] = headers.array(at)?;
    Some(Tcp {
        seq: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        ack: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        flags: fixed[13],
        header_length: u32::from(fixed[12] >> 4) * 4,
    })
}

/// Offset of what follows the VLAN tags in front of a packet, and its `EtherType`. A packet with a tag in it may have its network
/// header in front of the tag or behind it (packet sockets put it behind): the `EtherType` that a tag would end with tells.
#[inline(always)]
pub fn skip_vlan<H: Headers + ?Sized>(headers: &H, ethertype: u16) -> (u32, u16) {
    if ethertype != ETHERTYPE_VLAN && ethertype != ETHERTYPE_QINQ {
        return (0, ethertype);
    }
    match headers.be16(2) {
        Some(inner @ (ETHERTYPE_VLAN | ETHERTYPE_QINQ)) => (8, headers.be16(6).unwrap_or(inner)),
        Some(inner @ (ETHERTYPE_IPV4 | ETHERTYPE_IPV6)) => (4, inner),
        Some(inner) => match headers.byte(0) {
            Some(0x45..=0x4f) => (0, ETHERTYPE_IPV4),
            Some(0x60..=0x6f) => (0, ETHERTYPE_IPV6),
            _ => (4, inner),
        },
        None => (0, ethertype),
    }
}
