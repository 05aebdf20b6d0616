//! The packet parser on well-formed, truncated, odd and arbitrary packets.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod packets;

use packets::{Build, geneve, gre, icmp, ipv4, ipv6, ports, tcp, udp, v4, v6, vxlan};
use probe_common::RawTuple;
use probe_common::packet::{self, Encapsulated, Ip, Tunnel, protocol};
use proptest::prelude::*;

/// What the parser finds in a packet, step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Found {
    outer: Option<Ip>,
    tunnel: Option<Encapsulated>,
    inner: Option<Ip>,
    quoted: Option<Ip>,
    tcp: Option<packet::Tcp>,
}

fn parse(bytes: &[u8], ethertype: u16, hint: u32) -> Found {
    let (at, _) = packet::skip_vlan(bytes, ethertype);
    let Some(outer) = packet::ip(bytes, at) else {
        return Found::default();
    };
    let tunnel = packet::encapsulated(bytes, &outer, hint);
    let inner = tunnel.and_then(|tunnel| packet::ip(bytes, tunnel.inner));
    let last = inner.unwrap_or(outer);
    Found {
        outer: Some(outer),
        tunnel,
        inner,
        quoted: packet::quoted(bytes, &last).and_then(|at| packet::ip(bytes, at)),
        tcp: (last.tuple.protocol == protocol::TCP && last.transport != 0)
            .then(|| packet::tcp(bytes, last.transport))
            .flatten(),
    }
}

/// One packet and what must be found in it: protocol and ports of the innermost packet, tunnel with id, quoted ports.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    ethertype: u16,
    hint: u32,
    protocol: u8,
    ports: Option<(u16, u16)>,
    tunnel: Option<(Tunnel, Option<u32>)>,
    quoted: Option<(u16, u16)>,
}

