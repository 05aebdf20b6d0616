//! Which counter stands for which events.
//!
//! Exact: the kernel counts and frees (or sends) in one place, once for each buffer. Bound: the counter also moves where
//! there is no event, so it can only be the larger of the two.

use probe_common::packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, protocol};

use crate::kernel::counters::Counter;

use protocol::{TCP, UDP};

/// Which drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drops {
    /// Without `SKB_DROP_REASON_`; one with `*` at the end stands for all that begin so.
    pub(super) reason: &'static str,
    pub(super) protocol: Option<u8>,
    pub(super) ethertype: Option<u16>,
}

impl Drops {
    const fn of(reason: &'static str, protocol: Option<u8>, ethertype: Option<u16>) -> Self {
        Self {
            reason,
            protocol,
            ethertype,
        }
    }

    pub(super) fn has(&self, reason: &str, protocol: u8, ethertype: u16) -> bool {
        let named = match self.reason.strip_suffix('*') {
            Some(prefix) => reason.starts_with(prefix),
            None => reason == self.reason,
        };
        named
            && self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.ethertype.is_none_or(|wanted| wanted == ethertype)
    }
}

/// A counter and the drops it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct DropRule {
    pub(super) counter: Counter,
    pub(super) drops: Drops,
    pub(super) bound: bool,
}

const fn exact(counter: Counter, drops: Drops) -> DropRule {
    DropRule {
        counter,
        drops,
        bound: false,
    }
}

const fn bound(counter: Counter, drops: Drops) -> DropRule {
    DropRule {
        counter,
        drops,
        bound: true,
    }
}

const IPV4: Option<u16> = Some(ETHERTYPE_IPV4);
const IPV6: Option<u16> = Some(ETHERTYPE_IPV6);

/// Used where the running kernel has the reason.
pub(super) const DROP_RULES: &[DropRule] = &[
    exact(
        Counter::UdpRcvbufErrors,
        Drops::of("SOCKET_RCVBUFF", Some(UDP), IPV4),
    ),
    exact(
        Counter::Udp6RcvbufErrors,
        Drops::of("SOCKET_RCVBUFF", Some(UDP), IPV6),
    ),
    exact(Counter::UdpNoPorts, Drops::of("NO_SOCKET", Some(UDP), IPV4)),
    exact(
        Counter::Udp6NoPorts,
        Drops::of("NO_SOCKET", Some(UDP), IPV6),
    ),
    // A checksum may be looked at only when the application reads: then freed without this reason.
    bound(
        Counter::UdpInCsumErrors,
        Drops::of("UDP_CSUM", Some(UDP), IPV4),
    ),
    bound(
        Counter::Udp6InCsumErrors,
        Drops::of("UDP_CSUM", Some(UDP), IPV6),
    ),
    bound(
        Counter::UdpMemErrors,
        Drops::of("PROTO_MEM", Some(UDP), IPV4),
    ),
    bound(
        Counter::Udp6MemErrors,
        Drops::of("PROTO_MEM", Some(UDP), IPV6),
    ),
    exact(
        Counter::TcpExtTCPBacklogDrop,
        Drops::of("SOCKET_BACKLOG", Some(TCP), None),
    ),
    exact(
        Counter::TcpExtTCPZeroWindowDrop,
        Drops::of("TCP_ZEROWINDOW", Some(TCP), None),
    ),
    bound(
        Counter::TcpInCsumErrors,
        Drops::of("TCP_CSUM", Some(TCP), None),
    ),
    bound(
        Counter::TcpExtTCPMinTTLDrop,
        Drops::of("TCP_MINTTL", Some(TCP), None),
    ),
    exact(
        Counter::TcpExtIPReversePathFilter,
        Drops::of("IP_RPFILTER", None, IPV4),
    ),
    bound(
        Counter::IpInAddrErrors,
        Drops::of("IP_INADDRERRORS", None, IPV4),
    ),
    bound(
        Counter::IpExtInNoRoutes,
        Drops::of("IP_INNOROUTES", None, IPV4),
    ),
    bound(
        Counter::IpInUnknownProtos,
        Drops::of("IP_NOPROTO", None, IPV4),
    ),
];

/// A counter of losses that have no event, or not always.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnseenRule {
    pub(super) counter: Counter,
    /// Those of them that have one.
    pub(super) drops: Drops,
    /// Drops that this counter already stands for are left out.
    pub(super) after: Option<Counter>,
    pub(super) meaning: &'static str,
}

const fn unseen(counter: Counter, drops: Drops, meaning: &'static str) -> UnseenRule {
    UnseenRule {
        counter,
        drops,
        after: None,
        meaning,
    }
}

pub(super) const UNSEEN_RULES: &[UnseenRule] = &[
    unseen(
        Counter::TcpExtListenDrops,
        Drops::of("TCP_LISTEN_OVERFLOW", Some(TCP), None),
        "connection attempts a listener refused, for whatever cause; a refused SYN is freed without a drop event",
    ),
    unseen(
        Counter::TcpExtListenOverflows,
        Drops::of("TCP_LISTEN_OVERFLOW", Some(TCP), None),
        "connection attempts refused because the accept queue was full: the application accepts too slowly, or its backlog is small",
    ),
    unseen(
        Counter::TcpExtTCPReqQFullDrop,
        Drops::of("", None, None),
        "SYNs refused because the SYN queue was full and SYN cookies are off",
    ),
    unseen(
        Counter::TcpExtTCPRcvQDrop,
        Drops::of("PROTO_MEM", Some(TCP), None),
        "TCP segments refused for lack of receive memory (tcp_rmem, tcp_mem, memory limit of the cgroup)",
    ),
    UnseenRule {
        counter: Counter::TcpExtTCPOFODrop,
        drops: Drops::of("PROTO_MEM", Some(TCP), None),
        after: Some(Counter::TcpExtTCPRcvQDrop),
        meaning: "out-of-order TCP segments refused for lack of receive memory",
    },
    unseen(
        Counter::TcpExtOfoPruned,
        Drops::of("TCP_OFO_QUEUE_PRUNE", Some(TCP), None),
        "out-of-order queues thrown away for lack of receive memory: the peer must send that data again",
    ),
    unseen(
        Counter::UdpSndbufErrors,
        Drops::of("QDISC_*", Some(UDP), IPV4),
        "datagrams an application could not send: its send buffer or the queue of the interface was full",
    ),
    unseen(
        Counter::Udp6SndbufErrors,
        Drops::of("QDISC_*", Some(UDP), IPV6),
        "datagrams an application could not send: its send buffer or the queue of the interface was full",
    ),
    unseen(
        Counter::IpOutNoRoutes,
        Drops::of("IP_OUTNOROUTES", None, IPV4),
        "sends refused because there is no route: the application got an error, there never was a packet",
    ),
    unseen(
        Counter::Ip6OutNoRoutes,
        Drops::of("IP_OUTNOROUTES", None, IPV6),
        "sends refused because there is no route: the application got an error, there never was a packet",
    ),
    unseen(
        Counter::TcpExtLockDroppedIcmps,
        Drops::of("", None, None),
        "ICMP errors ignored because the socket was in use; after a lost \"too big\" path MTU discovery stalls for a while",
    ),
];
