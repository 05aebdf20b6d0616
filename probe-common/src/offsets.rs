//! Where members of kernel structures lie in the running kernel.

/// Reads "this kernel has no such member"; never 0, which is a valid place.
pub const ABSENT: u32 = u32::MAX;

/// Packs a place: the byte offset and, for a bitfield, which bits of the bytes there.
///
/// Bits 0–15: byte offset; 16–20: first bit counted from the least significant one of that byte; 21–26: width in bits,
/// 0 for a member that is no bitfield.
#[must_use]
pub const fn place(byte: u16, bit: u8, width: u8) -> u32 {
    byte as u32 | (bit as u32 & 0x1f) << 16 | (width as u32 & 0x3f) << 21
}

/// Byte offset of a place.
#[must_use]
#[inline(always)]
pub const fn byte(place: u32) -> usize {
    (place & 0xffff) as usize
}

/// First bit of a bitfield.
#[must_use]
#[inline(always)]
pub const fn shift(place: u32) -> u32 {
    (place >> 16) & 0x1f
}

/// Width of a bitfield in bits; 0: no bitfield.
#[must_use]
#[inline(always)]
pub const fn width(place: u32) -> u32 {
    (place >> 21) & 0x3f
}

macro_rules! offsets {
    ($($name:ident: $kind:ident $path:literal $size:literal,)*) => {
        /// A place (see [`place`]) for each member the kernel programs read.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(
            feature = "user",
            derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
        )]
        pub struct Offsets { $(#[doc = concat!("`", $path, "`")] pub $name: u32,)* }

        impl Offsets {
            /// Nothing known yet.
            pub const UNRESOLVED: Self = Self { $($name: ABSENT,)* };

            /// The members, in the order of the fields of this struct.
            pub const MEMBERS: &'static [Member] = &[$(Member {
                path: $path,
                size: $size,
                need: Need::$kind,
            },)*];
        }
    };
}

/// One member the kernel programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// `struct.member.member`; unnamed members are looked through.
    pub path: &'static str,
    /// Bytes the programs read there; of a bitfield the bytes that hold it.
    pub size: u32,
    /// Must every supported kernel have it?
    pub need: Need,
}

/// Must a kernel have a member?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it the programs cannot work.
    Must,
    /// Some supported kernels do not have it; the programs test for [`ABSENT`].
    May,
}

