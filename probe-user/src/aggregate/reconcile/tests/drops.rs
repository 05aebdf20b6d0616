use super::*;

#[test]
fn drops_are_held_against_their_counters() {
    let values = vec![
        (Counter::UdpRcvbufErrors, 100),
        (Counter::Udp6RcvbufErrors, 7),
        (Counter::UdpNoPorts, 3),
        (Counter::UdpInCsumErrors, 5),
        (Counter::TcpExtTCPBacklogDrop, 9),
        (Counter::TcpExtIPReversePathFilter, 4),
    ];
    let ledger = ledger_with(
        &netns(A),
        [
            Some(vec![]),
            Some(vec![]),
            Some(values.clone()),
            Some(values),
        ],
    );
    let mut unix = dropped(A, "SOCKET_RCVBUFF", 17, 0x0800, 1000);
    unix.0.domain = DropCountKey::DOMAIN_PACKET;
    let counted = [
        dropped(A, "SOCKET_RCVBUFF", 17, 0x0800, 100),
        dropped(A, "SOCKET_RCVBUFF", 17, 0x86dd, 7),
        dropped(A, "SOCKET_RCVBUFF", 1, 0x0800, 50),
        unix,
        dropped(A, "NO_SOCKET", 17, 0x0800, 2),
        dropped(A, "NO_SOCKET", 6, 0x0800, 77),
        dropped(A, "UDP_CSUM", 17, 0x0800, 3),
        dropped(A, "SOCKET_BACKLOG", 6, 0x0800, 5),
        dropped(A, "SOCKET_BACKLOG", 6, 0x86dd, 4),
        dropped(A, "IP_RPFILTER", 1, 0x0800, 4),
    ];
    let result = drops(&ledger, &counted);
    assert_eq!(
        numbers(&result, "UdpRcvbufErrors"),
        (100, 100, 100, 0, true)
    );
    assert_eq!(numbers(&result, "Udp6RcvbufErrors"), (7, 7, 7, 0, true));
    assert_eq!(numbers(&result, "UdpNoPorts"), (3, 3, 2, 1, true));
    assert_eq!(numbers(&result, "UdpInCsumErrors"), (5, 5, 3, 0, false));
    assert_eq!(numbers(&result, "TcpExtTCPBacklogDrop"), (9, 9, 9, 0, true));
    assert_eq!(
        numbers(&result, "TcpExtIPReversePathFilter"),
        (4, 4, 4, 0, true)
    );
    assert_eq!(result.rows.len(), 6);
}

#[test]
fn a_kernel_without_the_reason_has_no_row_for_it() {
    let ledger = ledger(Counter::UdpRcvbufErrors, [0, 0, 5, 5]);
    assert_eq!(reconcile(&ledger, Counted::default(), &LINUX_5_10).rows, []);
    // IP_INADDRERRORS is not among the names above.
    let ledger = self::ledger(Counter::IpInAddrErrors, [0, 0, 5, 5]);
    assert_eq!(drops(&ledger, &[]).rows, []);
}

#[test]
fn a_full_accept_queue_is_seen_only_by_counters() {
    let values = vec![
        (Counter::TcpExtListenDrops, 16),
        (Counter::TcpExtListenOverflows, 16),
        (Counter::TcpExtTCPRcvQDrop, 3),
        (Counter::TcpExtTCPOFODrop, 4),
        (Counter::UdpSndbufErrors, 2),
    ];
    let ledger = ledger_with(
        &netns(A),
        [
            Some(vec![]),
            Some(vec![]),
            Some(values.clone()),
            Some(values),
        ],
    );
    let counted = [
        dropped(A, "TCP_LISTEN_OVERFLOW", 6, 0x0800, 6),
        dropped(A, "PROTO_MEM", 6, 0x0800, 5),
        dropped(A, "QDISC_DROP", 17, 0x0800, 2),
    ];
    let found = drops(&ledger, &counted).counters_only;
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.counter, one.delta, one.observed, one.unseen))
        .collect();
    assert_eq!(
        found,
        [
            ("TcpExtListenDrops", 16, 6, 10),
            ("TcpExtListenOverflows", 16, 6, 10),
            ("TcpExtTCPOFODrop", 4, 2, 2)
        ]
    );
}
