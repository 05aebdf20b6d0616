//! The state of a TCP socket.

use serde::Serialize;

use crate::event::{self, TcpState};
use crate::sink::names;

/// What `ss -ti` shows.
#[derive(Debug, Serialize)]
pub(super) struct Tcp<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    srtt_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rttvar_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto_us: Option<u64>,
    cwnd: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u32>,
    mss: u32,
    pmtu: u32,
    snd_wnd: u32,
    snd_una: u32,
    snd_nxt: u32,
    packets_out: u32,
    retrans_out: u32,
    lost_out: u32,
    sacked_out: u32,
    reordering: u32,
    reord_seen: u32,
    dsack_dups: u32,
    total_retrans: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    bytes_acked: u64,
    segs_out: u32,
    data_segs_out: u32,
    segs_in: u32,
    delivered: u32,
    delivered_ce: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rwnd_limited_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sndbuf_limited_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate_bytes_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_control: Option<&'a str>,
}

impl<'a> Tcp<'a> {
    pub(super) fn new(tcp: &'a event::TcpInfo) -> Self {
        Self {
            state: TcpState(tcp.state).name(),
            ..Self::without_state(tcp)
        }
    }

    /// For a retransmit, which says the state itself.
    pub(super) fn without_state(tcp: &'a event::TcpInfo) -> Self {
        Self {
            state: None,
            ca_state: names::ca_state(tcp.ca_state),
            srtt_us: tcp.srtt_us,
            rttvar_us: tcp.rttvar_us,
            min_rtt_us: tcp.min_rtt_us,
            rto_us: tcp.rto_us,
            cwnd: tcp.cwnd,
            ssthresh: tcp.ssthresh,
            mss: tcp.mss,
            pmtu: tcp.pmtu,
            snd_wnd: tcp.snd_wnd,
            snd_una: tcp.snd_una,
            snd_nxt: tcp.snd_nxt,
            packets_out: tcp.packets_out,
            retrans_out: tcp.retrans_out,
            lost_out: tcp.lost_out,
            sacked_out: tcp.sacked_out,
            reordering: tcp.reordering,
            reord_seen: tcp.reord_seen,
            dsack_dups: tcp.dsack_dups,
            total_retrans: tcp.total_retrans,
            bytes_sent: tcp.bytes_sent,
            bytes_retrans: tcp.bytes_retrans,
            bytes_acked: tcp.bytes_acked,
            segs_out: tcp.segs_out,
            data_segs_out: tcp.data_segs_out,
            segs_in: tcp.segs_in,
            delivered: tcp.delivered,
            delivered_ce: tcp.delivered_ce,
            busy_us: tcp.busy_us,
            rwnd_limited_us: tcp.rwnd_limited_us,
            sndbuf_limited_us: tcp.sndbuf_limited_us,
            pacing_rate_bytes_per_s: tcp.pacing_rate_bytes_per_s,
            congestion_control: tcp.congestion_control.as_deref(),
        }
    }
}
