//! Tables that are part of the program: lines of fields separated by tabs, `#` begins a comment, `-` means none.

use crate::event::DropClass;

/// The lines, split into exactly `N` fields. A line with another number of fields is left out; a test sees to it that
/// there is none.
pub(super) fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let mut row = [""; N];
            for field in &mut row {
                *field = fields.next()?;
            }
            if fields.next().is_some() {
                None
            } else {
                Some(row)
            }
        })
}

/// The field, unless it is `-`.
pub(super) fn some(field: &'static str) -> Option<&'static str> {
    (field != "-").then_some(field)
}

/// When is it harmless?
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Harmless {
    Always,
    /// If one of these proofs holds.
    If(Vec<Proof>),
}

/// What in an event proves the harmless case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// ICMP or `ICMPv6` echo reply.
    EchoReply,
    /// Any ICMP or `ICMPv6` packet.
    Icmp,
    /// A TCP reset.
    Reset,
    /// Sent to a multicast or the broadcast address.
    Multicast,
    /// A ping to such an address.
    BroadcastEcho,
    /// A whole TCP header, and the running kernel gives reasons, so that "none" rules out the cases it would name.
    HasReason,
}

impl Proof {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "echo-reply" => Self::EchoReply,
            "icmp" => Self::Icmp,
            "rst" => Self::Reset,
            "multicast" => Self::Multicast,
            "broadcast-echo" => Self::BroadcastEcho,
            "has-reason" => Self::HasReason,
            _ => return None,
        })
    }
}

/// A class and the exception to it, from letters such as `W`, `N`, `N/R` and a list of proofs. Of two letters the
/// harmless one holds only if it is proven; of two others the first.
pub(super) fn class(letters: &str, proofs: &str) -> Option<(DropClass, Harmless)> {
    let proofs: Vec<Proof> = if proofs == "-" {
        Vec::new()
    } else {
        proofs.split(',').map(Proof::parse).collect::<Option<_>>()?
    };
    let (first, second) = match letters.split_once('/') {
        Some((first, second)) => (letter(first)?, Some(letter(second)?)),
        None => (letter(letters)?, None),
    };
    Some(match (first, second) {
        (DropClass::Benign, None) if proofs.is_empty() => (DropClass::Benign, Harmless::Always),
        (DropClass::Benign, second) => (
            second.unwrap_or(DropClass::Unspecified),
            Harmless::If(proofs),
        ),
        (class, _) => (class, Harmless::If(proofs)),
    })
}

fn letter(letter: &str) -> Option<DropClass> {
    Some(match letter {
        "N" => DropClass::Benign,
        "P" => DropClass::Policy,
        "C" => DropClass::Capacity,
        "W" => DropClass::Path,
        "R" => DropClass::Routing,
        "S" => DropClass::Security,
        "B" => DropClass::Fault,
        "app" => DropClass::Application,
        "?" | "-" => DropClass::Unspecified,
        _ => return None,
    })
}
