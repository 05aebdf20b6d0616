//! What was traced against what the kernel counted, namespace by namespace.
//!
//! The kernel programs count every retransmit and every drop before any filter, so the sums must be those of the kernel's
//! own counters; what is left over is shown, and is the measure of how far the rest of the output can be trusted. The
//! counters are read before and after attaching and before and after detaching: between the inner two the probes saw
//! everything, so a counter moved by at least that much, and by no more than between the outer two. Where both are the
//! same, equality is expected; else anything in between is.

use std::collections::BTreeMap;

use probe_common::retransmit::Outcome;
use probe_common::{Class, DropCount, DropCountKey, RawNetns, RetransmitCount, RetransmitCountKey};

use super::summary::{CounterOnly, Rate, ReconcileRow};
use crate::event::Name;
use crate::kernel::counters::Counter;
use ledger::{Account, Span};
pub use ledger::{Ledger, Moment};
use rules::{DROP_RULES, Drops, UNSEEN_RULES};

mod ledger;
mod rules;
#[cfg(test)]
mod tests;

/// What the kernel programs counted, summed over CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<'a> {
    pub retransmits: &'a [(RetransmitCountKey, RetransmitCount)],
    pub drops: &'a [(DropCountKey, DropCount)],
}

/// What the running kernel can tell.
#[derive(Clone, Copy)]
pub struct Abilities<'a> {
    /// `tcp_retransmit_skb` also reports attempts that failed (Linux 6.17 on).
    pub failures_traced: bool,
    /// Name of a drop reason without `SKB_DROP_REASON_`.
    pub reason_name: &'a dyn Fn(u32) -> Option<Name>,
    /// Does the kernel have a reason of that name?
    pub has_reason: &'a dyn Fn(&str) -> bool,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reconciliation {
    pub rows: Vec<ReconcileRow>,
    pub counters_only: Vec<CounterOnly>,
    pub rates: Vec<Rate>,
    /// Namespaces in which something was traced, but whose counters were never read: they came and went too fast, or
    /// have no door.
    pub unread: Vec<RawNetns>,
}

/// Compares.
pub fn reconcile(
    ledger: &Ledger,
    counted: Counted<'_>,
    abilities: &Abilities<'_>,
) -> Reconciliation {
    let mut result = Reconciliation::default();
    let traced = Traced::sort(ledger, counted, abilities, &mut result.unread);
    for (account, sums) in ledger.accounts.iter().zip(&traced.by_account) {
        let book = Book {
            account,
            sums,
            unknown: &traced.unknown,
        };
        book.retransmits(abilities.failures_traced, &mut result.rows);
        book.drops(abilities, &mut result.rows);
        book.unseen(&mut result.counters_only);
        result.rates.extend(book.rate());
    }
    result
}

/// What was traced in one namespace.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// Events and segments by class and outcome.
    retransmits: BTreeMap<(u8, u8), (u64, u64)>,
    /// By reason, protocol and `EtherType`.
    drops: BTreeMap<(Name, u8, u16), u64>,
}

impl Sums {
    fn segments(&self, classes: &[Class], outcome: Outcome) -> u64 {
        self.sum(classes, outcome, |(_events, segments)| segments)
    }

    fn events(&self, classes: &[Class], outcome: Outcome) -> u64 {
        self.sum(classes, outcome, |(events, _segments)| events)
    }

    fn sum(&self, classes: &[Class], outcome: Outcome, what: impl Fn((u64, u64)) -> u64) -> u64 {
        let counts = classes
            .iter()
            .filter_map(|class| self.retransmits.get(&(*class as u8, outcome as u8)));
        counts.fold(0, |sum, count| sum.saturating_add(what(*count)))
    }

    fn drops(&self, wanted: &Drops) -> u64 {
        let matching = self
            .drops
            .iter()
            .filter(|((reason, protocol, ethertype), _)| wanted.has(reason, *protocol, *ethertype));
        matching.fold(0, |sum, (_, packets)| sum.saturating_add(*packets))
    }
}

struct Traced {
    by_account: Vec<Sums>,
    /// Where the kernel programs could not tell the namespace: may belong to any.
    unknown: Sums,
}

