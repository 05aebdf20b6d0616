use std::net::IpAddr;

use super::*;
use crate::event::{
    DropClass, Endpoint, EventTime, IcmpHeader, Owner, PacketInfo, Reason, SocketId, SocketInfo,
    TcpHeader, Tuple,
};

/// Address = index into a list of symbols, code = index into a list of reasons.
struct Fake(Vec<&'static str>);

impl Symbols for Fake {
    fn lookup(&mut self, address: u64) -> Option<Location> {
        let symbol = self.0.get(usize::try_from(address).unwrap())?;
        Some(Location {
            address,
            symbol: Some((*symbol).into()),
            offset: 9,
            module: None,
        })
    }
}

impl ReasonNames for Fake {
    fn drop_reason(&mut self, code: u32) -> Option<ReasonName> {
        Some(ReasonName {
            name: (*self.0.get(code as usize)?).into(),
            subsystem: None,
        })
    }

    fn reset_reason(&mut self, code: u32) -> Option<Name> {
        Some((*self.0.get(code as usize)?).into())
    }
}

impl NetnsNames for Fake {
    fn lookup(&mut self, inode: u32, _: Option<u64>) -> Option<Name> {
        Some((*self.0.get(inode as usize)?).into())
    }
}

impl InterfaceNames for Fake {
    fn lookup(&mut self, _: &Netns, index: u32) -> Option<Name> {
        Some((*self.0.get(index as usize)?).into())
    }
}

fn drop(protocol: u8, destination: &str) -> Drop {
    let end = |text: &str| Endpoint {
        address: text.parse::<IpAddr>().unwrap(),
        port: None,
    };
    let source = if destination.contains(':') {
        "fd00::1"
    } else {
        "10.0.0.1"
    };
    Drop {
        count: 1,
        netns: Netns {
            inode: 0,
            cookie: Some(1),
            name: None,
        },
        tuple: Some(Tuple {
            protocol,
            source: end(source),
            destination: end(destination),
        }),
        tunnel: None,
        packet: PacketInfo::default(),
        reason: Reason {
            code: 0,
            name: "0".into(),
            subsystem: None,
            class: DropClass::Unspecified,
            meaning: None,
            advice: None,
        },
        location: Location::default(),
        interface: None,
        direction: None,
        socket: None,
        owner: Owner::default(),
    }
}

fn enrich(drop: Drop, hints: Hints, reason: &'static str, symbols: Vec<&'static str>) -> Drop {
    let mut enricher = Enricher::new(Sources {
        symbols: Box::new(Fake(symbols)),
        reasons: Box::new(Fake(vec![reason])),
        netns: Box::new(Fake(vec!["blue"])),
        interfaces: Box::new(Fake(vec!["lo", "eth0", "eth1"])),
        owners: Box::new(Nameless),
    });
    let event = Event {
        time: EventTime::default(),
        cpu: 0,
        body: Body::Drop(Box::new(drop)),
    };
    match enricher
        .enrich(Decoded {
            event,
            undecided: false,
            hints,
        })
        .body
    {
        Body::Drop(drop) => *drop,
        other => panic!("{other:?}"),
    }
}

fn classify(drop: Drop, reason: &'static str, symbol: &'static str) -> DropClass {
    enrich(
        drop,
        Hints {
            reason: Some(0),
            ..Hints::default()
        },
        reason,
        vec![symbol],
    )
    .reason
    .class
}

fn icmp(protocol: u8, destination: &str, kind: u8) -> Drop {
    let mut drop = drop(protocol, destination);
    drop.packet.icmp = Some(IcmpHeader {
        kind,
        code: 0,
        quoted: None,
    });
    drop
}

fn tcp(flags: u8) -> Drop {
    let mut drop = drop(6, "10.0.0.2");
    drop.packet.tcp = Some(TcpHeader {
        flags,
        seq: 1,
        ack: 1,
        payload: 0,
    });
    drop
}

/// What real faults and harmless frees look like on Linux 6.18, each provoked in a test of its own.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn real_losses_are_never_benign_and_proven_noise_is() {
    use DropClass::{Application, Benign, Capacity, Path, Policy, Routing, Unspecified};
    let udp = || drop(17, "10.0.0.2");
    let udp6 = || drop(17, "fd00::2");
    let cases = vec![
        // Losses.
        (udp(), "SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", Capacity),
        (udp(), "NO_SOCKET", "__udp4_lib_rcv", Path),
        (tcp(2), "NETFILTER_DROP", "nft_do_chain", Policy),
        (tcp(2), "NETFILTER_DROP", "nf_hook_slow", Policy),
        (tcp(2), "IP_RPFILTER", "ip_rcv_finish_core", Routing),
        (tcp(0x10), "PKT_TOO_BIG", "ip_forward", Routing),
        (udp(), "NEIGH_QUEUEFULL", "__neigh_event_send", Capacity),
        (udp(), "NEIGH_FAILED", "arp_error_report", Routing),
        (udp6(), "NOT_SPECIFIED", "neigh_invalidate", Routing),
        (tcp(0x10), "QDISC_DROP", "__dev_queue_xmit", Capacity),
        (udp(), "VXLAN_VNI_NOT_FOUND", "vxlan_rcv", Routing),
        (udp(), "NO_TX_TARGET", "vxlan_xmit", Routing),
        (tcp(0x10), "TCP_RFC7323_PAWS", "tcp_validate_incoming", Path),
        (tcp(0x10), "SOCKET_BACKLOG", "tcp_v4_rcv", Capacity),
        (tcp(0x10), "PROTO_MEM", "tcp_data_queue", Capacity),
        (
            tcp(0x10),
            "TCP_INVALID_SEQUENCE",
            "tcp_validate_incoming",
            Path,
        ),
        (udp(), "NOT_SPECIFIED", "do_xdp_generic", Policy),
        (udp(), "NOT_SPECIFIED", "veth_xdp_rcv_skb", Policy),
        (udp(), "NOT_SPECIFIED", "__dev_forward_skb2", Routing),
        (udp(), "NOT_SPECIFIED", "br_handle_frame_finish", Routing),
        (udp(), "FULL_RING", "tun_net_xmit", Capacity),
        (tcp(0x10), "NO_SOCKET", "cookie_v4_check", Capacity),
        (tcp(0x10), "NO_SOCKET", "tcp_v4_rcv", Path),
        (
            drop(253, "10.0.0.2"),
            "IP_NOPROTO",
            "ip_protocol_deliver_rcu",
            Path,
        ),
        (tcp(0x10), "TCP_OLD_DATA", "tcp_data_queue", Path),
        (
            tcp(0x18),
            "TCP_ABORT_ON_DATA",
            "tcp_rcv_state_process",
            Application,
        ),
        (udp(), "NOT_SPECIFIED", "frobnicate", Unspecified),
        (udp(), "A_NEW_REASON", "ip_rcv_core", Unspecified),
        (icmp(1, "10.0.0.2", 3), "NO_SOCKET", "icmp_rcv", Path),
        // Noise.
        (icmp(1, "10.0.0.2", 0), "NO_SOCKET", "ping_rcv", Benign),
        (icmp(58, "fd00::2", 129), "NO_SOCKET", "ping_rcv", Benign),
        (icmp(1, "10.0.0.2", 0), "NO_SOCKET", "icmp_rcv", Benign),
        (icmp(58, "fd00::2", 129), "NO_SOCKET", "icmpv6_rcv", Benign),
        (tcp(4), "NO_SOCKET", "tcp_v4_rcv", Benign),
        (tcp(4), "TCP_RESET", "tcp_rcv_state_process", Benign),
        (tcp(0x11), "NOT_SPECIFIED", "tcp_v4_rcv", Benign),
        (tcp(0x11), "NOT_SPECIFIED", "tcp_v6_rcv", Benign),
        (tcp(0x11), "QUEUE_PURGE", "sk_stream_kill_queues", Benign),
        (udp(), "QUEUE_PURGE", "skb_queue_purge_reason", Benign),
        (udp(), "QUEUE_PURGE", "inet_sock_destruct", Benign),
        (
            drop(58, "ff02::16"),
            "NOT_SPECIFIED",
            "ip6_mc_input",
            Benign,
        ),
        (tcp(0x10), "NOT_SPECIFIED", "tbf_enqueue", Benign),
        (
            udp(),
            "NOT_SPECIFIED",
            "netif_napi_add_weight_locked",
            Benign,
        ),
        (
            udp(),
            "UNHANDLED_PROTO",
            "__netif_receive_skb_core.constprop.0",
            Benign,
        ),
        (udp(), "OTHERHOST", "ip_rcv_core", Benign),
        (
            tcp(0x10),
            "TCP_OLD_SEQUENCE",
            "tcp_validate_incoming",
            Benign,
        ),
        (tcp(0x10), "TCP_OFOMERGE", "tcp_data_queue_ofo", Benign),
        (
            drop(17, "224.0.0.251"),
            "NOT_SPECIFIED",
            "__udp4_lib_rcv",
            Benign,
        ),
        // Configured: shown, but as what it is.
        (udp6(), "IPV6DISABLED", "ip6_rcv_core", Policy),
    ];
    for (drop, reason, symbol, class) in cases {
        assert_eq!(
            classify(drop, reason, symbol),
            class,
            "{reason} at {symbol}"
        );
    }
}

