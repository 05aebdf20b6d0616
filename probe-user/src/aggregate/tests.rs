use std::net::IpAddr;

use super::*;
use crate::event::{
    Cause, Endpoint, Kind, Location, Outcome, Owner, PacketInfo, Reason, Retransmit, Sample,
    SocketInfo, TcpInfo, TcpState, Verdict,
};

fn at(ns: u64) -> EventTime {
    EventTime {
        ktime_ns: ns,
        wall_ns: i64::try_from(ns).unwrap(),
    }
}

fn netns(cookie: u64) -> Netns {
    Netns {
        inode: 100,
        cookie: Some(cookie),
        name: Some("srv".into()),
    }
}

fn end(port: u16) -> Endpoint {
    Endpoint {
        address: IpAddr::from([10, 0, 0, 1]),
        port: Some(port),
    }
}

fn tuple(source: u16, destination: u16) -> Tuple {
    Tuple {
        protocol: 6,
        source: end(source),
        destination: end(destination),
    }
}

fn socket(cookie: u64) -> SocketId {
    SocketId {
        cookie: Some(cookie),
        address: cookie * 64,
        ..SocketId::default()
    }
}

fn info(total_retrans: u32, data_segs_out: u32) -> TcpInfo {
    TcpInfo {
        total_retrans,
        data_segs_out,
        ..TcpInfo::default()
    }
}

fn retransmit(tuple: Tuple, cookie: u64, kind: Kind) -> Retransmit {
    Retransmit {
        id: 1,
        netns: netns(1),
        tuple,
        socket: socket(cookie),
        owner: Owner::default(),
        kind,
        outcome: Outcome::Sent,
        error: 0,
        attempt: None,
        state: TcpState(1),
        seq: 1,
        end_seq: 2,
        segments: 2,
        bytes: 1000,
        tcp: Some(Box::new(info(10, 1000))),
        verdict: Verdict {
            cause: Cause::Inconclusive,
            why: None,
        },
    }
}

fn drop(tuple: Option<Tuple>, reason: &str, class: DropClass) -> Drop {
    Drop {
        count: 1,
        netns: netns(1),
        tuple,
        tunnel: None,
        packet: PacketInfo::default(),
        reason: Reason {
            code: 1,
            name: reason.into(),
            subsystem: None,
            class,
            meaning: None,
            advice: None,
        },
        location: Location {
            address: 1,
            ..Location::default()
        },
        interface: None,
        direction: None,
        socket: None,
        owner: Owner::default(),
    }
}

fn received(mut drop: Drop) -> Drop {
    drop.socket = Some(SocketInfo {
        id: SocketId::default(),
        is_receiver: true,
        state: None,
        buffers: None,
    });
    drop
}

fn run(events: Vec<Body>) -> Summary {
    run_with(Limits::default(), events)
}

fn run_with(limits: Limits, events: Vec<Body>) -> Summary {
    let mut aggregator = Aggregator::new(limits);
    for (n, body) in events.into_iter().enumerate() {
        aggregator.observe(&Event {
            time: at(n as u64 + 1),
            cpu: 0,
            body,
        });
    }
    aggregator.snapshot(1.0)
}

fn again(retransmit: Retransmit) -> Body {
    Body::Retransmit(Box::new(retransmit))
}

fn dropped(drop: Drop) -> Body {
    Body::Drop(Box::new(drop))
}

fn sample(tuple: Tuple, cookie: u64) -> Box<Sample> {
    Box::new(Sample {
        netns: netns(1),
        tuple,
        socket: socket(cookie),
        owner: Owner::default(),
        tcp: info(20, 1000),
    })
}

#[test]
fn an_empty_run_says_so() {
    let summary = run(vec![]);
    assert_eq!(
        summary.diagnosis,
        "Nothing was retransmitted and nothing was dropped."
    );
    let summary = run(vec![dropped(drop(None, "TCP_RESET", DropClass::Benign))]);
    assert_eq!(
        summary.diagnosis,
        "Nothing was retransmitted and nothing was dropped (1 harmless free left out)."
    );
    assert_eq!((summary.drops.packets, summary.drops.benign), (1, 1));
}

#[test]
fn totals_and_the_flow_agree() {
    let summary = run(vec![
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        again(retransmit(tuple(1, 2), 5, Kind::Tlp)),
        dropped(drop(Some(tuple(2, 1)), "NETFILTER_DROP", DropClass::Policy)),
        Body::FlowEnd(sample(tuple(1, 2), 5)),
    ]);
    let totals = &summary.retransmits;
    assert_eq!(
        (totals.events, totals.segments, totals.bytes, totals.failed),
        (3, 6, 3000, 0)
    );
    assert_eq!(totals.by_kind.get(&Kind::Fast), Some(&2));
    assert_eq!(
        totals.by_cause.iter().collect::<Vec<_>>(),
        [(&Cause::Inconclusive, &3)]
    );
    let [flow] = &summary.flows[..] else {
        panic!("{:?}", summary.flows)
    };
    assert_eq!(flow.retransmits, *totals);
    assert_eq!((flow.tuple, flow.drops, flow.ended), (tuple(1, 2), 1, true));
    assert_eq!((flow.first, flow.last, summary.time), (at(1), at(5), at(5)));
    assert_eq!(flow.retransmitted_share, Some(0.02));
    assert_eq!(
        summary.diagnosis,
        "3 retransmits in 1 flow (2.0 % of all data segments this connection has ever sent), most of them fast retransmits; \
         1 packet was dropped: NETFILTER_DROP in namespace srv."
    );
}