impl Traced {
    fn sort(
        ledger: &Ledger,
        counted: Counted<'_>,
        abilities: &Abilities<'_>,
        unread: &mut Vec<RawNetns>,
    ) -> Self {
        let index = Index::new(&ledger.accounts);
        let mut traced = Self {
            by_account: vec![Sums::default(); ledger.accounts.len()],
            unknown: Sums::default(),
        };
        for (key, count) in counted.retransmits {
            if let Some(sums) = traced.place(&index, key.netns, unread) {
                let (events, segments) = sums
                    .retransmits
                    .entry((key.class, key.outcome))
                    .or_default();
                *events = events.saturating_add(count.events);
                *segments = segments.saturating_add(count.segments);
            }
        }
        for (key, count) in counted.drops {
            let Some(reason) = (abilities.reason_name)(key.reason) else {
                continue;
            };
            if key.domain != DropCountKey::DOMAIN_NETWORK {
                continue;
            }
            if let Some(sums) = traced.place(&index, key.netns, unread) {
                let packets = sums
                    .drops
                    .entry((reason, key.protocol, key.ethertype))
                    .or_default();
                *packets = packets.saturating_add(count.packets);
            }
        }
        traced
    }

    fn place(
        &mut self,
        index: &Index,
        netns: RawNetns,
        unread: &mut Vec<RawNetns>,
    ) -> Option<&mut Sums> {
        if netns == RawNetns::UNKNOWN {
            return Some(&mut self.unknown);
        }
        let Some(place) = index.of(netns) else {
            if !unread.contains(&netns) {
                unread.push(netns);
            }
            return None;
        };
        self.by_account.get_mut(place)
    }
}

/// Which account is whose.
#[derive(Default)]
struct Index {
    by_cookie: BTreeMap<u64, usize>,
    /// Of several that had the same inode number, the one that lives, or the last.
    by_inode: BTreeMap<u32, (bool, usize)>,
    /// Where the kernel has no way to ask for cookies.
    no_cookies: bool,
}

impl Index {
    fn new(accounts: &[Account]) -> Self {
        let mut index = Self::default();
        for (place, account) in accounts.iter().enumerate() {
            match account.netns.cookie {
                Some(cookie) => _ = index.by_cookie.insert(cookie, place),
                None => index.no_cookies = true,
            }
            let candidate = (!account.ended, place);
            let best = index
                .by_inode
                .entry(account.netns.inode)
                .or_insert(candidate);
            *best = candidate.max(*best);
        }
        index
    }

    fn of(&self, netns: RawNetns) -> Option<usize> {
        if netns.cookie != 0 && !self.no_cookies {
            return self.by_cookie.get(&netns.cookie).copied();
        }
        self.by_inode
            .get(&netns.inode)
            .map(|(_alive, place)| *place)
    }
}

/// What the counter contains and no event shows.
#[derive(Clone, Copy)]
struct Untraced {
    surely: u64,
    /// More than that by up to so many.
    perhaps: u64,
}

impl Untraced {
    const NONE: Self = Self {
        surely: 0,
        perhaps: 0,
    };
}

/// One namespace.
struct Book<'a> {
    account: &'a Account,
    sums: &'a Sums,
    unknown: &'a Sums,
}

