//! How a run ends, and what it says while it goes on.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::netns::{Netns, Pair, SERVER};
use crate::support::tracer::{PROGRAM, Tracer, read_all, scratch};
use crate::support::traffic::{Running, datagrams};
use crate::support::{flag, num, text, wait_for};

/// Drops of UDP in the pair's server: no listener.
fn some_drops(pair: &Pair, count: usize) {
    datagrams(
        &pair.client,
        "10.64.0.1:0",
        &format!("{SERVER}:7001"),
        count,
    );
}

#[test]
fn after_so_many_events() {
    let pair = Pair::new();
    let tracer = Tracer::start([
        "--count",
        "5",
        "--netns",
        &pair.server.name,
        "--reason",
        "NO_SOCKET",
    ]);
    some_drops(&pair, 5);
    let trace = tracer.end();
    assert_eq!(trace.drops(&pair.server, "NO_SOCKET", |_| true), 5);
    assert_eq!(num(trace.summary(), "/drops/by_reason/NO_SOCKET"), 5);
}

#[test]
fn after_so_long() {
    let tracer = Tracer::start(["--duration", "500ms", "--netns", "/proc/self/ns/net"]);
    let trace = tracer.end();
    let duration = trace.summary()["duration_s"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&duration), "{duration}");
}

#[test]
fn terminated_as_interrupted() {
    let pair = Pair::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // Whoever runs this test may ignore SIGHUP (`nohup`), and what it starts inherits that.
        let tracer = Tracer::start_as(Command::new("env").args([
            "--default-signal=HUP",
            PROGRAM,
            "-o",
            "json",
            "--netns",
            &pair.server.name,
        ]));
        some_drops(&pair, 3);
        tracer.signal(signal);
        let trace = tracer.end();
        assert_eq!(
            trace.drops(&pair.server, "NO_SOCKET", |_| true),
            3,
            "{signal:?}"
        );
        assert!(!flag(trace.summary(), "/so_far"));
    }
}

/// As `nohup` starts it: SIGHUP ended the program all the same.
#[test]
fn a_hangup_that_was_ignored_stays_ignored() {
    let pair = Pair::new();
    let tracer = Tracer::start_as(Command::new("env").args([
        "--ignore-signal=HUP",
        PROGRAM,
        "-o",
        "json",
        "--reason",
        "NO_SOCKET",
        "--netns",
        &pair.server.name,
    ]));
    tracer.signal(Signal::HUP);
    some_drops(&pair, 3);
    tracer.wait("the drops", |lines| {
        let drops = lines.iter().filter(|line| text(line, "/event") == "drop");
        (drops.map(|drop| num(drop, "/count")).sum::<u64>() == 3).then_some(())
    });
    let trace = tracer.stop();
    assert_eq!(num(trace.summary(), "/drops/packets"), 3);
}

/// `timeout` signals its child, and then the group of its child: the summary was lost.
#[test]
fn a_signal_that_comes_twice_at_once_is_one_request() {
    let pair = Pair::new();
    let tracer = Tracer::start(["--netns", &pair.server.name]);
    some_drops(&pair, 3);
    tracer.signal(Signal::INT);
    tracer.signal(Signal::INT);
    let trace = tracer.end();
    assert_eq!(trace.status.code(), Some(0), "{}", trace.stderr);
    assert_eq!(num(trace.summary(), "/drops/by_reason/NO_SOCKET"), 3);
}

