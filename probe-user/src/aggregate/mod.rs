//! Counts: pure, no clock, no I/O, driven by events alone.

mod diagnosis;
mod flow;
mod group;
mod limits;
pub mod reconcile;
pub mod summary;

use std::collections::HashMap;
use std::sync::Arc;

use self::flow::{Flow, FlowKey, OTHER, Retransmits};
use self::group::Groups;
pub use self::limits::Limits;
use self::limits::Table;
use self::summary::{DropTotals, FlowSummary, Lost, Summary};
use crate::event::{Body, Drop, DropClass, Event, EventTime, Name, Netns, SocketId, Tuple};

/// Most reasons kept apart in the totals: far more than any kernel has.
const MAX_REASONS: usize = 4096;

/// Adds up events.
#[derive(Debug)]
pub struct Aggregator {
    last: EventTime,
    retransmits: Retransmits,
    drops: u64,
    drops_benign: u64,
    drops_by_reason: HashMap<Name, u64>,
    groups: Groups,
    flows: Table<FlowKey, Flow>,
}

impl Aggregator {
    pub fn new(limits: Limits) -> Self {
        Self {
            last: EventTime::default(),
            retransmits: Retransmits::default(),
            drops: 0,
            drops_benign: 0,
            drops_by_reason: HashMap::new(),
            groups: Groups::new(limits.max_drop_groups),
            flows: Table::new(limits.max_flows),
        }
    }

    /// Counts one event.
    pub fn observe(&mut self, event: &Event) {
        let time = event.time;
        self.last = self.last.max(time);
        match &event.body {
            Body::Retransmit(retransmit) => {
                self.retransmits.count(retransmit);
                if let Some(flow) = self.flow_of_socket(
                    &retransmit.netns,
                    &retransmit.tuple,
                    &retransmit.socket,
                    time,
                ) {
                    flow.retransmit(retransmit, time);
                }
            }
            Body::Sample(sample) => {
                if let Some(flow) =
                    self.flow_of_socket(&sample.netns, &sample.tuple, &sample.socket, time)
                {
                    flow.sample(sample, time, false);
                }
            }
            Body::FlowEnd(sample) => {
                if let Some(flow) =
                    self.flow_of_socket(&sample.netns, &sample.tuple, &sample.socket, time)
                {
                    flow.sample(sample, time, true);
                }
            }
            Body::Drop(drop) => self.drop(drop, time),
            Body::Reset(_) => {}
        }
    }

    /// Totals so far: all that events alone can tell. `time` is that of the last event; what only counters know
    /// (`rates`, `reconcile`, `lost` but for evicted flows …) is left empty.
    pub fn snapshot(&self, duration_s: f64) -> Summary {
        let mut flows: Vec<FlowSummary> = self
            .flows
            .values()
            .filter(|flow| flow.is_notable())
            .map(Flow::summary)
            .collect();
        flows.sort_by(|a, b| {
            (b.retransmits.segments, b.drops)
                .cmp(&(a.retransmits.segments, a.drops))
                .then_with(|| {
                    (a.first, a.tuple, a.netns.inode).cmp(&(b.first, b.tuple, b.netns.inode))
                })
        });
        let mut summary = Summary {
            time: self.last,
            duration_s,
            retransmits: self.retransmits.totals(),
            drops: DropTotals {
                packets: self.drops,
                by_reason: self
                    .drops_by_reason
                    .iter()
                    .map(|(name, count)| (Arc::clone(name), *count))
                    .collect(),
                benign: self.drops_benign,
                ..DropTotals::default()
            },
            flows,
            drop_groups: self.groups.sorted(),
            lost: Lost {
                evicted_flows: self.flows.evicted(),
                ..Lost::default()
            },
            ..Summary::default()
        };
        summary.diagnosis = self.diagnosis(&summary);
        summary
    }

    /// One sentence on a summary that may hold more than events tell.
    pub fn diagnosis(&self, summary: &Summary) -> String {
        diagnosis::sentence(summary, self.sent())
    }

    /// Segments sent again and sent at all by the flows that retransmitted; `None` if that is not known of each.
    fn sent(&self) -> Option<(u64, u64)> {
        if self.flows.evicted() > 0 {
            return None;
        }
        let flows = self.flows.values().filter(|flow| flow.has_retransmits());
        flows.map(Flow::sent).try_fold((0, 0), |sum, sent| {
            sent.map(|sent| (sum.0 + sent.0, sum.1 + sent.1))
        })
    }

    fn drop(&mut self, drop: &Drop, time: EventTime) {
        self.drops += drop.count;
        if drop.reason.class == DropClass::Benign {
            self.drops_benign += drop.count;
        }
        if let Some(count) = self.drops_by_reason.get_mut(&drop.reason.name) {
            *count += drop.count;
        } else {
            let has_room = self.drops_by_reason.len() < MAX_REASONS;
            let name = if has_room {
                Arc::clone(&drop.reason.name)
            } else {
                OTHER.into()
            };
            *self.drops_by_reason.entry(name).or_default() += drop.count;
        }
        self.groups.count(drop);
        if let Some(tuple) = &drop.tuple
            && let Some(flow) = self.flow_of_packet(drop, tuple, time)
        {
            flow.drop(drop, time);
        }
    }

    /// The flow of a socket; a new generation if the socket is another one than before.
    fn flow_of_socket(
        &mut self,
        netns: &Netns,
        tuple: &Tuple,
        socket: &SocketId,
        time: EventTime,
    ) -> Option<&mut Flow> {
        let unknown = FlowKey::new(netns, tuple);
        let key = unknown.local(&tuple.source);
        let known = self.flows.find(&key).filter(|&number| {
            self.flows
                .get(number)
                .is_some_and(|flow| flow.may_belong_to(socket))
        });
        if let Some(number) = known {
            return self.flows.touch(number);
        }
        if self.flows.find(&key).is_none()
            && let Some(number) = self.flows.find(&unknown)
        {
            // So far only packets without a socket were seen.
            self.flows.rename(number, key);
            let flow = self.flows.touch(number)?;
            flow.adopt(tuple);
            return Some(flow);
        }
        let number = self.flows.insert(key, Flow::new(netns, tuple, time));
        self.flows.touch(number)
    }

    /// The flow of a dropped packet: by its socket, else by what is known of its ends; over loopback the sender's.
    fn flow_of_packet(&mut self, drop: &Drop, tuple: &Tuple, time: EventTime) -> Option<&mut Flow> {
        let unknown = FlowKey::new(&drop.netns, tuple);
        let (from_source, from_destination) = (
            unknown.local(&tuple.source),
            unknown.local(&tuple.destination),
        );
        let receives = drop.socket.is_some_and(|socket| socket.is_receiver);
        let known = if receives {
            self.flows.find(&from_destination)
        } else if drop.socket.is_some() {
            self.flows.find(&from_source)
        } else {
            self.flows
                .find(&from_source)
                .or_else(|| self.flows.find(&from_destination))
        };
        if let Some(number) = known.or_else(|| self.flows.find(&unknown)) {
            return self.flows.touch(number);
        }
        let reversed = Tuple {
            source: tuple.destination,
            destination: tuple.source,
            ..*tuple
        };
        let (key, shown): (FlowKey, Tuple) = match (&drop.socket, receives) {
            (Some(_), true) => (from_destination, reversed),
            (Some(_), false) => (from_source, *tuple),
            (None, _) => (unknown, *tuple),
        };
        let number = self.flows.insert(key, Flow::new(&drop.netns, &shown, time));
        self.flows.touch(number)
    }
}

#[cfg(test)]
mod tests;
