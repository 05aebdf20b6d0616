//! What is read from a socket.

use crate::{RawTuple, wire};

wire! {
    /// A network namespace.
    pub struct RawNetns {
        /// `net.net_cookie`: never reused. 0 if unknown (before Linux 5.14 it is handed out on demand).
        pub cookie: u64,
        /// `net.ns.inum`, as `stat -L /proc/PID/ns/net` shows it; 0 if unknown. Reused after the namespace is gone.
        pub inode: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

impl RawNetns {
    /// "Not known".
    pub const UNKNOWN: Self = Self {
        cookie: 0,
        inode: 0,
        reserved: 0,
    };
}

wire! {
    /// A socket: who owns it, and how full its buffers are.
    pub struct RawSock {
        /// `skc_cookie`; 0 if it has none yet.
        pub cookie: u64,
        /// Inode of the socket file: `/proc/PID/fd/N -> socket:[inode]`; 0 if there is none (orphan, not accepted yet).
        pub inode: u64,
        /// cgroup v2 id; 0 if unknown.
        pub cgroup_id: u64,
        /// Kernel address of the socket: tells sockets apart while they live; never shown.
        pub address: u64,
        /// Local and remote end.
        pub tuple: RawTuple,
        /// The socket's own network namespace.
        pub netns: RawNetns,
        /// Owner's user id (`sk_uid`).
        pub uid: u32,
        /// `sk_rmem_alloc`, bytes (truesize).
        pub receive_queue_bytes: u32,
        /// `sk_rcvbuf`, bytes (truesize).
        pub receive_buffer_bytes: u32,
        /// `sk_backlog.len`, bytes (truesize).
        pub backlog_bytes: u32,
        /// `sk_wmem_queued`, bytes (truesize).
        pub send_queue_bytes: u32,
        /// `sk_sndbuf`, bytes (truesize).
        pub send_buffer_bytes: u32,
        /// `sk_ack_backlog` of a listener: connections that wait for `accept()`.
        pub accept_queue: u32,
        /// `sk_max_ack_backlog` of a listener.
        pub accept_queue_max: u32,
        /// `sk_drops`, from Linux 6.18 on the sum of `sk_drop_counters`.
        pub drops: u32,
        /// Address family (`AF_INET` 2, `AF_INET6` 10, `AF_UNIX` 1, …).
        pub family: u16,
        /// IANA protocol number of an IP socket.
        pub protocol: u16,
        /// TCP state number (1 ESTABLISHED … 12 `NEW_SYN_RECV`).
        pub state: u8,
        /// One of the `PRESENT_…` values.
        pub present: u8,
        /// Always 0.
        pub reserved: [u8; 6],
    }
}

impl RawSock {
    /// No socket.
    pub const PRESENT_NONE: u8 = 0;
    /// A `TIME_WAIT` or request socket: only cookie, address, tuple, netns, family and state are known.
    pub const PRESENT_MINI: u8 = 1;
    /// A full socket.
    pub const PRESENT_FULL: u8 = 2;
}

wire! {
    /// What `ss -ti` shows, read at the moment of the event. Names and units are the kernel's (`struct tcp_sock`) unless
    /// said otherwise; see docs/output.md for the conversions.
    pub struct RawTcp {
        /// `bytes_sent`
        pub bytes_sent: u64,
        /// `bytes_retrans`
        pub bytes_retrans: u64,
        /// `bytes_acked`
        pub bytes_acked: u64,
        /// `bytes_received`
        pub bytes_received: u64,
        /// `sk_pacing_rate`, bytes per second; all ones: unlimited
        pub pacing_rate: u64,
        /// `srtt_us`: smoothed RTT in 1/8 µs
        pub srtt_8us: u32,
        /// `mdev_us`: mean deviation in 1/4 µs (the rttvar of `ss`)
        pub mdev_4us: u32,
        /// `rtt_min.s[0].v`, µs; all ones: none yet
        pub min_rtt_us: u32,
        /// `icsk_rto`, jiffies
        pub rto_jiffies: u32,
        /// `snd_cwnd`, segments
        pub snd_cwnd: u32,
        /// `snd_ssthresh`, segments; 0x7fffffff and more: not set yet
        pub snd_ssthresh: u32,
        /// `mss_cache`, bytes
        pub mss_cache: u32,
        /// `icsk_pmtu_cookie`, bytes
        pub pmtu: u32,
        /// `snd_wnd`, bytes
        pub snd_wnd: u32,
        /// `snd_una`
        pub snd_una: u32,
        /// `snd_nxt`
        pub snd_nxt: u32,
        /// `write_seq`
        pub write_seq: u32,
        /// `rcv_nxt`
        pub rcv_nxt: u32,
        /// `rcv_wnd`, bytes
        pub rcv_wnd: u32,
        /// `packets_out`, segments
        pub packets_out: u32,
        /// `retrans_out`, segments
        pub retrans_out: u32,
        /// `lost_out`, segments
        pub lost_out: u32,
        /// `sacked_out`, segments
        pub sacked_out: u32,
        /// `reordering`, segments
        pub reordering: u32,
        /// `reord_seen`
        pub reord_seen: u32,
        /// `dsack_dups`
        pub dsack_dups: u32,
        /// `total_retrans`, segments
        pub total_retrans: u32,
        /// `segs_in`
        pub segs_in: u32,
        /// `segs_out`
        pub segs_out: u32,
        /// `data_segs_out`
        pub data_segs_out: u32,
        /// `delivered`, segments
        pub delivered: u32,
        /// `delivered_ce`, segments
        pub delivered_ce: u32,
        /// `undo_marker`
        pub undo_marker: u32,
        /// `undo_retrans`, signed
        pub undo_retrans: u32,
        /// `chrono_start`, jiffies (low 32 bits)
        pub chrono_start: u32,
        /// `chrono_stat`: busy, rwnd-limited, sndbuf-limited; jiffies
        pub chrono_stat: [u32; 3],
        /// Jiffies (low 32 bits) at the moment of the event.
        pub jiffies: u32,
        /// `icsk_ca_ops->name`, NUL-padded
        pub congestion_control: [u8; 16],
        /// `chrono_type`: 1 busy, 2 rwnd, 3 sndbuf
        pub chrono_type: u8,
        /// `icsk_ca_state`: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss
        pub ca_state: u8,
        /// `icsk_retransmits`: consecutive timeouts
        pub retransmits: u8,
        /// `icsk_backoff`
        pub backoff: u8,
        /// `icsk_pending`
        pub pending: u8,
        /// `frto`
        pub frto: u8,
        /// `rx_opt.sack_ok`
        pub sack_ok: u8,
        /// TCP state number
        pub state: u8,
        /// Always 0.
        pub reserved: [u8; 8],
    }
}