impl Book<'_> {
    /// Identities I1, I2, I4 and bounds I5, I6 of the kernel's retransmit counters.
    fn retransmits(&self, failures_traced: bool, rows: &mut Vec<ReconcileRow>) {
        // Before 6.17 a retransmit that failed late has no event, but a counter of its own.
        let failed = if failures_traced {
            None
        } else {
            self.account.span(Counter::TcpExtTCPRetransFail)
        };
        let (failed_min, failed_max) = failed.map_or((0, 0), |span| (span.min, span.max));

        let all = |sums: &Sums| {
            sums.segments(&Class::ALL, Outcome::Sent)
                .saturating_add(sums.segments(&Class::ALL, Outcome::FailedLate))
        };
        let untraced = Untraced {
            surely: failed_min,
            perhaps: failed_max.saturating_sub(failed_min),
        };
        rows.extend(self.row(Counter::TcpRetransSegs, false, untraced, all));
        let fast = |sums: &Sums| sums.segments(&[Class::Fast, Class::RackTimer], Outcome::Sent);
        rows.extend(self.row(Counter::TcpExtTCPFastRetrans, false, Untraced::NONE, fast));
        let slow_start =
            |sums: &Sums| sums.segments(&[Class::SlowStart, Class::NonCongestion], Outcome::Sent);
        rows.extend(self.row(
            Counter::TcpExtTCPSlowStartRetrans,
            false,
            Untraced::NONE,
            slow_start,
        ));
        let syn = |sums: &Sums| {
            let failed = sums.events(&[Class::Syn], Outcome::FailedLate);
            sums.events(&[Class::Syn, Class::SynAck], Outcome::Sent)
                .saturating_add(failed)
        };
        let untraced = Untraced {
            surely: 0,
            perhaps: failed_max,
        };
        rows.extend(self.row(Counter::TcpExtTCPSynRetrans, false, untraced, syn));
        if failures_traced {
            let failed = |sums: &Sums| sums.segments(&Class::ALL, Outcome::FailedLate);
            rows.extend(self.row(Counter::TcpExtTCPRetransFail, false, Untraced::NONE, failed));
        }
        let timeouts = |sums: &Sums| {
            let timed = [Class::Rto, Class::Syn];
            sums.events(&timed, Outcome::Sent)
                .saturating_add(sums.events(&timed, Outcome::FailedLate))
        };
        rows.extend(self.row(Counter::TcpExtTCPTimeouts, true, Untraced::NONE, timeouts));
        let probes = |sums: &Sums| sums.events(&[Class::Tlp], Outcome::Sent);
        rows.extend(self.row(Counter::TcpExtTCPLossProbes, true, Untraced::NONE, probes));
    }

    fn drops(&self, abilities: &Abilities<'_>, rows: &mut Vec<ReconcileRow>) {
        for rule in DROP_RULES {
            if (abilities.has_reason)(rule.drops.reason) {
                rows.extend(self.row(rule.counter, rule.bound, Untraced::NONE, |sums| {
                    sums.drops(&rule.drops)
                }));
            }
        }
    }

    /// `None`: nothing moved, or this kernel has no such counter.
    fn row(
        &self,
        counter: Counter,
        bound: bool,
        untraced: Untraced,
        observe: impl Fn(&Sums) -> u64,
    ) -> Option<ReconcileRow> {
        let Span {
            mut min,
            mut max,
            open,
            from_zero,
        } = self.account.span(counter)?;
        let mut observed = observe(self.sums);
        if max == 0 && observed == 0 {
            return None;
        }
        observed = observed.saturating_add(untraced.surely);
        // Some of those of unknown namespace may be this one's.
        min = min.saturating_sub(untraced.perhaps.saturating_add(observe(self.unknown)));
        if open {
            // Nothing says where the counter ended.
            max = max.max(observed);
        }
        let unexplained = if observed > max {
            difference(max, observed)
        } else if observed < min && !bound {
            difference(min, observed)
        } else {
            0
        };
        // One that was first seen while tracing may have been there before: then agreement alone is proof.
        let exact = !bound && !open && min == max && (!from_zero || observed == min);
        let netns = self.account.netns.clone();
        let ended = self.account.ended;
        Some(ReconcileRow {
            netns,
            counter: counter.name(),
            kernel: min,
            kernel_max: max,
            observed,
            unexplained,
            exact,
            bound,
            ended,
        })
    }

    fn unseen(&self, found: &mut Vec<CounterOnly>) {
        for rule in UNSEEN_RULES {
            let Some(span) = self.account.span(rule.counter) else {
                continue;
            };
            let taken = rule
                .after
                .and_then(|counter| self.account.span(counter))
                .map_or(0, |span| span.min);
            let observed = self
                .sums
                .drops(&rule.drops)
                .saturating_sub(taken)
                .min(span.min);
            let unseen = span.min.saturating_sub(observed);
            if unseen > 0 {
                found.push(CounterOnly {
                    netns: Some(self.account.netns.clone()),
                    counter: rule.counter.name(),
                    delta: span.min,
                    observed,
                    unseen,
                    meaning: rule.meaning,
                });
            }
        }
    }

    /// `TcpOutSegs` does not contain what was sent again.
    fn rate(&self) -> Option<Rate> {
        let again = self.account.span(Counter::TcpRetransSegs)?.min;
        let all = self
            .account
            .span(Counter::TcpOutSegs)?
            .min
            .saturating_add(again);
        if all == 0 {
            return None;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share of counts below 2^53 is shown with a few digits"
        )]
        let retransmitted_share = again as f64 / all as f64;
        Some(Rate {
            netns: self.account.netns.clone(),
            retransmitted_share,
        })
    }
}

fn difference(kernel: u64, observed: u64) -> i64 {
    let distance = i64::try_from(kernel.abs_diff(observed)).unwrap_or(i64::MAX);
    if kernel >= observed {
        distance
    } else {
        distance.saturating_neg()
    }
}
