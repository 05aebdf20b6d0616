//! Packets whose headers take some reading.

use crate::support::counters::Counters;
use crate::support::netns::{Netns, Pair, SERVER, link, mac};
use crate::support::tracer::{Trace, Tracer};
use crate::support::traffic::datagrams;
use crate::support::{end, num, text};

/// Traces what one namespace drops while `traffic` runs, until `check` passes.
#[track_caller]
fn traced(netns: &Netns, traffic: impl FnOnce(), packets: u64) -> Trace {
    let tracer = Tracer::of(&[netns], &["--all"]);
    traffic();
    // A packet is received where it is sent, or soon after by the other CPU.
    tracer.wait("the drops", |lines| {
        let drops = lines.iter().filter(|line| {
            text(line, "/event") == "drop"
                && num(line, "/netns/inode") == netns.inode
                // Hosts tell each other which groups they are in.
                && text(line, "/network/transport") != "icmpv6"
        });
        (drops.map(|drop| num(drop, "/count")).sum::<u64>() >= packets).then_some(())
    });
    tracer.stop()
}

/// A hand-made packet from the client, `times` times, whether or not its own host lets it out: an expression of Python with `a` and `b` (or `a6`, `b6`).
#[track_caller]
fn send_raw(pair: &Pair, packet: &str, times: u64) {
    let mac = mac(&pair.server, "s0");
    pair.client.python(&format!(
        "a, b, a6, b6 = '10.64.0.1', '10.64.0.2', 'fd66::1', 'fd66::2'\n\
         w = Wire('c0', '{mac}')\n\
         for _ in range({times}):\n\
         \x20 try: w.send({packet})\n\
         \x20 except OSError: pass"
    ));
}

#[test]
fn inside_vxlan_of_an_unknown_network() {
    let pair = Pair::new();
    for (netns, id, interface, local, remote) in [
        (&pair.client, 100, "c0", "10.64.0.1", SERVER),
        (&pair.server, 200, "s0", SERVER, "10.64.0.1"),
    ] {
        netns.sh(&format!(
            "sysctl -qw net.ipv6.conf.default.disable_ipv6=1; ip link add vx0 type vxlan id {id} \
             dstport 4789 remote {remote} local {local} dev {interface}; ip link set vx0 up"
        ));
    }
    pair.client.sh(
        "ip addr add 10.65.0.1/24 dev vx0; ip neigh replace 10.65.0.2 lladdr 02:00:00:00:00:02 dev vx0",
    );
    let trace = traced(
        &pair.server,
        || datagrams(&pair.client, "10.65.0.1:7100", "10.65.0.2:7001", 12),
        12,
    );
    let drops = trace.drops(&pair.server, "VXLAN_VNI_NOT_FOUND", |drop| {
        end(drop, "source") == "10.65.0.1:7100"
            && end(drop, "destination") == "10.65.0.2:7001"
            && text(drop, "/network/transport") == "udp"
            && text(drop, "/tunnel/type") == "vxlan"
            && num(drop, "/tunnel/id") == 100
            && text(drop, "/tunnel/source/address") == "10.64.0.1"
            && end(&drop["tunnel"], "destination") == format!("{SERVER}:4789")
    });
    assert_eq!(drops, 12, "{}", trace.show("drop", &pair.server));
}

/// Hop-by-hop and destination options before the UDP header.
#[test]
fn behind_ipv6_extension_headers() {
    let pair = Pair::new();
    let options = r"bytes([60,0,1,4,0,0,0,0]) + bytes([17,0,1,4,0,0,0,0])";
    let packet = format!("ip6(a6, b6, 0, {options} + udp(a6, b6, 7100, 7001, b'x'))");
    let trace = traced(&pair.server, || send_raw(&pair, &packet, 4), 4);
    let drops = trace.drops(&pair.server, "NO_SOCKET", |drop| {
        end(drop, "source") == "fd66::1:7100"
            && end(drop, "destination") == "fd66::2:7001"
            && text(drop, "/network/transport") == "udp"
    });
    assert_eq!(drops, 4, "{}", trace.show("drop", &pair.server));
}

