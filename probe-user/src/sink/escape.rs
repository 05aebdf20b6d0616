//! Names from outside (processes, devices, namespaces, symbols) may hold anything. Here they become harmless to look at.
//!
//! Escaped is what a terminal would act on or a reader could not see: control characters, marks that change the writing
//! direction, everything without a width of its own, and characters that have no meaning of their own (private use,
//! noncharacters). The backslash is escaped too, so that a shown `\x1b` can only mean the real thing.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthChar;

/// Shows a name without danger. Printable names come out unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

/// Shows a text of our own that quotes outside names, some of them escaped already: as [`Escaped`], but the backslash stays.
#[derive(Clone, Copy, Debug)]
pub struct Harmless<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                _ => write_visible(f, c)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Harmless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| write_visible(f, c))
    }
}

fn write_visible(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        _ if !is_hidden(c) => f.write_char(c),
        _ if u32::from(c) <= 0xff => write!(f, "\\x{:02x}", u32::from(c)),
        _ => write!(f, "\\u{{{:x}}}", u32::from(c)),
    }
}

/// Would a terminal act on it, or a reader not see it?
pub(crate) fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        // Separators, and blanks that look like a plain space or like nothing.
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}'
        | '\u{205f}'
        | '\u{2800}'
        | '\u{3000}'
        | '\u{3164}'
        | '\u{ffa0}'
        // Noncharacters and specials, private use.
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{f0000}'..='\u{10ffff}' => true,
        _ => u32::from(c) & 0xfffe == 0xfffe || c.width().is_none_or(|width| width == 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(name: &str) -> String {
        Escaped(name).to_string()
    }

    #[test]
    fn plain_names_stay() {
        assert_eq!(shown("tmux: server"), "tmux: server");
        assert_eq!(shown("größe-日本"), "größe-日本");
    }

    #[test]
    fn what_a_terminal_acts_on_is_spelled_out() {
        assert_eq!(shown("a\x1b[31mb\x07"), "a\\x1b[31mb\\x07");
        assert_eq!(shown("a\nb\r\tc\0"), "a\\nb\\r\\tc\\x00");
        assert_eq!(shown("\u{9b}31m\u{7f}"), "\\x9b31m\\x7f");
    }

    #[test]
    fn what_a_reader_cannot_see_is_spelled_out() {
        assert_eq!(
            shown("a\u{202e}b\u{200f}\u{2066}"),
            "a\\u{202e}b\\u{200f}\\u{2066}"
        );
        assert_eq!(
            shown("a\u{200b}\u{feff}\u{2028}\u{ad}"),
            "a\\u{200b}\\u{feff}\\u{2028}\\xad"
        );
        assert_eq!(
            shown("e\u{301}\u{e0041}\u{e000}"),
            "e\\u{301}\\u{e0041}\\u{e000}"
        );
    }

    #[test]
    fn an_escape_cannot_be_faked() {
        assert_eq!(shown("\\x1b"), "\\\\x1b");
    }

    proptest! {
        #[test]
        fn nothing_hidden_comes_out(name in any::<String>()) {
            let shown = shown(&name);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_hidden(c)));
            let harmless = Harmless(&name).to_string();
            prop_assert!(!harmless.chars().any(|c| c.is_control() || is_hidden(c)));
        }
    }
}
