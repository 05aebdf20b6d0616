//! Events and totals for the tests.

use std::net::IpAddr;

use probe_common::packet::Tunnel;

use crate::aggregate::summary::*;
use crate::event::*;
use crate::sink::{FilterShown, Start, VerdictChange};

/// Tries everything a name could do to a terminal.
pub(crate) const HOSTILE: &str = "e\u{1b}[31mvil\n\u{202e}\u{9b}2J\\\"x";

pub(crate) fn at(ms: u64) -> EventTime {
    EventTime {
        ktime_ns: ms * 1_000_000,
        wall_ns: 1_700_000_000_000_000_042 + i64::try_from(ms).unwrap() * 1_000_000,
    }
}

pub(crate) fn event(ms: u64, body: Body) -> Event {
    Event {
        time: at(ms),
        cpu: 0,
        body,
    }
}

pub(crate) fn tuple(protocol: u8, source: &str, destination: &str) -> Tuple {
    let end = |text: &str| match text.parse::<std::net::SocketAddr>() {
        Ok(end) => Endpoint {
            address: end.ip(),
            port: Some(end.port()),
        },
        Err(_) => Endpoint {
            address: text.parse::<IpAddr>().unwrap(),
            port: None,
        },
    };
    Tuple {
        protocol,
        source: end(source),
        destination: end(destination),
    }
}

pub(crate) fn flow_tuple() -> Tuple {
    tuple(6, "10.0.0.1:43210", "10.0.0.2:5201")
}

pub(crate) fn blue() -> Netns {
    Netns {
        inode: 4_026_532_177,
        cookie: Some(7),
        name: Some("blue".into()),
    }
}

pub(crate) fn owner() -> Owner {
    Owner {
        process: Some(Process {
            pid: 1234,
            name: "iperf3".into(),
        }),
        cgroup: Some(Cgroup {
            id: 77,
            path: Some("/system.slice/iperf.service".into()),
        }),
        container: None,
        unknown_because: None,
    }
}

pub(crate) fn tcp() -> TcpInfo {
    TcpInfo {
        state: 1,
        ca_state: 3,
        srtt_us: Some(52_345),
        rttvar_us: Some(1_200),
        min_rtt_us: Some(50_001),
        rto_us: Some(408_000),
        cwnd: 10,
        ssthresh: Some(7),
        mss: 1448,
        pmtu: 1500,
        snd_wnd: 65_536,
        snd_una: 1_000,
        snd_nxt: 15_480,
        packets_out: 10,
        total_retrans: 2,
        bytes_sent: 100_000,
        bytes_retrans: 2_896,
        segs_out: 70,
        segs_in: 40,
        busy_us: Some(1_000_000),
        congestion_control: Some("cubic".into()),
        ..TcpInfo::default()
    }
}

pub(crate) fn retransmit(kind: Kind) -> Retransmit {
    Retransmit {
        id: 1,
        netns: blue(),
        tuple: flow_tuple(),
        socket: SocketId::default(),
        owner: owner(),
        kind,
        outcome: Outcome::Sent,
        error: 0,
        attempt: Some(2),
        state: TcpState(1),
        seq: 1_000,
        end_seq: 2_448,
        segments: 1,
        bytes: 1_448,
        tcp: Some(Box::new(tcp())),
        verdict: Verdict {
            cause: Cause::Pending,
            why: None,
        },
    }
}

pub(crate) fn failed() -> Retransmit {
    Retransmit {
        id: 2,
        outcome: Outcome::FailedLate,
        error: -113,
        verdict: Verdict {
            cause: Cause::Inconclusive,
            why: Some("not judged"),
        },
        ..retransmit(Kind::Rto)
    }
}

pub(crate) fn synack() -> Retransmit {
    Retransmit {
        id: 3,
        netns: Netns::default(),
        tuple: tuple(6, "[::ffff:10.0.0.2]:5201", "[::ffff:10.0.0.1]:43210"),
        owner: Owner {
            unknown_because: Some("the socket has no file yet"),
            ..Owner::default()
        },
        attempt: None,
        state: TcpState(12),
        tcp: None,
        ..retransmit(Kind::SynAck)
    }
}

pub(crate) fn reason(name: &str, class: DropClass) -> Reason {
    Reason {
        code: 6,
        name: name.into(),
        subsystem: None,
        class,
        meaning: Some("The receive queue of the socket is full."),
        advice: Some("Read faster, or raise SO_RCVBUF and net.core.rmem_max."),
    }
}

