//! What happened, decoded and named: the types every stage right of `decode` works with.
//!
//! Absent is not zero: what is not known is `None`, and sinks leave it out.

use std::net::IpAddr;
use std::sync::Arc;

/// A name from outside (process, interface, namespace, symbol): may hold anything; sinks escape it.
pub type Name = Arc<str>;

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventTime {
    /// `CLOCK_BOOTTIME`, ns: the kernel's order of things.
    pub ktime_ns: u64,
    /// Wall clock, ns since 1970-01-01T00:00:00Z.
    pub wall_ns: i64,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub time: EventTime,
    /// On which CPU.
    pub cpu: u32,
    /// What.
    pub body: Body,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A segment was sent again.
    Retransmit(Box<Retransmit>),
    /// A packet was dropped.
    Drop(Box<Drop>),
    /// A connection was reset.
    Reset(Box<Reset>),
    /// A flow of interest, now.
    Sample(Box<Sample>),
    /// A flow of interest ended.
    FlowEnd(Box<Sample>),
}

/// One end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: IpAddr,
    /// `None`: the protocol has none, or it could not be read.
    pub port: Option<u16>,
}

/// Both ends, as on the packet (source → destination) or at the socket (local → remote).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// IANA protocol number.
    pub protocol: u8,
    pub source: Endpoint,
    pub destination: Endpoint,
}

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Netns {
    /// 0: not known.
    pub inode: u32,
    /// Never reused while the host runs; `None` before Linux 5.14.
    pub cookie: Option<u64>,
    /// Name below /run/netns.
    pub name: Option<Name>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: Option<Name>,
}

/// Who owns a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub process: Option<Process>,
    pub cgroup: Option<Cgroup>,
    pub container: Option<Name>,
    /// Why the process is not known (shown with `-v`).
    pub unknown_because: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    pub id: u64,
    pub path: Option<Name>,
}

/// What identifies a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SocketId {
    pub cookie: Option<u64>,
    pub inode: Option<u64>,
    pub cgroup_id: Option<u64>,
    /// Kernel address: guards generations, never shown.
    pub address: u64,
}

/// `tcp.kind` of the output.
pub use probe_common::Class as Kind;
/// Did a retransmit leave TCP?
pub use probe_common::retransmit::Outcome;

/// A TCP state number (1 ESTABLISHED … 12 `NEW_SYN_RECV`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpState(pub u8);

impl TcpState {
    /// The kernel's name without `TCP_`; `None` for a number it does not have.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "ESTABLISHED",
            2 => "SYN_SENT",
            3 => "SYN_RECV",
            4 => "FIN_WAIT1",
            5 => "FIN_WAIT2",
            6 => "TIME_WAIT",
            7 => "CLOSE",
            8 => "CLOSE_WAIT",
            9 => "LAST_ACK",
            10 => "LISTEN",
            11 => "CLOSING",
            12 => "NEW_SYN_RECV",
            13 => "BOUND_INACTIVE",
            _ => return None,
        })
    }
}

/// What `ss -ti` shows of a socket, in its units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub srtt_us: Option<u32>,
    pub rttvar_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    /// Of the timer that fired: before it doubles.
    pub rto_us: Option<u64>,
    pub cwnd: u32,
    /// `None`: still infinite.
    pub ssthresh: Option<u32>,
    pub mss: u32,
    pub pmtu: u32,
    pub snd_wnd: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub packets_out: u32,
    pub retrans_out: u32,
    pub lost_out: u32,
    pub sacked_out: u32,
    pub reordering: u32,
    pub reord_seen: u32,
    pub dsack_dups: u32,
    pub total_retrans: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub bytes_acked: u64,
    pub segs_out: u32,
    pub data_segs_out: u32,
    pub segs_in: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    /// `None` where HZ could not be measured; likewise the other two.
    pub busy_us: Option<u64>,
    pub rwnd_limited_us: Option<u64>,
    pub sndbuf_limited_us: Option<u64>,
    /// `None`: not limited.
    pub pacing_rate_bytes_per_s: Option<u64>,
    pub congestion_control: Option<Name>,
    pub backoff: u8,
}

/// A segment sent again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retransmit {
    /// Unique in the run.
    pub id: u64,
    pub netns: Netns,
    /// local → remote
    pub tuple: Tuple,
    pub socket: SocketId,
    pub owner: Owner,
    pub kind: Kind,
    pub outcome: Outcome,
    /// 0, a negative errno, or a positive `NET_XMIT` code.
    pub error: i32,
    /// Consecutive attempt, from 1; `None` where it has no meaning.
    pub attempt: Option<u32>,
    pub state: TcpState,
    pub seq: u32,
    pub end_seq: u32,
    pub segments: u32,
    pub bytes: u32,
    /// `None` for a SYN-ACK: there is no full socket yet.
    pub tcp: Option<Box<TcpInfo>>,
    pub verdict: Verdict,
}

