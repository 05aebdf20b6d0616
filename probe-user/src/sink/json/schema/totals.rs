//! What a flow and a run amount to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::blocks::{Netns, Shared, Ts};
use super::tcp::Tcp;
use crate::aggregate::summary as domain;
use crate::event::Name;
use crate::sink::{Moment, names};

type Counts<'a> = BTreeMap<&'a str, u64>;

/// `flow`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "flow")]
pub struct Flow<'a> {
    ts: Ts,
    #[serde(flatten)]
    shared: Shared<'a>,
    first_ts: Ts,
    last_ts: Ts,
    ended: bool,
    retransmits: Retransmits<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmitted_share: Option<f64>,
    drops: FlowDrops<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<Tcp<'a>>,
}

#[derive(Debug, Serialize)]
struct FlowDrops<'a> {
    packets: u64,
    by_reason: Counts<'a>,
}

#[derive(Debug, Serialize)]
struct Retransmits<'a> {
    events: u64,
    segments: u64,
    bytes: u64,
    by_kind: Counts<'a>,
    by_cause: Counts<'a>,
    failed: u64,
}

impl<'a> Flow<'a> {
    pub(in crate::sink::json) fn new(flow: &'a domain::FlowSummary) -> Self {
        Self {
            ts: Ts(flow.last),
            shared: Shared::of_socket(&flow.netns, &flow.tuple, &flow.owner),
            first_ts: Ts(flow.first),
            last_ts: Ts(flow.last),
            ended: flow.ended,
            retransmits: Retransmits::new(&flow.retransmits),
            retransmitted_share: flow.retransmitted_share.filter(|share| share.is_finite()),
            drops: FlowDrops {
                packets: flow.drops,
                by_reason: by_name(&flow.drops_by_reason),
            },
            tcp: flow.tcp.as_deref().map(Tcp::new),
        }
    }
}

impl Retransmits<'_> {
    fn new(totals: &domain::RetransmitTotals) -> Self {
        Self {
            events: totals.events,
            segments: totals.segments,
            bytes: totals.bytes,
            by_kind: totals
                .by_kind
                .iter()
                .map(|(kind, events)| (names::kind(*kind), *events))
                .collect(),
            by_cause: totals
                .by_cause
                .iter()
                .map(|(cause, events)| (cause.name(), *events))
                .collect(),
            failed: totals.failed,
        }
    }
}

/// `summary`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "summary")]
pub struct Summary<'a> {
    ts: Ts,
    /// Tracing goes on: another summary follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    so_far: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_s: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    diagnosis: &'a str,
    retransmits: Retransmits<'a>,
    drops: Drops<'a>,
    rates: Vec<Rate<'a>>,
    host_drops_by_reason: Counts<'a>,
    reconcile: Vec<Reconcile<'a>>,
    counters_only: Vec<CounterOnly<'a>>,
    lost: Lost,
    overhead: Overhead,
}

#[derive(Debug, Serialize)]
struct Drops<'a> {
    packets: u64,
    by_reason: Counts<'a>,
    hidden_benign: u64,
    unmatched_no_tuple: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    not_network: Counts<'a>,
}

#[derive(Debug, Serialize)]
struct Rate<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<Netns<'a>>,
    retransmitted_share: f64,
}

#[derive(Debug, Serialize)]
struct Reconcile<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<Netns<'a>>,
    counter: &'static str,
    kernel: u64,
    /// Only where the counter moved while attaching or detaching.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_max: Option<u64>,
    observed: u64,
    unexplained: i64,
    exact: bool,
    /// An upper bound: the counter moves for other reasons too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bound: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

#[derive(Debug, Serialize)]
struct CounterOnly<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<Netns<'a>>,
    counter: &'static str,
    delta: u64,
    observed: u64,
    unseen: u64,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct Lost {
    no_record: u64,
    ring_full: u64,
    tuple_table_full: u64,
    map_busy: u64,
    recursion_missed: u64,
    read_fault: u64,
    evicted_flows: u64,
    undecodable: u64,
}

#[derive(Debug, Serialize)]
struct Overhead {
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_ns: Option<u64>,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_cpu_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map_bytes: Option<u64>,
}

impl<'a> Summary<'a> {
    pub(in crate::sink::json) fn new(summary: &'a domain::Summary, moment: Moment) -> Self {
        let drops = &summary.drops;
        let rates = summary
            .rates
            .iter()
            .filter(|rate| rate.retransmitted_share.is_finite());
        Self {
            ts: Ts(summary.time),
            so_far: moment == Moment::SoFar,
            duration_s: Some(summary.duration_s).filter(|seconds| seconds.is_finite()),
            diagnosis: &summary.diagnosis,
            retransmits: Retransmits::new(&summary.retransmits),
            drops: Drops {
                packets: drops.packets,
                by_reason: by_name(&drops.by_reason),
                hidden_benign: drops.hidden_benign,
                unmatched_no_tuple: drops.unmatched_no_tuple,
                not_network: drops
                    .not_network
                    .iter()
                    .map(|(family, packets)| (*family, *packets))
                    .collect(),
            },
            rates: rates
                .map(|rate| Rate {
                    netns: Netns::new(&rate.netns),
                    retransmitted_share: rate.retransmitted_share,
                })
                .collect(),
            host_drops_by_reason: by_name(&summary.host_drops_by_reason),
            reconcile: summary.reconcile.iter().map(Reconcile::new).collect(),
            counters_only: summary.counters_only.iter().map(CounterOnly::new).collect(),
            lost: Lost::new(&summary.lost),
            overhead: Overhead::new(&summary.overhead),
        }
    }
}

impl<'a> Reconcile<'a> {
    fn new(row: &'a domain::ReconcileRow) -> Self {
        Self {
            netns: Netns::new(&row.netns),
            counter: row.counter,
            kernel: row.kernel,
            kernel_max: (row.kernel_max != row.kernel).then_some(row.kernel_max),
            observed: row.observed,
            unexplained: row.unexplained,
            exact: row.exact,
            bound: row.bound,
            ended: row.ended,
        }
    }
}

impl<'a> CounterOnly<'a> {
    fn new(row: &'a domain::CounterOnly) -> Self {
        Self {
            netns: row.netns.as_ref().and_then(Netns::new),
            counter: row.counter,
            delta: row.delta,
            observed: row.observed,
            unseen: row.unseen,
            meaning: row.meaning,
        }
    }
}

impl Lost {
    fn new(lost: &domain::Lost) -> Self {
        Self {
            no_record: lost.no_record,
            ring_full: lost.ring_full,
            tuple_table_full: lost.tuple_table_full,
            map_busy: lost.map_busy,
            recursion_missed: lost.recursion_missed,
            read_fault: lost.read_fault,
            evicted_flows: lost.evicted_flows,
            undecodable: lost.undecodable,
        }
    }
}

impl Overhead {
    fn new(overhead: &domain::Overhead) -> Self {
        Self {
            kernel_ns: overhead.kernel_ns,
            events: overhead.events,
            user_cpu_s: Some(overhead.user_cpu_s).filter(|seconds| seconds.is_finite()),
            rss_bytes: overhead.rss_bytes,
            map_bytes: overhead.map_bytes,
        }
    }
}

fn by_name(counts: &BTreeMap<Name, u64>) -> Counts<'_> {
    counts
        .iter()
        .map(|(name, packets)| (name.as_ref(), *packets))
        .collect()
}
