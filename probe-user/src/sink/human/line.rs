//! Lays out one line: aligned columns where there is room, less where there is not.

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What a line begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Retrans,
    Drop,
    Verdict,
    Reset,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Retrans => "RETRANS",
            Self::Drop => "DROP",
            Self::Verdict => "VERDICT",
            Self::Reset => "RESET",
        }
    }

    fn style(self, is_benign: bool) -> Style {
        let color = match self {
            Self::Drop if is_benign => return Style::new().dimmed(),
            Self::Drop => AnsiColor::Red,
            Self::Retrans => AnsiColor::Yellow,
            Self::Verdict => AnsiColor::Cyan,
            Self::Reset => AnsiColor::Magenta,
        };
        color.on_default().bold()
    }
}

/// The cells of one line. They hold nothing a terminal acts on.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) time: String,
    pub(super) word: Word,
    pub(super) is_benign: bool,
    pub(super) kind: String,
    pub(super) ends: String,
    pub(super) numbers: String,
    /// Empty: not worth a word.
    pub(super) netns: String,
    pub(super) owner: String,
    pub(super) cause: String,
}

/// Widths of the columns kind, ends, numbers, netns and owner: each grows with what it has held, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns([usize; 5]);

/// Where a column begins, and how far it may grow.
const LIMITS: [(usize, usize); 5] = [(14, 22), (31, 47), (24, 44), (0, 15), (1, 20)];
/// "RETRANS"
const WORD: usize = 7;
/// Numbers are not cut shorter than that.
const MIN_NUMBERS: usize = 16;

impl Default for Columns {
    fn default() -> Self {
        Self(LIMITS.map(|(first, _)| first))
    }
}

impl Columns {
    /// The line's text, without the newline, at most `width` columns.
    pub(super) fn lay_out(&mut self, line: &Line, width: Option<usize>, color: bool) -> String {
        let cells = [
            &line.kind,
            &line.ends,
            &line.numbers,
            &line.netns,
            &line.owner,
        ]
        .map(String::as_str);
        for ((column, (_, limit)), cell) in self.0.iter_mut().zip(LIMITS).zip(cells) {
            *column = (*column).max(cell.width().min(limit));
        }
        let [kind, ends, ..] = self.0;
        // Where there is no room, alignment goes first, from the right; then numbers; then the end of the line.
        let text = [
            self.0,
            [kind, ends, 0, 0, 0],
            [kind.min(10), ends.min(30), 0, 0, 0],
            [0; 5],
        ]
        .into_iter()
        .map(|widths| join(line, cells, widths))
        .find(|text| width.is_none_or(|width| text.width() <= width))
        .unwrap_or_else(|| shorten(line, cells, width.unwrap_or(usize::MAX)));
        if color { paint(line, &text) } else { text }
    }
}

/// Cuts the numbers, and if that is not enough, the end of the line.
fn shorten(line: &Line, cells: [&str; 5], width: usize) -> String {
    let dense = join(line, cells, [0; 5]);
    let [kind, ends, numbers, netns, owner] = cells;
    let room = numbers
        .width()
        .saturating_sub(dense.width().saturating_sub(width))
        .max(MIN_NUMBERS);
    let numbers = cut(numbers, room);
    cut(
        &join(line, [kind, ends, &numbers, netns, owner], [0; 5]),
        width,
    )
}

fn join(line: &Line, cells: [&str; 5], widths: [usize; 5]) -> String {
    let mut text = format!("{} {:<WORD$}", line.time, line.word.text());
    for (cell, width) in cells.into_iter().zip(widths) {
        if cell.is_empty() && width == 0 {
            continue;
        }
        text.push(' ');
        text.push_str(cell);
        text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
    }
    text.push(' ');
    text.push_str(&line.cause);
    text.truncate(text.trim_end().len());
    text
}

/// At most `width` columns, `…` where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|c| {
            let needs = c.width().unwrap_or(0);
            let fits = needs <= left;
            left = left.saturating_sub(needs);
            fits
        })
        .collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// The time dimmed, the word in its colour, the cause bold if nothing of it was cut.
fn paint(line: &Line, text: &str) -> String {
    let dim = Style::new().dimmed();
    let bold = Style::new().bold();
    let word = line.word.style(line.is_benign);
    let Some((time, rest)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let Some(rest) = rest.strip_prefix(line.word.text()) else {
        return text.to_owned();
    };
    let head = format!("{dim}{time}{dim:#} {word}{}{word:#}", line.word.text());
    match rest.strip_suffix(line.cause.as_str()) {
        Some(middle) if !line.cause.is_empty() && !line.is_benign => {
            format!("{head}{middle}{bold}{}{bold:#}", line.cause)
        }
        _ => format!("{head}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(numbers: &str, cause: &str) -> Line {
        Line {
            time: "12:00:00.000".into(),
            word: Word::Drop,
            is_benign: false,
            kind: "NO_SOCKET".into(),
            ends: "udp 10.0.0.1:1 → 10.0.0.2:2".into(),
            numbers: numbers.into(),
            netns: String::new(),
            owner: "?".into(),
            cause: cause.into(),
        }
    }

    #[test]
    fn columns_stay_aligned_as_they_grow() {
        let mut columns = Columns::default();
        let first = columns.lay_out(&line("60 B", "path"), None, false);
        let longer = columns.lay_out(
            &line("60 B in udp_unicast_rcv_skb.isra.0", "path"),
            None,
            false,
        );
        let third = columns.lay_out(&line("1 B", "path"), None, false);
        assert!(first.len() < longer.len());
        assert_eq!(longer.find("path"), third.find("path"));
    }

    #[test]
    fn alignment_goes_before_numbers_and_numbers_before_the_end() {
        let wide = line("1514 B PA in nf_hook_slow on eth0", "policy");
        let aligned = Columns::default().lay_out(&wide, Some(110), false);
        assert!(aligned.contains("NO_SOCKET      udp"), "{aligned}");
        assert!(
            aligned.ends_with("nf_hook_slow on eth0 ? policy"),
            "{aligned}"
        );
        let dense = Columns::default().lay_out(&wide, Some(102), false);
        assert!(dense.contains("NO_SOCKET udp"), "{dense}");
        assert!(dense.ends_with("nf_hook_slow on eth0 ? policy"), "{dense}");
        let cut = Columns::default().lay_out(&wide, Some(85), false);
        assert!(cut.ends_with("… ? policy"), "{cut}");
        let shorter = Columns::default().lay_out(&wide, Some(60), false);
        assert_eq!(shorter.width(), 60);
        assert!(shorter.ends_with('…'), "{shorter}");
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let painted = Columns::default().lay_out(&line("60 B", "path"), None, true);
        assert!(
            painted.starts_with(
                "\u{1b}[2m12:00:00.000\u{1b}[0m \u{1b}[1m\u{1b}[31mDROP\u{1b}[0m    NO_SOCKET"
            ),
            "{painted:?}"
        );
        assert!(painted.ends_with("? \u{1b}[1mpath\u{1b}[0m"), "{painted:?}");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(numbers in "\\PC{0,80}", cause in "[a-z日]{0,40}", width in 0_usize..200) {
            let text = Columns::default().lay_out(&line(&numbers, &cause), Some(width), false);
            prop_assert!(text.width() <= width.max(1));
        }
    }
}
