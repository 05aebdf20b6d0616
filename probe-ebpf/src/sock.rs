//! Sockets: who, where, in what state.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use probe_common::{
    RawAddress, RawNetns, RawSock, RawTcp, RawTuple, offsets::ABSENT, packet::protocol,
    tuple::version,
};

use crate::{
    globals::offset,
    read::{Address, Memory},
};

pub(crate) const AF_UNIX: u16 = 1;
pub(crate) const AF_INET: u16 = 2;
pub(crate) const AF_INET6: u16 = 10;
pub(crate) const AF_NETLINK: u16 = 16;
pub(crate) const AF_PACKET: u16 = 17;

const TCP_TIME_WAIT: u8 = 6;
const TCP_NEW_SYN_RECV: u8 = 12;

/// The namespace a socket belongs to.
#[inline(always)]
pub(crate) fn netns_of_socket(sock: Address) -> Option<RawNetns> {
    netns(sock.follow(offset!(skc_net))?)
}

/// A namespace, if `net` really is one: inode numbers of namespaces lie in the range the kernel hands out dynamically.
#[inline(always)]
pub(crate) fn netns(net: Address) -> Option<RawNetns> {
    let inode: u32 = net.get(offset!(net_inum));
    if inode < 0xe000_0000 {
        return None;
    }
    Some(RawNetns {
        cookie: net.get(offset!(net_cookie)),
        inode,
        reserved: 0,
    })
}

/// Local and remote end of an IP socket, full or not.
#[inline(always)]
pub(crate) fn tuple(sock: Address, family: u16, protocol: u8) -> RawTuple {
    let (source, destination) = if family == AF_INET6 {
        (
            v6(sock, offset!(skc_v6_rcv_saddr)),
            v6(sock, offset!(skc_v6_daddr)),
        )
    } else {
        (
            RawAddress::mapped(sock.get(offset!(skc_rcv_saddr))),
            RawAddress::mapped(sock.get(offset!(skc_daddr))),
        )
    };
    RawTuple {
        source,
        destination,
        source_port: sock.get(offset!(skc_num)),
        destination_port: u16::from_be(sock.get(offset!(skc_dport))),
        protocol,
        version: version(source, destination),
        flags: RawTuple::HAS_PORTS,
        reserved: 0,
    }
}

#[inline(always)]
fn v6(sock: Address, place: u32) -> RawAddress {
    RawAddress {
        words: sock.get(place),
    }
}

/// Is the object behind it a whole `struct sock`?
#[inline(always)]
pub(crate) fn is_full(state: u8) -> bool {
    state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV
}

/// The local port of a full socket, also after it has been given back; 0: it has none.
#[inline(always)]
pub(crate) fn bound_port<M: Memory>(sock: M) -> u16 {
    let state: u8 = sock.get(offset!(skc_state));
    if is_full(state) {
        u16::from_be(sock.get(offset!(inet_sport)))
    } else {
        0
    }
}

/// Fills in a socket. `memory` reads its members, `sock` is its address.
#[inline(always)]
pub(crate) fn fill<M: Memory>(out: &mut RawSock, memory: M, sock: Address) {
    fill_owner(out, memory, sock);
    if out.family == AF_INET || out.family == AF_INET6 {
        out.tuple = tuple(sock, out.family, out.protocol as u8);
        if out.tuple.source_port == 0 {
            out.tuple.source_port = bound_port(memory);
        }
    }
}

/// Fills in everything but the two ends.
#[inline(always)]
pub(crate) fn fill_owner<M: Memory>(out: &mut RawSock, memory: M, sock: Address) {
    out.address = sock.0;
    out.cookie = memory.get(offset!(skc_cookie));
    out.family = memory.get(offset!(skc_family));
    out.state = memory.get(offset!(skc_state));
    out.netns = netns_of_socket(sock).unwrap_or(RawNetns::UNKNOWN);
    if !is_full(out.state) {
        out.protocol = u16::from(protocol::TCP);
        out.present = RawSock::PRESENT_MINI;
        return;
    }
    out.present = RawSock::PRESENT_FULL;
    out.protocol = memory.get(offset!(sk_protocol));
    out.inode = inode(memory, sock);
    out.cgroup_id = cgroup_id(memory, sock);
    out.uid = memory.get(offset!(sk_uid));
    out.receive_queue_bytes = memory.get(offset!(sk_rmem_alloc));
    out.receive_buffer_bytes = memory.get(offset!(sk_rcvbuf));
    out.backlog_bytes = memory.get(offset!(sk_backlog_len));
    out.send_queue_bytes = memory.get(offset!(sk_wmem_queued));
    out.send_buffer_bytes = memory.get(offset!(sk_sndbuf));
    out.accept_queue = memory.get(offset!(sk_ack_backlog));
    out.accept_queue_max = memory.get(offset!(sk_max_ack_backlog));
    out.drops = drops(memory, sock);
}

