//! The state of a socket as `ss` and `iperf3` see it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;

use serde_json::Value;

use crate::support::identities::Books;
use crate::support::netns::{Pair, SERVER};
use crate::support::ss::Ss;
use crate::support::tracer::Tracer;
use crate::support::traffic::{Running, Server, abort, connect};
use crate::support::{end, flag, num, text, wait_for};

fn of_port(event: &Value, kind: &str, port: u16) -> bool {
    text(event, "/event") == kind && num(event, "/source/port") == u64::from(port)
}

/// What the event and `ss` say of the same moment.
#[track_caller]
fn same_state(tcp: &Value, ss: &Ss) {
    for (ours, theirs) in [
        ("total_retrans", ss.total_retrans()),
        ("bytes_retrans", ss.number("bytes_retrans")),
        ("bytes_sent", ss.number("bytes_sent")),
        ("bytes_acked", ss.number("bytes_acked")),
        ("mss", ss.number("mss")),
        ("pmtu", ss.number("pmtu")),
        ("cwnd", ss.number("cwnd")),
        ("srtt_us", ss.rtt().0),
        ("rttvar_us", ss.rtt().1),
        ("min_rtt_us", ss.micros("minrtt")),
        ("segs_out", ss.number("segs_out")),
        ("data_segs_out", ss.number("data_segs_out")),
        ("segs_in", ss.number("segs_in")),
        ("delivered", ss.number("delivered")),
        ("lost_out", ss.number("lost")),
        ("packets_out", ss.number("unacked")),
        ("snd_wnd", ss.number("snd_wnd")),
    ] {
        assert_eq!(tcp[ours].as_u64(), Some(theirs), "{ours} in {tcp}");
    }
    // Both leave it out where there was no loss yet.
    let threshold = ss.word("ssthresh").map(|_| ss.number("ssthresh"));
    assert_eq!(tcp["ssthresh"].as_u64(), threshold, "ssthresh in {tcp}");
}

#[test]
fn a_stalled_connection_is_as_ss_shows_it() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    let books = Books::open(pair.both());
    let server = Server::echo(&pair.server, &format!("{SERVER}:0"));
    let mut stream = connect(&pair.client, &format!("{SERVER}:{}", server.port));
    let port = stream.local_addr().unwrap().port();
    // A round-trip time that is measured.
    for _ in 0..20 {
        stream.write_all(&[b'x'; 4000]).expect("write");
        wait_for("everything to be acknowledged", || {
            Ss::of(&pair.client, port)
                .word("unacked")
                .is_none()
                .then_some(())
        });
    }
    pair.server.drop_rule("stall", "input", "ip protocol tcp");
    stream.write_all(&[b'x'; 9000]).expect("write");
    assert!(Ss::of(&pair.client, port).word("ssthresh").is_none());
    // From the third on, the next one is more than a second away.
    let attempt = tracer.wait("the third timeout", |lines| {
        lines
            .iter()
            .find(|line| of_port(line, "retransmit", port) && num(line, "/tcp/attempt") == 3)
            .cloned()
    });
    let ss = Ss::of(&pair.client, port);
    assert_eq!(text(&attempt, "/tcp/kind"), "rto", "{attempt}");
    assert_eq!(text(&attempt, "/tcp/state"), "ESTABLISHED", "{attempt}");
    assert_eq!(text(&attempt, "/tcp/ca_state"), "loss", "{attempt}");
    same_state(&attempt["tcp"], &ss);
    // The timer that fired; it has doubled since.
    assert_eq!(
        num(&attempt, "/tcp/rto_us") * 2,
        ss.micros("rto"),
        "{attempt}"
    );
    assert!(num(&attempt, "/tcp/ssthresh") >= 2, "{attempt}");
    // `ss` shows it as a word of its own.
    assert!(
        ss.has(text(&attempt, "/tcp/congestion_control")),
        "{attempt}"
    );
    abort(stream);
    pair.server.end_rule("stall");
    drop(server);
    let (trace, _) = books.close(tracer);
    let flow = trace
        .of("flow", &pair.client)
        .find(|flow| of_port(flow, "flow", port))
        .expect("the flow");
    assert!(flag(flow, "/ended"), "{flow}");
    for member in [
        "total_retrans",
        "bytes_retrans",
        "srtt_us",
        "rttvar_us",
        "mss",
    ] {
        assert_eq!(
            flow["tcp"][member], attempt["tcp"][member],
            "{member} in {flow}"
        );
    }
    assert_eq!(
        num(flow, "/retransmits/segments"),
        ss.total_retrans(),
        "{flow}"
    );
    assert_eq!(
        num(flow, "/retransmits/bytes"),
        ss.number("bytes_retrans"),
        "{flow}"
    );
}

