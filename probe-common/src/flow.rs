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
        /// The flow's birth (its first state change) was seen.
        pub born: u32,
    }
}
