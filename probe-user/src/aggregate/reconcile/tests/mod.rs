use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::event::Netns;
use crate::kernel::counters::Counters;

mod drops;
mod namespaces;

const NAMES: [(u32, &str); 9] = [
    (3, "NO_SOCKET"),
    (6, "SOCKET_RCVBUFF"),
    (10, "UDP_CSUM"),
    (16, "IP_RPFILTER"),
    (20, "PROTO_MEM"),
    (29, "SOCKET_BACKLOG"),
    (32, "TCP_ZEROWINDOW"),
    (40, "TCP_LISTEN_OVERFLOW"),
    (64, "QDISC_DROP"),
];

fn name(code: u32) -> Option<Name> {
    NAMES
        .iter()
        .find(|(number, _)| *number == code)
        .map(|(_, name)| Arc::from(*name))
}

fn has(reason: &str) -> bool {
    NAMES.iter().any(|(_, name)| *name == reason)
}

fn code(reason: &str) -> u32 {
    NAMES.iter().find(|(_, name)| *name == reason).unwrap().0
}

const LINUX_6_18: Abilities<'static> = Abilities {
    failures_traced: true,
    reason_name: &name,
    has_reason: &has,
};
const LINUX_6_1: Abilities<'static> = Abilities {
    failures_traced: false,
    ..LINUX_6_18
};
const LINUX_5_10: Abilities<'static> = Abilities {
    failures_traced: false,
    reason_name: &|_| None,
    has_reason: &|_| false,
};

const A: RawNetns = RawNetns {
    cookie: 100,
    inode: 7,
    reserved: 0,
};

fn netns(raw: RawNetns) -> Netns {
    Netns {
        inode: raw.inode,
        cookie: (raw.cookie != 0).then_some(raw.cookie),
        name: None,
    }
}

fn counters(values: &[(Counter, u64)]) -> Counters {
    let mut counters = Counters::default();
    for counter in Counter::ALL {
        counters.set(*counter, 0);
    }
    for (counter, value) in values {
        counters.set(*counter, *value);
    }
    counters
}

/// One namespace with these four readings of one counter, the others 0.
fn ledger_of(netns: &Netns, counter: Counter, readings: [Option<u64>; 4]) -> Ledger {
    ledger_with(
        netns,
        readings.map(|value| value.map(|value| vec![(counter, value)])),
    )
}

fn ledger_with(netns: &Netns, readings: [Option<Vec<(Counter, u64)>>; 4]) -> Ledger {
    let mut ledger = Ledger::default();
    let moments = [
        Moment::BeforeAttach,
        Moment::AfterAttach,
        Moment::BeforeDetach,
        Moment::AfterDetach,
    ];
    for (moment, reading) in moments.into_iter().zip(readings) {
        ledger.record(
            moment,
            reading
                .iter()
                .map(|values| (netns.clone(), counters(values)))
                .collect(),
        );
    }
    ledger
}

fn ledger(counter: Counter, readings: [u64; 4]) -> Ledger {
    ledger_of(&netns(A), counter, readings.map(Some))
}

fn retransmit(
    netns: RawNetns,
    class: Class,
    outcome: Outcome,
    events: u64,
    segments: u64,
) -> (RetransmitCountKey, RetransmitCount) {
    (
        RetransmitCountKey {
            netns,
            class: class as u8,
            outcome: outcome as u8,
            reserved: [0; 6],
        },
        RetransmitCount {
            events,
            segments,
            matched: 0,
            no_record: 0,
            matched_segments: 0,
            matched_bytes: 0,
        },
    )
}

fn sent(class: Class, events: u64, segments: u64) -> (RetransmitCountKey, RetransmitCount) {
    retransmit(A, class, Outcome::Sent, events, segments)
}

fn dropped(
    netns: RawNetns,
    reason: &str,
    protocol: u8,
    ethertype: u16,
    packets: u64,
) -> (DropCountKey, DropCount) {
    (
        DropCountKey {
            netns,
            reason: code(reason),
            ethertype,
            protocol,
            domain: DropCountKey::DOMAIN_NETWORK,
        },
        DropCount {
            packets,
            segments: packets,
            matched: 0,
            no_record: 0,
        },
    )
}

fn retransmits(
    ledger: &Ledger,
    retransmits: &[(RetransmitCountKey, RetransmitCount)],
    abilities: &Abilities<'_>,
) -> Reconciliation {
    reconcile(
        ledger,
        Counted {
            retransmits,
            drops: &[],
        },
        abilities,
    )
}