pub(crate) fn drop(name: &str, class: DropClass) -> Drop {
    Drop {
        count: 1,
        netns: blue(),
        tuple: Some(tuple(17, "10.0.0.2:9000", "10.0.0.1:53")),
        tunnel: None,
        packet: PacketInfo {
            ethertype: Some(0x0800),
            length: 1514,
            segments: 1,
            ..PacketInfo::default()
        },
        reason: reason(name, class),
        location: Location {
            address: 0xffff_ffff_8123_4567,
            symbol: Some("udp_queue_rcv_one_skb".into()),
            offset: 123,
            module: None,
        },
        interface: Some(Interface {
            index: 3,
            name: Some("eth0".into()),
        }),
        direction: Some(Direction::Receive),
        socket: None,
        owner: owner(),
    }
}

pub(crate) fn full_queue() -> Drop {
    Drop {
        socket: Some(SocketInfo {
            id: SocketId::default(),
            is_receiver: true,
            state: None,
            buffers: Some(Buffers {
                receive_queue_bytes: 213_504,
                receive_buffer_bytes: 212_992,
                backlog_bytes: 0,
                accept_queue: None,
                accept_queue_max: None,
                drops: 17,
            }),
        }),
        ..drop("SOCKET_RCVBUFF", DropClass::Capacity)
    }
}

pub(crate) fn tunnelled() -> Drop {
    Drop {
        count: 12,
        tuple: Some(tuple(6, "[2001:db8::1]:443", "[2001:db8::2]:50000")),
        tunnel: Some(TunnelInfo {
            kind: Tunnel::Vxlan,
            id: Some(42),
            outer: tuple(17, "192.0.2.1:40000", "192.0.2.2:4789"),
        }),
        packet: PacketInfo {
            ethertype: Some(0x0800),
            vlan: Some(100),
            length: 2964,
            segments: 2,
            tcp: Some(TcpHeader {
                flags: 0x18,
                seq: 5,
                ack: 6,
                payload: 2896,
            }),
            icmp: None,
        },
        reason: Reason {
            subsystem: Some("openvswitch".into()),
            meaning: None,
            advice: None,
            ..reason("OVS_DROP_LAST_ACTION", DropClass::Policy)
        },
        location: Location {
            address: 0xffff_ffff_c000_0000,
            symbol: None,
            offset: 0,
            module: Some("openvswitch".into()),
        },
        direction: Some(Direction::Forward),
        owner: Owner {
            cgroup: owner().cgroup,
            ..Owner::default()
        },
        ..drop("", DropClass::Policy)
    }
}

pub(crate) fn icmp() -> Drop {
    Drop {
        tuple: Some(tuple(58, "fe80::1", "fe80::2")),
        packet: PacketInfo {
            ethertype: Some(0x86dd),
            length: 120,
            segments: 1,
            icmp: Some(IcmpHeader {
                kind: 2,
                code: 0,
                quoted: Some(flow_tuple()),
            }),
            ..PacketInfo::default()
        },
        location: Location::default(),
        interface: None,
        direction: None,
        ..drop("ICMP_CSUM", DropClass::Path)
    }
}

pub(crate) fn lldp() -> Drop {
    Drop {
        tuple: None,
        packet: PacketInfo {
            ethertype: Some(0x88cc),
            length: 60,
            segments: 1,
            ..PacketInfo::default()
        },
        owner: Owner::default(),
        ..drop("UNHANDLED_PROTO", DropClass::Benign)
    }
}

/// Every name that comes from outside is hostile.
pub(crate) fn hostile() -> Drop {
    Drop {
        netns: Netns {
            name: Some(HOSTILE.into()),
            ..blue()
        },
        reason: Reason {
            subsystem: Some(HOSTILE.into()),
            ..reason(HOSTILE, DropClass::Unspecified)
        },
        location: Location {
            symbol: Some(HOSTILE.into()),
            module: Some(HOSTILE.into()),
            ..Location::default()
        },
        interface: Some(Interface {
            index: 9,
            name: Some(HOSTILE.into()),
        }),
        owner: Owner {
            process: Some(Process {
                pid: 9,
                name: HOSTILE.into(),
            }),
            cgroup: Some(Cgroup {
                id: 9,
                path: Some(HOSTILE.into()),
            }),
            container: Some(HOSTILE.into()),
            unknown_because: None,
        },
        ..full_queue()
    }
}

pub(crate) fn reset() -> Reset {
    Reset {
        netns: blue(),
        tuple: Some(flow_tuple()),
        direction: Direction::Transmit,
        reason: Some("TCP_ABORT_ON_DATA".into()),
        state: Some(TcpState(5)),
        socket: None,
        owner: owner(),
    }
}

