//! One sentence that says what a run amounts to.

use super::flow::ratio;
use super::summary::{RetransmitTotals, Summary};
use crate::event::{DropClass, Kind, Netns};

/// `sent`: segments sent again and sent at all by the flows that retransmitted, if known of all of them.
pub(super) fn sentence(summary: &Summary, sent: Option<(u64, u64)>) -> String {
    let drops = drops(summary);
    if summary.retransmits.events == 0 && summary.retransmits.failed == 0 {
        return format!("Nothing was retransmitted and {drops}.");
    }
    format!("{}; {drops}.", retransmits(summary, sent))
}

fn retransmits(summary: &Summary, sent: Option<(u64, u64)>) -> String {
    let RetransmitTotals { events, failed, .. } = summary.retransmits;
    let mut text = if events == 0 { "Nothing was retransmitted".to_owned() } else { count(events, "retransmit") };
    // Evicted flows are no longer known: then the number of flows would be wrong.
    let flows = summary.flows.iter().filter(|flow| flow.retransmits.events > 0).count();
    if events > 0 && summary.lost.evicted_flows == 0 {
        text += &format!(" in {}", count(flows as u64, "flow"));
        if let Some((again, all)) = sent
            && all > 0
        {
            let share = ratio(again, all) * 100.0;
            let whose = if flows == 1 { "its" } else { "their" };
            text += &format!(" ({share:.1} % of {whose} data segments were sent again)");
        }
    }
    if let Some((&kind, _)) = summary.retransmits.by_kind.iter().find(|(_, of_kind)| **of_kind * 2 > events) {
        let all = summary.retransmits.by_kind.len() == 1;
        text += &match (events, all) {
            (1, _) => format!(", a {}", one(kind)),
            (_, true) => format!(", all of them {}", many(kind)),
            (_, false) => format!(", most of them {}", many(kind)),
        };
    }
    if failed > 0 {
        text += &format!("; {} failed", count(failed, "attempt"));
    }
    text
}

fn drops(summary: &Summary) -> String {
    let lost = summary.drops.packets - summary.drops.hidden_benign.min(summary.drops.packets);
    let harmless = match summary.drops.hidden_benign {
        0 => String::new(),
        n => format!(" ({} left out)", count(n, "harmless free")),
    };
    if lost == 0 {
        return format!("nothing was dropped{harmless}");
    }
    let be = if lost == 1 { "was" } else { "were" };
    let mut text = format!("{} {be} dropped", count(lost, "packet"));
    if let Some((reason, netns, packets)) = main_cause(summary)
        && packets * 2 > lost
    {
        text += if packets == lost { ": " } else { ", most of them " };
        text += reason;
        if let Some(name) = &netns.name {
            text += &format!(" in namespace {name}");
        }
    }
    text + &harmless
}

/// The reason and namespace of most real drops.
fn main_cause(summary: &Summary) -> Option<(&str, &Netns, u64)> {
    let mut causes: Vec<(&str, &Netns, u64)> = Vec::new();
    for group in summary.drop_groups.iter().filter(|group| group.class != DropClass::Benign) {
        let same = |(reason, netns, _): &&mut (&str, &Netns, u64)| *reason == &*group.reason && **netns == group.netns;
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
