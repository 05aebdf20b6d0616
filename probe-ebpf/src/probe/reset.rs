//! Connection resets.

use aya_ebpf::programs::BtfTracePointContext;
use probe_common::{RawNetns, RawReset, RawTuple, RecordKind, packet};

use crate::{
    emit::{Record, emit},
    globals::{filters, offset, setting},
    read::{Address, Memory},
    skb::{self, Packet},
    sock,
};

// SAFETY: begins with a header, plain numbers.
unsafe impl Record for RawReset {
    const KIND: RecordKind = RecordKind::Reset;
}

/// `tcp_receive_reset(sk)`: an RST was accepted; the state is still the old one.
#[inline(always)]
pub(crate) fn received(ctx: &BtfTracePointContext) {
    report(Address::argument(ctx, 0), Address(0), 0, 0);
}

/// `tcp_send_reset(sk, skb[, reason])`: `skb` is what is answered, NULL for an active reset; `sk` may be NULL, a `TIME_WAIT` or a
/// request socket.
#[inline(always)]
pub(crate) fn sent(ctx: &BtfTracePointContext) {
    let has_reason = setting!(FEATURES.send_reset_reason) != 0;
    let reason = if has_reason { ctx.arg::<u32>(2) } else { 0 };
    let flags = RawReset::SENT | if has_reason { RawReset::HAS_REASON } else { 0 };
    report(
        Address::argument(ctx, 0),
        Address::argument(ctx, 1),
        reason,
        flags,
    );
}

#[inline(always)]
fn report(sk: Address, answered: Address, reason: u32, flags: u32) {
    let filters = filters();
    if filters.no_resets != 0 || (filters.by_owner != 0 && !sk.is_kernel()) {
        return;
    }
    let (netns, tuple) = if sk.is_kernel() {
        let family = sk.get(offset!(skc_family));
        let netns = sock::netns_of_socket(sk).unwrap_or(RawNetns::UNKNOWN);
        let mut tuple = sock::tuple(sk, family, packet::protocol::TCP);
        if tuple.source_port == 0 {
            // A socket that closes has given its port back; it still knows which it was.
            tuple.source_port = sock::bound_port(sk);
        }
        (netns, tuple)
    } else if answered.is_kernel() {
        let netns = skb::netns_of_device(Address(answered.get(offset!(skb_dev))))
            .or_else(|| skb::netns_of_route(answered));
        let Some(scratch) = skb::Scratch::enter(&skb::RESET_HEADERS) else {
            return;
        };
        let packet = Packet::read(answered, &scratch);
        let tuple = packet::ip(&packet.headers, 0).map_or(RawTuple::NONE, |ip| answer(&ip.tuple));
        scratch.leave();
        (netns.unwrap_or(RawNetns::UNKNOWN), tuple)
    } else {
        (RawNetns::UNKNOWN, RawTuple::NONE)
    };
    if !filters.matches_netns(netns) || (filters.needs_tuple != 0 && !filters.matches_tuple(&tuple))
    {
        return;
    }
    emit::<RawReset>(|record| {
        record.netns = netns;
        record.tuple = tuple;
        record.reason = reason;
        record.flags = flags;
        if sk.is_kernel() {
            sock::fill(&mut record.sock, sk, sk);
        }
    });
}

/// The tuple of the answer to a packet.
#[inline(always)]
fn answer(tuple: &RawTuple) -> RawTuple {
    RawTuple {
        source: tuple.destination,
        destination: tuple.source,
        source_port: tuple.destination_port,
        destination_port: tuple.source_port,
        ..*tuple
    }
}
