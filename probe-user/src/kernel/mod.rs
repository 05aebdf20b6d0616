//! Everything that asks or changes the running kernel. The door is [`Kernel::attach`]: it asks what this kernel is like,
//! loads the programs with the answers and attaches them; [`Kernel::detach`] ends it.

pub mod btf;
pub mod clock;
pub mod counters;
mod debug;
mod hz;
pub mod interfaces;
pub mod kallsyms;
pub mod loader;
pub mod maps;
mod names;
pub mod netns;
pub mod offsets;
pub mod owners;
pub mod preflight;
pub mod reasons;
mod start;

pub use self::start::{announce, doctor, release_memory};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use aya::maps::{MapData, RingBuf};

use self::clock::{Clock, boottime_ns};
use self::counters::read_all;
use self::debug::DebugMessages;
use self::interfaces::Interfaces;
use self::kallsyms::LiveSymbols;
use self::loader::Programs;
use self::maps::Counts;
pub use self::names::sources;
use self::netns::{Namespaces, Pace};
use self::owners::Owners;
use self::reasons::ReasonNames;
use crate::aggregate::reconcile::{Abilities, Counted, Ledger, Moment, Reconciliation, reconcile};

/// What the kernel knows the names of; shared with the stage that adds names.
struct Knowledge {
    symbols: LiveSymbols,
    reasons: ReasonNames,
    namespaces: Namespaces,
    interfaces: Interfaces,
    owners: Owners,
}

/// The knowledge, for one question at a time. A stage that stopped half-way leaves it usable: it only holds names.
fn lock(knowledge: &Mutex<Knowledge>) -> MutexGuard<'_, Knowledge> {
    knowledge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tracepoint as people write it: with its group.
pub fn probe_name(tracepoint: &str) -> String {
    let group = match tracepoint {
        "kfree_skb" => "skb",
        "inet_sock_set_state" => "sock",
        _ => "tcp",
    };
    format!("{group}:{tracepoint}")
}

/// The kernel with our programs attached.
pub struct Kernel {
    programs: Programs,
    knowledge: Arc<Mutex<Knowledge>>,
    pub clock: Clock,
    ledger: Ledger,
    pace: Pace,
    /// Failed retransmits have events (Linux 6.17).
    failures_traced: bool,
    /// Jiffies per second, where they could be measured.
    pub hz: Option<u32>,
    /// When the last probe was attached, `CLOCK_BOOTTIME` ns.
    pub attached_ns: u64,
    /// What starting took has not all been given back yet.
    settling: u8,
    /// The programs' debug messages (`-v`).
    debug: Option<DebugMessages>,
    /// What will be missing, and why; for stderr.
    pub warnings: Vec<String>,
}

impl Kernel {
    /// The ring of records; can be taken once.
    pub fn take_ring(&mut self) -> Result<RingBuf<MapData>> {
        self.programs.take_ring()
    }

    /// To be called about once a second: follows the wall clock, finds namespaces that came or went, reads counters so
    /// that those of a namespace that ends are not lost.
    pub fn tick(&mut self) -> Result<()> {
        self.clock.sample();
        if self.settling > 0 {
            // The kernel's types are freed by a thread of their own, some time after the start.
            self.settling -= 1;
            release_memory();
        }
        if let Some(debug) = &mut self.debug {
            debug.print();
        }
        let now = boottime_ns();
        let mut knowledge = lock(&self.knowledge);
        let changes = knowledge
            .namespaces
            .rescan(now)
            .context("look for network namespaces")?;
        for netns in &changes.ended {
            self.ledger.end(netns);
        }
        if self.pace.is_due(now) {
            let readings = read_all(&mut knowledge.namespaces);
            self.ledger.record(Moment::Running, readings);
            self.pace.spent(now, boottime_ns().saturating_sub(now));
        }
        Ok(())
    }

    /// Holds what the programs counted against the kernel's counters, while tracing goes on.
    pub fn compare(&mut self) -> Result<(Counts, Reconciliation)> {
        self.read(Moment::BeforeDetach)?;
        let counts = Counts {
            told: self.programs.told(),
            ..self.programs.counts()?
        };
        self.read(Moment::AfterDetach)?;
        let reconciliation = self.reconcile(&counts);
        Ok((counts, reconciliation))
    }

    /// Detaches the programs. The records that are still in the ring can be read after this.
    pub fn detach(&mut self) -> Result<(Counts, Reconciliation)> {
        self.read(Moment::BeforeDetach)?;
        let told = self.programs.told();
        self.programs.detach()?;
        let counts = Counts {
            told,
            ..self.programs.counts()?
        };
        self.read(Moment::AfterDetach)?;
        let reconciliation = self.reconcile(&counts);
        Ok((counts, reconciliation))
    }

    /// Inode of the tracer's own network namespace; 0 if it cannot be told.
    pub fn own_netns(&self) -> u32 {
        rustix::fs::stat("/proc/self/ns/net")
            .ok()
            .and_then(|stat| u32::try_from(stat.st_ino).ok())
            .unwrap_or(0)
    }

    /// Memory of the programs' maps.
    pub fn map_bytes(&self) -> u64 {
        self.programs.map_bytes()
    }

    /// A drop reason's name by its code.
    pub fn reason_name(&self, code: u32) -> Option<crate::event::Name> {
        lock(&self.knowledge)
            .reasons
            .lookup(code)
            .map(|reason| reason.name)
    }

    fn read(&mut self, moment: Moment) -> Result<()> {
        let mut knowledge = lock(&self.knowledge);
        let changes = knowledge
            .namespaces
            .scan()
            .context("look for network namespaces")?;
        for netns in &changes.ended {
            self.ledger.end(netns);
        }
        let readings = read_all(&mut knowledge.namespaces);
        self.ledger.record(moment, readings);
        Ok(())
    }

    fn reconcile(&self, counts: &Counts) -> Reconciliation {
        let knowledge = &self.knowledge;
        let abilities = Abilities {
            failures_traced: self.failures_traced,
            reason_name: &|code| {
                lock(knowledge)
                    .reasons
                    .lookup(code)
                    .map(|reason| reason.name)
            },
            has_reason: &|name| !lock(knowledge).reasons.codes_matching(name).is_empty(),
        };
        let counted = Counted {
            retransmits: &counts.retransmits,
            drops: &counts.drops,
        };
        reconcile(&self.ledger, counted, &abilities)
    }
}
