//! The kernel programs' debug messages (`-v`): what a classification was made from, what could not be read.

use std::io::{Write, stderr};

use anyhow::{Context, Result};
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};

use super::loader::Programs;
use crate::sink::escape::Harmless;

/// Reads the messages and puts them on stderr.
pub(super) struct DebugMessages(EbpfLogger<Stderr>);

impl DebugMessages {
    pub(super) fn new(programs: &mut Programs) -> Result<Self> {
        let logger = EbpfLogger::init_with_logger(&mut programs.ebpf, Stderr)
            .context("open the ring of debug messages")?;
        Ok(Self(logger))
    }

    /// Prints the messages that have arrived since.
    pub(super) fn print(&mut self) {
        self.0.flush();
    }
}

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = record.args().to_string();
        // Where stderr is closed there is nobody to tell.
        drop(writeln!(
            stderr(),
            "dropwatch-rs: kernel: {}",
            Harmless(&line)
        ));
    }

    fn flush(&self) {}
}