/// The run ends while the connection still stands: its last state is that of its last event.
#[test]
fn a_connection_that_outlives_the_run_is_as_ss_shows_it() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    let server = Server::sink(&pair.server, &format!("{SERVER}:0"));
    let mut stream = connect(&pair.client, &format!("{SERVER}:{}", server.port));
    let port = stream.local_addr().unwrap().port();
    pair.server.drop_rule("stall", "input", "ip protocol tcp");
    stream.write_all(&[b'x'; 9000]).expect("write");
    tracer.wait("the third timeout", |lines| {
        let third =
            |line: &&Value| of_port(line, "retransmit", port) && num(line, "/tcp/attempt") == 3;
        lines.iter().any(|line| third(&line)).then_some(())
    });
    let ss = Ss::of(&pair.client, port);
    let trace = tracer.stop();
    let flow = trace
        .of("flow", &pair.client)
        .find(|flow| of_port(flow, "flow", port))
        .expect("the flow");
    assert!(!flag(flow, "/ended"), "{flow}");
    same_state(&flow["tcp"], &ss);
    pair.server.end_rule("stall");
    abort(stream);
}

/// `iperf3` reads `total_retrans` of each stream for the last time at the end of the test; what follows is not in it.
#[test]
fn the_retransmits_iperf3_reports() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    let books = Books::open(pair.both());
    let server = Running::new(
        pair.server
            .command("iperf3")
            .args(["-s", "-1", "-p", "5201"])
            .stdout(Stdio::null()),
    );
    wait_for("iperf3 to listen", || {
        let listening = pair.server.sh("ss -Hltn sport = :5201");
        (!listening.is_empty()).then_some(())
    });
    pair.server.drop_rule(
        "loss",
        "input",
        "tcp dport 5201 meta length > 500 numgen random mod 100 < 2",
    );
    let begun = Timestamp::now();
    let text_of_iperf = pair
        .client
        .sh(&format!("iperf3 -J -c {SERVER} -p 5201 -P 4 -t 3 -b 8M"));
    pair.server.end_rule("loss");
    drop(server);
    let (trace, _) = books.close(tracer);
    let report: Value = serde_json::from_str(&text_of_iperf).expect("iperf3 prints JSON");
    let connected = report["start"]["connected"].as_array().expect("streams");
    let streams = report["end"]["streams"].as_array().expect("streams");
    assert_eq!((connected.len(), streams.len()), (4, 4));
    let mut total = 0;
    for stream in streams {
        let sender = &stream["sender"];
        let port = connected
            .iter()
            .find(|one| one["socket"] == sender["socket"])
            .map(|one| num(one, "/local_port"))
            .expect("its port");
        let retr = num(sender, "/retransmits");
        total += retr;
        let last_sample = begun + Duration::from_secs_f64(sender["seconds"].as_f64().unwrap());
        let mut counted = 0;
        for event in trace.of("retransmit", &pair.client) {
            if num(event, "/source/port") != port || flag(event, "/tcp/failed") {
                continue;
            }
            counted += num(event, "/tcp/segments");
            assert_eq!(num(event, "/tcp/total_retrans"), counted, "{event}");
            if counted > retr {
                let time: Timestamp = text(event, "/ts").parse().expect("a time");
                assert!(
                    time >= last_sample,
                    "iperf3 counted {retr} for port {port}, but there is {event}"
                );
            }
        }
        assert!(
            counted >= retr,
            "iperf3 counted {retr}, we {counted}, for {port}"
        );
        let flow = trace
            .of("flow", &pair.client)
            .find(|flow| num(flow, "/source/port") == port);
        assert_eq!(
            flow.map_or(0, |flow| num(flow, "/retransmits/segments")),
            counted
        );
        assert!(flow.is_none_or(|flow| end(flow, "destination") == format!("{SERVER}:5201")));
    }
    assert!(total > 0);
}
