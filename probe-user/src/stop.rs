//! What ends a run: Ctrl-C, a service manager, a closed terminal.

use std::fs;
use std::future::pending;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// A signal that repeats so soon is one request: `timeout` signals its child and then its child's group.
const ONE_REQUEST: Duration = Duration::from_millis(250);
/// Number of SIGHUP.
const HANGUP: u32 = 1;

/// The signals that ask for an end.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: it was ignored when the program started (`nohup`), and stays so.
    hangup: Option<Signal>,
}

impl Stop {
    /// From now on the signals no longer end the process by themselves.
    pub fn new() -> io::Result<Self> {
        let hangup = if is_ignored(HANGUP) {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Waits for one of them.
    pub async fn wanted(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Was the signal ignored when the program started?
fn is_ignored(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set >> (number - 1) & 1 != 0)
}

/// Ends the process at once when an end is asked for a second time, whatever the rest of the program waits for: a reader of
/// stdout that has stopped reading can keep it for ever.
pub fn quit_on_second_request() -> Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the watch for signals")?;
    let mut stop = {
        let _inside = runtime.enter();
        Stop::new().context("watch for signals")?
    };
    let watch = move || {
        runtime.block_on(async {
            stop.wanted().await;
            let first = Instant::now();
            while first.elapsed() < ONE_REQUEST {
                stop.wanted().await;
            }
        });
        quit();
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .context("start the watch for signals")?;
    Ok(())
}

#[expect(
    clippy::exit,
    reason = "nothing else ends a process whose main thread waits for a writer"
)]
fn quit() {
    std::process::exit(Exit::Failed as i32);
}