pub(crate) fn sample() -> Sample {
    Sample {
        netns: blue(),
        tuple: flow_tuple(),
        socket: SocketId::default(),
        owner: owner(),
        tcp: tcp(),
    }
}

pub(crate) fn change(was: Cause, now: Cause) -> VerdictChange {
    VerdictChange {
        time: at(900),
        retransmit: 1,
        kind: Kind::Fast,
        netns: blue(),
        tuple: flow_tuple(),
        owner: owner(),
        was,
        verdict: Verdict {
            cause: now,
            why: (now == Cause::Inconclusive).then_some("not judged"),
        },
    }
}

pub(crate) fn start() -> Start {
    Start {
        time: at(0),
        version: "0.1.0".into(),
        kernel: "6.18.1".into(),
        probes: vec!["tcp:tcp_retransmit_skb".into(), "skb:kfree_skb".into()],
        filters: vec![
            FilterShown {
                flag: "port",
                values: vec!["5201".into(), "80-90".into()],
            },
            FilterShown {
                flag: "all",
                values: Vec::new(),
            },
        ],
        own_netns: 4_026_531_840,
    }
}

fn retransmit_totals() -> RetransmitTotals {
    RetransmitTotals {
        events: 35,
        segments: 37,
        bytes: 53_576,
        by_kind: [(Kind::Fast, 30), (Kind::Rto, 3), (Kind::Tlp, 2)].into(),
        by_cause: [(Cause::Inconclusive, 35)].into(),
        failed: 1,
    }
}

pub(crate) fn flow() -> FlowSummary {
    FlowSummary {
        netns: blue(),
        tuple: flow_tuple(),
        owner: owner(),
        first: at(0),
        last: at(9_000),
        ended: false,
        retransmits: retransmit_totals(),
        drops: 2,
        drops_by_reason: [("NETFILTER_DROP".into(), 2)].into(),
        tcp: Some(Box::new(tcp())),
        retransmitted_share: Some(0.012_34),
    }
}

fn group(name: &str, class: DropClass, packets: u64) -> DropGroup {
    let drop = drop(name, class);
    DropGroup {
        reason: drop.reason.name,
        class,
        meaning: drop.reason.meaning,
        advice: drop.reason.advice,
        location: drop.location,
        netns: drop.netns,
        interface: Some("eth0".into()),
        packets,
    }
}

pub(crate) fn row(counter: &'static str, kernel: u64, observed: u64) -> ReconcileRow {
    ReconcileRow {
        netns: blue(),
        counter,
        kernel,
        kernel_max: kernel,
        observed,
        unexplained: i64::try_from(kernel).unwrap() - i64::try_from(observed).unwrap(),
        exact: true,
        bound: false,
        ended: false,
    }
}

pub(crate) fn summary() -> Summary {
    let by_reason: std::collections::BTreeMap<Name, u64> =
        [("SOCKET_RCVBUFF".into(), 14), ("OTHERHOST".into(), 3)].into();
    Summary {
        time: at(30_000),
        duration_s: 30.0,
        diagnosis: "10.0.0.1:43210 → 10.0.0.2:5201 lost segments beyond this host; a slow reader lost 14 datagrams.".into(),
        retransmits: retransmit_totals(),
        drops: DropTotals {
            benign: 3,
            packets: 17,
            by_reason: by_reason.clone(),
            hidden_benign: 3,
            unmatched_no_tuple: 1,
            not_network: [("unix", 5)].into(),
        },
        flows: vec![flow()],
        drop_groups: vec![group("SOCKET_RCVBUFF", DropClass::Capacity, 14), group("OTHERHOST", DropClass::Benign, 3)],
        rates: vec![Rate { netns: blue(), retransmitted_share: 0.012 }],
        host_drops_by_reason: by_reason,
        reconcile: vec![
            row("TcpRetransSegs", 37, 37),
            row("TcpExtTCPFastRetrans", 30, 30),
            ReconcileRow { kernel_max: 4, exact: false, bound: true, ..row("TcpExtTCPTimeouts", 3, 3) },
            row("TcpExtTCPSynRetrans", 0, 0),
        ],
        counters_only: vec![CounterOnly {
            netns: Some(blue()),
            counter: "TcpExtListenDrops",
            delta: 16,
            observed: 0,
            unseen: 16,
            meaning: "SYNs refused because the accept queue was full: accept faster, or raise net.core.somaxconn.",
        }],
        lost: Lost { ring_full: 12, undecodable: 1, ..Lost::default() },
        overhead: Overhead {
            kernel_ns: Some(5_200_000),
            events: 52_000,
            user_cpu_s: 0.031,
            rss_bytes: Some(19_083_000),
            map_bytes: Some(20 << 20),
        },
    }
}
