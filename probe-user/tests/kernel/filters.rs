//! Filters: several runs at a time watch the same traffic, and each must show what the one without a filter shows and its
//! own filter lets through. The books are kept before filters: they stay exact.

use std::time::Duration;

use serde_json::Value;

use crate::support::counters::settle;
use crate::support::identities::Books;
use crate::support::netns::{Netns, Pair, SERVER, SERVER6, link};
use crate::support::tracer::{Trace, Tracer};
use crate::support::traffic::{datagrams, try_connect};
use crate::support::{end, num, text};

/// Two cables between the two, and rules that drop some of what is sent.
fn place() -> Pair {
    let pair = Pair::new();
    link(
        (&pair.client, "c1", &["10.64.9.1/24"]),
        (&pair.server, "s1", &["10.64.9.2/24"]),
    );
    pair.server
        .drop_rule("wall", "input", "tcp dport 7010-7011");
    pair.server.drop_rule("wall_udp", "input", "udp dport 7020");
    pair
}

/// Retransmits, drops for two reasons, on two interfaces, over IPv4 and IPv6, of TCP, UDP and ICMP.
fn traffic(pair: &Pair) {
    const HOW_LONG: Duration = Duration::from_millis(1300);
    let client = &pair.client;
    std::thread::scope(|scope| {
        for to in [
            format!("{SERVER}:7010"),
            format!("{SERVER}:7011"),
            format!("[{SERVER6}]:7010"),
            "10.64.9.2:7011".to_owned(),
        ] {
            scope.spawn(move || try_connect(client, &to, HOW_LONG).expect_err("no answer"));
        }
    });
    for to in [format!("{SERVER}:7001"), format!("[{SERVER6}]:7001")] {
        try_connect(client, &to, HOW_LONG).expect_err("refused");
    }
    datagrams(client, "10.64.0.1:7100", &format!("{SERVER}:7020"), 3);
    datagrams(client, "10.64.0.1:7101", &format!("{SERVER}:7021"), 4);
    datagrams(client, "10.64.9.1:7100", "10.64.9.2:7021", 2);
    datagrams(client, "[fd66::1]:7100", &format!("[{SERVER6}]:7020"), 5);
    client.sh(&format!("ping -q -c 2 -i 0.1 {SERVER}"));
}

/// What an event is, without its time.
fn essence(event: &Value) -> String {
    format!(
        "{} {}{} {} {} → {} in {} on {}",
        text(event, "/event"),
        text(event, "/reason"),
        text(event, "/tcp/kind"),
        text(event, "/network/transport"),
        end(event, "source"),
        end(event, "destination"),
        text(event, "/netns/name"),
        text(event, "/interface/name"),
    )
}

fn shown(trace: &Trace, namespaces: &[&Netns], keep: &dyn Fn(&Value) -> bool) -> Vec<String> {
    let mut shown: Vec<_> = trace
        .lines
        .iter()
        .filter(|line| ["drop", "retransmit"].contains(&text(line, "/event")))
        .filter(|line| {
            let inode = num(line, "/netns/inode");
            namespaces.iter().any(|netns| netns.inode == inode)
        })
        .filter(|line| keep(line))
        .flat_map(|line| {
            // A retransmit stands for itself.
            let count = num(line, "/count").max(1);
            (0..count).map(move |_| essence(line))
        })
        .collect();
    shown.sort();
    shown
}

fn ports(event: &Value) -> [u64; 2] {
    // The packet quoted in an ICMP error counts as well.
    [num(event, "/source/port"), num(event, "/destination/port")]
}

fn quoted(event: &Value) -> [u64; 2] {
    [
        num(event, "/packet/icmp/quoted/source/port"),
        num(event, "/packet/icmp/quoted/destination/port"),
    ]
}

fn any_address(event: &Value, prefix: &str) -> bool {
    ["", "/packet/icmp/quoted"].iter().any(|place| {
        ["source", "destination"]
            .iter()
            .any(|which| text(event, &format!("{place}/{which}/address")).starts_with(prefix))
    })
}

fn is(event: &Value, pointer: &str, value: &str) -> bool {
    text(event, pointer) == value
}

type Predicate = Box<dyn Fn(&Value) -> bool>;

