//! Reason names from the text of a tracepoint's format, where BTF does not have them.
//!
//! `print fmt: "… reason: %s", REC->skbaddr, …, __print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, { 3, … })`. The
//! kernel cuts the common prefix off itself.

use crate::event::Name;

/// Pairs of value and name listed for the reason; empty where there are none.
pub fn parse_format(format: &str) -> Vec<(u32, Name)> {
    let Some(list) = format
        .lines()
        .find(|line| line.starts_with("print fmt:"))
        .and_then(|line| line.split_once("__print_symbolic(REC->reason"))
    else {
        return Vec::new();
    };
    // Another list may follow: the first `)` outside a name ends this one, and no name has one.
    let list = list.1.split(')').next().unwrap_or_default();
    list.split('{').skip(1).filter_map(parse_pair).collect()
}

fn parse_pair(pair: &str) -> Option<(u32, Name)> {
    let (value, name) = pair.split_once('}')?.0.split_once(',')?;
    let value = value.trim();
    // Kernels print decimal; where an enum name was left in place of its value, there is nothing to learn.
    let value = match value.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => value.parse().ok()?,
    };
    let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
    (!name.is_empty()).then(|| (value, name.into()))
}

/// Of the running kernel. `None`: tracefs is not mounted or not readable; the numbers are shown then.
pub(super) fn read_format() -> Option<String> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|tracefs| {
            std::fs::read_to_string(format!("{tracefs}/events/skb/kfree_skb/format")).ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = r#"name: kfree_skb
ID: 1610
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:enum skb_drop_reason reason;	offset:28;	size:4;	signed:0;

print fmt: "skbaddr=%p protocol=%u location=%pS reason: %s", REC->skbaddr, REC->protocol, REC->location, __print_symbolic(REC->reason, { 1, "NOT_SPECIFIED" }, { 2, "NO_SOCKET" }, { 0x10, "PROTO_MEM" }), __print_symbolic(REC->other, { 9, "OTHER" })
"#;

    #[test]
    fn a_format_gives_its_names() {
        let names: Vec<_> = parse_format(FORMAT)
            .into_iter()
            .map(|(code, name)| (code, name.to_string()))
            .collect();
        assert_eq!(
            names,
            [
                (1, "NOT_SPECIFIED".to_owned()),
                (2, "NO_SOCKET".to_owned()),
                (16, "PROTO_MEM".to_owned())
            ]
        );
    }

    #[test]
    fn a_format_without_reasons_gives_nothing() {
        let before_5_17 =
            r#"print fmt: "skbaddr=%p protocol=%u location=%p", REC->skbaddr, REC->protocol"#;
        assert!(parse_format(before_5_17).is_empty());
        assert!(parse_format("").is_empty());
    }

    #[test]
    fn a_damaged_pair_is_left_out() {
        let text = r#"print fmt: "", __print_symbolic(REC->reason, { SKB_X, "A" }, { 2 "B" }, { 3, "" }, { 4, "D"#;
        assert!(parse_format(text).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}") {
            drop(parse_format(&format!("print fmt: __print_symbolic(REC->reason{text}")));
        }
    }
}
