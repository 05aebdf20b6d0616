//! Lines for people: one an event, columns aligned, and the summary of [`super::table`].
//!
//! Every text that comes from outside is escaped where it becomes part of a cell, so that what `line` lays out is safe.

mod line;
mod numbers;
mod text;

use std::io::{self, Write};

use self::line::{Columns, Line, Word};
pub(super) use self::text::{ends, netns, owner};
use crate::aggregate::summary::{FlowSummary, Summary};
use crate::event::{self, Body, Cause, Direction, DropClass, Event, EventTime, Verdict};
use crate::sink::escape::Escaped;
use crate::sink::{
    Moment, OutputConfig, Sink, Start, VerdictChange, Visibility, names, table, time,
};

/// Writes lines for people.
#[derive(Debug)]
pub struct HumanSink<W> {
    out: W,
    config: OutputConfig,
    columns: Columns,
    own_netns: u32,
}

impl<W: Write> HumanSink<W> {
    /// Writes to `out`, looking as `config` says.
    pub fn new(out: W, config: OutputConfig) -> Self {
        Self {
            out,
            config,
            columns: Columns::default(),
            own_netns: 0,
        }
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let text = self
            .columns
            .lay_out(line, self.config.width, self.config.color);
        writeln!(self.out, "{text}")
    }

    fn line(&self, at: EventTime, word: Word, netns: &event::Netns, owner: &event::Owner) -> Line {
        let named = netns.name.is_some() || (netns.inode != 0 && netns.inode != self.own_netns);
        Line {
            time: time::clock(at.wall_ns, &self.config.time_zone),
            word,
            is_benign: false,
            kind: String::new(),
            ends: String::new(),
            numbers: String::new(),
            netns: if named {
                text::netns(netns)
            } else {
                String::new()
            },
            owner: text::owner(owner, self.config.verbose),
            cause: String::new(),
        }
    }

    fn retransmit(&self, at: EventTime, retransmit: &event::Retransmit) -> Line {
        Line {
            kind: names::kind(retransmit.kind).to_owned(),
            ends: text::ends(&retransmit.tuple),
            numbers: numbers::retransmit(retransmit),
            cause: cause(&retransmit.verdict),
            ..self.line(at, Word::Retrans, &retransmit.netns, &retransmit.owner)
        }
    }

    fn drop(&self, at: EventTime, drop: &event::Drop) -> Line {
        let reason = Escaped(&drop.reason.name);
        Line {
            kind: if drop.count == 1 {
                reason.to_string()
            } else {
                format!("{reason} ×{}", drop.count)
            },
            ends: text::packet(drop),
            numbers: numbers::drop(drop),
            cause: drop.reason.class.name().to_owned(),
            is_benign: drop.reason.class == DropClass::Benign,
            ..self.line(at, Word::Drop, &drop.netns, &drop.owner)
        }
    }

    fn reset(&self, at: EventTime, reset: &event::Reset) -> Line {
        let direction = match reset.direction {
            Direction::Transmit => "sent",
            Direction::Receive => "received",
            Direction::Forward => "forwarded",
        };
        let state = reset.state.and_then(event::TcpState::name);
        Line {
            kind: reset
                .reason
                .as_deref()
                .map_or_else(|| "-".to_owned(), |reason| Escaped(reason).to_string()),
            ends: reset
                .tuple
                .as_ref()
                .map_or_else(|| "?".to_owned(), text::ends),
            numbers: state.map_or_else(
                || direction.to_owned(),
                |state| format!("{direction} in {state}"),
            ),
            ..self.line(at, Word::Reset, &reset.netns, &reset.owner)
        }
    }
}

impl<W: Write> Sink for HumanSink<W> {
    /// Data only on stdout: what is attached is told on stderr.
    fn start(&mut self, start: &Start) -> io::Result<()> {
        self.own_netns = start.own_netns;
        Ok(())
    }

    fn event(&mut self, event: &Event, visibility: Visibility) -> io::Result<()> {
        if visibility == Visibility::Hidden {
            return Ok(());
        }
        let line = match &event.body {
            Body::Retransmit(retransmit) => self.retransmit(event.time, retransmit),
            Body::Drop(drop) => self.drop(event.time, drop),
            Body::Reset(reset) => self.reset(event.time, reset),
            // For programs only.
            Body::Sample(_) | Body::FlowEnd(_) => return Ok(()),
        };
        self.write(&line)
    }

    /// Only if that changes what a reader knows: "pending" turned into "inconclusive" does not.
    fn verdict(&mut self, change: &VerdictChange) -> io::Result<()> {
        let now = change.verdict.cause;
        let says_nothing =
            now == change.was || (change.was == Cause::Pending && now == Cause::Inconclusive);
        if says_nothing {
            return Ok(());
        }
        let line = Line {
            kind: names::kind(change.kind).to_owned(),
            ends: text::ends(&change.tuple),
            numbers: format!("was {}", change.was.name()),
            cause: cause(&change.verdict),
            ..self.line(change.time, Word::Verdict, &change.netns, &change.owner)
        };
        self.write(&line)
    }

    fn flow(&mut self, _: &FlowSummary) -> io::Result<()> {
        Ok(())
    }

    fn summary(&mut self, summary: &Summary, moment: Moment) -> io::Result<()> {
        self.out
            .write_all(table::render(summary, moment, &self.config).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn cause(verdict: &Verdict) -> String {
    match verdict.why {
        Some(why) => format!("{} ({why})", verdict.cause.name()),
        None => verdict.cause.name().to_owned(),
    }
}
