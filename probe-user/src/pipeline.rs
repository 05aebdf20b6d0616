//! The one loop: source → decode → enrich → aggregate → sinks, and the order in which it all ends.

use std::io;

use crate::aggregate::summary::Summary;
use crate::aggregate::{Aggregator, Limits};
use crate::config::{Config, FilterConfig};
use crate::decode::{Decoded, Decoder, WallClock};
use crate::enrich::Enricher;
use crate::event::{Body, Event};
use crate::sink::{Moment, Sink, Start, Visibility};

/// Everything a record passes through.
pub struct Pipeline {
    decoder: Decoder,
    enricher: Enricher,
    aggregator: Aggregator,
    sink: Box<dyn Sink + Send>,
    filter: FilterConfig,
    undecodable: u64,
    shown: u64,
    /// Drops that are benign and not shown.
    hidden: u64,
    /// Show no more than that (`--count`).
    most: Option<u64>,
}

impl Pipeline {
    pub fn new(
        config: &Config,
        hz: Option<u32>,
        enricher: Enricher,
        sink: Box<dyn Sink + Send>,
    ) -> Self {
        let limits = Limits {
            max_flows: config.limits.max_flows,
            ..Limits::default()
        };
        Self {
            decoder: Decoder::new(hz),
            enricher,
            aggregator: Aggregator::new(limits),
            sink,
            filter: config.filter.clone(),
            undecodable: 0,
            shown: 0,
            hidden: 0,
            most: config.limits.count,
        }
    }

    /// The first line.
    pub fn start(&mut self, start: &Start) -> io::Result<()> {
        self.sink.start(start)?;
        self.sink.flush()
    }

    /// One record from the kernel.
    pub fn record<C: WallClock + ?Sized>(&mut self, bytes: &[u8], clock: &C) -> io::Result<()> {
        let Ok(decoded) = self.decoder.decode(bytes, clock) else {
            self.undecodable += 1;
            return Ok(());
        };
        let Decoded { undecided, .. } = decoded;
        let event = self.enricher.enrich(decoded);
        if undecided && !self.matches(&event) {
            return Ok(());
        }
        self.aggregator.observe(&event);
        if self.is_full() {
            return Ok(());
        }
        let visibility = self.filter.visibility(&event);
        if let (Visibility::Hidden, Body::Drop(drop)) = (visibility, &event.body) {
            self.hidden += drop.count;
        }
        if visibility == Visibility::Shown && is_counted(&event.body) {
            self.shown += 1;
        }
        self.sink.event(&event, visibility)
    }

    /// What the kernel programs left open: a subsystem's reason, the owner.
    fn matches(&self, event: &Event) -> bool {
        let owner = match &event.body {
            Body::Drop(drop) => {
                if !self.filter.reasons.matches(&drop.reason.name) {
                    return false;
                }
                &drop.owner
            }
            Body::Retransmit(retransmit) => &retransmit.owner,
            Body::Reset(reset) => &reset.owner,
            Body::Sample(sample) | Body::FlowEnd(sample) => &sample.owner,
        };
        self.filter.matches_owner(owner)
    }

    /// As many events were shown as `--count` asks for. What still comes is only counted.
    pub fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.shown >= most)
    }

    /// Nothing may wait any longer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Totals as far as events tell.
    pub fn snapshot(&self, duration_s: f64) -> Summary {
        let mut summary = self.aggregator.snapshot(duration_s);
        summary.lost.undecodable = self.undecodable;
        summary.drops.hidden_benign = self.hidden;
        summary
    }

    /// The sentence, once the summary is complete.
    pub fn diagnose(&self, summary: &mut Summary) {
        summary.diagnosis = self.aggregator.diagnosis(summary);
    }

    /// Totals to the sinks.
    pub fn summary(&mut self, summary: &Summary, moment: Moment) -> io::Result<()> {
        self.sink.summary(summary, moment)?;
        self.sink.flush()
    }
}

/// Is it one of the events people count? Samples and ends of flows are not.
fn is_counted(body: &Body) -> bool {
    matches!(body, Body::Retransmit(_) | Body::Drop(_) | Body::Reset(_))
}