fn cases(pair: &Pair) -> Vec<(Vec<String>, Predicate)> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let client = pair.client.inode;
    let case = |line: &str, keep: Predicate| -> (Vec<String>, Predicate) { (words(line), keep) };
    let port = |wanted: u64| {
        move |event: &Value| ports(event).contains(&wanted) || quoted(event).contains(&wanted)
    };
    vec![
        case("--port 7010", Box::new(port(7010))),
        case(
            "--port 7010-7011 --port 7020",
            Box::new(move |event| [7010, 7011, 7020].iter().any(|one| port(*one)(event))),
        ),
        case(
            "--src-port 7100",
            Box::new(|event| ports(event)[0] == 7100 || quoted(event)[0] == 7100),
        ),
        case(
            "--dst-port 7011",
            Box::new(|event| ports(event)[1] == 7011 || quoted(event)[1] == 7011),
        ),
        case(
            "--host 10.64.9.0/24",
            Box::new(|event| any_address(event, "10.64.9.")),
        ),
        case(
            "--host fd66::/32",
            Box::new(|event| any_address(event, "fd66:")),
        ),
        case(
            "--proto udp",
            Box::new(|event| {
                is(event, "/network/transport", "udp")
                    || is(event, "/packet/icmp/quoted/transport", "udp")
            }),
        ),
        case(
            &format!("--netns {}", pair.client.name),
            Box::new(move |event| num(event, "/netns/inode") == client),
        ),
        case(
            "--interface s1",
            Box::new(|event| is(event, "/event", "drop") && is(event, "/interface/name", "s1")),
        ),
        case(
            "--only drops --reason NO_SOCKET",
            Box::new(|event| is(event, "/reason", "NO_SOCKET")),
        ),
        case(
            "--only drops --exclude-reason NETFILTER_*",
            Box::new(|event| {
                is(event, "/event", "drop") && !text(event, "/reason").starts_with("NETFILTER_")
            }),
        ),
        case(
            "--only retransmits",
            Box::new(|event| is(event, "/event", "retransmit")),
        ),
        case(
            "--only retransmits --dst-port 7010",
            Box::new(|event| is(event, "/event", "retransmit") && ports(event)[1] == 7010),
        ),
    ]
}

#[test]
fn each_filter_shows_what_matches_and_the_books_stay_exact() {
    let pair = place();
    let cases = cases(&pair);
    let mut args: Vec<Vec<&str>> = vec![vec!["--all"]];
    for (words, _) in &cases {
        let all = (!words.iter().any(|word| word == "retransmits")).then_some("--all");
        args.push(words.iter().map(String::as_str).chain(all).collect());
    }
    let args: Vec<&[&str]> = args.iter().map(Vec::as_slice).collect();
    let runs = Tracer::start_all(&args);
    let books = Books::open(pair.both());
    traffic(&pair);
    let moved = books.moved();
    let traces: Vec<_> = runs.into_iter().map(Tracer::stop).collect();
    let (whole, filtered) = traces.split_first().expect("the one without a filter");
    books.check(whole, &moved);
    for event in ["drop", "retransmit"] {
        assert!(whole.of(event, &pair.client).count() + whole.of(event, &pair.server).count() > 0);
    }
    let everything = shown(whole, &pair.both(), &|_| true).len();
    let mut wrong = Vec::new();
    for ((words, keep), trace) in cases.iter().zip(filtered) {
        books.check_rows(trace, &moved);
        let expected = shown(whole, &pair.both(), keep);
        assert!(
            !expected.is_empty() && expected.len() < everything,
            "{words:?} proves nothing"
        );
        let found = shown(trace, &pair.both(), &|_| true);
        if found != expected {
            let missing: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
            let extra: Vec<_> = found.iter().filter(|one| !expected.contains(one)).collect();
            wrong.push(format!(
                "{}: {} instead of {} events\n  missing: {missing:#?}\n  extra: {extra:#?}",
                words.join(" "),
                found.len(),
                expected.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing of the firewall's rules is lost on the way.
    let dropped = pair.server.end_rule("wall") + pair.server.end_rule("wall_udp");
    let drops = whole.drops(&pair.server, "NETFILTER_DROP", |_| true);
    assert_eq!(drops, dropped);
}

/// A reset is neither a drop nor a retransmit, but it has a tuple.
#[test]
fn what_does_not_match_is_not_shown() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &["--all", "--port", "7002"]);
    for port in [7001, 7002] {
        let to = format!("{SERVER}:{port}");
        try_connect(&pair.client, &to, Duration::from_secs(5)).expect_err("refused");
    }
    settle(&pair.client);
    let trace = tracer.stop();
    let mut events = 0;
    for line in &trace.lines {
        let ours = pair
            .both()
            .iter()
            .any(|netns| netns.inode == num(line, "/netns/inode"));
        if ours && ["drop", "reset", "retransmit", "flow"].contains(&text(line, "/event")) {
            assert!(ports(line).contains(&7002), "{line}");
            events += 1;
        }
    }
    assert!(events > 0);
    assert_eq!(trace.drops(&pair.server, "NO_SOCKET", |_| true), 1);
}
