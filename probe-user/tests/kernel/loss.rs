//! Segments lost on the way: what is reported is what the kernel counted.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::support::identities::{Books, Sums};
use crate::support::netns::{Netns, Pair, SERVER, SERVER6};
use crate::support::tracer::{Trace, Tracer};
use crate::support::traffic::{Server, connect, send, send_many};
use crate::support::{PATIENCE, end, flag, num, text};

const NETFILTER: &str = "NETFILTER_DROP";
const AT_MOST: Duration = Duration::from_secs(5);

/// A transfer to `address` while the server's netfilter drops what `rule` says. Returns what was traced.
#[track_caller]
fn lossy(pair: &Pair, address: &str, rule: &str, connections: usize, bytes: usize) -> Trace {
    let tracer = Tracer::of(&pair.both(), &["--all"]);
    let books = Books::open(pair.both());
    let server = Server::sink(&pair.server, &format!("{address}:0"));
    pair.server.drop_rule("loss", "input", rule);
    let to = format!("{address}:{}", server.port);
    send_many(&pair.client, &to, connections, bytes, AT_MOST);
    let dropped = pair.server.end_rule("loss");
    drop(server);
    let (trace, _) = books.close(tracer);
    assert!(dropped > 0);
    assert_eq!(trace.drops(&pair.server, NETFILTER, |_| true), dropped);
    trace
}

fn is_between(event: &serde_json::Value, client: &str, server: &str) -> bool {
    text(event, "/source/address") == client && text(event, "/destination/address") == server
}

#[test]
fn two_percent_of_the_segments_lost() {
    let pair = Pair::new();
    let trace = lossy(
        &pair,
        SERVER,
        "tcp dport != 0 numgen random mod 100 < 2",
        2,
        3_000_000,
    );
    let sums = Sums::of(&trace, &pair.client);
    assert!(sums.sent(&["fast"]) > 10, "{sums:?}");
}

#[test]
fn fifteen_percent_of_the_segments_lost() {
    let pair = Pair::new();
    let rule = "tcp flags & syn == 0 numgen random mod 100 < 15";
    let trace = lossy(&pair, SERVER, rule, 6, 200_000);
    let sums = Sums::of(&trace, &pair.client);
    assert!(sums.sent(&["fast"]) > 20, "{sums:?}");
    assert!(sums.sent(&["rto", "tlp"]) > 0, "{sums:?}");
}

#[test]
fn loss_over_ipv6() {
    let pair = Pair::new();
    let rule = "meta nfproto ipv6 tcp dport != 0 numgen random mod 100 < 4";
    let trace = lossy(&pair, &format!("[{SERVER6}]"), rule, 2, 1_000_000);
    let events: Vec<_> = trace.of("retransmit", &pair.client).collect();
    assert!(!events.is_empty());
    for event in events {
        assert_eq!(text(event, "/network/type"), "ipv6", "{event}");
        assert!(is_between(event, "fd66::1", SERVER6), "{event}");
    }
}

/// An `AF_INET6` socket that talks IPv4 is shown as what is on the wire.
#[test]
fn loss_over_ipv4_of_a_socket_for_ipv6() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &["--host", SERVER]);
    let books = Books::open(pair.both());
    let server = Server::echo(&pair.server, "[::]:0");
    let rule = "ip protocol tcp tcp flags & syn == 0 numgen random mod 100 < 4";
    pair.server.drop_rule("loss", "input", rule);
    let to = format!("[::ffff:{SERVER}]:{}", server.port);
    let stream = connect(&pair.client, &to);
    assert!(stream.local_addr().unwrap().is_ipv6());
    let local = format!("10.64.0.1:{}", stream.local_addr().unwrap().port());
    send(stream, 1_000_000, AT_MOST);
    pair.server.end_rule("loss");
    let remote = format!("{SERVER}:{}", server.port);
    drop(server);
    let (trace, moved) = books.close(tracer);
    assert!(moved[0].get("TcpRetransSegs") > 0);
    for event in trace.of("retransmit", &pair.client) {
        assert_eq!(text(event, "/network/type"), "ipv4", "{event}");
        assert_eq!(end(event, "source"), local, "{event}");
        assert_eq!(end(event, "destination"), remote, "{event}");
    }
}