#[test]
fn where_the_kernel_gives_no_reasons_the_busiest_places_prove_nothing() {
    let drop = enrich(tcp(0x10), Hints::default(), "", vec!["tcp_v4_rcv"]);
    assert_eq!(
        (&*drop.reason.name, drop.reason.class),
        (NOT_SPECIFIED, DropClass::Path)
    );
    let drop = enrich(tcp(0x10), Hints::default(), "", vec!["nf_hook_slow"]);
    assert_eq!(drop.reason.class, DropClass::Policy);
}

#[test]
fn every_row_of_the_reasons_is_understood() {
    let text = include_str!("../data/reasons.tsv");
    let rows = text.lines().filter(|line| !line.starts_with('#')).count();
    let read: Vec<_> = table::rows::<6>(text).collect();
    assert_eq!(read.len(), rows);
    for [scope, name, letters, proofs, meaning, advice] in read {
        assert!(table::class(letters, proofs).is_some(), "{scope} {name}");
        assert!(
            meaning.len() > 3 && meaning.len() <= 110 && advice.len() > 3,
            "{scope} {name}"
        );
    }
}

#[test]
fn names_of_subsystems_are_found_with_and_without_their_prefix() {
    for (subsystem, name) in [
        (Some("openvswitch"), "OVS_DROP_EXPLICIT"),
        (Some("OPENVSWITCH"), "EXPLICIT"),
        (Some("mac80211_unusable"), "RX_DROP_U_MIC_FAIL"),
        (Some("qdisc"), "QDISC_DROP_OVERLIMIT"),
        (None, "QDISC_DROP"),
    ] {
        assert!(
            meaning(subsystem, name).text.is_some(),
            "{subsystem:?} {name}"
        );
    }
    assert!(meaning(Some("frob"), "NO_SOCKET").text.is_none());
}

