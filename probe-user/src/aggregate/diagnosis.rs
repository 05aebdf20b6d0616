//! One sentence that says what a run amounts to.

use super::flow::ratio;
use super::summary::{RetransmitTotals, Summary};
use crate::event::{DropClass, Kind, Netns};

/// `sent`: segments sent again and sent at all by the flows that retransmitted, if known of all of them.
pub(super) fn sentence(summary: &Summary, sent: Option<(u64, u64)>) -> String {
    let drops = drops(summary);
    let silent = silent(summary);
    if summary.retransmits.events == 0 && summary.retransmits.failed == 0 {
        return format!("Nothing was retransmitted and {drops}{silent}.");
    }
    format!("{}; {drops}{silent}.", retransmits(summary, sent))
}

/// Losses that have no event must not hide behind "nothing was dropped".
fn silent(summary: &Summary) -> String {
    match summary.counters_only.iter().max_by_key(|row| row.unseen) {
        Some(row) => format!("; counters alone show more: {} {}", row.counter, row.unseen),
        None => String::new(),
    }
}

fn retransmits(summary: &Summary, sent: Option<(u64, u64)>) -> String {
    let RetransmitTotals { events, failed, .. } = summary.retransmits;
    let failed = match failed {
        0 => String::new(),
        failed => format!("; {} failed", count(failed, "attempt")),
    };
    if events == 0 {
        return format!("Nothing was retransmitted{failed}");
    }
    format!(
        "{}{}{}{failed}",
        count(events, "retransmit"),
        flows(summary, sent),
        main_kind(&summary.retransmits)
    )
}

/// Evicted flows are no longer known: then nothing is said of flows.
fn flows(summary: &Summary, sent: Option<(u64, u64)>) -> String {
    if summary.lost.evicted_flows > 0 {
        return String::new();
    }
    let flows = summary
        .flows
        .iter()
        .filter(|flow| flow.retransmits.events > 0)
        .count() as u64;
    let share = match sent {
        Some((again, all)) if all > 0 => {
            let whose = if flows == 1 {
                "this connection has"
            } else {
                "these connections have"
            };
            format!(
                " ({:.1} % of all data segments {whose} ever sent)",
                ratio(again, all) * 100.0
            )
        }
        _ => String::new(),
    };
    format!(" in {}{share}", count(flows, "flow"))
}

fn main_kind(totals: &RetransmitTotals) -> String {
    match totals
        .by_kind
        .iter()
        .find(|(_, of_kind)| **of_kind * 2 > totals.events)
    {
        Some((kind, _)) if totals.events == 1 => format!(", a {}", one(*kind)),
        Some((kind, _)) if totals.by_kind.len() == 1 => format!(", all of them {}", many(*kind)),
        Some((kind, _)) => format!(", most of them {}", many(*kind)),
        None => String::new(),
    }
}

fn drops(summary: &Summary) -> String {
    let lost = summary.drops.packets.saturating_sub(summary.drops.benign);
    let harmless = match summary.drops.benign {
        0 => String::new(),
        frees => format!(" ({} left out)", count(frees, "harmless free")),
    };
    if lost == 0 {
        return format!("nothing was dropped{harmless}");
    }
    let be = if lost == 1 { "was" } else { "were" };
    let cause = match main_cause(summary) {
        Some((reason, netns, packets)) if packets * 2 > lost => {
            let share = if packets == lost {
                ": "
            } else {
                ", most of them "
            };
            let place = netns
                .name
                .as_ref()
                .map(|name| format!(" in namespace {name}"))
                .unwrap_or_default();
            format!("{share}{reason}{place}")
        }
        _ => String::new(),
    };
    format!("{} {be} dropped{cause}{harmless}", count(lost, "packet"))
}

/// The reason and namespace of most real drops.
fn main_cause(summary: &Summary) -> Option<(&str, &Netns, u64)> {
    let mut causes: Vec<(&str, &Netns, u64)> = Vec::new();
    for group in summary
        .drop_groups
        .iter()
        .filter(|group| group.class != DropClass::Benign)
    {
        let same = |(reason, netns, _): &&mut (&str, &Netns, u64)| {
            *reason == &*group.reason && **netns == group.netns
        };
        match causes.iter_mut().find(same) {
            Some((_, _, packets)) => *packets += group.packets,
            None => causes.push((&group.reason, &group.netns, group.packets)),
        }
    }
    causes.into_iter().max_by_key(|(_, _, packets)| *packets)
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn one(kind: Kind) -> &'static str {
    match kind {
        Kind::Syn => "SYN",
        Kind::SynAck => "SYN-ACK",
        Kind::Rto => "timeout",
        Kind::Tlp => "tail loss probe",
        Kind::Fast => "fast retransmit",
        Kind::RackTimer => "retransmit of the reordering timer",
        Kind::SlowStart => "slow-start retransmit after a timeout",
        Kind::NonCongestion => "retransmit without a sign of congestion",
        Kind::TfoFallback => "Fast Open fallback",
        Kind::ZeroWindow => "zero-window retransmit",
    }
}

fn many(kind: Kind) -> &'static str {
    match kind {
        Kind::Syn => "SYNs",
        Kind::SynAck => "SYN-ACKs",
        Kind::Rto => "timeouts",
        Kind::Tlp => "tail loss probes",
        Kind::Fast => "fast retransmits",
        Kind::RackTimer => "retransmits of the reordering timer",
        Kind::SlowStart => "slow-start retransmits after a timeout",
        Kind::NonCongestion => "retransmits without a sign of congestion",
        Kind::TfoFallback => "Fast Open fallbacks",
        Kind::ZeroWindow => "zero-window retransmits",
    }
}