/// Why. Later stages replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub cause: Cause,
    /// For `Inconclusive`.
    pub why: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    Pending,
    LocalDrop,
    HostDrop,
    ReceiverWindow,
    PathMtu,
    NoAnswer,
    Spurious,
    OutsideHost,
    Inconclusive,
}

impl Cause {
    /// As in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::LocalDrop => "local_drop",
            Self::HostDrop => "host_drop",
            Self::ReceiverWindow => "receiver_window",
            Self::PathMtu => "path_mtu",
            Self::NoAnswer => "no_answer",
            Self::Spurious => "spurious",
            Self::OutsideHost => "outside_host",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// What a reason means for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropClass {
    Benign,
    Policy,
    Capacity,
    Path,
    Routing,
    Security,
    Fault,
    Application,
    Unspecified,
}

impl DropClass {
    /// As in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Benign => "benign",
            Self::Policy => "policy",
            Self::Capacity => "capacity",
            Self::Path => "path",
            Self::Routing => "routing",
            Self::Security => "security",
            Self::Fault => "fault",
            Self::Application => "application",
            Self::Unspecified => "unspecified",
        }
    }
}

/// Why the kernel freed a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// As the kernel gave it; 0 where it gives none.
    pub code: u32,
    /// As the kernel spells it without `SKB_DROP_REASON_`; the number where it has no name.
    pub name: Name,
    /// `None`: core.
    pub subsystem: Option<Name>,
    pub class: DropClass,
    /// One line.
    pub meaning: Option<&'static str>,
    /// What to check or set.
    pub advice: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Receive,
    Transmit,
    Forward,
}

impl Direction {
    /// As in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
            Self::Forward => "forward",
        }
    }
}

/// A code address and what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    pub address: u64,
    pub symbol: Option<Name>,
    pub offset: u64,
    pub module: Option<Name>,
}

/// The outer packet of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelInfo {
    pub kind: probe_common::packet::Tunnel,
    pub id: Option<u32>,
    pub outer: Tuple,
}

/// What is in the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// `EtherType` in host byte order, `None` if not set.
    pub ethertype: Option<u16>,
    /// VLAN id.
    pub vlan: Option<u16>,
    pub length: u32,
    pub segments: u32,
    pub tcp: Option<TcpHeader>,
    pub icmp: Option<IcmpHeader>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// Bit 0 FIN, 1 SYN, 2 RST, 3 PSH, 4 ACK, 5 URG, 6 ECE, 7 CWR.
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    /// The packet an error quotes.
    pub quoted: Option<Tuple>,
}

/// A socket a drop has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInfo {
    pub id: SocketId,
    /// It was to receive the packet; else it sent it.
    pub is_receiver: bool,
    pub state: Option<TcpState>,
    /// `None` for sockets that are not full (`TIME_WAIT`, request).
    pub buffers: Option<Buffers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    pub receive_queue_bytes: u32,
    pub receive_buffer_bytes: u32,
    pub backlog_bytes: u32,
    /// Of a listener only.
    pub accept_queue: Option<u32>,
    pub accept_queue_max: Option<u32>,
    pub drops: u32,
}

/// A packet the kernel dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// How many it stands for.
    pub count: u64,
    pub netns: Netns,
    /// Innermost packet; `None`: not IP, or not readable.
    pub tuple: Option<Tuple>,
    pub tunnel: Option<TunnelInfo>,
    pub packet: PacketInfo,
    pub reason: Reason,
    pub location: Location,
    pub interface: Option<Interface>,
    pub direction: Option<Direction>,
    pub socket: Option<SocketInfo>,
    pub owner: Owner,
}

/// A connection was reset.
#[derive(Clone, Debug, PartialEq)]
pub struct Reset {
    pub netns: Netns,
    /// local → remote
    pub tuple: Option<Tuple>,
    /// `Transmit`: sent by this host.
    pub direction: Direction,
    pub reason: Option<Name>,
    pub state: Option<TcpState>,
    pub socket: Option<SocketId>,
    pub owner: Owner,
}

/// A flow's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub netns: Netns,
    /// local → remote
    pub tuple: Tuple,
    pub socket: SocketId,
    pub owner: Owner,
    pub tcp: TcpInfo,
}
