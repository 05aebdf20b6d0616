//! JSON Lines: one object a line, as docs/output.md specifies it.
//!
//! The wire types are in [`schema`]; what is not known is left out. Beyond what JSON demands, characters that a terminal
//! would act on or a reader could not see are written `\uXXXX`: the same data, safe to look at.

pub mod schema;

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use crate::aggregate::summary::{FlowSummary, Summary};
use crate::event::{Body, Event};
use crate::sink::escape::is_hidden;
use crate::sink::{Moment, Sink, Start, VerdictChange, Visibility};

/// So many ended flows are remembered, so that none is told twice.
const MAX_TOLD: usize = 1 << 16;

/// Writes JSON Lines.
#[derive(Debug)]
pub struct JsonSink<W> {
    out: W,
    line: Vec<u8>,
    told: Told,
}

impl<W: Write> JsonSink<W> {
    /// Writes to `out`, each line in one piece.
    pub fn new(out: W) -> Self {
        Self {
            out,
            line: Vec::with_capacity(2048),
            told: Told::default(),
        }
    }

    fn write(&mut self, object: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        object.serialize(&mut serde_json::Serializer::with_formatter(
            &mut self.line,
            Visible,
        ))?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }
}

impl<W: Write> Sink for JsonSink<W> {
    fn start(&mut self, start: &Start) -> io::Result<()> {
        self.write(&schema::Start::new(start))
    }

    fn event(&mut self, event: &Event, visibility: Visibility) -> io::Result<()> {
        if visibility == Visibility::Hidden {
            return Ok(());
        }
        match &event.body {
            Body::Retransmit(retransmit) => {
                self.write(&schema::Retransmit::new(event.time, retransmit))
            }
            Body::Drop(drop) => self.write(&schema::Drop::new(event.time, drop)),
            Body::Reset(reset) => self.write(&schema::Reset::new(event.time, reset)),
            Body::Sample(sample) => self.write(&schema::Sample::new(event.time, sample)),
            // `flow` tells it, with the flow's totals.
            Body::FlowEnd(_) => Ok(()),
        }
    }

    fn verdict(&mut self, change: &VerdictChange) -> io::Result<()> {
        self.write(&schema::VerdictChange::new(change))
    }

    fn flow(&mut self, flow: &FlowSummary) -> io::Result<()> {
        self.told.insert(flow);
        self.write(&schema::Flow::new(flow))
    }

    fn summary(&mut self, summary: &Summary, moment: Moment) -> io::Result<()> {
        if moment == Moment::Final {
            for flow in &summary.flows {
                if !self.told.contains(flow) {
                    self.write(&schema::Flow::new(flow))?;
                }
            }
        }
        self.write(&schema::Summary::new(summary, moment))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The flows that have been told when they ended: a bounded memory of their hashes.
#[derive(Debug, Default)]
struct Told {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Told {
    fn insert(&mut self, flow: &FlowSummary) {
        let key = Self::key(flow);
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_TOLD
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn contains(&self, flow: &FlowSummary) -> bool {
        self.known.contains(&Self::key(flow))
    }

    /// Generations of a reused port differ in their first event.
    fn key(flow: &FlowSummary) -> u64 {
        let mut hasher = DefaultHasher::new();
        (
            flow.netns.cookie,
            flow.netns.inode,
            flow.tuple,
            flow.first.ktime_ns,
        )
            .hash(&mut hasher);
        hasher.finish()
    }
}

/// Compact, and nothing invisible comes out raw.
struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, hidden)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            let (clean, tail) = rest.split_at(at);
            writer.write_all(clean.as_bytes())?;
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = tail.get(hidden.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }
}