#[test]
fn names_are_added_and_facts_are_kept() {
    let hints = Hints {
        reason: Some(0),
        iif: 1,
        ..Hints::default()
    };
    let drop = enrich(
        drop(17, "10.0.0.2"),
        hints,
        "SOCKET_RCVBUFF",
        vec!["udp_queue_rcv_one_skb"],
    );
    assert_eq!(&*drop.reason.name, "SOCKET_RCVBUFF");
    assert_eq!(
        drop.location.symbol.as_deref(),
        Some("udp_queue_rcv_one_skb")
    );
    assert_eq!(drop.netns.name.as_deref(), Some("blue"));
    assert_eq!(drop.direction, Some(Direction::Receive));
    let interface = drop.interface.unwrap();
    assert_eq!(
        (interface.index, interface.name.as_deref()),
        (1, Some("eth0"))
    );
}

#[test]
fn an_unknown_reason_stays_a_number_and_an_unknown_place_an_address() {
    let mut unknown = drop(17, "10.0.0.2");
    unknown.location.address = 0xffff;
    unknown.reason.name = "777".into();
    let drop = enrich(
        unknown,
        Hints {
            reason: Some(777),
            ..Hints::default()
        },
        "x",
        vec![],
    );
    assert_eq!(
        (&*drop.reason.name, drop.reason.class),
        ("777", DropClass::Unspecified)
    );
    assert_eq!(
        (drop.location.address, drop.location.symbol, drop.direction),
        (0xffff, None, None)
    );
}