#[test]
fn failed_attempts_are_kept_apart() {
    let failed = Retransmit {
        outcome: Outcome::FailedLate,
        ..retransmit(tuple(1, 2), 5, Kind::Rto)
    };
    let summary = run(vec![again(failed)]);
    assert_eq!(
        (summary.retransmits.events, summary.retransmits.failed),
        (0, 1)
    );
    assert!(summary.retransmits.by_cause.is_empty() && summary.retransmits.by_kind.is_empty());
    assert_eq!(summary.flows[0].retransmits.failed, 1);
    assert_eq!(
        summary.diagnosis,
        "Nothing was retransmitted; 1 attempt failed; nothing was dropped."
    );
}

#[test]
fn a_reused_port_begins_a_new_generation() {
    let summary = run(vec![
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        again(retransmit(tuple(1, 2), 6, Kind::Fast)),
        dropped(drop(Some(tuple(1, 2)), "NETFILTER_DROP", DropClass::Policy)),
    ]);
    assert_eq!(summary.flows.iter().map(|flow| flow.drops).sum::<u64>(), 1);
    let latest = summary.flows.iter().find(|flow| flow.drops == 1).unwrap();
    assert_eq!((summary.flows.len(), latest.first), (2, at(2)));
}

#[test]
fn after_its_end_a_flow_takes_drops_but_no_other_socket() {
    let no_cookie = |mut retransmit: Retransmit| {
        retransmit.socket = SocketId {
            address: 64,
            ..SocketId::default()
        };
        again(retransmit)
    };
    let mut ended = sample(tuple(1, 2), 5);
    ended.socket = SocketId {
        address: 64,
        ..SocketId::default()
    };
    let summary = run(vec![
        no_cookie(retransmit(tuple(1, 2), 5, Kind::Fast)),
        Body::FlowEnd(ended),
        dropped(drop(Some(tuple(2, 1)), "NOT_SPECIFIED", DropClass::Benign)),
        no_cookie(retransmit(tuple(1, 2), 5, Kind::Fast)),
    ]);
    assert_eq!(summary.flows.len(), 2);
    assert_eq!(
        summary
            .flows
            .iter()
            .filter(|flow| flow.ended && flow.drops == 1)
            .count(),
        1
    );
}

#[test]
fn the_socket_of_a_handshake_is_the_same_before_and_after_it() {
    let mut synack = retransmit(tuple(1, 2), 5, Kind::SynAck);
    synack.socket.address = 12345;
    synack.socket.cookie = None;
    synack.tcp = None;
    let summary = run(vec![
        again(synack),
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
    ]);
    assert_eq!(summary.flows.len(), 1);
}

#[test]
fn both_ends_on_loopback_are_two_flows() {
    let summary = run(vec![
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        again(retransmit(tuple(2, 1), 6, Kind::Fast)),
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        dropped(drop(Some(tuple(2, 1)), "NETFILTER_DROP", DropClass::Policy)),
        dropped(received(drop(
            Some(tuple(2, 1)),
            "SOCKET_BACKLOG",
            DropClass::Capacity,
        ))),
    ]);
    let [first, second] = &summary.flows[..] else {
        panic!("{:?}", summary.flows)
    };
    assert_eq!((first.tuple, first.retransmits.events), (tuple(1, 2), 2));
    assert_eq!((second.tuple, second.retransmits.events), (tuple(2, 1), 1));
    assert_eq!(
        first
            .drops_by_reason
            .keys()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["SOCKET_BACKLOG"]
    );
    assert_eq!(
        second
            .drops_by_reason
            .keys()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
        ["NETFILTER_DROP"]
    );
}

#[test]
fn both_ends_on_one_host_in_two_namespaces_are_two_flows() {
    let other = Retransmit {
        netns: netns(2),
        ..retransmit(tuple(2, 1), 6, Kind::Fast)
    };
    let summary = run(vec![
        again(retransmit(tuple(1, 2), 5, Kind::Fast)),
        again(other),
    ]);
    assert_eq!(summary.flows.len(), 2);
}

#[test]
fn drops_seen_before_the_socket_belong_to_its_flow() {
    let summary = run(vec![
        dropped(drop(Some(tuple(2, 1)), "NETFILTER_DROP", DropClass::Policy)),
        again(retransmit(tuple(1, 2), 5, Kind::Syn)),
    ]);
    let [flow] = &summary.flows[..] else {
        panic!("{:?}", summary.flows)
    };
    assert_eq!(
        (flow.tuple, flow.drops, flow.retransmits.events, flow.first),
        (tuple(1, 2), 1, 1, at(1))
    );
}

#[test]
fn a_flow_pushed_out_takes_nothing_from_the_totals() {
    let limits = Limits {
        max_flows: 10,
        max_drop_groups: 2,
    };
    let events = (0..100_u16).flat_map(|port| {
        let mut drop = drop(Some(tuple(port, 9999)), "X", DropClass::Fault);
        drop.count = 2;
        drop.location.address = port.into();
        [
            again(retransmit(tuple(port, 9999), port.into(), Kind::Rto)),
            dropped(drop),
        ]
    });
    let summary = run_with(limits, events.collect());
    assert_eq!(
        (summary.retransmits.events, summary.drops.packets),
        (100, 200)
    );
    assert_eq!((summary.flows.len(), summary.lost.evicted_flows), (10, 90));
    assert_eq!(
        summary
            .drop_groups
            .iter()
            .map(|group| group.packets)
            .sum::<u64>(),
        200
    );
    assert_eq!(&*summary.drop_groups.last().unwrap().reason, "other");
    assert_eq!(summary.drop_groups.len(), 3);
    assert!(
        summary
            .diagnosis
            .starts_with("100 retransmits, all of them timeouts; 200 packets were dropped")
    );
}

#[test]
fn a_flow_of_interest_without_trouble_is_not_listed() {
    assert!(
        run(vec![Body::Sample(sample(tuple(1, 2), 5))])
            .flows
            .is_empty()
    );
}
