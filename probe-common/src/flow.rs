//! Flows of interest: samples while they live, a last look when they end.

use crate::{Header, RawSock, RawTcp, wire};

wire! {
    /// A flow's state at an arriving segment: tracepoint `tcp:tcp_probe`, at a bounded rate.
    pub struct RawSample {
        /// Kind [`crate::RecordKind::Sample`].
        pub header: Header,
        /// The socket.
        pub sock: RawSock,
        /// Its TCP state.
        pub tcp: RawTcp,
    }
}

wire! {
    /// A flow's last state: tracepoint `tcp:tcp_destroy_sock`.
    pub struct RawFlowEnd {
        /// Kind [`crate::RecordKind::FlowEnd`].
        pub header: Header,
        /// The socket.
        pub sock: RawSock,
        /// Its TCP state.
        pub tcp: RawTcp,
    }
}

wire! {
    /// What the kernel programs remember of a socket of interest; keyed by the socket's address.
    pub struct FlowState {
        /// `skc_cookie` or 0: guards against a reused address.
        pub cookie: u64,
        /// When the last [`RawSample`] was sent, ns.
        pub sampled_ns: u64,
        /// `total_retrans` after the last retransmit seen: tells late from early failures.
        pub total_retrans: u32,
        /// 1: the flow matches the filters, so samples and its end are reported.
        pub shown: u32,
    }
}

/// Sockets the kernel programs remember; the least recently used one is forgotten first.
pub const MAX_FLOWS: u32 = 16_384;
/// Least time between two samples of one flow, ns.
pub const SAMPLE_INTERVAL_NS: u64 = 100_000_000;