fn drops(ledger: &Ledger, drops: &[(DropCountKey, DropCount)]) -> Reconciliation {
    reconcile(
        ledger,
        Counted {
            retransmits: &[],
            drops,
        },
        &LINUX_6_18,
    )
}

fn row<'a>(result: &'a Reconciliation, counter: &str) -> &'a ReconcileRow {
    result
        .rows
        .iter()
        .find(|row| row.counter == counter)
        .unwrap_or_else(|| panic!("no {counter} in {:#?}", result.rows))
}

/// `kernel`, `kernel_max`, `observed`, `unexplained`, `exact`
fn numbers(result: &Reconciliation, counter: &str) -> (u64, u64, u64, i64, bool) {
    let row = row(result, counter);
    (
        row.kernel,
        row.kernel_max,
        row.observed,
        row.unexplained,
        row.exact,
    )
}

#[test]
fn nothing_moved_nothing_to_say() {
    let result = retransmits(&ledger(Counter::TcpRetransSegs, [5; 4]), &[], &LINUX_6_18);
    assert_eq!(result, Reconciliation::default());
}

#[test]
fn every_class_is_part_of_its_counters() {
    let values = vec![
        (
            Counter::TcpRetransSegs,
            1 + 2 + 3 + 4 + 50 + 60 + 70 + 8 + 9 + 10 + 11,
        ),
        (Counter::TcpExtTCPFastRetrans, 110),
        (Counter::TcpExtTCPSlowStartRetrans, 78),
        (Counter::TcpExtTCPSynRetrans, 4),
        (Counter::TcpExtTCPRetransFail, 11),
        (Counter::TcpExtTCPTimeouts, 9),
        (Counter::TcpExtTCPLossProbes, 6),
        (Counter::TcpOutSegs, 684),
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
        sent(Class::Syn, 1, 1),
        sent(Class::SynAck, 2, 2),
        sent(Class::Rto, 3, 3),
        sent(Class::Tlp, 4, 4),
        sent(Class::Fast, 5, 50),
        sent(Class::RackTimer, 6, 60),
        sent(Class::SlowStart, 7, 70),
        sent(Class::NonCongestion, 8, 8),
        sent(Class::TfoFallback, 9, 9),
        sent(Class::ZeroWindow, 10, 10),
        retransmit(A, Class::Syn, Outcome::FailedLate, 1, 1),
        retransmit(A, Class::Fast, Outcome::FailedLate, 2, 10),
        retransmit(A, Class::Fast, Outcome::FailedEarly, 20, 1000),
    ];
    let result = retransmits(&ledger, &counted, &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (228, 228, 228, 0, true));
    assert_eq!(
        numbers(&result, "TcpExtTCPFastRetrans"),
        (110, 110, 110, 0, true)
    );
    assert_eq!(
        numbers(&result, "TcpExtTCPSlowStartRetrans"),
        (78, 78, 78, 0, true)
    );
    assert_eq!(numbers(&result, "TcpExtTCPSynRetrans"), (4, 4, 4, 0, true));
    assert_eq!(
        numbers(&result, "TcpExtTCPRetransFail"),
        (11, 11, 11, 0, true)
    );
    assert_eq!(numbers(&result, "TcpExtTCPTimeouts"), (9, 9, 5, 0, false));
    assert_eq!(numbers(&result, "TcpExtTCPLossProbes"), (6, 6, 4, 0, false));
    assert!(row(&result, "TcpExtTCPTimeouts").bound && !row(&result, "TcpRetransSegs").bound);
    assert_eq!(result.rows.len(), 7);
    assert_eq!(result.rates.len(), 1);
    assert!((result.rates[0].retransmitted_share - 228.0 / 912.0).abs() < 1e-12);
}

