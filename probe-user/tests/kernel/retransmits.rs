//! Kinds of retransmits that loss in the middle of a connection does not bring about.

use std::io::{ErrorKind, Write as _};
use std::thread;
use std::time::Duration;

use crate::support::identities::{Books, Sums};
use crate::support::netns::{Netns, Pair, SERVER, SERVER6, link};
use crate::support::tracer::Tracer;
use crate::support::traffic::{Server, abort, connect, datagrams, send, try_connect};
use crate::support::{end, num, text};

#[test]
fn a_closed_port() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &["--all"]);
    let books = Books::open(pair.both());
    for _ in 0..5 {
        let refused = try_connect(
            &pair.client,
            &format!("{SERVER}:7001"),
            Duration::from_secs(5),
        );
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    }
    datagrams(&pair.client, "10.64.0.1:0", &format!("{SERVER}:7001"), 3);
    datagrams(&pair.client, "[fd66::1]:0", &format!("[{SERVER6}]:7001"), 4);
    let (trace, moved) = books.close(tracer);
    assert_eq!(trace.of("retransmit", &pair.client).count(), 0);
    let of = |transport: &'static str, version: &'static str| {
        move |drop: &serde_json::Value| {
            text(drop, "/network/transport") == transport && text(drop, "/network/type") == version
        }
    };
    for (transport, version, packets) in
        [("tcp", "ipv4", 5), ("udp", "ipv4", 3), ("udp", "ipv6", 4)]
    {
        let drops = trace.drops(&pair.server, "NO_SOCKET", of(transport, version));
        assert_eq!(drops, packets, "{transport} {version}");
    }
    let syn = trace
        .of("drop", &pair.server)
        .find(|drop| text(drop, "/network/transport") == "tcp")
        .expect("a drop");
    assert_eq!(end(syn, "destination"), format!("{SERVER}:7001"), "{syn}");
    assert_eq!(text(syn, "/packet/tcp/flags"), "S", "{syn}");
    assert_eq!(text(syn, "/direction"), "receive", "{syn}");
    for (counter, packets) in [("UdpNoPorts", 3), ("Udp6NoPorts", 4)] {
        assert_eq!(moved[1].get(counter), packets);
        crate::support::identities::check_row(&trace, &pair.server, counter, packets);
    }
    let resets = |netns: &Netns, direction: &str| {
        trace
            .of("reset", netns)
            .filter(|reset| text(reset, "/direction") == direction)
            .count()
    };
    assert_eq!(moved[1].get("TcpOutRsts"), 5);
    assert_eq!(
        (
            resets(&pair.server, "transmit"),
            resets(&pair.client, "receive")
        ),
        (5, 5),
        "{}",
        trace.show("reset", &pair.server)
    );
}

#[test]
fn a_firewall_that_drops_the_syn() {
    const HOW_LONG: Duration = Duration::from_millis(2500);
    let pair = Pair::new();
    pair.server.drop_rule("wall", "input", "tcp dport 7001");
    let tracer = Tracer::of(&pair.both(), &["--all"]);
    let books = Books::open(pair.both());
    thread::scope(|scope| {
        for to in [format!("{SERVER}:7001"), format!("[{SERVER6}]:7001")] {
            let client = &pair.client;
            scope.spawn(move || {
                assert_eq!(try_connect(client, &to, HOW_LONG), Err(ErrorKind::TimedOut));
            });
        }
    });
    let (trace, moved) = books.close(tracer);
    let dropped = pair.server.end_rule("wall");
    assert_eq!(
        trace.drops(&pair.server, "NETFILTER_DROP", |_| true),
        dropped
    );
    assert!(moved[0].get("TcpExtTCPSynRetrans") >= 2);
    for remote in [SERVER, SERVER6] {
        let attempts: Vec<_> = trace
            .of("retransmit", &pair.client)
            .filter(|event| text(event, "/destination/address") == remote)
            .map(|event| {
                assert_eq!(text(event, "/tcp/kind"), "syn", "{event}");
                assert_eq!(text(event, "/tcp/state"), "SYN_SENT", "{event}");
                assert_eq!(num(event, "/tcp/segments"), 1, "{event}");
                num(event, "/tcp/attempt")
            })
            .collect();
        let expected: Vec<_> = (1..).take(attempts.len()).collect();
        assert!(!attempts.is_empty());
        assert_eq!(attempts, expected);
    }
}

