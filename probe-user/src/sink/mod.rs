//! What people and programs get to see. A sink renders; it does not decide: it is given events, totals and a writer.
//!
//! The JSON Lines are specified in [`json`], the lines for people in [`human`], their summary in [`table`].

pub mod escape;
pub mod human;
pub mod json;
pub mod names;
pub mod table;
pub mod time;

use std::io::{self, Write};

use jiff::tz::TimeZone;

use crate::aggregate::summary::{FlowSummary, Summary};
use crate::cli::Format;
use crate::event::{Cause, Event, EventTime, Kind, Netns, Owner, Tuple, Verdict};

/// Where everything that is to be seen goes. The order: `start`, then any of the others, last a final `summary`.
pub trait Sink {
    /// Every probe is attached.
    fn start(&mut self, start: &Start) -> io::Result<()>;
    /// An event that matches the filters.
    fn event(&mut self, event: &Event, visibility: Visibility) -> io::Result<()>;
    /// A retransmit has another cause than was said.
    fn verdict(&mut self, change: &VerdictChange) -> io::Result<()>;
    /// A flow ended. Those that have not been told this way are told with the final summary.
    fn flow(&mut self, flow: &FlowSummary) -> io::Result<()>;
    /// Totals.
    fn summary(&mut self, summary: &Summary, moment: Moment) -> io::Result<()>;
    /// Nothing may wait in a buffer any longer.
    fn flush(&mut self) -> io::Result<()>;
}

/// The sink the command line asks for.
pub fn open<W: Write + Send + 'static>(config: &OutputConfig, out: W) -> Box<dyn Sink + Send> {
    match config.format {
        Format::Human => Box::new(human::HumanSink::new(out, config.clone())),
        Format::Json => Box::new(json::JsonSink::new(out)),
    }
}

/// How output looks, decided once.
#[derive(Clone, Debug)]
pub struct OutputConfig {
    pub format: Format,
    pub color: bool,
    /// Columns of the terminal; `None`: no terminal, nothing is cut short.
    pub width: Option<usize>,
    /// Of the times people see.
    pub time_zone: TimeZone,
    /// Also say why an owner is not known.
    pub verbose: bool,
}

impl OutputConfig {
    /// No colour, no width, UTC.
    pub fn plain(format: Format) -> Self {
        Self {
            format,
            color: false,
            width: None,
            time_zone: TimeZone::UTC,
            verbose: false,
        }
    }
}

/// What is known when tracing begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// When the last probe was attached.
    pub time: EventTime,
    /// Of dropwatch-rs.
    pub version: String,
    /// As `uname -r` has it.
    pub kernel: String,
    /// Tracepoints that are attached: `tcp:tcp_retransmit_skb` …
    pub probes: Vec<String>,
    pub filters: Vec<FilterShown>,
    /// Inode of the tracer's own network namespace, 0 if not known: lines for people need not name it.
    pub own_netns: u32,
}

/// One filter that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterShown {
    /// Without dashes in front, words joined by `_`.
    pub flag: &'static str,
    /// Empty: the flag takes none.
    pub values: Vec<String>,
}

/// Is an event shown live?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Shown,
    /// It is normally benign: counted, not shown.
    Hidden,
}

/// Which totals these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Tracing goes on.
    SoFar,
    /// Nothing follows.
    Final,
}

/// A retransmit's verdict became another one.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictChange {
    /// When it became known.
    pub time: EventTime,
    /// The retransmit's id.
    pub retransmit: u64,
    pub kind: Kind,
    pub netns: Netns,
    /// local → remote
    pub tuple: Tuple,
    pub owner: Owner,
    pub was: Cause,
    pub verdict: Verdict,
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