#[test]
fn what_is_left_over_is_shown_with_its_sign() {
    let ledger = ledger(Counter::TcpRetransSegs, [10, 10, 45, 45]);
    let result = retransmits(&ledger, &[sent(Class::Rto, 30, 30)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (35, 35, 30, 5, true));
    let result = retransmits(&ledger, &[sent(Class::Rto, 37, 37)], &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (35, 35, 37, -2, true));
}

#[test]
fn what_moved_while_attaching_may_or_may_not_have_been_seen() {
    let ledger = ledger(Counter::TcpRetransSegs, [10, 12, 40, 43]);
    let unexplained = |seen| {
        let result = retransmits(&ledger, &[sent(Class::Rto, seen, seen)], &LINUX_6_18);
        let (kernel, kernel_max, observed, unexplained, exact) = numbers(&result, "TcpRetransSegs");
        assert_eq!((kernel, kernel_max, observed, exact), (28, 33, seen, false));
        unexplained
    };
    assert_eq!([27, 28, 33, 34].map(unexplained), [1, 0, 0, -1]);
}

#[test]
fn a_bound_is_broken_only_when_more_was_seen_than_counted() {
    let ledger = ledger(Counter::TcpExtTCPTimeouts, [0, 0, 10, 12]);
    let unexplained = |seen| {
        let result = retransmits(&ledger, &[sent(Class::Rto, seen, seen)], &LINUX_6_18);
        row(&result, "TcpExtTCPTimeouts").unexplained
    };
    assert_eq!([0, 5, 12, 15].map(unexplained), [0, 0, 0, -3]);
}

#[test]
fn before_6_17_late_failures_are_known_from_their_counter_only() {
    let values = vec![
        (Counter::TcpRetransSegs, 20),
        (Counter::TcpExtTCPRetransFail, 4),
        (Counter::TcpExtTCPSynRetrans, 3),
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
    let counted = [sent(Class::Fast, 14, 14), sent(Class::Syn, 2, 2)];
    let result = retransmits(&ledger, &counted, &LINUX_6_1);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (20, 20, 20, 0, true));
    // Which of the four were SYNs is not known.
    assert_eq!(numbers(&result, "TcpExtTCPSynRetrans"), (0, 3, 2, 0, false));
    assert!(
        !result
            .rows
            .iter()
            .any(|row| row.counter == "TcpExtTCPRetransFail")
    );
    let result = retransmits(&ledger, &counted, &LINUX_6_18);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (20, 20, 16, 4, true));
    assert_eq!(numbers(&result, "TcpExtTCPRetransFail"), (4, 4, 0, 4, true));
}

#[test]
fn before_6_17_late_failures_while_attaching_widen_the_range() {
    let at = |segments, failed| {
        Some(vec![
            (Counter::TcpRetransSegs, segments),
            (Counter::TcpExtTCPRetransFail, failed),
        ])
    };
    let ledger = ledger_with(&netns(A), [at(0, 0), at(0, 1), at(20, 3), at(20, 3)]);
    let result = retransmits(&ledger, &[sent(Class::Fast, 18, 18)], &LINUX_6_1);
    assert_eq!(numbers(&result, "TcpRetransSegs"), (19, 20, 20, 0, false));
}

#[test]
fn a_counter_the_kernel_does_not_have_has_no_row() {
    let mut ledger = Ledger::default();
    ledger.record(Moment::BeforeAttach, vec![(netns(A), Counters::default())]);
    ledger.record(Moment::AfterDetach, vec![(netns(A), Counters::default())]);
    assert_eq!(
        retransmits(&ledger, &[sent(Class::Rto, 1, 1)], &LINUX_6_18).rows,
        []
    );
}

proptest! {
    #[test]
    fn unexplained_is_zero_inside_the_range_and_the_distance_outside(
        mut readings in prop::array::uniform4(0..1000_u64), seen in 0..1000_u64, failures_traced: bool
    ) {
        readings.sort_unstable();
        let ledger = ledger(Counter::TcpRetransSegs, readings);
        let abilities = Abilities { failures_traced, ..LINUX_6_18 };
        let result = retransmits(&ledger, &[sent(Class::Fast, seen, seen)], &abilities);
        if let Some(row) = result.rows.iter().find(|row| row.counter == "TcpRetransSegs") {
            let nearest = i64::try_from(seen.clamp(row.kernel, row.kernel_max)).unwrap();
            prop_assert_eq!(row.unexplained, nearest - i64::try_from(seen).unwrap());
        }
    }

    #[test]
    fn any_numbers_are_survived(readings in prop::array::uniform4(any::<u64>()), seen: u64, class: u8, outcome: u8, cookie: u64) {
        let ledger = ledger(Counter::TcpRetransSegs, readings);
        let key = RetransmitCountKey { netns: RawNetns { cookie, ..A }, class, outcome, reserved: [0; 6] };
        let count = sent(Class::Rto, seen, seen).1;
        for abilities in [LINUX_6_18, LINUX_6_1, LINUX_5_10] {
            let _result = retransmits(&ledger, &[(key, count), (key, count)], &abilities);
        }
    }
}