/// A pager that waits, a terminal that was stopped: nothing but SIGKILL ended the program.
#[test]
fn a_reader_that_stopped_reading_cannot_keep_it() {
    let pair = Pair::new();
    let ready = scratch("ready");
    let mut running = Running::new(
        Command::new(PROGRAM)
            .args(["-o", "json", "--netns", &pair.server.name, "--ready-file"])
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    wait_for("the program to be ready", || ready.exists().then_some(()));
    // More than the pipe and the program's own buffer take.
    some_drops(&pair, 1000);
    let pid = Pid::from_child(&running.0);
    kill_process(pid, Signal::INT).expect("send a signal");
    std::thread::sleep(Duration::from_millis(600));
    assert!(
        running.0.try_wait().unwrap().is_none(),
        "it could write all of its output"
    );
    kill_process(pid, Signal::INT).expect("send a signal");
    let status = wait_for("the program to end", || running.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    std::fs::remove_file(&ready).unwrap();
}

#[test]
fn a_summary_so_far_on_request() {
    let pair = Pair::new();
    let tracer = Tracer::start(["--reason", "NO_SOCKET", "--netns", &pair.server.name]);
    some_drops(&pair, 3);
    tracer.wait("the drops", |lines| {
        let drops = lines.iter().filter(|line| text(line, "/event") == "drop");
        (drops.map(|drop| num(drop, "/count")).sum::<u64>() == 3).then_some(())
    });
    tracer.signal(Signal::USR1);
    let so_far = tracer.wait("a summary", |lines| {
        let mut summaries = lines
            .iter()
            .filter(|line| text(line, "/event") == "summary");
        summaries.next().cloned()
    });
    assert!(flag(&so_far, "/so_far"), "{so_far}");
    assert_eq!(num(&so_far, "/drops/packets"), 3, "{so_far}");
    some_drops(&pair, 2);
    let trace = tracer.stop();
    assert_eq!(num(trace.summary(), "/drops/packets"), 5);
    assert_eq!(trace.all("summary").count(), 2);
}

/// As under `| head -1`: whoever reads has had enough, which is no failure.
#[test]
fn nobody_reads_any_more() {
    let pair = Pair::new();
    for format in ["json", "human"] {
        let ready = scratch("ready");
        let mut running = Running::new(
            Command::new(PROGRAM)
                .args(["-o", format, "--netns", &pair.server.name, "--ready-file"])
                .arg(&ready)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let stderr = read_all(running.0.stderr.take().unwrap());
        let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
        wait_for("the program to be ready", || ready.exists().then_some(()));
        some_drops(&pair, 1);
        assert!(stdout.read_line(&mut String::new()).expect("read a line") > 0);
        drop(stdout);
        let status = wait_for("the program to notice", || {
            some_drops(&pair, 1);
            running.0.try_wait().unwrap()
        });
        let stderr = stderr.join().unwrap();
        assert_eq!(status.code(), Some(0), "{stderr}");
        let lines: Vec<_> = stderr.lines().collect();
        assert!(
            lines.iter().all(|line| line.contains("probes attached")),
            "{stderr}"
        );
        std::fs::remove_file(&ready).unwrap();
    }
}

#[test]
fn without_any_stdout() {
    let pair = Pair::new();
    let ready = scratch("ready");
    let script = format!(
        "exec {PROGRAM} --netns {} --ready-file {} >&-",
        pair.server.name,
        ready.display()
    );
    let mut running = Running::new(
        Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stderr(Stdio::piped()),
    );
    let stderr = read_all(running.0.stderr.take().unwrap());
    wait_for("the program to be ready", || ready.exists().then_some(()));
    some_drops(&pair, 1);
    kill_process(Pid::from_child(&running.0), Signal::INT).expect("send a signal");
    let status = wait_for("the program to end", || running.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", stderr.join().unwrap());
    std::fs::remove_file(&ready).unwrap();
}

#[test]
fn a_namespace_that_does_not_exist() {
    let output = Command::new(PROGRAM)
        .args(["--netns", "dwkt-nowhere", "--duration", "1s"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--netns dwkt-nowhere"), "{stderr}");
}

#[test]
fn a_reason_that_does_not_exist() {
    let output = Command::new(PROGRAM)
        .args(["--reason", "NO_SUCH_REASON", "--duration", "1s"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--reason NO_SUCH_REASON"), "{stderr}");
}

/// Two summaries a second, each a whole line.
#[test]
fn summaries_at_an_interval() {
    let netns = Netns::new("one");
    let tracer = Tracer::start(["--interval", "200ms", "--netns", &netns.name]);
    tracer.wait("two summaries", |lines| {
        let summaries = lines.iter().filter(|line| flag(line, "/so_far"));
        (summaries.count() >= 2).then_some(())
    });
    let duration = |line: &serde_json::Value| line["duration_s"].as_f64().unwrap();
    let trace = tracer.stop();
    let times: Vec<_> = trace.all("summary").map(duration).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(
        times[0] >= Duration::from_millis(200).as_secs_f64(),
        "{times:?}"
    );
}