#[test]
fn an_outage_in_the_middle_of_a_transfer() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    let books = Books::open(pair.both());
    let server = Server::sink(&pair.server, &format!("{SERVER}:0"));
    let to = format!("{SERVER}:{}", server.port);
    let transfers: Vec<_> = (0..3)
        .map(|_| {
            let stream = connect(&pair.client, &to);
            // Enough for the whole test: it ends with the reset.
            thread::spawn(move || send(stream, usize::MAX, Duration::from_millis(4500)))
        })
        .collect();
    sleep(Duration::from_millis(300));
    pair.server.drop_rule("outage", "input", "ip protocol tcp");
    sleep(Duration::from_millis(1600));
    pair.server.end_rule("outage");
    for transfer in transfers {
        transfer.join().expect("a transfer");
    }
    drop(server);
    let (trace, _) = books.close(tracer);
    let sums = Sums::of(&trace, &pair.client);
    assert!(sums.sent(&["rto"]) >= 3, "{sums:?}");
    assert!(sums.sent(&["slow_start"]) > 0, "{sums:?}");
    let attempts = trace
        .of("retransmit", &pair.client)
        .filter(|event| text(event, "/tcp/kind") == "rto")
        .map(|event| num(event, "/tcp/attempt"));
    assert!(attempts.max() >= Some(2), "{sums:?}");
}

/// Short exchanges: a lost acknowledgement is not made good by the next one.
#[test]
fn acknowledgements_lost() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &["--all"]);
    let books = Books::open(pair.both());
    let server = Server::echo(&pair.server, &format!("{SERVER}:0"));
    let rule = "tcp flags & syn == 0 numgen random mod 100 < 25";
    pair.client.drop_rule("acks", "input", rule);
    let to = format!("{SERVER}:{}", server.port);
    let exchanges: Vec<_> = (0..8)
        .map(|_| {
            let stream = connect(&pair.client, &to);
            thread::spawn(move || exchange(stream, 12))
        })
        .collect();
    for exchange in exchanges {
        exchange.join().expect("an exchange");
    }
    let dropped = pair.client.end_rule("acks");
    drop(server);
    let (trace, moved) = books.close(tracer);
    assert_eq!(trace.drops(&pair.client, NETFILTER, |_| true), dropped);
    let sent_again: u64 = moved.iter().map(|moved| moved.get("TcpRetransSegs")).sum();
    assert!(sent_again > 0);
}

/// Writes and waits for the answer, so many times.
fn exchange(mut stream: std::net::TcpStream, rounds: usize) {
    use std::io::{Read as _, Write as _};
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(AT_MOST)).unwrap();
    for _ in 0..rounds {
        stream.write_all(&[b'x'; 3000]).expect("write");
        assert!(stream.read(&mut [0; 64]).expect("read") > 0);
    }
    crate::support::traffic::abort(stream);
}

/// What the queue of the own interface refuses fails, is counted by the kernel all the same, and is no success.
#[test]
fn a_queueing_discipline_that_is_full() {
    let pair = Pair::new();
    pair.client
        .sh("tc qdisc add dev c0 root handle 1: tbf rate 8mbit burst 4k limit 12k");
    let tracer = Tracer::of(&pair.both(), &["--all"]);
    let books = Books::open(pair.both());
    let server = Server::sink(&pair.server, &format!("{SERVER}:0"));
    let to = format!("{SERVER}:{}", server.port);
    let streams = [connect(&pair.client, &to), connect(&pair.client, &to)];
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        // However this ends.
        let _stop = Stop(&enough);
        scope.spawn(|| keep_full(&pair.client, &enough));
        for stream in streams {
            scope.spawn(|| send(stream, 500_000, PATIENCE));
        }
        tracer.wait("an attempt that fails late", |lines| {
            let late = |line: &serde_json::Value| flag(line, "/tcp/late");
            lines.iter().any(late).then_some(())
        });
    });
    drop(server);
    let (trace, moved) = books.close(tracer);
    let late: Vec<_> = trace
        .of("retransmit", &pair.client)
        .filter(|event| event.pointer("/tcp/late").is_some())
        .collect();
    assert!(!late.is_empty(), "{:?}", Sums::of(&trace, &pair.client));
    let segments: u64 = late.iter().map(|event| num(event, "/tcp/segments")).sum();
    assert_eq!(segments, moved[0].get("TcpExtTCPRetransFail"));
    let local = |drop: &serde_json::Value| {
        text(drop, "/interface/name") == "c0" && text(drop, "/direction") == "transmit"
    };
    let drops = trace.drops(&pair.client, "QDISC_OVERLIMIT", local)
        + trace.drops(&pair.client, "QDISC_DROP", local);
    assert_eq!(drops, qdisc_drops(&pair.client, "c0"));
}

/// Ends a loop.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Three times what the queue takes.
fn keep_full(client: &Netns, enough: &AtomicBool) {
    let socket = client.inside(|| UdpSocket::bind("10.64.0.1:0").expect("bind"));
    while !enough.load(Ordering::Relaxed) {
        for _ in 0..3 {
            socket.send_to(&[b'x'; 1400], (SERVER, 9)).expect("send");
        }
        sleep(Duration::from_millis(1));
    }
}

fn qdisc_drops(netns: &Netns, interface: &str) -> u64 {
    let text = netns.sh(&format!("tc -s -j qdisc show dev {interface}"));
    let qdiscs: serde_json::Value = serde_json::from_str(&text).expect("tc prints JSON");
    num(&qdiscs, "/0/drops")
}