#[test]
fn the_answer_to_the_syn_lost() {
    let pair = Pair::new();
    pair.client
        .drop_rule("answers", "input", "tcp flags & (syn | ack) == syn | ack");
    let tracer = Tracer::of(&pair.both(), &[]);
    let books = Books::open(pair.both());
    let server = Server::sink(&pair.server, &format!("{SERVER}:0"));
    let to = format!("{SERVER}:{}", server.port);
    let connected = try_connect(&pair.client, &to, Duration::from_millis(2500));
    assert_eq!(connected, Err(ErrorKind::TimedOut));
    pair.client.end_rule("answers");
    // The next copy is answered with a reset: the client knows nothing of it any more.
    let port = server.port;
    let (trace, moved) = books.close(tracer);
    drop(server);
    assert!(moved[1].get("TcpRetransSegs") > 0);
    for event in trace.of("retransmit", &pair.server) {
        assert_eq!(text(event, "/tcp/kind"), "synack", "{event}");
        assert_eq!(end(event, "source"), format!("{SERVER}:{port}"), "{event}");
        assert_eq!(text(event, "/destination/address"), "10.64.0.1", "{event}");
    }
}

/// A router whose next link takes less: everything in flight is cut anew and sent again, which is no congestion.
#[test]
fn a_smaller_path_mtu_is_found() {
    let (client, router, server) = (Netns::new("cli"), Netns::new("rtr"), Netns::new("srv"));
    link(
        (&client, "c0", &["10.64.1.1/24"]),
        (&router, "r0", &["10.64.1.254/24"]),
    );
    link(
        (&router, "r1", &["10.64.2.254/24"]),
        (&server, "s0", &["10.64.2.2/24"]),
    );
    router.sh("sysctl -qw net.ipv4.ip_forward=1");
    client.sh("ip route add default via 10.64.1.254");
    server.sh("ip route add default via 10.64.2.254");
    let tracer = Tracer::of(&[&client, &router, &server], &["--all"]);
    let books = Books::open([&client, &router, &server]);
    let sink = Server::sink(&server, "10.64.2.2:0");
    let stream = connect(&client, &format!("10.64.2.2:{}", sink.port));
    router.sh("ip link set r1 mtu 1300");
    send(stream, 300_000, Duration::from_secs(5));
    drop(sink);
    let (trace, moved) = books.close(tracer);
    let sums = Sums::of(&trace, &client);
    assert!(sums.sent(&["non_congestion"]) > 0, "{sums:?}");
    let too_big = trace.drops(&router, "PKT_TOO_BIG", |drop| {
        text(drop, "/direction") == "forward" && text(drop, "/source/address") == "10.64.1.1"
    });
    assert!(too_big > 0, "{}", trace.show("drop", &router));
    assert_eq!(too_big, moved[1].get("IpFragFails"));
    let last = trace
        .of("retransmit", &client)
        .last()
        .expect("a retransmit");
    assert_eq!(num(last, "/tcp/pmtu"), 1300, "{last}");
}

/// The window is closed and what it still had let through is lost: probes are no retransmits, what was sent is.
#[test]
fn a_peer_that_no_longer_reads() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    let books = Books::open(pair.both());
    let listener = pair
        .server
        .inside(|| std::net::TcpListener::bind(format!("{SERVER}:0")).expect("listen"));
    let port = listener.local_addr().unwrap().port();
    let mut stream = connect(&pair.client, &format!("{SERVER}:{port}"));
    let (accepted, _) = listener.accept().expect("accept");
    stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while stream.write(&[b'x'; 1 << 14]).is_ok() {}
    thread::sleep(Duration::from_millis(700));
    abort(stream);
    abort(accepted);
    drop(listener);
    let (trace, moved) = books.close(tracer);
    let probes = moved[0].get("TcpExtTCPWinProbe");
    assert!(probes > 0);
    assert_eq!(Sums::of(&trace, &pair.client).sent(&["zero_window"]), 0);
}
