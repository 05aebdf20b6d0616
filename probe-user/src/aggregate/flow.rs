//! What is remembered of one flow.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::summary::{FlowSummary, RetransmitTotals};
use crate::event::{
    Cause, Drop, Endpoint, EventTime, Kind, Name, Netns, Outcome, Owner, Retransmit, Sample,
    SocketId, TcpInfo, Tuple,
};

/// Most reasons kept apart in one flow; the rest counts as [`OTHER`].
const MAX_REASONS: usize = 16;
/// Stands for all that is not kept apart.
pub(super) const OTHER: &str = "other";

/// A namespace by what never changes: its cookie, or the inode where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NetnsId {
    Cookie(u64),
    Inode(u32),
}

impl NetnsId {
    pub(super) fn of(netns: &Netns) -> Self {
        netns.cookie.map_or(Self::Inode(netns.inode), Self::Cookie)
    }
}

/// Which end of a flow is a socket of this namespace. Over loopback both are: two flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Local {
    Low,
    High,
    Unknown,
}

/// A flow, whichever way its packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    pub(super) netns: NetnsId,
    protocol: u8,
    low: Endpoint,
    high: Endpoint,
    pub(super) local: Local,
}

impl FlowKey {
    /// The flow of a packet of which no end is known to be local.
    pub(super) fn new(netns: &Netns, tuple: &Tuple) -> Self {
        let (low, high) = if tuple.source <= tuple.destination {
            (tuple.source, tuple.destination)
        } else {
            (tuple.destination, tuple.source)
        };
        Self {
            netns: NetnsId::of(netns),
            protocol: tuple.protocol,
            low,
            high,
            local: Local::Unknown,
        }
    }

    /// The same flow as the socket at `end` has it.
    pub(super) fn local(self, end: &Endpoint) -> Self {
        Self {
            local: if *end == self.low {
                Local::Low
            } else {
                Local::High
            },
            ..self
        }
    }
}

/// Counts by kind and cause.
#[derive(Clone, Debug, Default)]
pub(super) struct Retransmits {
    events: u64,
    segments: u64,
    bytes: u64,
    failed: u64,
    /// In the order of [`Kind::ALL`].
    by_kind: [u64; Kind::ALL.len()],
    /// In the order of [`CAUSES`].
    by_cause: [u64; CAUSES.len()],
}

const CAUSES: [Cause; 9] = [
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

impl Retransmits {
    pub(super) fn count(&mut self, retransmit: &Retransmit) {
        if retransmit.outcome != Outcome::Sent {
            self.failed += 1;
            return;
        }
        self.events += 1;
        self.segments += u64::from(retransmit.segments);
        self.bytes += u64::from(retransmit.bytes);
        if let Some(count) = slot(&mut self.by_kind, &Kind::ALL, retransmit.kind) {
            *count += 1;
        }
        if let Some(count) = slot(&mut self.by_cause, &CAUSES, retransmit.verdict.cause) {
            *count += 1;
        }
    }

    pub(super) fn totals(&self) -> RetransmitTotals {
        RetransmitTotals {
            events: self.events,
            segments: self.segments,
            bytes: self.bytes,
            by_kind: counted(&Kind::ALL, &self.by_kind),
            by_cause: counted(&CAUSES, &self.by_cause),
            failed: self.failed,
        }
    }
}

/// The count of `key`, where `counts` are in the order of `keys`.
fn slot<'a, K: PartialEq + Copy>(counts: &'a mut [u64], keys: &[K], key: K) -> Option<&'a mut u64> {
    counts
        .iter_mut()
        .zip(keys)
        .find(|(_, known)| **known == key)
        .map(|(count, _)| count)
}

