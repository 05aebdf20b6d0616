use super::*;

#[test]
fn a_namespace_that_began_while_tracing_began_at_zero() {
    let ledger = ledger_of(
        &netns(A),
        Counter::TcpRetransSegs,
        [None, None, Some(8), Some(8)],
    );
    let result = retransmits(&ledger, &[sent(Class::Rto, 8, 8)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (8, 8, 8, 0, true));
    // It may have been there, out of sight.
    let result = retransmits(&ledger, &[sent(Class::Rto, 6, 6)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (8, 8, 6, 2, false));
}

#[test]
fn a_namespace_that_began_while_attaching_began_at_zero_somewhere_in_between() {
    let ledger = ledger_of(
        &netns(A),
        Counter::TcpRetransSegs,
        [None, Some(3), Some(8), Some(8)],
    );
    let result = retransmits(&ledger, &[sent(Class::Rto, 7, 7)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (5, 8, 7, 0, false));
}

#[test]
fn of_a_namespace_that_ended_the_last_reading_is_a_lower_bound() {
    let mut ledger = Ledger::default();
    let at = |value| vec![(netns(A), counters(&[(Counter::TcpRetransSegs, value)]))];
    ledger.record(Moment::BeforeAttach, at(1));
    ledger.record(Moment::AfterAttach, at(1));
    ledger.record(Moment::Running, at(5));
    ledger.record(Moment::Running, at(11));
    ledger.end(&netns(A));
    ledger.record(Moment::BeforeDetach, vec![]);
    ledger.record(Moment::AfterDetach, vec![]);
    let result = retransmits(&ledger, &[sent(Class::Rto, 14, 14)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (10, 14, 14, 0, false));
    assert!(row(&result, "TcpRetransSegs").ended);
    let result = retransmits(&ledger, &[sent(Class::Rto, 8, 8)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (10, 10, 8, 2, false));
}

#[test]
fn a_summary_in_between_is_replaced_by_the_next() {
    let mut ledger = ledger(Counter::TcpRetransSegs, [0, 0, 5, 5]);
    let result = retransmits(&ledger, &[sent(Class::Rto, 5, 5)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (5, 5, 5, 0, true));
    let at = |value| vec![(netns(A), counters(&[(Counter::TcpRetransSegs, value)]))];
    ledger.record(Moment::BeforeDetach, at(9));
    ledger.record(Moment::AfterDetach, at(9));
    let result = retransmits(&ledger, &[sent(Class::Rto, 9, 9)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (9, 9, 9, 0, true));
    // It ends: the pair of the last summary is the last reading.
    ledger.end(&netns(A));
    ledger.record(Moment::BeforeDetach, vec![]);
    ledger.record(Moment::AfterDetach, vec![]);
    let result = retransmits(&ledger, &[sent(Class::Rto, 10, 10)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (9, 10, 10, 0, false));
}

#[test]
fn a_namespace_that_was_only_out_of_sight_has_not_ended() {
    let mut ledger = ledger(Counter::TcpRetransSegs, [0, 0, 5, 5]);
    ledger.end(&netns(A));
    ledger.record(
        Moment::BeforeDetach,
        vec![(netns(A), counters(&[(Counter::TcpRetransSegs, 6)]))],
    );
    ledger.record(
        Moment::AfterDetach,
        vec![(netns(A), counters(&[(Counter::TcpRetransSegs, 6)]))],
    );
    let result = retransmits(&ledger, &[sent(Class::Rto, 6, 6)], &LINUX_6_18);
    assert!(!row(&result, "TcpRetransSegs").ended && row(&result, "TcpRetransSegs").exact);
}

#[test]
fn an_inode_number_used_twice_is_two_namespaces() {
    let second = RawNetns { cookie: 200, ..A };
    let mut ledger = ledger(Counter::TcpRetransSegs, [0, 0, 5, 5]);
    ledger.end(&netns(A));
    ledger.record(
        Moment::BeforeDetach,
        vec![(netns(second), counters(&[(Counter::TcpRetransSegs, 3)]))],
    );
    ledger.record(
        Moment::AfterDetach,
        vec![(netns(second), counters(&[(Counter::TcpRetransSegs, 3)]))],
    );
    let counted = [
        sent(Class::Rto, 5, 5),
        retransmit(second, Class::Rto, Outcome::Sent, 3, 3),
    ];
    let result = retransmits(&ledger, &counted, &LINUX_6_18);
    let rows: Vec<_> = result
        .rows
        .iter()
        .filter(|row| row.counter == "TcpRetransSegs")
        .collect();
    assert_eq!(
        rows.iter()
            .map(|row| (row.netns.cookie, row.observed, row.ended))
            .collect::<Vec<_>>(),
        [(Some(100), 5, true), (Some(200), 3, false)]
    );
}

#[test]
fn without_cookies_the_inode_number_decides() {
    let old = Netns {
        inode: 7,
        cookie: None,
        name: None,
    };
    let ledger = ledger_of(&old, Counter::TcpRetransSegs, [0, 0, 5, 5].map(Some));
    for raw in [A, RawNetns { cookie: 0, ..A }] {
        let result = retransmits(
            &ledger,
            &[retransmit(raw, Class::Rto, Outcome::Sent, 5, 5)],
            &LINUX_5_10,
        );
        assert_eq!(numbers(&result, "TcpRetransSegs"), (5, 5, 5, 0, true));
    }
}

#[test]
fn namespaces_without_a_reading_are_named() {
    let other = RawNetns {
        cookie: 900,
        inode: 9,
        reserved: 0,
    };
    let result = retransmits(
        &ledger(Counter::TcpRetransSegs, [0; 4]),
        &[retransmit(other, Class::Rto, Outcome::Sent, 5, 5)],
        &LINUX_6_18,
    );
    assert_eq!((result.rows.len(), result.unread), (0, vec![other]));
}

#[test]
fn drops_of_an_unknown_namespace_may_be_any_ones() {
    let ledger = ledger(Counter::TcpExtTCPBacklogDrop, [0, 0, 9, 9]);
    let counted = [
        dropped(A, "SOCKET_BACKLOG", 6, 0x0800, 2),
        dropped(RawNetns::UNKNOWN, "SOCKET_BACKLOG", 6, 0x0800, 6),
    ];
    assert_eq!(
        numbers(&drops(&ledger, &counted), "TcpExtTCPBacklogDrop"),
        (3, 9, 2, 1, false)
    );
    let counted = [
        counted[0],
        dropped(RawNetns::UNKNOWN, "SOCKET_BACKLOG", 6, 0x0800, 7),
    ];
    assert_eq!(
        numbers(&drops(&ledger, &counted), "TcpExtTCPBacklogDrop"),
        (2, 9, 2, 0, false)
    );
}

#[test]
fn ended_namespaces_are_forgotten_when_there_are_too_many() {
    let mut ledger = Ledger::default();
    for cookie in 1..2000 {
        let netns = Netns {
            inode: 7,
            cookie: Some(cookie),
            name: None,
        };
        ledger.record(Moment::Running, vec![(netns.clone(), counters(&[]))]);
        ledger.end(&netns);
    }
    assert_eq!((ledger.accounts.len(), ledger.forgotten()), (1024, 975));
}