offsets! {
    skc_daddr: Must "sock_common.skc_daddr" 4,
    skc_rcv_saddr: Must "sock_common.skc_rcv_saddr" 4,
    skc_dport: Must "sock_common.skc_dport" 2,
    skc_num: Must "sock_common.skc_num" 2,
    skc_family: Must "sock_common.skc_family" 2,
    skc_state: Must "sock_common.skc_state" 1,
    skc_net: Must "sock_common.skc_net.net" 8,
    skc_v6_daddr: May "sock_common.skc_v6_daddr" 16,
    skc_v6_rcv_saddr: May "sock_common.skc_v6_rcv_saddr" 16,
    skc_cookie: Must "sock_common.skc_cookie" 8,
    sk_protocol: Must "sock.sk_protocol" 2,
    sk_uid: Must "sock.sk_uid" 4,
    sk_socket: Must "sock.sk_socket" 8,
    sk_ino: May "sock.sk_ino" 8,
    sk_cgroup: May "sock.sk_cgrp_data.cgroup" 8,
    sk_cgroup_val: May "sock.sk_cgrp_data.val" 8,
    sk_rcvbuf: Must "sock.sk_rcvbuf" 4,
    sk_sndbuf: Must "sock.sk_sndbuf" 4,
    sk_rmem_alloc: Must "sock.sk_backlog.rmem_alloc" 4,
    sk_backlog_len: Must "sock.sk_backlog.len" 4,
    sk_wmem_queued: Must "sock.sk_wmem_queued" 4,
    sk_drops: Must "sock.sk_drops" 4,
    sk_drop_counters: May "sock.sk_drop_counters" 8,
    sk_pacing_rate: Must "sock.sk_pacing_rate" 8,
    sk_ack_backlog: Must "sock.sk_ack_backlog" 4,
    sk_max_ack_backlog: Must "sock.sk_max_ack_backlog" 4,
    drops0: May "numa_drop_counters.drops0" 4,
    drops1: May "numa_drop_counters.drops1" 4,
    inet_sport: Must "inet_sock.inet_sport" 2,
    icsk_ca_ops: Must "inet_connection_sock.icsk_ca_ops" 8,
    icsk_ca_state: Must "inet_connection_sock.icsk_ca_state" 1,
    icsk_retransmits: Must "inet_connection_sock.icsk_retransmits" 1,
    icsk_pending: Must "inet_connection_sock.icsk_pending" 1,
    icsk_backoff: Must "inet_connection_sock.icsk_backoff" 1,
    icsk_rto: Must "inet_connection_sock.icsk_rto" 4,
    icsk_pmtu_cookie: Must "inet_connection_sock.icsk_pmtu_cookie" 4,
    ca_name: Must "tcp_congestion_ops.name" 16,
    snd_cwnd: Must "tcp_sock.snd_cwnd" 4,
    snd_ssthresh: Must "tcp_sock.snd_ssthresh" 4,
    srtt_us: Must "tcp_sock.srtt_us" 4,
    mdev_us: Must "tcp_sock.mdev_us" 4,
    rtt_min: Must "tcp_sock.rtt_min" 8,
    mss_cache: Must "tcp_sock.mss_cache" 4,
    snd_wnd: Must "tcp_sock.snd_wnd" 4,
    snd_una: Must "tcp_sock.snd_una" 4,
    snd_nxt: Must "tcp_sock.snd_nxt" 4,
    write_seq: Must "tcp_sock.write_seq" 4,
    rcv_nxt: Must "tcp_sock.rcv_nxt" 4,
    rcv_wnd: Must "tcp_sock.rcv_wnd" 4,
    packets_out: Must "tcp_sock.packets_out" 4,
    retrans_out: Must "tcp_sock.retrans_out" 4,
    lost_out: Must "tcp_sock.lost_out" 4,
    sacked_out: Must "tcp_sock.sacked_out" 4,
    reordering: Must "tcp_sock.reordering" 4,
    reord_seen: Must "tcp_sock.reord_seen" 4,
    dsack_dups: Must "tcp_sock.dsack_dups" 4,
    total_retrans: Must "tcp_sock.total_retrans" 4,
    segs_in: Must "tcp_sock.segs_in" 4,
    segs_out: Must "tcp_sock.segs_out" 4,
    data_segs_out: Must "tcp_sock.data_segs_out" 4,
    delivered: Must "tcp_sock.delivered" 4,
    delivered_ce: Must "tcp_sock.delivered_ce" 4,
    bytes_sent: Must "tcp_sock.bytes_sent" 8,
    bytes_retrans: Must "tcp_sock.bytes_retrans" 8,
    bytes_acked: Must "tcp_sock.bytes_acked" 8,
    bytes_received: Must "tcp_sock.bytes_received" 8,
    undo_marker: Must "tcp_sock.undo_marker" 4,
    undo_retrans: Must "tcp_sock.undo_retrans" 4,
    chrono_start: Must "tcp_sock.chrono_start" 4,
    chrono_stat: Must "tcp_sock.chrono_stat" 12,
    chrono_type: Must "tcp_sock.chrono_type" 1,
    frto: Must "tcp_sock.frto" 1,
    sack_ok: Must "tcp_sock.rx_opt.sack_ok" 2,
    num_retrans: Must "request_sock.num_retrans" 1,
    skb_head: Must "sk_buff.head" 8,
    skb_tail: Must "sk_buff.tail" 4,
    skb_end: Must "sk_buff.end" 4,
    skb_len: Must "sk_buff.len" 4,
    skb_cb: Must "sk_buff.cb" 48,
    skb_sk: Must "sk_buff.sk" 8,
    skb_dev: Must "sk_buff.dev" 8,
    skb_refdst: Must "sk_buff._skb_refdst" 8,
    skb_protocol: Must "sk_buff.protocol" 2,
    skb_mac_header: Must "sk_buff.mac_header" 2,
    skb_network_header: Must "sk_buff.network_header" 2,
    skb_inner_network_header: Must "sk_buff.inner_network_header" 2,
    skb_iif: Must "sk_buff.skb_iif" 4,
    skb_pkt_type: Must "sk_buff.pkt_type" 1,
    skb_encapsulation: Must "sk_buff.encapsulation" 1,
    skb_vlan_tci: Must "sk_buff.vlan_tci" 2,
    skb_vlan_present: May "sk_buff.vlan_present" 1,
    skb_vlan_all: May "sk_buff.vlan_all" 4,
    gso_size: Must "skb_shared_info.gso_size" 2,
    gso_segs: Must "skb_shared_info.gso_segs" 2,
    cb_seq: Must "tcp_skb_cb.seq" 4,
    cb_end_seq: Must "tcp_skb_cb.end_seq" 4,
    cb_gso_segs: Must "tcp_skb_cb.tcp_gso_segs" 2,
    cb_tcp_flags: Must "tcp_skb_cb.tcp_flags" 1,
    cb_sacked: Must "tcp_skb_cb.sacked" 1,
    dev_name: Must "net_device.name" 16,
    dev_ifindex: Must "net_device.ifindex" 4,
    dev_net: Must "net_device.nd_net.net" 8,
    dev_type: Must "net_device.type" 2,
    net_inum: Must "net.ns.inum" 4,
    net_cookie: Must "net.net_cookie" 8,
    socket_file: Must "socket.file" 8,
    file_inode: Must "file.f_inode" 8,
    inode_ino: Must "inode.i_ino" 8,
    cgroup_kn: Must "cgroup.kn" 8,
    kernfs_id: Must "kernfs_node.id" 8,
    dst_dev: Must "dst_entry.dev" 8,
    dst_input: Must "dst_entry.input" 8,
}

/// Which variants of the tracepoints the running kernel has; part of the settings next to [`Offsets`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout
    )
)]
pub struct Features {
    /// `kfree_skb` has a `reason` argument (Linux 5.17).
    pub kfree_skb_reason: u32,
    /// `kfree_skb` has an `rx_sk` argument (Linux 6.11).
    pub kfree_skb_rx_sk: u32,
    /// `tcp_retransmit_skb` has an `err` argument (Linux 6.17).
    pub retransmit_err: u32,
    /// `tcp_send_reset` has a `reason` argument (Linux 6.10).
    pub send_reset_reason: u32,
    /// Value of `SKB_CONSUMED`, 0 where there is none: not a drop.
    pub reason_consumed: u32,
    /// Always 0.
    pub reserved: u32,
    /// First byte of `skb_release_data`, which frees the fragments of packets that were consumed; 0: unknown.
    pub skb_release_data_start: u64,
    /// First byte after it.
    pub skb_release_data_end: u64,
}

impl Features {
    /// Nothing known yet.
    pub const NONE: Self = Self {
        kfree_skb_reason: 0,
        kfree_skb_rx_sk: 0,
        retransmit_err: 0,
        send_reset_reason: 0,
        reason_consumed: 0,
        reserved: 0,
        skb_release_data_start: 0,
        skb_release_data_end: 0,
    };
}
