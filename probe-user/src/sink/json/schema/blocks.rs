//! Blocks that several kinds of object share.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

use crate::event::{self, EventTime, Owner, TcpState, Tuple};
use crate::sink::names;
use crate::sink::time::Rfc3339;

/// RFC 3339, UTC, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ts(pub(super) EventTime);

impl Serialize for Ts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Rfc3339(self.0.wall_ns))
    }
}

/// `"0x…"`
#[derive(Debug)]
struct Hex {
    number: u64,
    digits: usize,
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!(
            "0x{:0width$x}",
            self.number,
            width = self.digits
        ))
    }
}

/// The shared blocks.
#[derive(Debug, Serialize)]
pub(super) struct Shared<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ethernet: Option<Ethernet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Endpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<Endpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnel: Option<Tunnel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<Netns<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<Cgroup<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<Container<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<Interface<'a>>,
}

#[derive(Debug, Serialize)]
struct Network {
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<Cow<'static, str>>,
    #[serde(rename = "type")]
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct Ethernet {
    #[serde(rename = "type")]
    ethertype: Hex,
}

#[derive(Debug, Serialize)]
struct Endpoint {
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Debug, Serialize)]
struct Tunnel {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    source: Endpoint,
    destination: Endpoint,
}

/// A namespace that is known.
#[derive(Debug, Serialize)]
pub(super) struct Netns<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Process<'a> {
    pid: u32,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct Cgroup<'a> {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Container<'a> {
    id: &'a str,
}

#[derive(Debug, Serialize)]
struct Interface<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(netns: &'a event::Netns, tuple: Option<&Tuple>, owner: &'a Owner) -> Self {
        Self {
            network: tuple.map(Network::new),
            ethernet: None,
            source: tuple.map(|tuple| Endpoint::new(&tuple.source)),
            destination: tuple.map(|tuple| Endpoint::new(&tuple.destination)),
            tunnel: None,
            netns: Netns::new(netns),
            process: owner.process.as_ref().map(|process| Process {
                pid: process.pid,
                name: &process.name,
            }),
            cgroup: owner.cgroup.as_ref().map(|cgroup| Cgroup {
                id: cgroup.id,
                path: cgroup.path.as_deref(),
            }),
            container: owner.container.as_deref().map(|id| Container { id }),
            interface: None,
        }
    }

    pub(super) fn of_socket(netns: &'a event::Netns, tuple: &Tuple, owner: &'a Owner) -> Self {
        Self::new(netns, Some(tuple), owner)
    }

    pub(super) fn of_drop(drop: &'a event::Drop) -> Self {
        let mut shared = Self::new(&drop.netns, drop.tuple.as_ref(), &drop.owner);
        if drop.tuple.is_none() {
            // IP that could not be read is still IP.
            let ip = |version| Network {
                transport: None,
                version,
            };
            match drop.packet.ethertype {
                Some(0x0800) => shared.network = Some(ip("ipv4")),
                Some(0x86dd) => shared.network = Some(ip("ipv6")),
                Some(other) => {
                    let ethertype = Hex {
                        number: u64::from(other),
                        digits: 4,
                    };
                    shared.ethernet = Some(Ethernet { ethertype });
                }
                None => {}
            }
        }
        shared.tunnel = drop.tunnel.as_ref().map(|tunnel| Tunnel {
            kind: names::tunnel(tunnel.kind),
            id: tunnel.id,
            source: Endpoint::new(&tunnel.outer.source),
            destination: Endpoint::new(&tunnel.outer.destination),
        });
        shared.interface = drop.interface.as_ref().map(|interface| Interface {
            index: interface.index,
            name: interface.name.as_deref(),
        });
        shared
    }
}

impl Network {
    fn new(tuple: &Tuple) -> Self {
        let is_v4 = tuple.source.address.to_canonical().is_ipv4()
            && tuple.destination.address.to_canonical().is_ipv4();
        Self {
            transport: Some(names::protocol(tuple.protocol)),
            version: if is_v4 { "ipv4" } else { "ipv6" },
        }
    }
}

