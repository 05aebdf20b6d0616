//! A TCP reset sent or received: tracepoints `tcp:tcp_send_reset`, `tcp:tcp_receive_reset`.

use crate::{Header, RawNetns, RawSock, RawTuple, wire};

wire! {
    /// One RST.
    pub struct RawReset {
        /// Kind [`crate::RecordKind::Reset`].
        pub header: Header,
        /// The socket, where there is one.
        pub sock: RawSock,
        /// Namespace in which it happened.
        pub netns: RawNetns,
        /// Both ends as seen from this host: source is the local end.
        pub tuple: RawTuple,
        /// `enum sk_rst_reason` (Linux 6.12 on, sent ones only); meaningful if [`RawReset::HAS_REASON`].
        pub reason: u32,
        /// [`RawReset::SENT`] …
        pub flags: u32,
    }
}

impl RawReset {
    /// This host sent it; else it received it.
    pub const SENT: u32 = 1;
    /// `reason` is meaningful.
    pub const HAS_REASON: u32 = 1 << 1;
}