/// Inode of the socket's file; 0 if it has none.
#[inline(always)]
fn inode<M: Memory>(memory: M, sock: Address) -> u64 {
    if offset!(sk_ino) != ABSENT {
        return memory.get(offset!(sk_ino));
    }
    let inode = sock
        .follow(offset!(sk_socket))
        .and_then(|socket| socket.follow(offset!(socket_file)))
        .and_then(|file| file.follow(offset!(file_inode)));
    match inode {
        Some(inode) => inode.get(offset!(inode_ino)),
        None => 0,
    }
}

/// cgroup v2 id; 0 if unknown.
#[inline(always)]
fn cgroup_id<M: Memory>(memory: M, sock: Address) -> u64 {
    let cgroup = if offset!(sk_cgroup) == ABSENT {
        // Before Linux 5.15 one word holds either a pointer or, marked by its two low bits, cgroup v1 data.
        let value: u64 = memory.get(offset!(sk_cgroup_val));
        Some(Address(value)).filter(|cgroup| value.trailing_zeros() >= 2 && cgroup.is_kernel())
    } else {
        sock.follow(offset!(sk_cgroup))
    };
    match cgroup.and_then(|cgroup| cgroup.follow(offset!(cgroup_kn))) {
        Some(node) => node.get(offset!(kernfs_id)),
        None => 0,
    }
}

/// `sk_drops`, or from Linux 6.18 on the sum of the counters that replace it.
#[inline(always)]
fn drops<M: Memory>(memory: M, sock: Address) -> u32 {
    match sock.follow(offset!(sk_drop_counters)) {
        Some(counters) => {
            let (a, b): (u32, u32) = (counters.get(offset!(drops0)), counters.get(offset!(drops1)));
            a.wrapping_add(b)
        }
        None => memory.get(offset!(sk_drops)),
    }
}

/// Fills in what `ss -ti` shows.
#[inline(always)]
pub(crate) fn fill_tcp<M: Memory>(out: &mut RawTcp, tcp: M, sock: Address) {
    macro_rules! copy {
        ($($to:ident: $from:ident,)*) => { $(out.$to = tcp.get(offset!($from));)* };
    }
    copy! {
        bytes_sent: bytes_sent,
        bytes_retrans: bytes_retrans,
        bytes_acked: bytes_acked,
        bytes_received: bytes_received,
        pacing_rate: sk_pacing_rate,
        srtt_8us: srtt_us,
        mdev_4us: mdev_us,
        rto_jiffies: icsk_rto,
        snd_cwnd: snd_cwnd,
        snd_ssthresh: snd_ssthresh,
        mss_cache: mss_cache,
        pmtu: icsk_pmtu_cookie,
        snd_wnd: snd_wnd,
        snd_una: snd_una,
        snd_nxt: snd_nxt,
        write_seq: write_seq,
        rcv_nxt: rcv_nxt,
        rcv_wnd: rcv_wnd,
        packets_out: packets_out,
        retrans_out: retrans_out,
        lost_out: lost_out,
        sacked_out: sacked_out,
        reordering: reordering,
        reord_seen: reord_seen,
        dsack_dups: dsack_dups,
        total_retrans: total_retrans,
        segs_in: segs_in,
        segs_out: segs_out,
        data_segs_out: data_segs_out,
        delivered: delivered,
        delivered_ce: delivered_ce,
        undo_marker: undo_marker,
        undo_retrans: undo_retrans,
        chrono_start: chrono_start,
        retransmits: icsk_retransmits,
        backoff: icsk_backoff,
        pending: icsk_pending,
        state: skc_state,
    }
    // struct minmax begins with its current minimum: { u32 t; u32 v; }
    out.min_rtt_us = tcp.get(offset!(rtt_min) + 4);
    out.chrono_stat[0] = tcp.get(offset!(chrono_stat));
    out.chrono_stat[1] = tcp.get(offset!(chrono_stat) + 4);
    out.chrono_stat[2] = tcp.get(offset!(chrono_stat) + 8);
    out.chrono_type = tcp.bits(offset!(chrono_type));
    out.ca_state = tcp.bits(offset!(icsk_ca_state));
    out.frto = tcp.bits(offset!(frto));
    out.sack_ok = tcp.bits(offset!(sack_ok));
    // SAFETY: a helper without arguments.
    out.jiffies = unsafe { bpf_jiffies64() } as u32;
    if let Some(ops) = sock.follow(offset!(icsk_ca_ops)) {
        out.congestion_control = ops.get(offset!(ca_name));
    }
}
