use std::net::IpAddr;

use probe_common::{RawAddress, RawTcp, RawTuple};
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

use super::*;
use crate::event::{Drop, Endpoint, Tuple};

fn header(kind: u16, len: usize) -> Header {
    Header {
        kind,
        abi: ABI_VERSION,
        len: u32::try_from(len).unwrap(),
        cpu: 1,
        reserved: 0,
        ktime_ns: 5_000,
    }
}

fn raw_tuple(protocol: u8, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> RawTuple {
    RawTuple {
        source: RawAddress::mapped(from.0),
        destination: RawAddress::mapped(to.0),
        source_port: from.1,
        destination_port: to.1,
        protocol,
        version: 4,
        flags: RawTuple::HAS_PORTS,
        reserved: 0,
    }
}

fn tuple(protocol: u8, from: &str, to: &str) -> Tuple {
    let end = |text: &str| {
        let (address, port) = text.rsplit_once(':').unwrap();
        Endpoint {
            address: address.parse::<IpAddr>().unwrap(),
            port: port.parse().ok().filter(|&port| port != 0),
        }
    };
    Tuple {
        protocol,
        source: end(from),
        destination: end(to),
    }
}

const TCP_PACKET: &[u8] = &[
    0x45, 0, 0, 48, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0,
    2, // IPv4, 48 bytes in all
    0x03, 0xe8, 0x07, 0xd0, 0, 0, 0, 11, 0, 0, 0, 22, 0x50, 0x18, 0, 0, 0, 0, 0,
    0, // TCP 1000 → 2000
    1, 2, 3, 4, 5, 6, 7, 8,
];

fn raw_drop(packet: &[u8], ethertype: u16) -> RawDrop {
    let mut raw = RawDrop::new_zeroed();
    raw.header = header(1, size_of::<RawDrop>());
    raw.headers[..packet.len()].copy_from_slice(packet);
    raw.headers_len = u16::try_from(packet.len()).unwrap();
    raw.length = u32::try_from(packet.len()).unwrap();
    raw.ethertype = ethertype;
    raw.flags = RawDrop::HAS_NETWORK_HEADER | RawDrop::HAS_REASON;
    raw.reason = 6;
    raw
}

fn full_socket(protocol: u8) -> RawSock {
    let mut sock = RawSock::new_zeroed();
    sock.present = RawSock::PRESENT_FULL;
    sock.family = 2;
    sock.protocol = protocol.into();
    sock.tuple = raw_tuple(protocol, ([10, 0, 0, 1], 1000), ([10, 0, 0, 2], 2000));
    sock.netns.inode = 77;
    sock
}

fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    Decoder::new(Some(250)).decode(bytes, &|ktime: u64| {
        i64::try_from(ktime).unwrap() + 1_000_000
    })
}

