//! A socket's TCP state in the units of `ss -ti`.

use probe_common::RawTcp;

use super::names::Names;
use crate::event::TcpInfo;

/// `snd_ssthresh` before it was ever set (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

pub(super) fn info(raw: &RawTcp, hz: Option<u32>, names: &mut Names) -> TcpInfo {
    let has_rtt = raw.srtt_8us != 0;
    let [busy, rwnd, sndbuf] = limits(raw);
    let us = |jiffies: u64| hz.map(|hz| jiffies.saturating_mul(1_000_000) / u64::from(hz));
    TcpInfo {
        state: raw.state,
        ca_state: raw.ca_state,
        srtt_us: has_rtt.then_some(raw.srtt_8us / 8),
        rttvar_us: has_rtt.then_some(raw.mdev_4us / 4),
        min_rtt_us: (raw.min_rtt_us != u32::MAX).then_some(raw.min_rtt_us),
        rto_us: us(raw.rto_jiffies.into()),
        cwnd: raw.snd_cwnd,
        ssthresh: (raw.snd_ssthresh < INFINITE_SSTHRESH).then_some(raw.snd_ssthresh),
        mss: raw.mss_cache,
        pmtu: raw.pmtu,
        snd_wnd: raw.snd_wnd,
        snd_una: raw.snd_una,
        snd_nxt: raw.snd_nxt,
        packets_out: raw.packets_out,
        retrans_out: raw.retrans_out,
        lost_out: raw.lost_out,
        sacked_out: raw.sacked_out,
        reordering: raw.reordering,
        reord_seen: raw.reord_seen,
        dsack_dups: raw.dsack_dups,
        total_retrans: raw.total_retrans,
        bytes_sent: raw.bytes_sent,
        bytes_retrans: raw.bytes_retrans,
        bytes_acked: raw.bytes_acked,
        segs_out: raw.segs_out,
        data_segs_out: raw.data_segs_out,
        segs_in: raw.segs_in,
        delivered: raw.delivered,
        delivered_ce: raw.delivered_ce,
        busy_us: us(busy + rwnd + sndbuf),
        rwnd_limited_us: us(rwnd),
        sndbuf_limited_us: us(sndbuf),
        pacing_rate_bytes_per_s: (raw.pacing_rate != u64::MAX).then_some(raw.pacing_rate),
        congestion_control: names.fixed(&raw.congestion_control),
        backoff: raw.backoff,
    }
}

/// Jiffies spent busy (and nothing else), limited by the receiver's window, limited by the send buffer. `chrono_stat`
/// holds finished spans; the span that runs now began at `chrono_start`.
fn limits(raw: &RawTcp) -> [u64; 3] {
    let mut spans = raw.chrono_stat.map(u64::from);
    // The start is read a moment after the jiffies: never let a small negative span become a huge one.
    let running = raw.jiffies.wrapping_sub(raw.chrono_start);
    if running.cast_signed() > 0
        && let Some(span) = usize::from(raw.chrono_type)
            .checked_sub(1)
            .and_then(|active| spans.get_mut(active))
    {
        *span += u64::from(running);
    }
    spans
}
