//! Hosts that lack something, and namespaces that come and go.

use std::process::{Command, Output};

use crate::support::identities::{Books, check_row};
use crate::support::netns::{Pair, SERVER};
use crate::support::tracer::{PROGRAM, Tracer};
use crate::support::traffic::{Server, datagrams, send_many};
use crate::support::{PATIENCE, flag, num, text, wait_for};

/// Runs the program in a mount namespace of its own, after `mounts`.
fn behind(mounts: &str, args: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "sh", "-ec"])
        .arg(format!("{mounts}; exec {PROGRAM} {args}"))
        .output()
        .unwrap()
}

const NO_TYPES: &str = "mount -t tmpfs none /sys/kernel/btf";

#[test]
fn without_the_types_of_the_kernel() {
    for args in ["", "doctor"] {
        let output = behind(NO_TYPES, args);
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("/sys/kernel/btf/vmlinux missing"), "{said}");
        assert!(said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
    }
}

#[test]
fn doctor_finds_this_host_well() {
    let output = Command::new(PROGRAM).arg("doctor").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("This host can be traced"), "{said}");
    assert!(output.stderr.is_empty());
}

/// Places are bare addresses then, and the user is told why; the rest works.
#[test]
fn without_the_symbols_of_the_kernel() {
    let pair = Pair::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec"]).arg(format!(
        "mount --bind /dev/null /proc/kallsyms; exec {PROGRAM} \"$@\""
    ));
    command.args(["sh", "-o", "json", "--netns", &pair.server.name]);
    let tracer = Tracer::start_as(&mut command);
    datagrams(&pair.client, "10.64.0.1:0", &format!("{SERVER}:7001"), 3);
    let trace = tracer.stop();
    assert_eq!(trace.drops(&pair.server, "NO_SOCKET", |_| true), 3);
    for drop in trace.of("drop", &pair.server) {
        assert!(
            text(drop, "/location/address").starts_with("0xffff"),
            "{drop}"
        );
        assert!(drop.pointer("/location/symbol").is_none(), "{drop}");
    }
    let warnings: Vec<_> = trace
        .stderr
        .lines()
        .filter(|line| line.contains("/proc/kallsyms"))
        .collect();
    assert_eq!(warnings.len(), 1, "{}", trace.stderr);
}

#[test]
fn namespaces_created_while_tracing_are_accounted_for() {
    let tracer = Tracer::start::<&str>([]);
    let pair = Pair::new();
    let books = Books::open(pair.both());
    let server = Server::sink(&pair.server, &format!("{SERVER}:0"));
    pair.server.drop_rule(
        "loss",
        "input",
        "tcp flags & syn == 0 numgen inc mod 40 == 7",
    );
    send_many(
        &pair.client,
        &format!("{SERVER}:{}", server.port),
        1,
        500_000,
        PATIENCE,
    );
    datagrams(&pair.client, "10.64.0.1:0", &format!("{SERVER}:7001"), 3);
    pair.server.end_rule("loss");
    drop(server);
    let (trace, moved) = books.close(tracer);
    assert!(moved[0].get("TcpRetransSegs") > 0);
    check_row(&trace, &pair.server, "UdpNoPorts", 3);
}

#[test]
fn a_namespace_that_ends_while_tracing_is_told_as_ended() {
    let pair = Pair::new();
    let tracer = Tracer::of(&pair.both(), &[]);
    datagrams(&pair.client, "10.64.0.1:0", &format!("{SERVER}:7001"), 3);
    let inode = pair.server.inode;
    tracer.wait("the drops", |lines| {
        let drops = lines
            .iter()
            .filter(|line| num(line, "/netns/inode") == inode);
        (drops.map(|drop| num(drop, "/count")).sum::<u64>() == 3).then_some(())
    });
    let name = pair.server.name.clone();
    let server = Pair::into_server(pair);
    // Its counters cannot be read any more once it is gone.
    drop(server);
    // Its end is the kernel's, some time after the last name: the peer's device goes with it.
    wait_for("the namespace to be gone", || {
        let names = crate::support::run(Command::new("ip").args(["netns", "list"]));
        (!names.contains(&name)).then_some(())
    });
    let trace = tracer.stop();
    let rows = trace.summary()["reconcile"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| num(row, "/netns/inode") == inode && text(row, "/counter") == "UdpNoPorts")
        .expect("a row");
    assert!(flag(row, "/ended"), "{row}");
    assert!(!flag(row, "/exact"), "{row}");
    assert_eq!(num(row, "/observed"), 3, "{row}");
    assert_eq!(row["unexplained"].as_i64(), Some(0), "{row}");
}