impl Endpoint {
    fn new(end: &event::Endpoint) -> Self {
        Self {
            address: end.address.to_canonical(),
            port: end.port,
        }
    }
}

impl<'a> Netns<'a> {
    /// `None`: not known at all.
    pub(super) fn new(netns: &'a event::Netns) -> Option<Self> {
        let inode = (netns.inode != 0).then_some(netns.inode);
        let name = netns.name.as_deref();
        (inode.is_some() || name.is_some()).then_some(Self { inode, name })
    }
}

/// A verdict.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    cause: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl Verdict {
    pub(super) fn new(verdict: &event::Verdict) -> Self {
        Self {
            cause: verdict.cause.name(),
            why: verdict.why,
        }
    }
}

/// Where the packet was freed.
#[derive(Debug, Serialize)]
pub(super) struct Location<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Hex>,
}

impl<'a> Location<'a> {
    /// `None`: not known at all.
    pub(super) fn new(location: &'a event::Location) -> Option<Self> {
        let symbol = location.symbol.as_deref();
        (location.address != 0 || symbol.is_some()).then(|| Self {
            symbol,
            offset: symbol.map(|_| location.offset),
            module: location.module.as_deref(),
            address: (location.address != 0).then_some(Hex {
                number: location.address,
                digits: 1,
            }),
        })
    }
}

/// What is in the packet.
#[derive(Debug, Serialize)]
pub(super) struct Packet {
    length: u32,
    segments: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<TcpHeader>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp: Option<Icmp>,
}

#[derive(Debug, Serialize)]
struct TcpHeader {
    flags: String,
    seq: u32,
    ack: u32,
    payload: u32,
}

#[derive(Debug, Serialize)]
struct Icmp {
    #[serde(rename = "type")]
    kind: u8,
    code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    quoted: Option<Quoted>,
}

#[derive(Debug, Serialize)]
struct Quoted {
    transport: Cow<'static, str>,
    source: Endpoint,
    destination: Endpoint,
}

impl Packet {
    pub(super) fn new(packet: &event::PacketInfo) -> Self {
        Self {
            length: packet.length,
            segments: packet.segments,
            vlan: packet.vlan,
            tcp: packet.tcp.map(|tcp| TcpHeader {
                flags: names::tcp_flags(tcp.flags),
                seq: tcp.seq,
                ack: tcp.ack,
                payload: tcp.payload,
            }),
            icmp: packet.icmp.map(|icmp| Icmp {
                kind: icmp.kind,
                code: icmp.code,
                quoted: icmp.quoted.map(|quoted| Quoted {
                    transport: names::protocol(quoted.protocol),
                    source: Endpoint::new(&quoted.source),
                    destination: Endpoint::new(&quoted.destination),
                }),
            }),
        }
    }
}

/// The socket a drop has to do with.
#[derive(Debug, Serialize)]
pub(super) struct Socket {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_queue_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_buffer_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_queue: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_queue_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drops: Option<u32>,
}

impl Socket {
    /// `None`: there is nothing to tell of it.
    pub(super) fn new(socket: &event::SocketInfo) -> Option<Self> {
        let state = socket.state.and_then(TcpState::name);
        let buffers = socket.buffers;
        (state.is_some() || buffers.is_some()).then(|| Self {
            state,
            receive_queue_bytes: buffers.map(|buffers| buffers.receive_queue_bytes),
            receive_buffer_bytes: buffers.map(|buffers| buffers.receive_buffer_bytes),
            backlog_bytes: buffers.map(|buffers| buffers.backlog_bytes),
            accept_queue: buffers.and_then(|buffers| buffers.accept_queue),
            accept_queue_max: buffers.and_then(|buffers| buffers.accept_queue_max),
            drops: buffers.map(|buffers| buffers.drops),
        })
    }
}
