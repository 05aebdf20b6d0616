//! The readings of the kernel's counters, namespace by namespace.

use crate::event::Netns;
use crate::kernel::counters::{Counter, Counters};

/// Ended namespaces that are remembered; a container host makes and ends thousands a day.
const MAX_ENDED: usize = 1024;

/// When the counters were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// No probe is attached yet.
    BeforeAttach,
    /// All probes are attached.
    AfterAttach,
    /// In between: what will be known of a namespace that ends.
    Running,
    /// All probes are still attached.
    BeforeDetach,
    /// No probe is attached any more.
    AfterDetach,
}

/// What was read of one namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) netns: Netns,
    before_attach: Option<Counters>,
    after_attach: Option<Counters>,
    running: Option<Counters>,
    before_detach: Option<Counters>,
    after_detach: Option<Counters>,
    /// It ended while tracing.
    pub(super) ended: bool,
}

/// By how much a counter moved while the probes were attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Nothing was read at the end: it may have moved further.
    pub(super) open: bool,
    /// Nothing was read at the start: it is taken to have begun at 0, with the namespace.
    pub(super) from_zero: bool,
}

impl Account {
    /// `None`: the kernel has no such counter.
    pub(super) fn span(&self, counter: Counter) -> Option<Span> {
        let read =
            |reading: Option<&Counters>| reading.map_or(Some(0), |counters| counters.get(counter));
        // First seen after attaching began: its counters began at 0, when it did.
        let first = read(self.before_attach.as_ref())?;
        let second = read(self.after_attach.as_ref().or(self.before_attach.as_ref()))?;
        let latest = self.before_detach.as_ref().or(self.running.as_ref());
        let third = latest
            .or(self.after_attach.as_ref())
            .or(self.before_attach.as_ref());
        let third = read(third)?;
        let fourth = match self.after_detach.as_ref() {
            Some(counters) => counters.get(counter)?,
            None => third,
        };
        let min = third.saturating_sub(second);
        Some(Span {
            min,
            // Counters do not go back; were one to, a range must still be one.
            max: fourth.saturating_sub(first).max(min),
            open: self.after_detach.is_none(),
            from_zero: self.before_attach.is_none() && self.after_attach.is_none(),
        })
    }

    fn place(&mut self, moment: Moment) -> &mut Option<Counters> {
        match moment {
            Moment::BeforeAttach => &mut self.before_attach,
            Moment::AfterAttach => &mut self.after_attach,
            Moment::Running => &mut self.running,
            Moment::BeforeDetach => &mut self.before_detach,
            Moment::AfterDetach => &mut self.after_detach,
        }
    }

    fn is(&self, netns: &Netns) -> bool {
        match (self.netns.cookie, netns.cookie) {
            (Some(ours), Some(other)) => ours == other,
            _ => self.netns.inode == netns.inode && !self.ended,
        }
    }
}

/// All readings of a run. For a summary in between, record [`Moment::BeforeDetach`] before and [`Moment::AfterDetach`]
/// after the counts of the kernel programs are read; the next pair replaces this one.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(super) accounts: Vec<Account>,
    forgotten: u64,
}

impl Ledger {
    /// Takes in what was read at one moment.
    pub fn record(&mut self, moment: Moment, readings: Vec<(Netns, Counters)>) {
        if moment == Moment::BeforeDetach {
            // Of a namespace that cannot be read now, an earlier pair would be out of date.
            for account in &mut self.accounts {
                let before = account.before_detach.take();
                if let Some(counters) = account.after_detach.take().or(before) {
                    account.running = Some(counters);
                }
            }
        }
        for (netns, counters) in readings {
            let place = self
                .accounts
                .iter()
                .position(|account| account.is(&netns))
                .unwrap_or(self.accounts.len());
            if place == self.accounts.len() {
                self.accounts.push(Account::default());
            }
            if let Some(account) = self.accounts.get_mut(place) {
                let name = netns.name.clone().or_else(|| account.netns.name.clone());
                account.netns = Netns { name, ..netns };
                // It was lost from sight only.
                account.ended = false;
                if moment == Moment::Running {
                    // Newer than the pair of a summary in between.
                    account.before_detach = None;
                    account.after_detach = None;
                }
                *account.place(moment) = Some(counters);
            }
        }
    }

    /// The namespace is gone.
    pub fn end(&mut self, netns: &Netns) {
        if let Some(account) = self.accounts.iter_mut().find(|account| account.is(netns)) {
            account.ended = true;
        }
        if self.accounts.iter().filter(|account| account.ended).count() > MAX_ENDED
            && let Some(oldest) = self.accounts.iter().position(|account| account.ended)
        {
            self.accounts.remove(oldest);
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    /// Namespaces that ended and are no longer remembered, because there were too many of them.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
