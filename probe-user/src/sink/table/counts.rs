//! What happened: flows, kinds, drops and rates.

use std::collections::BTreeMap;

use super::{Page, percent};
use crate::aggregate::summary::{DropGroup, FlowSummary, RetransmitTotals, Summary};
use crate::event::Location;
use crate::sink::escape::Escaped;
use crate::sink::{human, names};

/// Longer tables help nobody; `-o json` has everything.
const MAX_ROWS: usize = 20;

pub(super) fn flows(page: &mut Page, summary: &Summary) {
    let flows: Vec<&FlowSummary> = summary
        .flows
        .iter()
        .filter(|flow| flow.retransmits.events > 0 || flow.retransmits.failed > 0)
        .collect();
    if flows.is_empty() {
        return;
    }
    page.title("Flows by retransmits");
    let rows = flows
        .iter()
        .take(MAX_ROWS)
        .map(|flow| flow_row(flow))
        .collect();
    page.table(
        &[
            "local → remote",
            "netns",
            "owner",
            "retrans",
            "segments",
            "share",
            "drops",
            "kinds",
            "causes",
        ],
        &[3, 4, 5, 6],
        rows,
    );
    more(page, flows.len(), "flow");
}

fn flow_row(flow: &FlowSummary) -> Vec<String> {
    vec![
        human::ends(&flow.tuple),
        human::netns(&flow.netns),
        human::owner(&flow.owner, false),
        flow.retransmits.events.to_string(),
        flow.retransmits.segments.to_string(),
        flow.retransmitted_share
            .filter(|share| share.is_finite())
            .map_or_else(|| "-".to_owned(), percent),
        flow.drops.to_string(),
        kinds_of(&flow.retransmits),
        causes_of(&flow.retransmits),
    ]
}

pub(super) fn kinds(page: &mut Page, summary: &Summary) {
    if summary.retransmits.by_kind.is_empty() {
        return;
    }
    page.title("Retransmits by kind and cause");
    page.paragraph(&format!("kinds:  {}", kinds_of(&summary.retransmits)));
    if !summary.retransmits.by_cause.is_empty() {
        page.paragraph(&format!("causes: {}", causes_of(&summary.retransmits)));
    }
}

pub(super) fn drops(page: &mut Page, summary: &Summary) {
    if summary.drop_groups.is_empty() {
        return;
    }
    page.title("Drops by reason");
    let rows = summary
        .drop_groups
        .iter()
        .take(MAX_ROWS)
        .map(drop_row)
        .collect();
    page.table(
        &[
            "drops",
            "reason",
            "class",
            "where",
            "netns",
            "meaning and advice",
        ],
        &[0],
        rows,
    );
    more(page, summary.drop_groups.len(), "group");
}

fn drop_row(group: &DropGroup) -> Vec<String> {
    let mut place = location(&group.location);
    if let Some(interface) = &group.interface {
        place.push_str(" on ");
        place.push_str(&Escaped(interface).to_string());
    }
    let said: Vec<&str> = [group.meaning, group.advice]
        .into_iter()
        .flatten()
        .collect();
    vec![
        group.packets.to_string(),
        Escaped(&group.reason).to_string(),
        group.class.name().to_owned(),
        place,
        human::netns(&group.netns),
        if said.is_empty() {
            "-".to_owned()
        } else {
            said.join("; ")
        },
    ]
}

fn location(location: &Location) -> String {
    match &location.symbol {
        Some(symbol) => Escaped(symbol).to_string(),
        None if location.address == 0 => "?".to_owned(),
        None => format!("0x{:x}", location.address),
    }
}

pub(super) fn rates(page: &mut Page, summary: &Summary) {
    let mut rates: Vec<_> = summary
        .rates
        .iter()
        .filter(|rate| rate.retransmitted_share > 0.0)
        .collect();
    if rates.is_empty() {
        return;
    }
    rates.sort_by(|a, b| b.retransmitted_share.total_cmp(&a.retransmitted_share));
    page.title("Share of TCP segments sent again");
    let rows = rates
        .iter()
        .take(MAX_ROWS)
        .map(|rate| vec![human::netns(&rate.netns), percent(rate.retransmitted_share)])
        .collect();
    page.table(&["netns", "share"], &[1], rows);
    more(page, rates.len(), "namespace");
}

fn more(page: &mut Page, rows: usize, noun: &str) {
    let left = rows.saturating_sub(MAX_ROWS);
    if left > 0 {
        let plural = if left == 1 { "" } else { "s" };
        page.paragraph(&format!(
            "… and {left} more {noun}{plural}: -o json has them all."
        ));
    }
}

fn kinds_of(totals: &RetransmitTotals) -> String {
    list(
        totals
            .by_kind
            .iter()
            .map(|(kind, events)| (names::kind(*kind), *events)),
    )
}

fn causes_of(totals: &RetransmitTotals) -> String {
    list(
        totals
            .by_cause
            .iter()
            .map(|(cause, events)| (cause.name(), *events)),
    )
}

/// `fast 12, rto 3`: most first.
fn list<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut by_count: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (name, count) in counts {
        by_count
            .entry(std::cmp::Reverse(count))
            .or_default()
            .push(name);
    }
    let parts: Vec<String> = by_count
        .iter()
        .flat_map(|(count, names)| names.iter().map(move |name| format!("{name} {}", count.0)))
        .collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}
