//! Completes a summary with what only the kernel knows: exact counts, the reconciliation, what was lost, what it cost.

use std::collections::BTreeMap;

use probe_common::stats::Stat;
use probe_common::{Class, DropCountKey, retransmit::Outcome};

use crate::aggregate::reconcile::Reconciliation;
use crate::aggregate::summary::{DropTotals, Overhead, RetransmitTotals, Summary};
use crate::event::{Cause, Name};
use crate::kernel::maps::Counts;

/// Puts them in. `exact`: no filter was left to user space, so the kernel's counts of what matched are those of the
/// summary, also where records were lost.
pub fn complete(
    summary: &mut Summary,
    counts: &Counts,
    reconciliation: Reconciliation,
    exact: bool,
    name: &dyn Fn(u32) -> Option<Name>,
) {
    let reason = |code: u32| name(code).unwrap_or_else(|| code.to_string().into());
    let network = || {
        counts
            .drops
            .iter()
            .filter(|(key, _)| key.domain == DropCountKey::DOMAIN_NETWORK)
    };
    if exact {
        retransmits(&mut summary.retransmits, counts);
        drops(
            &mut summary.drops,
            network().map(|(key, count)| (reason(key.reason), count.matched)),
        );
    }
    summary.drops.unmatched_no_tuple = counts.stat(Stat::UnmatchedNoTuple);
    for (key, count) in &counts.drops {
        if let Some(family) = family(key.domain) {
            *summary.drops.not_network.entry(family).or_default() += count.packets;
        }
    }
    for (key, count) in network() {
        *summary
            .host_drops_by_reason
            .entry(reason(key.reason))
            .or_default() += count.packets;
    }
    summary.reconcile = reconciliation.rows;
    summary.counters_only = reconciliation.counters_only;
    summary.rates = reconciliation.rates;

    summary.lost.no_record = counts
        .drops
        .iter()
        .map(|(_, count)| count.no_record)
        .sum::<u64>()
        + counts
            .retransmits
            .iter()
            .map(|(_, count)| count.no_record)
            .sum::<u64>();
    summary.lost.ring_full = counts.stat(Stat::RingFull);
    summary.lost.tuple_table_full = counts.stat(Stat::CountTableFull);
    summary.lost.map_busy = counts.stat(Stat::MapBusy);
    summary.lost.recursion_missed = counts.told.recursion_missed + counts.stat(Stat::NestedTooDeep);
    summary.lost.read_fault = counts.stat(Stat::ReadFault);
    summary.overhead.events = counts
        .drops
        .iter()
        .map(|(_, count)| count.packets)
        .sum::<u64>()
        + counts
            .retransmits
            .iter()
            .map(|(_, count)| count.events)
            .sum::<u64>();
}

/// The kernel's counts of what matched; what has no record has no verdict either.
fn retransmits(totals: &mut RetransmitTotals, counts: &Counts) {
    let mut exact = RetransmitTotals {
        by_cause: totals.by_cause.clone(),
        ..RetransmitTotals::default()
    };
    for (key, count) in &counts.retransmits {
        if Outcome::from_number(key.outcome) != Some(Outcome::Sent) {
            exact.failed += count.matched;
            continue;
        }
        exact.events += count.matched;
        exact.segments += count.matched_segments;
        exact.bytes += count.matched_bytes;
        if let Some(kind) = Class::from_number(key.class)
            && count.matched > 0
        {
            *exact.by_kind.entry(kind).or_default() += count.matched;
        }
    }
    let unseen = exact.events.saturating_sub(totals.events);
    if unseen > 0 {
        *exact.by_cause.entry(Cause::Inconclusive).or_default() += unseen;
    }
    *totals = exact;
}

fn drops(totals: &mut DropTotals, matched: impl Iterator<Item = (Name, u64)>) {
    totals.packets = 0;
    totals.by_reason = BTreeMap::new();
    for (reason, packets) in matched.filter(|(_, packets)| *packets > 0) {
        totals.packets += packets;
        *totals.by_reason.entry(reason).or_default() += packets;
    }
}

/// What frees of that domain belong to; `None`: network drops.
fn family(domain: u8) -> Option<&'static str> {
    match domain {
        DropCountKey::DOMAIN_NETWORK => None,
        DropCountKey::DOMAIN_UNIX => Some("unix"),
        DropCountKey::DOMAIN_NETLINK => Some("netlink"),
        DropCountKey::DOMAIN_PACKET => Some("packet"),
        _ => Some("other"),
    }
}

/// What this process has used so far.
pub fn own_cost() -> Overhead {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of CPU time fit")]
    let user_cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let resident_pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    Overhead {
        user_cpu_s,
        rss_bytes: resident_pages.map(|pages| pages * page),
        ..Overhead::default()
    }
}
