//! The pages for users are complete: every JSON key, every word a program compares with, every flag.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory as _;
use probe_common::packet::Tunnel;
use probe_user::aggregate::summary::{
    CounterOnly, FlowSummary, Lost, Overhead, Rate, ReconcileRow, RetransmitTotals, Summary,
};
use probe_user::cli::Cli;
use probe_user::event::{
    Body, Buffers, Cause, Cgroup, Direction, Drop, DropClass, Endpoint, Event, EventTime,
    IcmpHeader, Interface, Kind, Location, Netns, Outcome, Owner, PacketInfo, Process, Reason,
    Reset, Retransmit, Sample, SocketId, SocketInfo, TcpHeader, TcpInfo, TcpState, TunnelInfo,
    Tuple, Verdict,
};
use probe_user::sink::json::JsonSink;
use probe_user::sink::{FilterShown, Moment, Sink as _, Start, VerdictChange, Visibility, names};
use serde_json::Value;

/// Objects whose keys are data: reasons, kinds, causes, flags.
const MAPS: [&str; 6] = [
    "by_reason",
    "by_kind",
    "by_cause",
    "host_drops_by_reason",
    "not_network",
    "filters",
];

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(path).unwrap()
}

/// The words that stand in `code` on a page: of `a.b`, both.
fn code_words(page: &str) -> BTreeSet<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                if !MAPS.contains(&key.as_str()) {
                    keys(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn end() -> Endpoint {
    Endpoint {
        address: [192, 0, 2, 1].into(),
        port: Some(1),
    }
}

fn tuple() -> Tuple {
    Tuple {
        protocol: 6,
        source: end(),
        destination: end(),
    }
}

fn netns() -> Netns {
    Netns {
        inode: 1,
        cookie: Some(1),
        name: Some("n".into()),
    }
}

fn owner() -> Owner {
    Owner {
        process: Some(Process {
            pid: 1,
            name: "p".into(),
        }),
        cgroup: Some(Cgroup {
            id: 1,
            path: Some("/".into()),
        }),
        container: Some("c".into()),
        unknown_because: None,
    }
}

fn tcp() -> TcpInfo {
    TcpInfo {
        state: 1,
        srtt_us: Some(1),
        rttvar_us: Some(1),
        min_rtt_us: Some(1),
        rto_us: Some(1),
        ssthresh: Some(1),
        busy_us: Some(1),
        rwnd_limited_us: Some(1),
        sndbuf_limited_us: Some(1),
        pacing_rate_bytes_per_s: Some(1),
        congestion_control: Some("c".into()),
        ..TcpInfo::default()
    }
}

fn inconclusive() -> Verdict {
    Verdict {
        cause: Cause::Inconclusive,
        why: Some("w"),
    }
}

fn retransmit() -> Retransmit {
    Retransmit {
        id: 1,
        netns: netns(),
        tuple: tuple(),
        socket: SocketId::default(),
        owner: owner(),
        kind: Kind::Rto,
        outcome: Outcome::FailedLate,
        error: -1,
        attempt: Some(1),
        state: TcpState(1),
        seq: 1,
        end_seq: 1,
        segments: 1,
        bytes: 1,
        tcp: Some(Box::new(tcp())),
        verdict: inconclusive(),
    }
}

fn drop() -> Drop {
    Drop {
        count: 1,
        netns: netns(),
        tuple: Some(tuple()),
        tunnel: Some(TunnelInfo {
            kind: Tunnel::Vxlan,
            id: Some(1),
            outer: tuple(),
        }),
        packet: PacketInfo {
            ethertype: Some(0x88cc),
            vlan: Some(1),
            length: 1,
            segments: 1,
            tcp: Some(TcpHeader {
                flags: 0,
                seq: 1,
                ack: 1,
                payload: 1,
            }),
            icmp: Some(IcmpHeader {
                kind: 3,
                code: 4,
                quoted: Some(tuple()),
            }),
        },
        reason: Reason {
            code: 1,
            name: "R".into(),
            subsystem: Some("s".into()),
            class: DropClass::Policy,
            meaning: Some("m"),
            advice: Some("a"),
        },
        location: Location {
            address: 1,
            symbol: Some("f".into()),
            offset: 1,
            module: Some("m".into()),
        },
        interface: Some(Interface {
            index: 1,
            name: Some("i".into()),
        }),
        direction: Some(Direction::Receive),
        socket: Some(SocketInfo {
            id: SocketId::default(),
            is_receiver: true,
            state: Some(TcpState(10)),
            buffers: Some(Buffers {
                receive_queue_bytes: 1,
                receive_buffer_bytes: 1,
                backlog_bytes: 1,
                accept_queue: Some(1),
                accept_queue_max: Some(1),
                drops: 1,
            }),
        }),
        owner: owner(),
    }
}

/// Of every kind one, with all there is to know.
fn events() -> Vec<Body> {
    let sample = || {
        Box::new(Sample {
            netns: netns(),
            tuple: tuple(),
            socket: SocketId::default(),
            owner: owner(),
            tcp: tcp(),
        })
    };
    vec![
        Body::Retransmit(Box::new(retransmit())),
        Body::Drop(Box::new(drop())),
        // Not IP.
        Body::Drop(Box::new(Drop {
            tuple: None,
            ..drop()
        })),
        Body::Reset(Box::new(Reset {
            netns: netns(),
            tuple: Some(tuple()),
            direction: Direction::Transmit,
            reason: Some("R".into()),
            state: Some(TcpState(1)),
            socket: None,
            owner: owner(),
        })),
        Body::Sample(sample()),
        Body::FlowEnd(sample()),
    ]
}

fn summary() -> Summary {
    let mut summary = Summary {
        duration_s: 1.0,
        diagnosis: "d".into(),
        flows: vec![FlowSummary {
            netns: netns(),
            tuple: tuple(),
            owner: owner(),
            first: EventTime::default(),
            last: EventTime::default(),
            ended: true,
            retransmits: RetransmitTotals::default(),
            drops: 1,
            drops_by_reason: BTreeMap::new(),
            tcp: Some(Box::new(tcp())),
            retransmitted_share: Some(0.5),
        }],
        rates: vec![Rate {
            netns: netns(),
            retransmitted_share: 0.5,
        }],
        reconcile: vec![ReconcileRow {
            netns: netns(),
            counter: "C",
            kernel: 1,
            kernel_max: 2,
            observed: 1,
            unexplained: 0,
            exact: true,
            bound: true,
            ended: true,
        }],
        counters_only: vec![CounterOnly {
            netns: Some(netns()),
            counter: "C",
            delta: 1,
            observed: 0,
            unseen: 1,
            meaning: "m",
        }],
        lost: Lost::default(),
        overhead: Overhead {
            kernel_ns: Some(1),
            events: 1,
            user_cpu_s: 1.0,
            rss_bytes: Some(1),
            map_bytes: Some(1),
        },
        ..Summary::default()
    };
    summary.drops.not_network.insert("unix", 1);
    summary
}

/// What the JSON sink writes of all that.
fn written() -> Vec<Value> {
    let mut out = Vec::new();
    let mut sink = JsonSink::new(&mut out);
    sink.start(&Start {
        time: EventTime::default(),
        version: "v".into(),
        kernel: "k".into(),
        probes: vec!["p".into()],
        filters: vec![FilterShown {
            flag: "all",
            values: Vec::new(),
        }],
        own_netns: 1,
    })
    .unwrap();
    for body in events() {
        let event = Event {
            time: EventTime::default(),
            cpu: 0,
            body,
        };
        sink.event(&event, Visibility::Shown).unwrap();
    }
    sink.verdict(&VerdictChange {
        time: EventTime::default(),
        retransmit: 1,
        kind: Kind::Rto,
        netns: netns(),
        tuple: tuple(),
        owner: owner(),
        was: Cause::Pending,
        verdict: inconclusive(),
    })
    .unwrap();
    sink.summary(&summary(), Moment::SoFar).unwrap();
    sink.summary(&summary(), Moment::Final).unwrap();
    lines(&String::from_utf8(out).unwrap())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn missing<'a>(wanted: impl IntoIterator<Item = &'a str>, page: &str) -> Vec<&'a str> {
    let words = code_words(page);
    wanted
        .into_iter()
        .filter(|word| !words.contains(word))
        .collect()
}

#[test]
fn every_json_key_is_documented() {
    let mut found = BTreeSet::new();
    for object in written() {
        keys(&object, &mut found);
    }
    // The expected outputs, in case they know a key that the events above do not lead to.
    for golden in ["every_event", "a_summary"] {
        let path =
            format!("probe-user/src/sink/snapshots/probe_user__sink__tests__json_of_{golden}.snap");
        for object in lines(&page(&path)) {
            keys(&object, &mut found);
        }
    }
    assert!(found.len() > 100, "only {} keys found", found.len());
    let undocumented = missing(found.iter().map(String::as_str), &page("docs/output.md"));
    assert!(
        undocumented.is_empty(),
        "not in docs/output.md: {undocumented:?}"
    );
}

#[test]
fn every_kind_of_object_is_documented() {
    let page = page("docs/output.md");
    for object in written() {
        let event = object["event"].as_str().unwrap();
        assert!(
            page.contains(&format!("### `{event}`")),
            "no section {event}"
        );
    }
}

#[test]
fn every_word_that_programs_compare_is_documented() {
    let causes = [
        Cause::Pending,
        Cause::LocalDrop,
        Cause::HostDrop,
        Cause::ReceiverWindow,
        Cause::PathMtu,
        Cause::NoAnswer,
        Cause::Spurious,
        Cause::OutsideHost,
        Cause::Inconclusive,
    ];
    let classes = [
        DropClass::Benign,
        DropClass::Policy,
        DropClass::Capacity,
        DropClass::Path,
        DropClass::Routing,
        DropClass::Security,
        DropClass::Fault,
        DropClass::Application,
        DropClass::Unspecified,
    ];
    let tunnels = [
        Tunnel::Vxlan,
        Tunnel::Geneve,
        Tunnel::Gre,
        Tunnel::Ipip,
        Tunnel::Sit,
    ];
    let words = Kind::ALL
        .map(names::kind)
        .into_iter()
        .chain(causes.map(Cause::name))
        .chain(classes.map(DropClass::name))
        .chain(tunnels.map(names::tunnel))
        .chain((0..).map_while(names::ca_state));
    let undocumented = missing(words, &page("docs/output.md"));
    assert!(
        undocumented.is_empty(),
        "not in docs/output.md: {undocumented:?}"
    );
}

#[test]
fn every_flag_is_documented() {
    let pages = page("README.md") + &page("docs/output.md");
    let command = Cli::command();
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let undocumented: Vec<&str> = flags
        .filter(|flag| {
            let flag = format!("--{flag}");
            // `--src` is not said where only `--src-port` is.
            !pages.match_indices(&flag).any(|(at, _)| {
                let next = pages[at + flag.len()..].chars().next();
                next.is_none_or(|next| next != '-' && !next.is_ascii_alphanumeric())
            })
        })
        .collect();
    assert!(undocumented.is_empty(), "in neither page: {undocumented:?}");
}