/// The first fragment has ports, a later one has none, and neither may be given wrong ones.
#[test]
fn fragments() {
    let pair = Pair::new();
    pair.server
        .drop_rule("wall", "prerouting", "meta l4proto udp");
    // Before defragmentation, which would hold them back: nothing there asks for it.
    for (offset, port) in [("0x2000", 7001), ("0x0002", 0)] {
        for (address, packet) in [
            (
                "10.64.0.1",
                format!(
                    "ip4(a, b, 17, udp(a, b, 7100, 7001, b'0123456789abcdef')[:24], ident=7, frag={offset})"
                ),
            ),
            (
                "fd66::1",
                format!(
                    "ip6(a6, b6, 44, struct.pack('!BBHI', 17, 0, {}, 7) + udp(a6, b6, 7100, 7001, b'0123456789abcdef')[:24])",
                    if port == 0 { "16" } else { "1" }
                ),
            ),
        ] {
            let trace = traced(&pair.server, || send_raw(&pair, &packet, 3), 3);
            let drops = trace.drops(&pair.server, "NETFILTER_DROP", |drop| {
                text(drop, "/source/address") == address
                    && text(drop, "/network/transport") == "udp"
                    && num(drop, "/destination/port") == port
            });
            assert_eq!(drops, 3, "{}", trace.show("drop", &pair.server));
        }
    }
    assert_eq!(pair.server.end_rule("wall"), 12);
}

/// The tag is read, and what is behind it as well: beside the packet, where it was received, and still in it, on its way
/// out.
#[test]
fn in_a_vlan() {
    let pair = Pair::new();
    let packet = "struct.pack('!HH', 0x6009, 0x800) + ip4(a, b, 17, udp(a, b, 7100, 7009, b'x')), proto=0x8100";
    for (netns, hook, interface) in [
        (&pair.server, "ingress", "s0"),
        (&pair.client, "egress", "c0"),
    ] {
        netns.sh(&format!(
            "nft 'table netdev wall {{ chain c {{ type filter hook {hook} device {interface} priority 0; drop; }}; }}'"
        ));
        let trace = traced(netns, || send_raw(&pair, packet, 3), 3);
        let drops = trace.drops(netns, "NETFILTER_DROP", |drop| {
            end(drop, "source") == "10.64.0.1:7100"
                && end(drop, "destination") == "10.64.0.2:7009"
                && text(drop, "/network/transport") == "udp"
                && num(drop, "/packet/vlan") == 9
                && text(drop, "/interface/name") == interface
        });
        assert_eq!(drops, 3, "{hook}: {}", trace.show("drop", netns));
    }
}

/// A tag that is a mere priority does not keep a packet from its destination; one of a network nobody is on does.
#[test]
fn with_a_tag_that_is_taken_off() {
    let pair = Pair::new();
    let trace = traced(
        &pair.server,
        || {
            for (tag, port) in [("0x0009", 7009), ("0x6000", 7000)] {
                let packet = format!(
                    "struct.pack('!HH', {tag}, 0x800) + ip4(a, b, 17, udp(a, b, 7100, {port}, b'x')), proto=0x8100"
                );
                send_raw(&pair, &packet, 3);
            }
        },
        6,
    );
    for (port, reason) in [(7009, "OTHERHOST"), (7000, "NO_SOCKET")] {
        let drops = trace.drops(&pair.server, reason, |drop| {
            end(drop, "destination") == format!("{SERVER}:{port}")
                && text(drop, "/interface/name") == "s0"
        });
        assert_eq!(drops, 3, "{}", trace.show("drop", &pair.server));
    }
}

/// What a router has no route for is dropped where it is neither of the two ends.
#[test]
fn on_the_way_through_a_router() {
    let (client, router) = (Netns::new("cli"), Netns::new("rtr"));
    link(
        (&client, "c0", &["10.64.1.1/24"]),
        (&router, "r0", &["10.64.1.254/24"]),
    );
    router.sh("sysctl -qw net.ipv4.ip_forward=1");
    client.sh("ip route add default via 10.64.1.254");
    let before = Counters::read(&router);
    let trace = traced(
        &router,
        || datagrams(&client, "10.64.1.1:7100", "10.64.2.2:7001", 4),
        4,
    );
    assert_eq!(
        Counters::read(&router)
            .since(&before)
            .get("IpExtInNoRoutes"),
        4
    );
    let drops = trace.of("drop", &router).filter(|drop| {
        end(drop, "source") == "10.64.1.1:7100"
            && end(drop, "destination") == "10.64.2.2:7001"
            && text(drop, "/interface/name") == "r0"
    });
    let packets: u64 = drops.map(|drop| num(drop, "/count")).sum();
    assert_eq!(packets, 4, "{}", trace.show("drop", &router));
}
