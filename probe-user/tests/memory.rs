//! Memory of a full flow table. A test binary of its own: what is measured is the memory of the process.

use std::net::IpAddr;
use std::sync::Arc;

use probe_user::aggregate::{Aggregator, Limits};
use probe_user::event::{
    Body, Cause, Cgroup, Drop, DropClass, Endpoint, Event, EventTime, Kind, Location, Name, Netns,
    Outcome, Owner, PacketInfo, Process, Reason, Retransmit, SocketId, TcpInfo, TcpState, Tuple,
    Verdict,
};

fn resident_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find(|line| line.starts_with("Rss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn ten_thousand_flows_with_owners_state_and_drops_fit_in_12_mib() {
    let name: Name = "name".into();
    let netns = || Netns {
        inode: 1,
        cookie: Some(1),
        name: Some(Arc::clone(&name)),
    };
    let owner = || Owner {
        process: Some(Process {
            pid: 1,
            name: Arc::clone(&name),
        }),
        cgroup: Some(Cgroup {
            id: 1,
            path: Some(Arc::clone(&name)),
        }),
        ..Owner::default()
    };
    let before = resident_kib().unwrap();
    let mut aggregator = Aggregator::new(Limits::default());
    for n in 0..20_000_u16 {
        let end = |port| Endpoint {
            address: IpAddr::from([10, 0, 0, 1]),
            port: Some(port),
        };
        let tuple = Tuple {
            protocol: 6,
            source: end(n),
            destination: end(60_000),
        };
        let time = EventTime {
            ktime_ns: n.into(),
            wall_ns: n.into(),
        };
        let retransmit = Retransmit {
            id: n.into(),
            netns: netns(),
            tuple,
            socket: SocketId {
                cookie: Some(u64::from(n) + 1),
                ..SocketId::default()
            },
            owner: owner(),
            kind: Kind::Fast,
            outcome: Outcome::Sent,
            error: 0,
            attempt: None,
            state: TcpState(1),
            seq: 1,
            end_seq: 2,
            segments: 1,
            bytes: 1000,
            tcp: Some(Box::new(TcpInfo {
                congestion_control: Some(Arc::clone(&name)),
                ..TcpInfo::default()
            })),
            verdict: Verdict {
                cause: Cause::Inconclusive,
                why: None,
            },
        };
        aggregator.observe(&Event {
            time,
            cpu: 0,
            body: Body::Retransmit(Box::new(retransmit)),
        });
        let drop = Drop {
            count: 1,
            netns: netns(),
            tuple: Some(tuple),
            tunnel: None,
            packet: PacketInfo::default(),
            reason: Reason {
                code: 1,
                name: Arc::clone(&name),
                subsystem: None,
                class: DropClass::Policy,
                meaning: None,
                advice: None,
            },
            location: Location {
                address: n.into(),
                ..Location::default()
            },
            interface: None,
            direction: None,
            socket: None,
            owner: Owner::default(),
        };
        aggregator.observe(&Event {
            time,
            cpu: 0,
            body: Body::Drop(Box::new(drop)),
        });
    }
    let used = resident_kib().unwrap() - before;
    println!("10 000 flows and 4096 drop groups: {used} KiB");
    assert!(used <= 12 * 1024, "{used} KiB");
    assert_eq!(aggregator.snapshot(1.0).lost.evicted_flows, 10_000);
}