#[test]
fn directions() {
    use Direction::{Forward, Receive, Transmit};
    let way = |symbol: &'static str, route: &'static str, iif, ifindex| {
        let route_input = u64::from(!route.is_empty());
        let hints = Hints {
            reason: Some(0),
            route_input,
            iif,
            ifindex,
            ..Hints::default()
        };
        enrich(drop(6, "10.0.0.2"), hints, "X", vec![symbol, route]).direction
    };
    for (symbol, route, iif, ifindex, direction) in [
        ("enqueue_to_backlog", "", 0, 2, Some(Receive)),
        ("do_xdp_generic", "", 0, 2, Some(Receive)),
        ("veth_xdp_rcv_skb", "", 0, 2, Some(Receive)),
        ("__dev_forward_skb2", "", 0, 2, Some(Receive)),
        ("ip_rcv_finish_core.isra.0", "", 2, 2, Some(Receive)),
        ("tcp_v4_rcv", "", 2, 0, Some(Receive)),
        ("__udp4_lib_rcv", "ip_local_deliver", 2, 2, Some(Receive)),
        ("sch_handle_ingress", "", 2, 2, Some(Receive)),
        ("ip_finish_output2", "", 0, 2, Some(Transmit)),
        ("__dev_queue_xmit", "", 0, 2, Some(Transmit)),
        ("__dev_queue_xmit", "ip_forward", 1, 2, Some(Forward)),
        ("tbf_enqueue", "", 0, 2, Some(Transmit)),
        ("tun_net_xmit", "", 0, 2, Some(Transmit)),
        ("neigh_invalidate", "", 0, 2, Some(Transmit)),
        ("ip_forward", "ip_forward", 1, 1, Some(Forward)),
        ("br_forward", "", 1, 2, Some(Forward)),
        // Netfilter: input, forward, output, before routing; over loopback, too.
        ("nft_do_chain", "ip_local_deliver", 2, 2, Some(Receive)),
        ("nf_hook_slow", "ip_forward", 1, 2, Some(Forward)),
        ("nf_hook_slow", "ip6_mr_input", 1, 2, Some(Forward)),
        ("nf_hook_slow", "dst_discard", 0, 0, Some(Transmit)),
        ("nf_hook_slow", "ip_local_deliver", 0, 1, Some(Transmit)),
        ("nf_hook_slow", "", 2, 2, Some(Receive)),
        // Nothing tells.
        ("nf_hook_slow", "", 1, 2, None),
        ("frobnicate", "", 0, 2, None),
        ("frobnicate", "mystery", 2, 2, None),
        ("frobnicate", "ip_forward", 1, 2, Some(Forward)),
    ] {
        assert_eq!(
            way(symbol, route, iif, ifindex),
            direction,
            "{symbol} {route} {iif} {ifindex}"
        );
    }
}

#[test]
fn the_receiving_socket_decides_before_all_else() {
    let mut drop = drop(6, "10.0.0.2");
    drop.socket = Some(SocketInfo {
        id: SocketId::default(),
        is_receiver: true,
        state: None,
        buffers: None,
    });
    let hints = Hints {
        reason: Some(0),
        iif: 1,
        ifindex: 2,
        ..Hints::default()
    };
    assert_eq!(
        enrich(drop, hints, "X", vec!["nf_hook_slow"]).direction,
        Some(Direction::Receive)
    );
}
