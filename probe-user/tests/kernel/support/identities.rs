//! The identities of the kernel's retransmit counters, from readings of our own and from the summary.

use std::collections::BTreeMap;

use serde_json::Value;

use super::counters::{Counters, settle};
use super::netns::Netns;
use super::tracer::{Trace, Tracer};
use super::{flag, num, text};

/// Counters of some namespaces before the traffic.
pub(crate) struct Books<'a>(Vec<(&'a Netns, Counters)>);

impl<'a> Books<'a> {
    #[track_caller]
    pub(crate) fn open(namespaces: impl IntoIterator<Item = &'a Netns>) -> Self {
        Self(
            namespaces
                .into_iter()
                .map(|netns| (netns, Counters::read(netns)))
                .collect(),
        )
    }

    /// Waits until nothing moves, ends the run and checks every namespace. Returns how far the counters of each moved.
    #[track_caller]
    pub(crate) fn close(&self, tracer: Tracer) -> (Trace, Vec<Counters>) {
        let moved = self.moved();
        let trace = tracer.stop();
        for (before, after) in moved.iter().zip(self.moved()) {
            assert_eq!(before.of_tcp(), after.of_tcp(), "a namespace was not quiet");
        }
        self.check(&trace, &moved);
        (trace, moved)
    }

    /// How far the counters moved, once nothing moves.
    #[track_caller]
    pub(crate) fn moved(&self) -> Vec<Counters> {
        for (netns, _) in &self.0 {
            settle(netns);
        }
        self.0
            .iter()
            .map(|(netns, before)| Counters::read(netns).since(before))
            .collect()
    }

    /// Checks the rows of the summary and, unless events were filtered, the events.
    #[track_caller]
    pub(crate) fn check(&self, trace: &Trace, moved: &[Counters]) {
        for ((netns, _), moved) in self.0.iter().zip(moved) {
            check_sockets(trace, netns);
            check_events(trace, netns, moved);
            check_rows(trace, netns, moved);
        }
    }

    #[track_caller]
    pub(crate) fn check_rows(&self, trace: &Trace, moved: &[Counters]) {
        for ((netns, _), moved) in self.0.iter().zip(moved) {
            check_rows(trace, netns, moved);
        }
    }
}

/// Segments sent again in one namespace, by kind; failed attempts apart.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) sent: BTreeMap<String, u64>,
    /// Not sent, but counted by the kernel.
    pub(crate) late: BTreeMap<String, u64>,
    /// Events.
    pub(crate) events: BTreeMap<String, u64>,
}

impl Sums {
    pub(crate) fn of(trace: &Trace, netns: &Netns) -> Self {
        let mut sums = Self::default();
        for event in trace.of("retransmit", netns) {
            let kind = text(event, "/tcp/kind").to_owned();
            let segments = num(event, "/tcp/segments");
            if !flag(event, "/tcp/failed") {
                *sums.events.entry(kind.clone()).or_default() += 1;
                *sums.sent.entry(kind).or_default() += segments;
            } else if flag(event, "/tcp/late") {
                *sums.late.entry(kind).or_default() += segments;
            }
        }
        sums
    }

    pub(crate) fn sent(&self, kinds: &[&str]) -> u64 {
        kinds.iter().filter_map(|kind| self.sent.get(*kind)).sum()
    }

    fn events(&self, kinds: &[&str]) -> u64 {
        kinds.iter().filter_map(|kind| self.events.get(*kind)).sum()
    }
}

#[track_caller]
fn check_events(trace: &Trace, netns: &Netns, moved: &Counters) {
    let sums = Sums::of(trace, netns);
    let (sent, late): (u64, u64) = (sums.sent.values().sum(), sums.late.values().sum());
    let name = &netns.name;
    let late_syn = sums.late.get("syn").copied().unwrap_or(0);
    let pairs = [
        ("TcpRetransSegs", sent + late),
        ("TcpExtTCPRetransFail", late),
        ("TcpExtTCPFastRetrans", sums.sent(&["fast", "rack_timer"])),
        (
            "TcpExtTCPSlowStartRetrans",
            sums.sent(&["slow_start", "non_congestion"]),
        ),
        (
            "TcpExtTCPSynRetrans",
            sums.sent(&["syn", "synack"]) + late_syn,
        ),
    ];
    if pairs
        .iter()
        .any(|(counter, ours)| moved.get(counter) != *ours)
    {
        let failed: Vec<_> = trace
            .of("retransmit", netns)
            .filter(|event| flag(event, "/tcp/failed"))
            .map(ToString::to_string)
            .collect();
        let rows = trace.summary()["reconcile"].as_array().expect("rows");
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| num(row, "/netns/inode") == netns.inode)
            .map(ToString::to_string)
            .collect();
        panic!(
            "{name}: counted {pairs:#?}\nby kind {sums:?}\nlost {}\nrows {rows:#?}\nfailed {failed:#?}\ncounters {:?}",
            trace.summary()["lost"],
            moved.of_tcp()
        );
    }
    for (counter, ours) in [
        ("TcpExtTCPTimeouts", sums.events(&["rto", "syn"])),
        ("TcpExtTCPLossProbes", sums.events(&["tlp"])),
    ] {
        assert!(moved.get(counter) >= ours, "{counter} in {name}: {sums:?}");
    }
}

/// Every socket's own count grows by what each event says, event by event (the identity I7).
#[track_caller]
fn check_sockets(trace: &Trace, netns: &Netns) {
    let mut last: BTreeMap<(u64, u64), &Value> = BTreeMap::new();
    for event in trace.of("retransmit", netns) {
        let counted = !flag(event, "/tcp/failed") || flag(event, "/tcp/late");
        if !counted || event.pointer("/tcp/total_retrans").is_none() {
            continue;
        }
        let port = |end: &str| num(event, &format!("/{end}/port"));
        let socket = (port("source"), port("destination"));
        // One that was accepted begins with the copies of its SYN-ACK.
        if let Some(previous) = last.insert(socket, event) {
            assert_eq!(
                num(event, "/tcp/total_retrans") - num(previous, "/tcp/total_retrans"),
                num(event, "/tcp/segments"),
                "something between\n{previous}\nand\n{event}\nis missing"
            );
        }
    }
}

#[track_caller]
fn check_rows(trace: &Trace, netns: &Netns, moved: &Counters) {
    for counter in [
        "TcpRetransSegs",
        "TcpExtTCPRetransFail",
        "TcpExtTCPFastRetrans",
        "TcpExtTCPSlowStartRetrans",
        "TcpExtTCPSynRetrans",
    ] {
        check_row(trace, netns, counter, moved.get(counter));
    }
    for lost in ["no_record", "ring_full", "undecodable"] {
        let lost = format!("/lost/{lost}");
        assert_eq!(num(trace.summary(), &lost), 0, "{lost}");
    }
}

/// The summary says that a counter moved so far, exactly and fully explained.
#[track_caller]
pub(crate) fn check_row(trace: &Trace, netns: &Netns, counter: &str, moved: u64) {
    let Some(row) = trace.row(netns, counter) else {
        assert_eq!(moved, 0, "no row for {counter} of {}", netns.name);
        return;
    };
    assert_eq!(
        (
            num(row, "/kernel"),
            num(row, "/observed"),
            row["unexplained"].as_i64(),
            flag(row, "/exact"),
        ),
        (moved, moved, Some(0), true),
        "{row}"
    );
}
