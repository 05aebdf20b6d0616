//! The main job: attach, show what happens, and at the end detach, drain, judge, add up.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant as TokioInstant, MissedTickBehavior, interval, sleep_until};

use crate::aggregate::summary::{Overhead, Summary};
use crate::config::Config;
use crate::enrich::Enricher;
use crate::event::EventTime;
use crate::exit::Exit;
use crate::kernel::clock::boottime_ns;
use crate::kernel::loader::PROGRAMS;
use crate::kernel::{self, Kernel};
use crate::pipeline::Pipeline;
use crate::sink::escape::Harmless;
use crate::sink::{Moment, Sink, Start};
use crate::source::Ring;
use crate::stop::{self, Stop};
use crate::totals;

/// Records taken from the ring before signals and clocks are looked at again.
const BATCH: usize = 4096;
/// What failed if output could not be written.
const STDOUT: &str = "write to stdout";
const SECOND: Duration = Duration::from_secs(1);

/// A run under way.
struct Run {
    kernel: Kernel,
    ring: Ring,
    pipeline: Pipeline,
    started: Instant,
    /// No filter is left to user space.
    exact: bool,
}

/// Traces until something ends it.
pub async fn run(
    config: &Config,
    sink: Box<dyn Sink + Send>,
    stderr: &mut (dyn Write + Send),
) -> Result<Exit> {
    // From here on Ctrl-C ends the run in order, also while it is starting.
    stop::quit_on_second_request()?;
    let mut stop = Stop::new().context("watch for signals")?;
    let mut totals_wanted = signal(SignalKind::user_defined1()).context("watch for SIGUSR1")?;
    let begun = Instant::now();
    let mut kernel = Kernel::attach(config)?;
    for warning in &kernel.warnings {
        say(stderr, warning);
    }
    let ring = Ring::new(kernel.take_ring()?).context("watch the ring of records")?;
    let enricher = Enricher::new(kernel::sources(&kernel));
    let pipeline = Pipeline::new(config, kernel.hz, enricher, sink);
    let exact = config.filters().by_owner == 0;
    let mut run = Run {
        kernel,
        ring,
        pipeline,
        started: Instant::now(),
        exact,
    };
    run.pipeline.start(&run.start(config)).context(STDOUT)?;
    kernel::announce(config)?;
    let ready = format!(
        "{} probes attached after {} ms; Ctrl-C ends the run and prints its summary",
        PROGRAMS.len(),
        begun.elapsed().as_millis()
    );
    say(stderr, &ready);
    kernel::release_memory();
    run.watch(config, &mut stop, &mut totals_wanted).await?;
    run.end()?;
    Ok(Exit::Traced)
}

/// One line for people.
fn say(stderr: &mut dyn Write, text: &str) {
    // Where stderr is closed there is nobody to tell.
    drop(writeln!(stderr, "dropwatch-rs: {}", Harmless(text)));
}

impl Run {
    fn start(&self, config: &Config) -> Start {
        let uname = rustix::system::uname();
        Start {
            time: self.kernel.clock.event_time(self.kernel.attached_ns),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            probes: PROGRAMS
                .iter()
                .map(|name| kernel::probe_name(name))
                .collect(),
            filters: config.filter.shown(),
            own_netns: self.kernel.own_netns(),
        }
    }

    /// Shows what happens until a signal, `--duration` or `--count` ends it.
    async fn watch(
        &mut self,
        config: &Config,
        stop: &mut Stop,
        totals_wanted: &mut Signal,
    ) -> Result<()> {
        let until = config
            .limits
            .duration
            .map(|duration| TokioInstant::now() + duration);
        let mut seconds = every(SECOND);
        let mut summaries = config.interval.map(every);
        loop {
            let drained = self.drain(BATCH).context(STDOUT)?;
            self.pipeline.flush().context(STDOUT)?;
            if self.pipeline.is_full() {
                return Ok(());
            }
            let more = self.ring.more(drained);
            tokio::select! {
                biased;
                () = stop.wanted() => return Ok(()),
                () = reached(until) => return Ok(()),
                _ = totals_wanted.recv() => self.so_far()?,
                () = due(&mut summaries) => self.so_far()?,
                _ = seconds.tick() => self.kernel.tick()?,
                ready = more => ready.context("wait for records")?,
            }
        }
    }

    /// Takes records from the ring; returns how many.
    fn drain(&mut self, most: usize) -> io::Result<usize> {
        let Self {
            ring,
            pipeline,
            kernel,
            ..
        } = self;
        ring.take(most, |bytes| {
            pipeline.record(bytes, &|ktime| kernel.clock.wall_ns(ktime))
        })
    }

    /// The totals while tracing goes on.
    fn so_far(&mut self) -> Result<()> {
        let summary = self.summary(Kernel::compare)?;
        self.pipeline
            .summary(&summary, Moment::SoFar)
            .context(STDOUT)
    }

    /// Detaches, drains, judges what is pending, prints the summary.
    fn end(mut self) -> Result<()> {
        self.kernel.clock.sample();
        let summary = self.summary(|kernel| {
            let compared = kernel.detach();
            kernel.clock.sample();
            compared
        })?;
        self.pipeline
            .summary(&summary, Moment::Final)
            .context(STDOUT)
    }

    fn summary(
        &mut self,
        compare: impl FnOnce(
            &mut Kernel,
        ) -> Result<(
            kernel::maps::Counts,
            crate::aggregate::reconcile::Reconciliation,
        )>,
    ) -> Result<Summary> {
        let (counts, reconciliation) = compare(&mut self.kernel)?;
        while self.drain(BATCH).context(STDOUT)? == BATCH {}
        let mut summary = self.pipeline.snapshot(self.started.elapsed().as_secs_f64());
        if summary.time == EventTime::default() {
            summary.time = self.kernel.clock.event_time(boottime_ns());
        }
        let kernel = &self.kernel;
        totals::complete(&mut summary, &counts, reconciliation, self.exact, &|code| {
            kernel.reason_name(code)
        });
        self.pipeline.diagnose(&mut summary);
        summary.overhead = Overhead {
            events: summary.overhead.events,
            kernel_ns: counts.told.kernel_ns,
            map_bytes: Some(self.kernel.map_bytes()),
            ..totals::own_cost()
        };
        Ok(summary)
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut every = interval(period);
    every.reset();
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    every
}

async fn reached(until: Option<TokioInstant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn due(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}
