//! Held against the kernel's own books: what adds up, what only counters saw, what was missed, and what tracing cost.

use super::{Page, number, put, was};
use crate::aggregate::summary::{ReconcileRow, Summary};
use crate::sink::{human, time};

pub(super) fn reconciliation(page: &mut Page, summary: &Summary) {
    let rows: Vec<&ReconcileRow> = summary.reconcile.iter().filter(|row| moved(row)).collect();
    if rows.is_empty() {
        return;
    }
    page.title("Held against the kernel's counters");
    page.paragraph(&conclusion(&rows, summary));
    let cells = rows
        .iter()
        .map(|row| {
            vec![
                human::netns(&row.netns),
                row.counter.to_owned(),
                kernel(row),
                row.observed.to_string(),
                row.unexplained.to_string(),
                remark(row).to_owned(),
            ]
        })
        .collect();
    page.table(
        &["netns", "counter", "kernel", "traced", "unexplained", ""],
        &[2, 3, 4],
        cells,
    );
}

fn moved(row: &ReconcileRow) -> bool {
    row.kernel != 0 || row.kernel_max != 0 || row.observed != 0 || row.unexplained != 0
}

/// Is more or less traced than the kernel counted? A counter that is a bound may have moved further.
fn is_off(row: &ReconcileRow) -> bool {
    if row.bound {
        row.unexplained < 0
    } else {
        row.unexplained != 0
    }
}

fn conclusion(rows: &[&ReconcileRow], summary: &Summary) -> String {
    let off = rows.iter().filter(|row| is_off(row)).count();
    if off > 0 {
        return format!(
            "{off} of {} counters leave a remainder that nothing traced explains: those rows say how much.",
            rows.len()
        );
    }
    let unsure = rows.iter().filter(|row| !row.exact && !row.bound).count();
    let unseen = summary.counters_only.iter().any(|row| row.unseen > 0);
    let mut text = if unsure == 0 {
        "Every retransmit and drop the kernel counted was seen".to_owned()
    } else {
        format!(
            "Nothing is unexplained, but {unsure} of {} counters could not be compared exactly",
            rows.len()
        )
    };
    text.push_str(if unseen {
        ", but for what only counters can see (below)."
    } else {
        "."
    });
    text
}

fn kernel(row: &ReconcileRow) -> String {
    if row.kernel_max == row.kernel {
        row.kernel.to_string()
    } else {
        format!("{}..{}", row.kernel, row.kernel_max)
    }
}

fn remark(row: &ReconcileRow) -> &'static str {
    if is_off(row) && row.unexplained < 0 {
        "MORE TRACED THAN COUNTED"
    } else if is_off(row) {
        "NOT EXPLAINED"
    } else if row.ended {
        "the namespace ended"
    } else if row.bound {
        "an upper bound"
    } else if !row.exact {
        "moved while attaching or detaching"
    } else {
        "adds up"
    }
}

pub(super) fn counters_only(page: &mut Page, summary: &Summary) {
    let rows: Vec<Vec<String>> = summary
        .counters_only
        .iter()
        .filter(|row| row.unseen > 0)
        .map(|row| {
            vec![
                row.netns
                    .as_ref()
                    .map_or_else(|| "(host)".to_owned(), human::netns),
                row.counter.to_owned(),
                row.delta.to_string(),
                row.observed.to_string(),
                row.unseen.to_string(),
                row.meaning.to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.title("Seen only by counters");
    page.table(
        &["netns", "counter", "kernel", "traced", "unseen", "meaning"],
        &[2, 3, 4],
        rows,
    );
}

pub(super) fn lost(page: &mut Page, summary: &Summary) {
    let lost = &summary.lost;
    let entries = [
        (lost.no_record, "event", "counted, but without details"),
        (
            lost.ring_full,
            "event",
            "lost: the ring buffer was full (a larger --ring-size helps)",
        ),
        (
            lost.tuple_table_full,
            "event",
            "counted by reason only: the table of connections was full",
        ),
        (lost.map_busy, "event", "lost: a table was busy"),
        (
            lost.recursion_missed,
            "event",
            "missed: the kernel skipped the program (recursion)",
        ),
        (
            lost.read_fault,
            "event",
            "incomplete: kernel memory could not be read",
        ),
        (
            lost.evicted_flows,
            "flow",
            "pushed out of the table, totals kept (a larger --max-flows helps)",
        ),
        (
            lost.undecodable,
            "record",
            "could not be decoded (please report it)",
        ),
    ];
    if lost.is_nothing() {
        return;
    }
    page.title("Missed by the tracer");
    for (count, noun, what) in entries {
        if count == 0 {
            continue;
        }
        let what = what
            .strip_prefix("could")
            .map_or_else(|| format!("{} {what}", was(count)), |_| what.to_owned());
        page.paragraph(&format!("{} {what}", number(count, noun)));
    }
}

pub(super) fn overhead(page: &mut Page, summary: &Summary) {
    let cost = &summary.overhead;
    if cost.events == 0 && cost.kernel_ns.is_none() && cost.rss_bytes.is_none() {
        return;
    }
    page.title("Cost of tracing");
    let mut text = number(cost.events, "event");
    if let Some(ns) = cost.kernel_ns {
        put(
            &mut text,
            format_args!(", {} in the kernel", time::span_us(ns / 1000)),
        );
        if let Some(each) = ns.checked_div(cost.events) {
            put(&mut text, format_args!(" ({each} ns an event)"));
        }
    }
    if cost.user_cpu_s.is_finite() {
        put(
            &mut text,
            format_args!(", {:.2} s CPU in user space", cost.user_cpu_s),
        );
    }
    if let Some(rss) = cost.rss_bytes {
        put(&mut text, format_args!(", {} resident", time::bytes(rss)));
    }
    if let Some(maps) = cost.map_bytes {
        put(
            &mut text,
            format_args!(", {} of kernel maps", time::bytes(maps)),
        );
    }
    text.push('.');
    page.paragraph(&text);
}
