//! Flows of interest: those that retransmitted, and those an explicit filter names.
//!
//! `tcp_probe` fires for every segment of every established connection: for a flow of no interest it does one lookup.

use aya_ebpf::programs::BtfTracePointContext;
use probe_common::{
    FlowState, RawFlowEnd, RawSample, RecordKind, flow::SAMPLE_INTERVAL_NS, packet::protocol,
    stats::Stat,
};

use crate::{
    emit::{Record, emit, now},
    globals::{filters, offset},
    maps::{FLOWS, count},
    read::{Memory, Typed},
    sock,
};

// SAFETY: begins with a header, plain numbers.
unsafe impl Record for RawSample {
    const KIND: RecordKind = RecordKind::Sample;
}
// SAFETY: begins with a header, plain numbers.
unsafe impl Record for RawFlowEnd {
    const KIND: RecordKind = RecordKind::FlowEnd;
}

const TCP_ESTABLISHED: u32 = 1;

/// `tcp_probe(sk, skb)`, at the top of `tcp_rcv_established` with the socket locked.
#[inline(always)]
pub(crate) fn tcp_probe(ctx: &BtfTracePointContext) {
    // SAFETY: sk is never NULL at this tracepoint.
    let sk = unsafe { Typed::argument(ctx, 0) };
    let Some(state) = FLOWS.get_ptr_mut(sk.address().0) else {
        return;
    };
    // SAFETY: a live map value; the socket is locked, so nobody else writes this entry.
    let state = unsafe { &mut *state };
    let now = now();
    if state.shown == 0 || now.wrapping_sub(state.sampled_ns) < SAMPLE_INTERVAL_NS {
        return;
    }
    state.sampled_ns = now;
    let Some(tcp) = sk.tcp_sock() else { return };
    emit::<RawSample>(|record| {
        sock::fill(&mut record.sock, tcp, sk.address());
        sock::fill_tcp(&mut record.tcp, tcp, sk.address());
    });
}

/// `inet_sock_set_state(sk, old, new)`: a flow that an explicit filter names is of interest from its first state on.
#[inline(always)]
pub(crate) fn set_state(ctx: &BtfTracePointContext) {
    let filters = filters();
    if filters.needs_tuple == 0 || filters.no_retransmits != 0 || filters.by_owner != 0 {
        return;
    }
    let new: u32 = ctx.arg(2);
    if new != TCP_ESTABLISHED {
        return;
    }
    // SAFETY: sk is never NULL at this tracepoint.
    let sk = unsafe { Typed::argument(ctx, 0) };
    let sk_protocol: u16 = sk.get(offset!(sk_protocol));
    if sk_protocol != u16::from(protocol::TCP) {
        return;
    }
    let address = sk.address();
    let netns = sock::netns_of_socket(address).unwrap_or(probe_common::RawNetns::UNKNOWN);
    let family = sk.get(offset!(skc_family));
    if !filters.matches_netns(netns)
        || !filters.matches_tuple(&sock::tuple(address, family, protocol::TCP))
    {
        return;
    }
    let Some(tcp) = sk.tcp_sock() else { return };
    let state = FlowState {
        cookie: tcp.get(offset!(skc_cookie)),
        sampled_ns: 0,
        total_retrans: tcp.get(offset!(total_retrans)),
        shown: 1,
    };
    if FLOWS.insert(address.0, state, 0).is_err() {
        count(Stat::MapBusy);
    }
}

/// `tcp_destroy_sock(sk)`: the counters of the whole life can still be read.
#[inline(always)]
pub(crate) fn destroy(ctx: &BtfTracePointContext) {
    // SAFETY: sk is never NULL at this tracepoint.
    let sk = unsafe { Typed::argument(ctx, 0) };
    let address = sk.address();
    // SAFETY: read-only.
    let Some(state) = (unsafe { FLOWS.get(address.0) }) else {
        return;
    };
    let shown = state.shown != 0;
    // The entry goes whether or not another CPU's LRU eviction was faster.
    let _gone = FLOWS.remove(address.0);
    if !shown {
        return;
    }
    let Some(tcp) = sk.tcp_sock() else { return };
    emit::<RawFlowEnd>(|record| {
        sock::fill(&mut record.sock, tcp, address);
        sock::fill_tcp(&mut record.tcp, tcp, address);
    });
}
