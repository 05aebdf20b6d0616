//! The summary for people: the diagnosis, then what led to it. Sections with nothing to say are left out.

mod books;
mod counts;

use std::fmt::Write as _;

use anstyle::Style;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::aggregate::summary::Summary;
use crate::sink::escape::Harmless;
use crate::sink::{Moment, OutputConfig};

/// Where there is no terminal, texts are wrapped at that many columns.
const DEFAULT_WIDTH: usize = 120;
/// Left of the page for text that wraps.
const WRAPPED: u16 = 24;
/// Narrower tables cannot be read.
const MIN_WIDTH: usize = 40;

/// The whole text.
pub fn render(summary: &Summary, moment: Moment, config: &OutputConfig) -> String {
    let mut page = Page::new(config);
    page.title(match moment {
        Moment::SoFar => "Summary so far",
        Moment::Final => "Summary",
    });
    page.paragraph(&diagnosis(summary));
    page.paragraph(&totals(summary));
    counts::flows(&mut page, summary);
    counts::kinds(&mut page, summary);
    counts::drops(&mut page, summary);
    counts::rates(&mut page, summary);
    books::reconciliation(&mut page, summary);
    books::counters_only(&mut page, summary);
    books::lost(&mut page, summary);
    books::overhead(&mut page, summary);
    page.text
}

/// One sentence.
fn diagnosis(summary: &Summary) -> String {
    if !summary.diagnosis.is_empty() {
        return Harmless(&summary.diagnosis).to_string();
    }
    if is_quiet(summary) {
        return "Nothing happened: no retransmit and no drop matched.".to_owned();
    }
    format!(
        "{} and {} matched.",
        retransmits(summary),
        number(summary.drops.packets, "drop")
    )
}

fn totals(summary: &Summary) -> String {
    let mut text = format!("Traced {:.1} s", summary.duration_s);
    if is_quiet(summary) {
        text.push_str(": no retransmits, no drops.");
        return text;
    }
    let sent = &summary.retransmits;
    put(&mut text, format_args!(": {}", retransmits(summary)));
    if sent.events > 0 {
        put(
            &mut text,
            format_args!(
                " ({}, {} bytes)",
                number(sent.segments, "segment"),
                sent.bytes
            ),
        );
    }
    if sent.failed > 0 {
        put(
            &mut text,
            format_args!(
                ", {} that {} not sent",
                number(sent.failed, "attempt"),
                was(sent.failed)
            ),
        );
    }
    put(
        &mut text,
        format_args!(", {}", number(summary.drops.packets, "drop")),
    );
    if summary.drops.hidden_benign > 0 {
        put(
            &mut text,
            format_args!(
                " ({} of them benign and not shown: --all shows them)",
                summary.drops.hidden_benign
            ),
        );
    }
    text.push('.');
    if summary.drops.unmatched_no_tuple > 0 {
        put(
            &mut text,
            format_args!(
                " {} more could not be held against the filters: addresses not readable.",
                number(summary.drops.unmatched_no_tuple, "drop")
            ),
        );
    }
    text
}

fn is_quiet(summary: &Summary) -> bool {
    let sent = &summary.retransmits;
    sent.events == 0
        && sent.failed == 0
        && summary.drops.packets == 0
        && summary.drops.unmatched_no_tuple == 0
}

fn retransmits(summary: &Summary) -> String {
    number(summary.retransmits.events, "retransmit")
}

/// `1 drop`, `2 drops`
fn number(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// Writing to a `String` cannot fail.
fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    if text.write_fmt(what).is_err() {
        text.push('?');
    }
}

/// Text that grows section by section.
struct Page {
    text: String,
    width: usize,
    color: bool,
}

impl Page {
    fn new(config: &OutputConfig) -> Self {
        Self {
            text: String::new(),
            width: config.width.unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH),
            color: config.color,
        }
    }

    fn title(&mut self, title: &str) {
        let style = if self.color {
            Style::new().bold()
        } else {
            Style::new()
        };
        put(&mut self.text, format_args!("\n{style}{title}{style:#}\n"));
    }

    /// A sentence or two, wrapped.
    fn paragraph(&mut self, text: &str) {
        let mut table = self.empty_table();
        table.add_row([text]);
        self.push(&table);
    }

    /// A table; the columns named in `right` hold numbers.
    fn table(&mut self, header: &[&str], right: &[usize], rows: Vec<Vec<String>>) {
        let mut table = self.empty_table();
        table.set_header(header.iter().copied());
        table.add_rows(rows);
        for (index, width) in self.kept(&table.column_max_content_widths()) {
            if let Some(column) = table.column_mut(index) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            }
        }
        for index in right {
            if let Some(column) = table.column_mut(*index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.push(&table);
    }

    /// Columns that keep their shape, with their width: the first, which names the row, then the narrow ones. What is left
    /// of the page goes to the wide ones, whose text wraps.
    fn kept(&self, contents: &[u16]) -> Vec<(usize, u16)> {
        let page = u16::try_from(self.width).unwrap_or(u16::MAX);
        let mut columns: Vec<(usize, u16)> = contents
            .iter()
            .map(|width| width.saturating_add(2))
            .enumerate()
            .collect();
        columns.sort_by_key(|(index, width)| (*index != 0, *width));
        let mut left = page.saturating_sub(WRAPPED);
        let fits = |(index, width): &(usize, u16)| {
            let width = if *index == 0 {
                (*width).min(page / 2)
            } else {
                *width
            };
            let kept = width <= left;
            left = if kept { left - width } else { 0 };
            kept.then_some((*index, width))
        };
        columns.iter().map_while(fits).collect()
    }

    fn empty_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        table
    }

    fn push(&mut self, table: &Table) {
        for line in table.to_string().lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }
}
