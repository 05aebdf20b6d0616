//! Records per second through decode, enrich and aggregate, on one core.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark: its own numbers only"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use probe_common::{
    ABI_VERSION, Class, Header, RawAddress, RawDrop, RawRetransmit, RawSock, RawTuple,
};
use probe_user::aggregate::{Aggregator, Limits};
use probe_user::decode::Decoder;
use probe_user::enrich::{
    Enricher, InterfaceNames, Nameless, NetnsNames, ReasonName, ReasonNames, Sources, Symbols,
};
use probe_user::event::{Location, Name, Netns};
use zerocopy::{FromZeros, IntoBytes};

/// Names of a host; all there, as after the first seconds.
#[derive(Clone)]
struct Host {
    name: Name,
}

impl Symbols for Host {
    fn lookup(&mut self, address: u64) -> Option<Location> {
        let symbol = if address.is_multiple_of(2) {
            "udp_queue_rcv_one_skb"
        } else {
            "nft_do_chain"
        };
        Some(Location {
            address,
            symbol: Some(symbol.into()),
            offset: 12,
            module: None,
        })
    }
}

impl ReasonNames for Host {
    fn drop_reason(&mut self, code: u32) -> Option<ReasonName> {
        let name = if code == 6 {
            "SOCKET_RCVBUFF"
        } else {
            "NETFILTER_DROP"
        };
        Some(ReasonName {
            name: name.into(),
            subsystem: None,
        })
    }

    fn reset_reason(&mut self, _: u32) -> Option<Name> {
        None
    }
}

impl NetnsNames for Host {
    fn lookup(&mut self, _: u32, _: Option<u64>) -> Option<Name> {
        Some(Name::clone(&self.name))
    }
}

impl InterfaceNames for Host {
    fn lookup(&mut self, _: &Netns, _: u32) -> Option<Name> {
        Some(Name::clone(&self.name))
    }
}

fn header(kind: u16, len: usize, n: u32) -> Header {
    Header {
        kind,
        abi: ABI_VERSION,
        len: len as u32,
        cpu: n % 4,
        reserved: 0,
        ktime_ns: u64::from(n) * 1000,
    }
}

fn tuple(protocol: u8, n: u32) -> RawTuple {
    RawTuple {
        source: RawAddress::mapped([10, 0, (n >> 8) as u8, n as u8]),
        destination: RawAddress::mapped([10, 1, 0, 1]),
        source_port: 40_000 + (n % 97) as u16,
        destination_port: 5201,
        protocol,
        version: 4,
        flags: RawTuple::HAS_PORTS,
        reserved: 0,
    }
}

/// A dropped packet of one of 10 000 flows.
fn drop(n: u32) -> Vec<u8> {
    let mut raw = RawDrop::new_zeroed();
    raw.header = header(1, size_of::<RawDrop>(), n);
    raw.location = 0x1000 + u64::from(n % 2);
    raw.reason = 6 + n % 2;
    raw.flags = RawDrop::HAS_REASON | RawDrop::HAS_NETWORK_HEADER;
    raw.netns.cookie = 1 + u64::from(n % 3);
    raw.netns.inode = 77;
    raw.ifindex = 2;
    raw.iif = 2;
    raw.ifname[..4].copy_from_slice(b"eth0");
    raw.ethertype = 0x0800;
    raw.length = 1480;
    raw.segments = 1;
    let ip = [
        0x45,
        0,
        5,
        200,
        0,
        0,
        0,
        0,
        64,
        6,
        0,
        0,
        10,
        0,
        (n >> 8) as u8,
        n as u8,
        10,
        1,
        0,
        1,
        0x9c,
        0x40,
        0x14,
        0x51,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        2,
        0x50,
        0x10,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    raw.headers[..ip.len()].copy_from_slice(&ip);
    raw.headers_len = 192;
    raw.as_bytes().to_vec()
}

/// A retransmit of one of 10 000 flows.
fn retransmit(n: u32) -> Vec<u8> {
    let mut raw = RawRetransmit::new_zeroed();
    raw.header = header(2, size_of::<RawRetransmit>(), n);
    raw.sock.present = RawSock::PRESENT_FULL;
    raw.sock.tuple = tuple(6, n);
    raw.sock.cookie = u64::from(n) + 1;
    raw.sock.netns.cookie = 1;
    raw.sock.cgroup_id = 5;
    raw.class = Class::Fast as u8;
    raw.segments = 1;
    raw.bytes = 1448;
    raw.flags = RawRetransmit::HAS_TCP;
    raw.tcp.srtt_8us = 800;
    raw.tcp.congestion_control[..5].copy_from_slice(b"cubic");
    raw.as_bytes().to_vec()
}

/// Makes the record with that number.
type Build<'a> = &'a dyn Fn(u32) -> Vec<u8>;

fn pipeline(criterion: &mut Criterion) {
    let host = Host {
        name: "blue".into(),
    };
    let mut group = criterion.benchmark_group("pipeline");
    let mixed = |n: u32| {
        if n.is_multiple_of(2) {
            drop(n)
        } else {
            retransmit(n)
        }
    };
    let one_flow = |n: u32| drop(n % 2);
    let kinds: [(&str, Build<'_>); 4] = [
        ("drops", &drop),
        ("retransmits", &retransmit),
        ("mixed", &mixed),
        ("drops of one flow", &one_flow),
    ];
    for (name, build) in kinds {
        let records: Vec<Vec<u8>> = (0..10_000).map(build).collect();
        let mut decoder = Decoder::new(Some(250));
        let mut enricher = Enricher::new(Sources {
            symbols: Box::new(host.clone()),
            reasons: Box::new(host.clone()),
            netns: Box::new(host.clone()),
            interfaces: Box::new(host.clone()),
            owners: Box::new(Nameless),
        });
        let mut aggregator = Aggregator::new(Limits::default());
        let clock = |ktime: u64| ktime.cast_signed();
        group.throughput(Throughput::Elements(records.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for record in &records {
                    let event = enricher.enrich(decoder.decode(record, &clock).unwrap());
                    aggregator.observe(&event);
                    black_box(&event);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
