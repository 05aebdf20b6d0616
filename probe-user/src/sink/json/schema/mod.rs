//! The wire types: what a line of JSON holds, field by field. Absent is left out; units stand at the end of the names.

mod blocks;
mod tcp;
mod totals;

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use self::blocks::{Location, Packet, Shared, Socket, Ts, Verdict};
use self::tcp::Tcp;
pub use self::totals::{Flow, Summary};
use crate::event::{self, EventTime};
use crate::sink::{self, FilterShown, names};

/// Rises when a field is renamed or changes its type; added fields do not count.
pub const SCHEMA_VERSION: u32 = 1;

/// `start`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "start")]
pub struct Start<'a> {
    ts: Ts,
    schema_version: u32,
    version: &'a str,
    kernel: &'a str,
    probes: &'a [String],
    filters: Filters<'a>,
}

impl<'a> Start<'a> {
    pub(super) fn new(start: &'a sink::Start) -> Self {
        Self {
            ts: Ts(start.time),
            schema_version: SCHEMA_VERSION,
            version: &start.version,
            kernel: &start.kernel,
            probes: &start.probes,
            filters: Filters(&start.filters),
        }
    }
}

/// Flag → list of values, or `true` for a flag without.
#[derive(Debug)]
struct Filters<'a>(&'a [FilterShown]);

impl Serialize for Filters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for filter in self.0 {
            if filter.values.is_empty() {
                map.serialize_entry(filter.flag, &true)?;
            } else {
                map.serialize_entry(filter.flag, &filter.values)?;
            }
        }
        map.end()
    }
}

/// `retransmit`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "retransmit")]
pub struct Retransmit<'a> {
    ts: Ts,
    id: u64,
    #[serde(flatten)]
    shared: Shared<'a>,
    tcp: SentAgain<'a>,
    verdict: Verdict,
}

/// The `tcp` block of a retransmit: what was sent again, and the socket's state.
#[derive(Debug, Serialize)]
struct SentAgain<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    /// Failed, but part of `TcpRetransSegs` all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    late: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_seq: Option<u32>,
    segments: u32,
    bytes: u32,
    #[serde(flatten)]
    socket: Option<Tcp<'a>>,
}

impl<'a> Retransmit<'a> {
    pub(super) fn new(time: EventTime, retransmit: &'a event::Retransmit) -> Self {
        let outcome = retransmit.outcome;
        Self {
            ts: Ts(time),
            id: retransmit.id,
            shared: Shared::of_socket(&retransmit.netns, &retransmit.tuple, &retransmit.owner),
            tcp: SentAgain {
                kind: names::kind(retransmit.kind),
                failed: outcome != event::Outcome::Sent,
                late: outcome == event::Outcome::FailedLate,
                error: names::error(retransmit.error),
                attempt: retransmit.attempt,
                state: retransmit.state.name(),
                // A request for a connection has no sequence numbers that the programs could read.
                seq: retransmit.tcp.is_some().then_some(retransmit.seq),
                end_seq: retransmit.tcp.is_some().then_some(retransmit.end_seq),
                segments: retransmit.segments,
                bytes: retransmit.bytes,
                socket: retransmit.tcp.as_deref().map(Tcp::without_state),
            },
            verdict: Verdict::new(&retransmit.verdict),
        }
    }
}

/// `verdict`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "verdict")]
pub struct VerdictChange {
    ts: Ts,
    retransmit: u64,
    #[serde(flatten)]
    verdict: Verdict,
    was: &'static str,
}

impl VerdictChange {
    pub(super) fn new(change: &sink::VerdictChange) -> Self {
        Self {
            ts: Ts(change.time),
            retransmit: change.retransmit,
            verdict: Verdict::new(&change.verdict),
            was: change.was.name(),
        }
    }
}

/// `drop`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "drop")]
pub struct Drop<'a> {
    ts: Ts,
    count: u64,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsystem: Option<&'a str>,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(flatten)]
    shared: Shared<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<Location<'a>>,
    packet: Packet,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<Socket>,
}

impl<'a> Drop<'a> {
    pub(super) fn new(time: EventTime, drop: &'a event::Drop) -> Self {
        Self {
            ts: Ts(time),
            count: drop.count,
            reason: &drop.reason.name,
            subsystem: drop.reason.subsystem.as_deref(),
            class: drop.reason.class.name(),
            meaning: drop.reason.meaning,
            advice: drop.reason.advice,
            direction: drop.direction.map(event::Direction::name),
            shared: Shared::of_drop(drop),
            location: Location::new(&drop.location),
            packet: Packet::new(&drop.packet),
            socket: drop.socket.as_ref().and_then(Socket::new),
        }
    }
}

/// `reset`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "reset")]
pub struct Reset<'a> {
    ts: Ts,
    #[serde(flatten)]
    shared: Shared<'a>,
    direction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

impl<'a> Reset<'a> {
    pub(super) fn new(time: EventTime, reset: &'a event::Reset) -> Self {
        Self {
            ts: Ts(time),
            shared: Shared::new(&reset.netns, reset.tuple.as_ref(), &reset.owner),
            direction: reset.direction.name(),
            reason: reset.reason.as_deref(),
            state: reset.state.and_then(event::TcpState::name),
        }
    }
}

/// `sample`
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "sample")]
pub struct Sample<'a> {
    ts: Ts,
    #[serde(flatten)]
    shared: Shared<'a>,
    tcp: Tcp<'a>,
}

impl<'a> Sample<'a> {
    pub(super) fn new(time: EventTime, sample: &'a event::Sample) -> Self {
        Self {
            ts: Ts(time),
            shared: Shared::of_socket(&sample.netns, &sample.tuple, &sample.owner),
            tcp: Tcp::new(&sample.tcp),
        }
    }
}
