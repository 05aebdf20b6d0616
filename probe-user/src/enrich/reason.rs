//! What a drop reason means, by its name: numbers move between kernels.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use probe_common::packet::protocol;

use super::table::{self, Harmless, Proof};
use crate::decode::Hints;
use crate::event::{Drop, DropClass, IcmpHeader};

const TABLE: &str = include_str!("../data/reasons.tsv");
const TCP_RST: u8 = 1 << 2;

/// What a reason means, at some location or at any.
#[derive(Clone, Debug)]
pub struct Meaning {
    class: DropClass,
    harmless: Harmless,
    /// One line.
    pub text: Option<&'static str>,
    /// What to check or set.
    pub advice: Option<&'static str>,
}

impl Meaning {
    const UNKNOWN: Self = Self {
        class: DropClass::Unspecified,
        harmless: Harmless::If(Vec::new()),
        text: None,
        advice: None,
    };

    pub(super) fn parse(
        letters: &str,
        proofs: &str,
        text: &'static str,
        advice: &'static str,
    ) -> Option<Self> {
        let (class, harmless) = table::class(letters, proofs)?;
        Some(Self {
            class,
            harmless,
            text: table::some(text),
            advice: table::some(advice),
        })
    }

    /// The class of one event: benign only where that is certain.
    pub fn class(&self, drop: &Drop, hints: &Hints) -> DropClass {
        let is_harmless = match &self.harmless {
            Harmless::Always => true,
            Harmless::If(proofs) => proofs.iter().any(|&proof| holds(proof, drop, hints)),
        };
        if is_harmless {
            DropClass::Benign
        } else {
            self.class
        }
    }
}

/// What a reason means by itself. `subsystem`: `None` for core reasons.
pub fn meaning(subsystem: Option<&str>, name: &str) -> Meaning {
    static MEANINGS: LazyLock<HashMap<(&str, &str), Meaning>> = LazyLock::new(|| {
        table::rows(TABLE)
            .filter_map(|[scope, name, letters, proofs, text, advice]| {
                Some((
                    (scope, name),
                    Meaning::parse(letters, proofs, text, advice)?,
                ))
            })
            .collect()
    });
    let scope = scope(subsystem);
    MEANINGS
        .get(&(scope, bare(scope, name)))
        .cloned()
        .unwrap_or(Meaning::UNKNOWN)
}

/// The subsystem as the table calls it, however the kernel's version spells it.
fn scope(subsystem: Option<&str>) -> &'static str {
    let Some(subsystem) = subsystem.map(str::to_ascii_lowercase) else {
        return "core";
    };
    if subsystem.contains("core") {
        "core"
    } else if subsystem.contains("openvswitch") || subsystem.contains("ovs") {
        "openvswitch"
    } else if subsystem.contains("mac80211") {
        "mac80211"
    } else if subsystem.contains("qdisc") {
        "qdisc"
    } else {
        ""
    }
}

/// The name without what its subsystem puts before all of its names.
fn bare<'a>(scope: &str, name: &'a str) -> &'a str {
    let prefixes: &[&str] = match scope {
        "openvswitch" => &["OVS_DROP_"],
        "mac80211" => &["RX_DROP_U_", "RX_DROP_M_", "RX_DROP_"],
        "qdisc" => &["QDISC_DROP_"],
        _ => &[],
    };
    prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

fn holds(proof: Proof, drop: &Drop, hints: &Hints) -> bool {
    match proof {
        Proof::EchoReply => icmp(drop).is_some_and(|icmp| is_echo_reply(drop, icmp)),
        Proof::Icmp => icmp(drop).is_some(),
        Proof::Reset => drop.packet.tcp.is_some_and(|tcp| tcp.flags & TCP_RST != 0),
        Proof::Multicast => is_to_many(drop, hints),
        Proof::BroadcastEcho => {
            icmp(drop).is_some_and(|icmp| is_echo(drop, icmp)) && is_to_many(drop, hints)
        }
        Proof::HasReason => hints.reason.is_some() && drop.packet.tcp.is_some(),
    }
}

fn icmp(drop: &Drop) -> Option<IcmpHeader> {
    drop.packet.icmp
}

fn is_v6(drop: &Drop) -> bool {
    drop.tuple
        .is_some_and(|tuple| tuple.protocol == protocol::ICMPV6)
}

fn is_echo_reply(drop: &Drop, icmp: IcmpHeader) -> bool {
    icmp.kind == if is_v6(drop) { 129 } else { 0 }
}

fn is_echo(drop: &Drop, icmp: IcmpHeader) -> bool {
    icmp.kind == if is_v6(drop) { 128 } else { 8 }
}

/// Was it sent to a group or to everyone? Broadcast addresses of subnets are known by the frame only (`PACKET_BROADCAST`).
fn is_to_many(drop: &Drop, hints: &Hints) -> bool {
    const PACKET_BROADCAST: u8 = 1;
    drop.tuple
        .is_some_and(|tuple| match tuple.destination.address {
            IpAddr::V4(address) => {
                address.is_multicast()
                    || address.is_broadcast()
                    || hints.packet_type == PACKET_BROADCAST
            }
            IpAddr::V6(address) => address.is_multicast(),
        })
}