fn counted<K: Ord + Copy>(keys: &[K], counts: &[u64]) -> BTreeMap<K, u64> {
    keys.iter()
        .copied()
        .zip(counts.iter().copied())
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// One generation of a flow.
#[derive(Debug)]
pub(super) struct Flow {
    netns: Netns,
    tuple: Tuple,
    owner: Owner,
    socket: SocketId,
    first: EventTime,
    last: EventTime,
    pub(super) ended: bool,
    /// `None`: none, nor an attempt at one; most flows with drops have none.
    retransmits: Option<Box<Retransmits>>,
    drops: u64,
    drops_by_reason: Vec<(Name, u64)>,
    tcp: Option<Box<TcpInfo>>,
}

impl Flow {
    pub(super) fn new(netns: &Netns, tuple: &Tuple, time: EventTime) -> Self {
        Self {
            netns: netns.clone(),
            tuple: *tuple,
            owner: Owner::default(),
            socket: SocketId::default(),
            first: time,
            last: time,
            ended: false,
            retransmits: None,
            drops: 0,
            drops_by_reason: Vec::new(),
            tcp: None,
        }
    }

    /// Can this be the flow of that socket? The cookie decides; the address only where one of the two has no cookie. A
    /// socket that ended comes back under no identity.
    pub(super) fn may_belong_to(&self, socket: &SocketId) -> bool {
        match (self.socket.cookie, socket.cookie) {
            (Some(known), Some(cookie)) => known == cookie,
            _ if self.ended => false,
            _ => {
                self.socket.address == 0
                    || socket.address == 0
                    || self.socket.address == socket.address
            }
        }
    }

    /// The socket is known now: the tuple is shown from its side.
    pub(super) fn adopt(&mut self, tuple: &Tuple) {
        self.tuple = *tuple;
    }

    pub(super) fn retransmit(&mut self, retransmit: &Retransmit, time: EventTime) {
        let is_request = retransmit.kind == Kind::SynAck;
        self.seen(time, &retransmit.netns, &retransmit.owner);
        self.identify(&retransmit.socket, is_request);
        self.retransmits.get_or_insert_default().count(retransmit);
        if let Some(tcp) = &retransmit.tcp {
            self.state(tcp);
        }
    }

    pub(super) fn sample(&mut self, sample: &Sample, time: EventTime, ended: bool) {
        self.seen(time, &sample.netns, &sample.owner);
        self.identify(&sample.socket, false);
        self.ended |= ended;
        self.state(&sample.tcp);
    }

    pub(super) fn drop(&mut self, drop: &Drop, time: EventTime) {
        self.seen(time, &drop.netns, &drop.owner);
        self.drops += drop.count;
        let has_room = self.drops_by_reason.len() < MAX_REASONS;
        match self
            .drops_by_reason
            .iter_mut()
            .find(|(name, _)| *name == drop.reason.name)
        {
            Some((_, count)) => *count += drop.count,
            None if has_room => self.new_reason(Arc::clone(&drop.reason.name), drop.count),
            None => match self
                .drops_by_reason
                .iter_mut()
                .find(|(name, _)| &**name == OTHER)
            {
                Some((_, count)) => *count += drop.count,
                None => self.new_reason(OTHER.into(), drop.count),
            },
        }
    }

    /// Most flows have one reason only: no room is taken in advance.
    fn new_reason(&mut self, name: Name, count: u64) {
        self.drops_by_reason.reserve_exact(1);
        self.drops_by_reason.push((name, count));
    }

    fn seen(&mut self, time: EventTime, netns: &Netns, owner: &Owner) {
        // Records of different CPUs come almost, but not quite, in order.
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        if self.netns.name.is_none() && netns.name.is_some() {
            self.netns.name.clone_from(&netns.name);
        }
        if self.owner.process.is_none() && (owner.process.is_some() || owner.cgroup.is_some()) {
            self.owner.clone_from(owner);
        }
    }

    /// The request of a handshake and the socket that comes of it share the cookie, not the address.
    fn identify(&mut self, socket: &SocketId, is_request: bool) {
        self.socket.cookie = self.socket.cookie.or(socket.cookie);
        if self.socket.address == 0 && !is_request {
            self.socket.address = socket.address;
        }
    }

    fn state(&mut self, tcp: &TcpInfo) {
        match &mut self.tcp {
            Some(known) => known.as_mut().clone_from(tcp),
            None => self.tcp = Some(Box::new(tcp.clone())),
        }
    }

    /// It retransmitted.
    pub(super) fn has_retransmits(&self) -> bool {
        self.retransmits
            .as_ref()
            .is_some_and(|counts| counts.events > 0)
    }

    /// Something happened to it: it was retransmitted, it failed, or it lost packets.
    pub(super) fn is_notable(&self) -> bool {
        self.retransmits.is_some() || self.drops > 0
    }

    /// Segments sent again and data segments sent (those again included), by the socket's own count.
    pub(super) fn sent(&self) -> Option<(u64, u64)> {
        self.tcp
            .as_ref()
            .map(|tcp| (tcp.total_retrans.into(), tcp.data_segs_out.into()))
    }

    pub(super) fn summary(&self) -> FlowSummary {
        let share = |(again, all): (u64, u64)| (all != 0).then(|| ratio(again, all));
        FlowSummary {
            netns: self.netns.clone(),
            tuple: self.tuple,
            owner: self.owner.clone(),
            first: self.first,
            last: self.last,
            ended: self.ended,
            retransmits: self
                .retransmits
                .as_ref()
                .map_or_else(RetransmitTotals::default, |counts| counts.totals()),
            drops: self.drops,
            drops_by_reason: self
                .drops_by_reason
                .iter()
                .map(|(name, count)| (Arc::clone(name), *count))
                .collect(),
            tcp: self.tcp.clone(),
            // A SYN is a retransmit but no data segment: a flow that never got further has no share.
            retransmitted_share: self.sent().and_then(share),
        }
    }
}

/// `part` of `whole`.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits only")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
