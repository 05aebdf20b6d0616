//! A TCP segment sent again: tracepoints `tcp:tcp_retransmit_skb` and `tcp:tcp_retransmit_synack`.

use crate::{Header, RawSock, RawTcp, wire};

/// What a retransmit is, by the state of the socket at the tracepoint. The counters of the kernel follow this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// SYN (or the SYN-ACK of a crossed open): `TCPSynRetrans`.
    Syn = 1,
    /// SYN-ACK from a request socket or a Fast Open child: `TCPSynRetrans`.
    SynAck = 2,
    /// First unacknowledged segment after the retransmission timer fired.
    Rto = 3,
    /// Tail loss probe.
    Tlp = 4,
    /// Loss repaired on the evidence of ACKs: `TCPFastRetrans`.
    Fast = 5,
    /// As `Fast`, but released by the RACK reordering timer: `TCPFastRetrans`.
    RackTimer = 6,
    /// Further segments after a timeout: `TCPSlowStartRetrans`.
    SlowStart = 7,
    /// Sent again without a congestion signal (path MTU change): `TCPSlowStartRetrans`.
    NonCongestion = 8,
    /// Data of a SYN with Fast Open that the peer did not take.
    TfoFallback = 9,
    /// The peer's window is closed and the timer fired.
    ZeroWindow = 10,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Syn,
        Self::SynAck,
        Self::Rto,
        Self::Tlp,
        Self::Fast,
        Self::RackTimer,
        Self::SlowStart,
        Self::NonCongestion,
        Self::TfoFallback,
        Self::ZeroWindow,
    ];

    /// The class with that number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Did the attempt leave TCP?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Sent: part of every total.
    Sent = 0,
    /// Given up before it was counted (Linux 6.17 on reports these).
    FailedEarly = 1,
    /// Refused after it was counted: part of `TcpRetransSegs` and of `TCPRetransFail` (Linux 6.17 on).
    FailedLate = 2,
}

impl Outcome {
    /// The outcome with that number, if there is one.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Sent,
            1 => Self::FailedEarly,
            2 => Self::FailedLate,
            _ => return None,
        })
    }
}

wire! {
    /// One retransmit, or one attempt at one.
    pub struct RawRetransmit {
        /// Kind [`crate::RecordKind::Retransmit`].
        pub header: Header,
        /// The socket; for a SYN-ACK the request (or the Fast Open child).
        pub sock: RawSock,
        /// Its TCP state; all 0 for the SYN-ACK of a request socket.
        pub tcp: RawTcp,
        /// First sequence number sent again.
        pub seq: u32,
        /// Sequence number after the last one sent again.
        pub end_seq: u32,
        /// Segments, as `TcpRetransSegs` counts them (`tcp_gso_segs`), at least 1.
        pub segments: u32,
        /// Payload bytes.
        pub bytes: u32,
        /// 0, a negative errno, or a positive `NET_XMIT` code of the local qdisc (Linux 6.17 on).
        pub error: i32,
        /// Consecutive attempt, counted from 1; 0 where it has no meaning.
        pub attempt: u32,
        /// [`Class`]
        pub class: u8,
        /// [`Outcome`]
        pub outcome: u8,
        /// TCP flags of the segment.
        pub tcp_flags: u8,
        /// `tcp_skb_cb.sacked`
        pub sacked: u8,
        /// [`RawRetransmit::HAS_TCP`] …
        pub flags: u32,
    }
}

impl RawRetransmit {
    /// `tcp` was read.
    pub const HAS_TCP: u32 = 1;
    /// The filters could not decide in the kernel (owner): user space must.
    pub const UNDECIDED: u32 = 1 << 2;
    /// `outcome` is a guess: the socket was older than the tracer.
    pub const OUTCOME_UNSURE: u32 = 1 << 1;
}