fn case(name: &'static str, bytes: Vec<u8>, protocol: u8, ports: Option<(u16, u16)>) -> Case {
    let ethertype = if bytes[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    Case {
        name,
        bytes,
        ethertype,
        hint: 0,
        protocol,
        ports,
        tunnel: None,
        quoted: None,
    }
}

fn tunnelled(name: &'static str, bytes: Vec<u8>, kind: Tunnel, id: Option<u32>) -> Case {
    Case {
        tunnel: Some((kind, id)),
        ..case(name, bytes, protocol::TCP, Some((1000, 2000)))
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let plain = Some((1000, 2000));
    let inner4 = || ipv4(6, &tcp(1000, 2000, b"data"));
    let inner6 = || ipv6(6, &tcp(1000, 2000, b"data"));
    let custom = ipv4(17, &udp(5555, 9999, &vxlan(9, &inner4(), None)));
    let custom_hint = u32::try_from(custom.len() - inner4().len()).unwrap();
    let custom_geneve = ipv4(17, &udp(5555, 9998, &geneve(9, 2, &inner4())));
    let geneve_hint = u32::try_from(custom_geneve.len() - inner4().len()).unwrap();
    vec![
        case("TCP over IPv4", inner4(), 6, plain),
        case("UDP over IPv4", ipv4(17, &udp(1000, 2000, b"x")), 17, plain),
        case(
            "SCTP over IPv4",
            ipv4(132, &ports(1000, 2000, 12)),
            132,
            plain,
        ),
        case(
            "UDP-Lite over IPv6",
            ipv6(136, &ports(1000, 2000, 8)),
            136,
            plain,
        ),
        case("ICMP echo", ipv4(1, &icmp(8, 0, b"ping")), 1, None),
        case("ICMPv6 echo", ipv6(58, &icmp(128, 0, b"ping")), 58, None),
        case("an unknown protocol", ipv4(253, b"eeeeeeeeeeee"), 253, None),
        case("TCP over IPv6", inner6(), 6, plain),
        case(
            "IPv4 with options",
            Build::v4(6, &tcp(1000, 2000, b"")).options(10).bytes(),
            6,
            plain,
        ),
        case(
            "first fragment",
            Build::v4(17, &udp(1000, 2000, b"x"))
                .fragment(0x2000)
                .bytes(),
            17,
            plain,
        ),
        case(
            "later fragment",
            Build::v4(17, &udp(1000, 2000, b"x"))
                .fragment(0x2001)
                .bytes(),
            17,
            None,
        ),
        case(
            "last fragment",
            Build::v4(17, &udp(1000, 2000, b"x"))
                .fragment(0x00b9)
                .bytes(),
            17,
            None,
        ),
        case(
            "hop-by-hop, routing and destination options",
            ipv6(
                0,
                &[
                    vec![43, 0, 1, 4, 0, 0, 0, 0],
                    vec![60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                    vec![6, 0, 1, 4, 0, 0, 0, 0],
                    tcp(1000, 2000, b""),
                ]
                .concat(),
            ),
            6,
            plain,
        ),
        case(
            "IPv6 first fragment",
            ipv6(
                44,
                &[vec![17, 0, 0, 1, 0, 0, 0, 9], udp(1000, 2000, b"x")].concat(),
            ),
            17,
            plain,
        ),
        case(
            "IPv6 later fragment",
            ipv6(
                44,
                &[vec![17, 0, 0, 9, 0, 0, 0, 9], udp(1000, 2000, b"x")].concat(),
            ),
            17,
            None,
        ),
        case(
            "IPv6 authentication header",
            ipv6(
                51,
                &[vec![6, 4, 0, 0], vec![0; 20], tcp(1000, 2000, b"")].concat(),
            ),
            6,
            plain,
        ),
        Case {
            ethertype: 0x8100,
            ..case(
                "VLAN",
                [vec![0x20, 0x05, 0x08, 0x00], inner4()].concat(),
                6,
                plain,
            )
        },
        Case {
            ethertype: 0x88a8,
            ..case(
                "two VLANs",
                [vec![0, 5, 0x81, 0, 0, 6, 0x86, 0xdd], inner6()].concat(),
                6,
                plain,
            )
        },
        tunnelled(
            "VXLAN",
            ipv4(17, &udp(1, 4789, &vxlan(100, &inner4(), None))),
            Tunnel::Vxlan,
            Some(100),
        ),
        tunnelled(
            "VXLAN on the old port",
            ipv4(17, &udp(1, 8472, &vxlan(7, &inner6(), None))),
            Tunnel::Vxlan,
            Some(7),
        ),
        tunnelled(
            "VXLAN with a VLAN",
            ipv6(17, &udp(1, 4789, &vxlan(7, &inner4(), Some(12)))),
            Tunnel::Vxlan,
            Some(7),
        ),
        Case {
            hint: custom_hint,
            ..tunnelled("VXLAN on its own port", custom, Tunnel::Vxlan, Some(9))
        },
        tunnelled(
            "Geneve",
            ipv4(17, &udp(1, 6081, &geneve(0x00ab_cdef, 0, &inner4()))),
            Tunnel::Geneve,
            Some(0x00ab_cdef),
        ),
        tunnelled(
            "Geneve with options",
            ipv6(17, &udp(1, 6081, &geneve(5, 3, &inner6()))),
            Tunnel::Geneve,
            Some(5),
        ),
        Case {
            hint: geneve_hint,
            ..tunnelled(
                "Geneve on its own port",
                custom_geneve,
                Tunnel::Geneve,
                Some(9),
            )
        },
        tunnelled(
            "GRE",
            ipv4(47, &gre(0, 0x0800, &[], &inner4())),
            Tunnel::Gre,
            None,
        ),
        tunnelled(
            "GRE with checksum, key and sequence",
            ipv4(
                47,
                &gre(0xb000, 0x86dd, &[0, 0, 0, 77, 0, 0, 0, 1], &inner6()),
            ),
            Tunnel::Gre,
            Some(77),
        ),
        tunnelled(
            "gretap",
            ipv4(
                47,
                &gre(
                    0x2000,
                    0x6558,
                    &[0, 0, 0, 77],
                    &packets::ethernet(&inner4(), None),
                ),
            ),
            Tunnel::Gre,
            Some(77),
        ),
        tunnelled("IPIP", ipv4(4, &inner4()), Tunnel::Ipip, None),
        tunnelled("SIT", ipv4(41, &inner6()), Tunnel::Sit, None),
        Case {
            quoted: plain,
            ..case(
                "ICMP quotes a packet",
                ipv4(1, &icmp(3, 4, &inner4()[..28])),
                1,
                None,
            )
        },
        Case {
            quoted: plain,
            ..case(
                "ICMPv6 quotes a packet",
                ipv6(58, &icmp(2, 0, &inner6())),
                58,
                None,
            )
        },
    ]
}

fn found_ports(ip: &Ip) -> Option<(u16, u16)> {
    (ip.tuple.flags & RawTuple::HAS_PORTS != 0)
        .then_some((ip.tuple.source_port, ip.tuple.destination_port))
}

#[test]
fn every_kind_of_packet_is_read() {
    for case in cases() {
        let found = parse(&case.bytes, case.ethertype, case.hint);
        let last = found
            .inner
            .or(found.outer)
            .unwrap_or_else(|| panic!("{}: no IP header", case.name));
        assert_eq!(
            last.tuple.protocol, case.protocol,
            "{}: protocol",
            case.name
        );
        assert_eq!(found_ports(&last), case.ports, "{}: ports", case.name);
        let tunnel = found
            .tunnel
            .map(|tunnel| (tunnel.tunnel, tunnel.has_id.then_some(tunnel.id)));
        assert_eq!(tunnel, case.tunnel, "{}: tunnel", case.name);
        assert_eq!(
            found.quoted.and_then(|quoted| found_ports(&quoted)),
            case.quoted,
            "{}: quoted",
            case.name
        );
        let (source, destination) = match last.tuple.version {
            4 => (v4(1), v4(2)),
            _ => (v6(1), v6(2)),
        };
        assert_eq!(
            (last.tuple.source.octets(), last.tuple.destination.octets()),
            (source, destination),
            "{}: addresses",
            case.name
        );
        if case.protocol == protocol::TCP {
            let tcp = found
                .tcp
                .unwrap_or_else(|| panic!("{}: no TCP header", case.name));
            assert_eq!(
                (tcp.seq, tcp.ack, tcp.flags, tcp.header_length),
                (11, 22, 0x18, 20),
                "{}",
                case.name
            );
        }
    }
}

#[test]
fn a_packet_cut_short_tells_less_but_nothing_else() {
    for case in cases() {
        let whole = parse(&case.bytes, case.ethertype, case.hint);
        for length in 0..case.bytes.len() {
            let cut = parse(&case.bytes[..length], case.ethertype, case.hint);
            let at = format!("{} cut at {length}", case.name);
            for (cut, whole) in [
                (cut.outer, whole.outer),
                (cut.inner, whole.inner),
                (cut.quoted, whole.quoted),
            ] {
                let Some(cut) = cut else { continue };
                let whole = whole.unwrap_or_else(|| panic!("{at}: invented a header"));
                assert_eq!(
                    (cut.tuple.source, cut.tuple.destination),
                    (whole.tuple.source, whole.tuple.destination),
                    "{at}"
                );
                if found_ports(&cut).is_some() {
                    assert_eq!(cut.tuple, whole.tuple, "{at}");
                }
            }
            assert!(cut.tunnel.is_none() || cut.tunnel == whole.tunnel, "{at}");
            assert!(cut.tcp.is_none() || cut.tcp == whole.tcp, "{at}");
        }
    }
}

#[test]
fn padding_behind_a_short_packet_is_not_taken_for_ports() {
    let mut packet = ipv4(6, b"");
    packet.extend([0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(
        packet::ip(&packet[..], 0).and_then(|ip| found_ports(&ip)),
        None
    );
    let mut packet = ipv6(17, b"ab");
    packet.extend([0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(
        packet::ip(&packet[..], 0).and_then(|ip| found_ports(&ip)),
        None
    );
}

#[test]
fn packets_beyond_64_kib_claim_no_length_and_still_have_ports() {
    let mut packet = ipv4(6, &tcp(1000, 2000, b""));
    packet[2..4].fill(0);
    let ip = packet::ip(&packet[..], 0).unwrap();
    assert_eq!((ip.total_length, found_ports(&ip)), (0, Some((1000, 2000))));
    let mut packet = ipv6(6, &tcp(1000, 2000, b""));
    packet[4..6].fill(0);
    let ip = packet::ip(&packet[..], 0).unwrap();
    assert_eq!((ip.total_length, found_ports(&ip)), (0, Some((1000, 2000))));
    // Only TCP sends such packets.
    let mut packet = ipv4(17, &udp(1000, 2000, b""));
    packet[2..4].fill(0);
    assert_eq!(
        packet::ip(&packet[..], 0).and_then(|ip| found_ports(&ip)),
        None
    );
}

#[test]
fn what_only_looks_like_a_tunnel_is_none() {
    let tunnel =
        |bytes: &[u8], hint| packet::encapsulated(bytes, &packet::ip(bytes, 0).unwrap(), hint);
    assert_eq!(
        tunnel(&ipv4(17, &udp(1, 4789, b"not a tunnel at all")), 0),
        None
    );
    assert_eq!(
        tunnel(&ipv4(4, &ipv6(6, &tcp(1, 2, b""))), 0),
        None,
        "IPv6 in IPIP"
    );
    assert_eq!(
        tunnel(&ipv4(47, &gre(0x4000, 0x0800, &[0; 4], &ipv4(6, b""))), 0),
        None,
        "source-routed GRE"
    );
    assert_eq!(
        tunnel(&ipv4(47, &gre(1, 0x880b, &[0; 4], b"ppp")), 0),
        None,
        "PPTP"
    );
    let vxlan = ipv4(
        17,
        &udp(1, 9999, &vxlan(9, &ipv4(6, &tcp(1, 2, b"")), None)),
    );
    assert_eq!(tunnel(&vxlan, 0), None, "without the kernel's hint");
    assert_eq!(tunnel(&vxlan, 48), None, "with another hint");
}

#[test]
fn v4_mapped_addresses_count_as_ipv4() {
    let mut packet = ipv6(6, &tcp(1, 2, b""));
    packet[8..24].copy_from_slice(&v4(1));
    assert_eq!(packet::ip(&packet[..], 0).unwrap().tuple.version, 6);
    packet[24..40].copy_from_slice(&v4(2));
    assert_eq!(packet::ip(&packet[..], 0).unwrap().tuple.version, 4);
}

#[test]
fn a_very_long_chain_of_extension_headers_ends_without_ports() {
    let packet = ipv6(
        60,
        &[[60, 0, 0, 0, 0, 0, 0, 0].repeat(20), tcp(1, 2, b"")].concat(),
    );
    let ip = packet::ip(&packet[..], 0).unwrap();
    assert_eq!((ip.transport, ip.tuple.flags), (0, 0));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), ethertype: u16, hint in 0..300_u32) {
        for ethertype in [ethertype, 0x8100, 0x88a8, 0x0800] {
            parse(&bytes, ethertype, hint);
        }
    }

    #[test]
    fn damaged_packets_are_survived(which in 0..34_usize, at: proptest::sample::Index, value: u8, cut: proptest::sample::Index) {
        let cases = cases();
        let case = &cases[which % cases.len()];
        let mut bytes = case.bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] = value;
        bytes.truncate(cut.index(bytes.len()) + 1);
        parse(&bytes, case.ethertype, case.hint);
    }
}
