//! Retransmits. What the members of the socket say at these tracepoints, and when, decides the class: the first rule that fits.

use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::debug;
use probe_common::{
    Class, FlowState, RawRetransmit, RawSock, RawTuple, RecordKind, RetransmitCount,
    RetransmitCountKey, packet::protocol, retransmit::Outcome,
};

use crate::{
    emit::{Record, emit},
    globals::{filters, offset, setting},
    maps::{FLOWS, add, counter},
    read::{Address, Memory, Typed},
    sock,
};

// SAFETY: begins with a header, plain numbers.
unsafe impl Record for RawRetransmit {
    const KIND: RecordKind = RecordKind::Retransmit;
}

const TCP_SYN: u8 = 0x02;
const TCPCB_LOST: u8 = 0x04;
const TCPCB_EVER_RETRANS: u8 = 0x80;
const ICSK_TIME_RETRANS: u8 = 1;
const ICSK_TIME_LOSS_PROBE: u8 = 5;
const ICSK_TIME_REO_TIMEOUT: u8 = 6;
const CA_RECOVERY: u8 = 3;
const CA_LOSS: u8 = 4;
const EPERM: i32 = 1;
const ENOBUFS: i32 = 105;

/// What was sent again, and what its socket says about it.
struct Attempt {
    seq: u32,
    end_seq: u32,
    segments: u32,
    bytes: u32,
    error: i32,
    tcp_flags: u8,
    sacked: u8,
    pending: u8,
    ca_state: u8,
    retransmits: u8,
    total_retrans: u32,
}

/// `tcp_retransmit_skb(sk, skb[, err])`, at the end of `__tcp_retransmit_skb` with the socket locked.
#[inline(always)]
pub(crate) fn skb(ctx: &BtfTracePointContext) {
    // SAFETY: sk is never NULL at this tracepoint.
    let sk = unsafe { Typed::argument(ctx, 0) };
    // SAFETY: nor is skb.
    let skb = unsafe { Typed::argument(ctx, 1) };
    let Some(tcp) = sk.tcp_sock() else { return };
    let attempt = read(ctx, tcp, skb);
    let class = classify(tcp, &attempt);
    let address = sk.address();
    let (outcome, unsure) = outcome(address, &attempt);

    debug!(
        ctx,
        "retransmit class {} outcome {}: err {} pending {} ca_state {} sacked {} retransmits {} total_retrans {}",
        class as u8,
        outcome as u8,
        attempt.error,
        attempt.pending,
        attempt.ca_state,
        attempt.sacked,
        attempt.retransmits,
        attempt.total_retrans
    );

    let netns = sock::netns_of_socket(address).unwrap_or(probe_common::RawNetns::UNKNOWN);
    let key = RetransmitCountKey {
        netns,
        class: class as u8,
        outcome: outcome as u8,
        reserved: [0; 6],
    };
    let Some(count) = counter!(RETRANSMIT_COUNTS, key, ZERO) else {
        return;
    };
    // SAFETY: a live map value of this CPU.
    let count = unsafe { &mut *count };
    add(&mut count.events, 1);
    add(&mut count.segments, u64::from(attempt.segments));

    let filters = filters();
    let shown = filters.no_retransmits == 0 && filters.matches_netns(netns) && {
        filters.needs_tuple == 0 || {
            let family = tcp.get(offset!(skc_family));
            filters.matches_tuple(&sock::tuple(address, family, protocol::TCP))
        }
    };
    remember(address, tcp, attempt.total_retrans, shown);
    if !shown {
        return;
    }
    add(&mut count.matched, 1);
    add(&mut count.matched_segments, u64::from(attempt.segments));
    add(&mut count.matched_bytes, u64::from(attempt.bytes));
    let emitted = emit::<RawRetransmit>(|record| {
        record.flags = RawRetransmit::HAS_TCP
            | if unsure {
                RawRetransmit::OUTCOME_UNSURE
            } else {
                0
            }
            | if filters.by_owner != 0 {
                RawRetransmit::UNDECIDED
            } else {
                0
            };
        record.class = class as u8;
        record.outcome = outcome as u8;
        record.seq = attempt.seq;
        record.end_seq = attempt.end_seq;
        record.segments = attempt.segments;
        record.bytes = attempt.bytes;
        record.error = attempt.error;
        record.attempt = match class {
            Class::Syn | Class::Rto => u32::from(attempt.retransmits),
            _ => 0,
        };
        record.tcp_flags = attempt.tcp_flags;
        record.sacked = attempt.sacked;
        sock::fill(&mut record.sock, tcp, address);
        sock::fill_tcp(&mut record.tcp, tcp, address);
    });
    if !emitted {
        add(&mut count.no_record, 1);
    }
}

