//! What a run amounts to: immutable, complete, the same for every sink.

use std::collections::BTreeMap;

use crate::event::{
    Cause, DropClass, EventTime, Kind, Location, Name, Netns, Owner, TcpInfo, Tuple,
};

/// Totals so far or of the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Of the last event (or of the moment it was asked for).
    pub time: EventTime,
    pub duration_s: f64,
    /// One sentence.
    pub diagnosis: String,
    pub retransmits: RetransmitTotals,
    pub drops: DropTotals,
    /// Flows with a retransmit or a drop, most retransmits first. Bounded by `--max-flows`.
    pub flows: Vec<FlowSummary>,
    /// Drops that matched, by what they have in common, most first.
    pub drop_groups: Vec<DropGroup>,
    pub rates: Vec<Rate>,
    /// Before any filter, by reason name.
    pub host_drops_by_reason: BTreeMap<Name, u64>,
    pub reconcile: Vec<ReconcileRow>,
    pub counters_only: Vec<CounterOnly>,
    pub lost: Lost,
    pub overhead: Overhead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetransmitTotals {
    pub events: u64,
    pub segments: u64,
    pub bytes: u64,
    /// Events.
    pub by_kind: BTreeMap<Kind, u64>,
    /// Events.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Attempts that were not sent; in none of the numbers above.
    pub failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropTotals {
    /// That matched the filters, benign ones included.
    pub packets: u64,
    pub by_reason: BTreeMap<Name, u64>,
    /// Of `packets`: benign.
    pub benign: u64,
    /// Of `packets`: benign and therefore not shown live.
    pub hidden_benign: u64,
    pub unmatched_no_tuple: u64,
    /// Frees that are no network drops (`AF_UNIX`, netlink, packet-socket copies …), by socket family.
    pub not_network: BTreeMap<&'static str, u64>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSummary {
    pub netns: Netns,
    /// local → remote where a socket is known, else as first seen.
    pub tuple: Tuple,
    pub owner: Owner,
    pub first: EventTime,
    pub last: EventTime,
    pub ended: bool,
    pub retransmits: RetransmitTotals,
    pub drops: u64,
    pub drops_by_reason: BTreeMap<Name, u64>,
    /// Last state seen.
    pub tcp: Option<Box<TcpInfo>>,
    /// Retransmitted segments / all data segments sent, from the socket's own counters.
    pub retransmitted_share: Option<f64>,
}

/// Drops with the same reason, location, namespace and interface.
#[derive(Clone, Debug, PartialEq)]
pub struct DropGroup {
    pub reason: Name,
    pub class: DropClass,
    pub meaning: Option<&'static str>,
    pub advice: Option<&'static str>,
    pub location: Location,
    pub netns: Netns,
    pub interface: Option<Name>,
    pub packets: u64,
}

/// Share of a namespace's segments that were sent again.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pub netns: Netns,
    /// `RetransSegs` / (`OutSegs` + `RetransSegs`)
    pub retransmitted_share: f64,
}

/// One of the kernel's counters held against what was traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileRow {
    pub netns: Netns,
    /// As nstat names it.
    pub counter: &'static str,
    /// By how much the counter moved while the probes were attached; the least, where `kernel_max` differs.
    pub kernel: u64,
    /// By how much it can have moved at most (the counter moved while attaching or detaching).
    pub kernel_max: u64,
    /// What was traced.
    pub observed: u64,
    /// `kernel` − `observed` (or how far outside the range); negative: more was seen than counted.
    pub unexplained: i64,
    /// Both are exact: equality is expected.
    pub exact: bool,
    /// The counter may move for other reasons too: it is an upper bound only.
    pub bound: bool,
    /// The namespace ended while tracing.
    pub ended: bool,
}

/// A loss that no event shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOnly {
    /// `None`: of the whole host.
    pub netns: Option<Netns>,
    pub counter: &'static str,
    pub delta: u64,
    /// Drops that were traced for the same cause.
    pub observed: u64,
    pub unseen: u64,
    pub meaning: &'static str,
}

/// What the tracer failed to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub no_record: u64,
    pub ring_full: u64,
    pub tuple_table_full: u64,
    pub map_busy: u64,
    pub recursion_missed: u64,
    pub read_fault: u64,
    pub evicted_flows: u64,
    /// Records user space could not decode.
    pub undecodable: u64,
}

impl Lost {
    /// Nothing was lost.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What tracing cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Only where the host measures it (`kernel.bpf_stats_enabled`).
    pub kernel_ns: Option<u64>,
    pub events: u64,
    pub user_cpu_s: f64,
    pub rss_bytes: Option<u64>,
    pub map_bytes: Option<u64>,
}
