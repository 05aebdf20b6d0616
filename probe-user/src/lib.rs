//! dropwatch-rs: explains every TCP retransmit and every packet the Linux kernel drops.
//!
//! Data flows one way; a stage uses only stages to its left:
//!
//! ```text
//! kernel/ → source/ → decode/ → enrich/ → aggregate/ → sink/
//! ```
//!
//! * [`kernel`] asks and changes the running kernel: BTF, programs, counters, namespaces, symbols;
//! * [`source`] is where raw records come from: the ring buffer;
//! * [`decode`] turns bytes into events, and never panics on any;
//! * [`enrich`] adds names: reasons, functions, namespaces, interfaces;
//! * [`aggregate`] counts, without a clock and without I/O;
//! * [`sink`] renders: lines for people, JSON Lines, the summary.
//!
//! [`pipeline`] is the loop that joins them, [`run`] what the program does.

pub mod aggregate;
pub mod cli;
pub mod config;
pub mod decode;
pub mod enrich;
pub mod event;
pub mod exit;
pub mod kernel;
pub mod pipeline;
pub mod sink;
pub mod source;
pub mod stop;
pub mod totals;
pub mod trace;

use std::io::{BufWriter, stderr, stdout};

use anyhow::{Context, Result};

use crate::cli::{Cli, Command};
use crate::config::{Config, Environment};
use crate::exit::Exit;
use crate::kernel::netns::Paths;

/// Bytes of output that are written at once.
const OUTPUT_BUFFER: usize = 64 * 1024;

/// Does what the command line asks for.
pub fn run(cli: &Cli) -> Result<Exit> {
    let config = Config::resolve(&cli.trace, &Environment::of_process())?;
    if matches!(cli.command, Some(Command::Doctor)) {
        let report = kernel::doctor(&Paths {
            proc: config.host.proc,
            run_netns: config.host.run_netns,
        });
        report.write(&mut stdout().lock())?;
        return Ok(if report.can_trace() {
            Exit::Traced
        } else {
            Exit::CannotTrace
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the asynchronous runtime")?;
    let sink = sink::open(
        &config.output,
        BufWriter::with_capacity(OUTPUT_BUFFER, stdout()),
    );
    runtime.block_on(trace::run(&config, sink, &mut stderr()))
}