const ZERO: RetransmitCount = RetransmitCount {
    events: 0,
    segments: 0,
    matched: 0,
    no_record: 0,
    matched_segments: 0,
    matched_bytes: 0,
};

#[inline(always)]
fn read(ctx: &BtfTracePointContext, tcp: Typed, skb: Typed) -> Attempt {
    let cb = skb.address().member(offset!(skb_cb));
    let segments: u16 = cb.get(offset!(cb_gso_segs));
    Attempt {
        seq: cb.get(offset!(cb_seq)),
        end_seq: cb.get(offset!(cb_end_seq)),
        segments: if segments == 0 {
            1
        } else {
            u32::from(segments)
        },
        bytes: skb.get(offset!(skb_len)),
        error: if setting!(FEATURES.retransmit_err) != 0 {
            ctx.arg(2)
        } else {
            0
        },
        tcp_flags: cb.get(offset!(cb_tcp_flags)),
        sacked: cb.get(offset!(cb_sacked)),
        pending: tcp.get(offset!(icsk_pending)),
        ca_state: tcp.bits(offset!(icsk_ca_state)),
        retransmits: tcp.get(offset!(icsk_retransmits)),
        total_retrans: tcp.get(offset!(total_retrans)),
    }
}

#[inline(always)]
fn classify(tcp: Typed, attempt: &Attempt) -> Class {
    if attempt.tcp_flags & TCP_SYN != 0 {
        return Class::Syn;
    }
    let lost = attempt.sacked & TCPCB_LOST != 0;
    // Fast retransmits often run while the probe timer is still pending, but only of segments marked lost.
    if attempt.pending == ICSK_TIME_LOSS_PROBE && !lost {
        return Class::Tlp;
    }
    let state: u8 = tcp.get(offset!(skc_state));
    if attempt.pending == 0 {
        // tcp_write_timer_handler() clears it before the timer's work, and nothing else retransmits with 0.
        let window: u32 = tcp.get(offset!(snd_wnd));
        let past_handshake = state != 2 && state != 3;
        return if window == 0 && past_handshake {
            Class::ZeroWindow
        } else {
            Class::Rto
        };
    }
    let undo_marker: u32 = tcp.get(offset!(undo_marker));
    let snd_una: u32 = tcp.get(offset!(snd_una));
    if attempt.pending == ICSK_TIME_RETRANS
        && attempt.ca_state == CA_LOSS
        && attempt.seq == snd_una
        && attempt.retransmits >= 2
    {
        // An ICMP unreachable ran the timer early (tcp_ld_RTO_revert).
        return Class::Rto;
    }
    if !lost && attempt.pending == ICSK_TIME_RETRANS && attempt.ca_state != CA_LOSS {
        // Linux 5.10: the data of a Fast Open SYN is sent again directly.
        return Class::TfoFallback;
    }
    match attempt.ca_state {
        CA_LOSS if undo_marker == 0 => Class::NonCongestion,
        CA_LOSS => Class::SlowStart,
        CA_RECOVERY if attempt.pending == ICSK_TIME_REO_TIMEOUT => Class::RackTimer,
        _ => Class::Fast,
    }
}