fn drop_of(raw: &RawDrop) -> Drop {
    match decode(raw.as_bytes()).unwrap().event.body {
        Body::Drop(drop) => *drop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_drop_is_told_from_its_packet() {
    let decoded = decode(raw_drop(TCP_PACKET, 0x0800).as_bytes()).unwrap();
    assert_eq!(
        decoded.event.time,
        EventTime {
            ktime_ns: 5_000,
            wall_ns: 1_005_000
        }
    );
    assert_eq!(decoded.hints.reason, Some(6));
    let drop = drop_of(&raw_drop(TCP_PACKET, 0x0800));
    assert_eq!(drop.tuple, Some(tuple(6, "10.0.0.1:1000", "10.0.0.2:2000")));
    let tcp = drop.packet.tcp.unwrap();
    assert_eq!(
        (tcp.flags, tcp.seq, tcp.ack, tcp.payload),
        (0x18, 11, 22, 8)
    );
    assert_eq!(
        (drop.count, &*drop.reason.name, drop.socket),
        (1, "6", None)
    );
    assert_eq!(drop.packet.ethertype, Some(0x0800));
}

#[test]
fn a_frame_that_is_not_ip_has_no_tuple_even_if_its_bytes_look_like_it() {
    let drop = drop_of(&raw_drop(TCP_PACKET, 0x88cc));
    assert_eq!(
        (drop.tuple, drop.packet.tcp, drop.packet.ethertype),
        (None, None, Some(0x88cc))
    );
    assert_eq!(drop_of(&raw_drop(TCP_PACKET, 0x86dd)).tuple, None);
    assert!(
        drop_of(&raw_drop(TCP_PACKET, 0)).tuple.is_some(),
        "no EtherType yet"
    );
}

#[test]
fn without_headers_the_socket_tells_and_the_receiver_is_the_destination() {
    let mut raw = raw_drop(&[], 0);
    raw.flags = 0;
    raw.sock = full_socket(6);
    let drop = drop_of(&raw);
    assert_eq!(drop.tuple, Some(tuple(6, "10.0.0.1:1000", "10.0.0.2:2000")));
    assert_eq!((drop.netns.inode, &*drop.reason.name), (77, NOT_SPECIFIED));
    raw.flags = RawDrop::SOCK_IS_RECEIVER;
    assert_eq!(
        drop_of(&raw).tuple,
        Some(tuple(6, "10.0.0.2:2000", "10.0.0.1:1000"))
    );
    raw.sock.tuple.destination_port = 0;
    assert_eq!(drop_of(&raw).tuple.unwrap().source.port, None);
}

#[test]
fn a_socket_that_does_not_know_both_ends_tells_no_tuple() {
    let mut raw = raw_drop(&[], 0);
    raw.sock = full_socket(17);
    raw.sock.tuple.destination = RawAddress::mapped([0; 4]);
    assert_eq!(drop_of(&raw).tuple, None);
    raw.sock = full_socket(6);
    raw.sock.present = RawSock::PRESENT_MINI;
    assert_eq!(drop_of(&raw).tuple, None);
    raw.sock = full_socket(6);
    raw.sock.family = 17;
    assert_eq!(drop_of(&raw).tuple, None);
}

#[test]
fn the_packet_is_believed_more_than_the_socket() {
    let mut raw = raw_drop(TCP_PACKET, 0x0800);
    raw.sock = full_socket(6);
    raw.sock.tuple.source_port = 9;
    assert_eq!(
        drop_of(&raw).tuple,
        Some(tuple(6, "10.0.0.1:1000", "10.0.0.2:2000"))
    );
}

#[test]
fn a_socket_found_on_the_way_in_is_the_receiver() {
    let mut raw = raw_drop(TCP_PACKET, 0x0800);
    raw.sock = full_socket(6);
    assert!(!drop_of(&raw).socket.unwrap().is_receiver);
    raw.sock.tuple = raw_tuple(6, ([10, 0, 0, 2], 2000), ([10, 0, 0, 1], 1000));
    assert!(drop_of(&raw).socket.unwrap().is_receiver);
}

#[test]
fn of_a_tunnel_the_inner_packet_counts() {
    let total = u8::try_from(20 + TCP_PACKET.len()).unwrap();
    let outer = [
        0x45, 0, 0, total, 0, 1, 0, 0, 64, 4, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ];
    let drop = drop_of(&raw_drop(&[&outer, TCP_PACKET].concat(), 0x0800));
    assert_eq!(drop.tuple, Some(tuple(6, "10.0.0.1:1000", "10.0.0.2:2000")));
    let tunnel = drop.tunnel.unwrap();
    assert_eq!(
        (tunnel.id, tunnel.outer),
        (None, tuple(4, "192.0.2.1:0", "192.0.2.2:0"))
    );
    assert_eq!(drop.packet.tcp.unwrap().payload, 8);
    // The inner packet is cut off: then the outer one is all there is.
    let drop = drop_of(&raw_drop(&[&outer, &TCP_PACKET[..10]].concat(), 0x0800));
    assert_eq!(
        (drop.tuple, drop.tunnel),
        (Some(tuple(4, "192.0.2.1:0", "192.0.2.2:0")), None)
    );
}

#[test]
fn an_icmp_error_shows_what_it_quotes() {
    let mut packet = vec![
        0x45, 0, 0, 76, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1, 3, 4, 0, 0, 0, 0, 5, 0,
    ];
    packet.extend(TCP_PACKET);
    let drop = drop_of(&raw_drop(&packet, 0x0800));
    assert_eq!(drop.tuple, Some(tuple(1, "10.0.0.9:0", "10.0.0.1:0")));
    let icmp = drop.packet.icmp.unwrap();
    assert_eq!((icmp.kind, icmp.code), (3, 4));
    assert_eq!(
        icmp.quoted,
        Some(tuple(6, "10.0.0.1:1000", "10.0.0.2:2000"))
    );
}

#[test]
fn a_vlan_tag_is_found_in_the_packet_or_beside_it() {
    let tagged = [&[0x20, 0x05, 0x08, 0x00], TCP_PACKET].concat();
    let drop = drop_of(&raw_drop(&tagged, 0x8100));
    assert_eq!(
        (drop.packet.vlan, drop.packet.ethertype),
        (Some(5), Some(0x0800))
    );
    assert!(drop.tuple.is_some());
    let mut raw = raw_drop(TCP_PACKET, 0x0800);
    raw.flags |= RawDrop::HAS_VLAN;
    raw.vlan_tci = 0x2007;
    assert_eq!(drop_of(&raw).packet.vlan, Some(7));
}

#[test]
fn super_packets_have_their_length_from_the_buffer() {
    let mut packet = TCP_PACKET.to_vec();
    packet[2..4].fill(0);
    let mut raw = raw_drop(&packet, 0x0800);
    raw.length = 100_040;
    raw.segments = 69;
    let drop = drop_of(&raw);
    assert_eq!(
        (drop.packet.tcp.unwrap().payload, drop.packet.segments),
        (100_000, 69)
    );
}

fn raw_retransmit() -> RawRetransmit {
    let mut raw = RawRetransmit::new_zeroed();
    raw.header = header(2, size_of::<RawRetransmit>());
    raw.sock = full_socket(6);
    raw.class = Class::Fast as u8;
    raw.segments = 2;
    raw.flags = RawRetransmit::HAS_TCP;
    raw.tcp = raw_tcp();
    raw
}

fn raw_tcp() -> RawTcp {
    let mut raw = RawTcp::new_zeroed();
    raw.srtt_8us = 8 * 1234 + 7;
    raw.mdev_4us = 4 * 99 + 3;
    raw.min_rtt_us = u32::MAX;
    raw.rto_jiffies = 51;
    raw.snd_ssthresh = 0x7fff_ffff;
    raw.pacing_rate = u64::MAX;
    raw.chrono_stat = [10, 20, 30];
    raw.chrono_type = 2;
    raw.jiffies = 5;
    raw.chrono_start = u32::MAX;
    raw.congestion_control[..5].copy_from_slice(b"cubic");
    raw
}

#[test]
fn a_retransmit_has_the_units_of_ss() {
    let mut decoder = Decoder::new(Some(250));
    let clock = |_: u64| 0;
    let mut next =
        |raw: &RawRetransmit| match decoder.decode(raw.as_bytes(), &clock).unwrap().event.body {
            Body::Retransmit(retransmit) => *retransmit,
            other => panic!("{other:?}"),
        };
    let retransmit = next(&raw_retransmit());
    assert_eq!(
        (retransmit.id, retransmit.attempt, retransmit.kind),
        (1, None, Class::Fast)
    );
    assert_eq!(
        retransmit.verdict,
        Verdict {
            cause: Cause::Inconclusive,
            why: Some(NOT_JUDGED)
        }
    );
    let tcp = retransmit.tcp.unwrap();
    assert_eq!(
        (tcp.srtt_us, tcp.rttvar_us, tcp.min_rtt_us),
        (Some(1234), Some(99), None)
    );
    assert_eq!(
        (tcp.ssthresh, tcp.pacing_rate_bytes_per_s, tcp.rto_us),
        (None, None, Some(204_000))
    );
    // The span of 6 jiffies that runs now counts as limited by the window, across the wrap of the counter.
    assert_eq!(
        (tcp.busy_us, tcp.rwnd_limited_us, tcp.sndbuf_limited_us),
        (Some(66 * 4000), Some(26 * 4000), Some(30 * 4000))
    );
    assert_eq!(tcp.congestion_control.as_deref(), Some("cubic"));
    assert_eq!(next(&raw_retransmit()).id, 2);
}

#[test]
fn without_the_tick_rate_there_are_no_times_made_of_ticks() {
    let decoded = Decoder::new(None)
        .decode(raw_retransmit().as_bytes(), &|_: u64| 0)
        .unwrap();
    let Body::Retransmit(retransmit) = decoded.event.body else {
        panic!()
    };
    let tcp = retransmit.tcp.unwrap();
    assert_eq!(
        (tcp.rto_us, tcp.busy_us, tcp.rwnd_limited_us),
        (None, None, None)
    );
}

#[test]
fn a_start_read_after_the_ticks_adds_nothing() {
    let mut raw = raw_retransmit();
    raw.tcp.chrono_start = 6;
    let Body::Retransmit(retransmit) = decode(raw.as_bytes()).unwrap().event.body else {
        panic!()
    };
    assert_eq!(retransmit.tcp.unwrap().rwnd_limited_us, Some(20 * 4000));
}

#[test]
fn what_is_no_record_is_refused() {
    let raw = raw_retransmit();
    let bytes = raw.as_bytes();
    assert_eq!(decode(&[]), Err(DecodeError::Short { need: 24, got: 0 }));
    assert_eq!(
        decode(&bytes[..100]),
        Err(DecodeError::Short {
            need: size_of::<RawRetransmit>(),
            got: 100
        })
    );
    let with = |change: &dyn Fn(&mut RawRetransmit)| {
        let mut raw = raw_retransmit();
        change(&mut raw);
        decode(raw.as_bytes())
    };
    assert_eq!(
        with(&|raw| raw.header.kind = 99),
        Err(DecodeError::UnknownKind(99))
    );
    assert_eq!(
        with(&|raw| raw.header.abi = 0),
        Err(DecodeError::WrongAbi(0))
    );
    assert_eq!(
        with(&|raw| raw.class = 0),
        Err(DecodeError::BadField("class of retransmit"))
    );
    assert_eq!(
        with(&|raw| raw.sock.tuple = RawTuple::NONE),
        Err(DecodeError::BadField("tuple of retransmit"))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        fuzz(&bytes);
    }

    #[test]
    fn a_packet_cut_anywhere_has_the_same_tuple_or_less(cut in 0..TCP_PACKET.len()) {
        let drop = drop_of(&raw_drop(&TCP_PACKET[..cut], 0x0800));
        match drop.tuple {
            None => prop_assert!(cut < 20),
            Some(found) if cut < 24 => prop_assert_eq!(found, tuple(6, "10.0.0.1:0", "10.0.0.2:0")),
            Some(found) => prop_assert_eq!(found, tuple(6, "10.0.0.1:1000", "10.0.0.2:2000")),
        }
    }
}