/// Was it counted by the kernel? The second value: it is a guess.
#[inline(always)]
fn outcome(sock: Address, attempt: &Attempt) -> (Outcome, bool) {
    if attempt.error == 0 {
        return (Outcome::Sent, false);
    }
    if attempt.error > 0 {
        return (Outcome::FailedLate, false);
    }
    // From Linux 6.17 on, where failures are reported at all, the mark is set just before the segment is counted.
    if attempt.sacked & TCPCB_EVER_RETRANS == 0 {
        return (Outcome::FailedEarly, false);
    }
    // SAFETY: read-only; at worst another socket's numbers, if the entry was just recycled.
    if let Some(state) = unsafe { FLOWS.get(sock.0) } {
        let moved = attempt.total_retrans != state.total_retrans;
        return (
            if moved {
                Outcome::FailedLate
            } else {
                Outcome::FailedEarly
            },
            false,
        );
    }
    if attempt.total_retrans < attempt.segments {
        return (Outcome::FailedEarly, false);
    }
    if attempt.total_retrans == attempt.segments {
        return (Outcome::FailedLate, false);
    }
    match -attempt.error {
        EPERM | ENOBUFS => (Outcome::FailedLate, true),
        _ => (Outcome::FailedEarly, true),
    }
}

/// Makes the socket one of interest.
#[inline(always)]
fn remember(sock: Address, tcp: Typed, total_retrans: u32, shown: bool) {
    if let Some(state) = FLOWS.get_ptr_mut(sock.0) {
        // SAFETY: a live map value; the socket is locked, so nobody else writes this entry.
        let state = unsafe { &mut *state };
        state.total_retrans = total_retrans;
        return;
    }
    let state = FlowState {
        cookie: tcp.get(offset!(skc_cookie)),
        sampled_ns: 0,
        total_retrans,
        shown: u32::from(shown),
    };
    if FLOWS.insert(sock.0, state, 0).is_err() {
        crate::maps::count(probe_common::stats::Stat::MapBusy);
    }
}

/// `tcp_retransmit_synack(sk, req)`: a SYN-ACK was sent again; `req->num_retrans` does not include it yet.
#[inline(always)]
pub(crate) fn synack(ctx: &BtfTracePointContext) {
    // SAFETY: sk is never NULL at this tracepoint.
    let sk = unsafe { Typed::argument(ctx, 0) };
    let request = Address::argument(ctx, 1);
    let netns = sock::netns_of_socket(sk.address()).unwrap_or(probe_common::RawNetns::UNKNOWN);
    let key = RetransmitCountKey {
        netns,
        class: Class::SynAck as u8,
        outcome: Outcome::Sent as u8,
        reserved: [0; 6],
    };
    let Some(count) = counter!(RETRANSMIT_COUNTS, key, ZERO) else {
        return;
    };
    // SAFETY: a live map value of this CPU.
    let count = unsafe { &mut *count };
    add(&mut count.events, 1);
    add(&mut count.segments, 1);

    let tuple = if request.is_kernel() {
        sock::tuple(request, request.get(offset!(skc_family)), protocol::TCP)
    } else {
        RawTuple::NONE
    };
    let filters = filters();
    if filters.no_retransmits != 0
        || !filters.matches_netns(netns)
        || (filters.needs_tuple != 0 && !filters.matches_tuple(&tuple))
    {
        return;
    }
    add(&mut count.matched, 1);
    add(&mut count.matched_segments, 1);
    let emitted = emit::<RawRetransmit>(|record| {
        record.flags = if filters.by_owner != 0 {
            RawRetransmit::UNDECIDED
        } else {
            0
        };
        record.class = Class::SynAck as u8;
        record.outcome = Outcome::Sent as u8;
        record.segments = 1;
        record.tcp_flags = TCP_SYN | 0x10;
        // The listener (or the Fast Open child) owns what is not accepted yet.
        sock::fill_owner(&mut record.sock, sk, sk.address());
        record.sock.tuple = tuple;
        if request.is_kernel() {
            record.sock.address = request.0;
            record.sock.cookie = request.get(offset!(skc_cookie));
            record.sock.state = request.get(offset!(skc_state));
            record.sock.present = RawSock::PRESENT_MINI;
            record.attempt = u32::from(request.get::<u8>(offset!(num_retrans))) + 1;
        }
    });
    if !emitted {
        add(&mut count.no_record, 1);
    }
}
