use proptest::prelude::*;

use super::escape::is_hidden;
use super::fixtures::*;
use super::human::HumanSink;
use super::json::JsonSink;
use super::*;
use crate::aggregate::summary::Lost;
use crate::event::{Body, DropClass, Name, Outcome};

fn json(tell: impl FnOnce(&mut dyn Sink)) -> String {
    let mut out = Vec::new();
    tell(&mut JsonSink::new(&mut out));
    String::from_utf8(out).unwrap()
}

fn human_in(config: OutputConfig, tell: impl FnOnce(&mut dyn Sink)) -> String {
    let mut out = Vec::new();
    tell(&mut HumanSink::new(&mut out, config));
    String::from_utf8(out).unwrap()
}

fn human(tell: impl FnOnce(&mut dyn Sink)) -> String {
    human_in(OutputConfig::plain(Format::Human), tell)
}

fn bodies() -> Vec<Body> {
    let retransmits = [
        retransmit(Kind::Syn),
        retransmit(Kind::Rto),
        retransmit(Kind::Tlp),
        retransmit(Kind::Fast),
        retransmit(Kind::RackTimer),
        retransmit(Kind::SlowStart),
        retransmit(Kind::NonCongestion),
        retransmit(Kind::TfoFallback),
        retransmit(Kind::ZeroWindow),
        failed(),
        synack(),
    ];
    let drops = [
        drop("NO_SOCKET", DropClass::Path),
        full_queue(),
        tunnelled(),
        icmp(),
        lldp(),
        hostile(),
    ];
    let retransmits = retransmits
        .into_iter()
        .map(|retransmit| Body::Retransmit(Box::new(retransmit)));
    let drops = drops.into_iter().map(|drop| Body::Drop(Box::new(drop)));
    let rest = [
        Body::Reset(Box::new(reset())),
        Body::Sample(Box::new(sample())),
        Body::FlowEnd(Box::new(sample())),
    ];
    retransmits.chain(drops).chain(rest).collect()
}

fn tell_events(sink: &mut dyn Sink) {
    sink.start(&start()).unwrap();
    for (ms, body) in (0..).zip(bodies()) {
        sink.event(&event(ms, body), Visibility::Shown).unwrap();
    }
    sink.verdict(&change(Cause::Pending, Cause::LocalDrop))
        .unwrap();
    sink.verdict(&change(Cause::Pending, Cause::Inconclusive))
        .unwrap();
    sink.verdict(&change(Cause::OutsideHost, Cause::Spurious))
        .unwrap();
}

fn tell_one(body: Body) -> impl FnOnce(&mut dyn Sink) {
    move |sink| sink.event(&event(0, body), Visibility::Shown).unwrap()
}

#[test]
fn json_of_every_event() {
    insta::assert_snapshot!(json(tell_events));
}

#[test]
fn human_lines_of_every_event() {
    insta::assert_snapshot!(human(tell_events));
}

#[test]
fn human_lines_on_a_terminal() {
    let config = OutputConfig {
        width: Some(120),
        color: true,
        ..OutputConfig::plain(Format::Human)
    };
    insta::assert_snapshot!(human_in(config, tell_events).replace('\u{1b}', "^"));
}

#[test]
fn json_of_a_summary() {
    insta::assert_snapshot!(json(|sink| sink
        .summary(&summary(), Moment::Final)
        .unwrap()));
}

#[test]
fn human_summary() {
    insta::assert_snapshot!(human(|sink| sink
        .summary(&summary(), Moment::Final)
        .unwrap()));
}

#[test]
fn a_quiet_run_says_so() {
    let quiet = Summary {
        duration_s: 12.34,
        ..Summary::default()
    };
    insta::assert_snapshot!(
        "quiet_human",
        human(|sink| sink.summary(&quiet, Moment::Final).unwrap())
    );
    insta::assert_snapshot!(
        "quiet_json",
        json(|sink| sink.summary(&quiet, Moment::SoFar).unwrap())
    );
}

#[test]
fn what_does_not_add_up_is_said() {
    let off = Summary {
        reconcile: vec![row("TcpRetransSegs", 37, 35)],
        ..summary()
    };
    let text = human(|sink| sink.summary(&off, Moment::Final).unwrap());
    assert!(
        text.contains("1 of 1 counters leave a remainder that nothing traced explains"),
        "{text}"
    );
    assert!(text.contains("NOT EXPLAINED"), "{text}");
    let clean = Summary {
        counters_only: Vec::new(),
        lost: Lost::default(),
        ..summary()
    };
    let text = human(|sink| sink.summary(&clean, Moment::Final).unwrap());
    assert!(
        text.contains("Every retransmit and drop the kernel counted was seen.\n"),
        "{text}"
    );
    assert!(
        !text.contains("Missed by the tracer") && !text.contains("Seen only by counters"),
        "{text}"
    );
}

#[test]
fn long_tables_say_how_much_is_left() {
    let many = Summary {
        flows: vec![flow(); 23],
        ..summary()
    };
    let text = human(|sink| sink.summary(&many, Moment::Final).unwrap());
    assert!(
        text.contains("… and 3 more flows: -o json has them all."),
        "{text}"
    );
}

#[test]
fn a_summary_keeps_to_the_width() {
    for width in [60, 80, 120] {
        let config = OutputConfig {
            width: Some(width),
            ..OutputConfig::plain(Format::Human)
        };
        let text = human_in(config, |sink| {
            sink.summary(&summary(), Moment::Final).unwrap();
        });
        for line in text.lines() {
            assert!(
                unicode_width::UnicodeWidthStr::width(line) <= width,
                "{width}: {line}"
            );
        }
    }
}

#[test]
fn hidden_events_are_not_shown() {
    let hidden = |sink: &mut dyn Sink| {
        sink.event(&event(0, Body::Drop(Box::new(lldp()))), Visibility::Hidden)
            .unwrap();
    };
    assert_eq!(
        (json(hidden), human(hidden)),
        (String::new(), String::new())
    );
}

#[test]
fn a_flow_is_told_once() {
    let text = json(|sink| {
        sink.flow(&flow()).unwrap();
        sink.summary(&summary(), Moment::SoFar).unwrap();
        sink.summary(&summary(), Moment::Final).unwrap();
    });
    assert_eq!(text.matches("\"event\":\"flow\"").count(), 1);
    assert!(
        text.lines()
            .last()
            .unwrap()
            .starts_with("{\"event\":\"summary\"")
    );
}

#[test]
fn failed_attempts_and_only_those_are_marked() {
    let line = |outcome| {
        let attempt = crate::event::Retransmit {
            outcome,
            ..failed()
        };
        let text = json(tell_one(Body::Retransmit(Box::new(attempt))));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        (value["tcp"]["failed"].clone(), value["tcp"]["late"].clone())
    };
    assert_eq!(line(Outcome::Sent), (().into(), ().into()));
    assert_eq!(line(Outcome::FailedEarly), (true.into(), ().into()));
    assert_eq!(line(Outcome::FailedLate), (true.into(), true.into()));
}

#[test]
fn the_own_namespace_is_not_named() {
    let home = crate::event::Drop {
        netns: Netns {
            inode: 4_026_531_840,
            ..Netns::default()
        },
        ..full_queue()
    };
    let text = human(|sink| {
        sink.start(&start()).unwrap();
        sink.event(&event(0, Body::Drop(Box::new(home))), Visibility::Shown)
            .unwrap();
    });
    assert!(!text.contains("net:"), "{text}");
}

#[test]
fn why_an_owner_is_not_known_is_said_on_request() {
    let verbose = OutputConfig {
        verbose: true,
        ..OutputConfig::plain(Format::Human)
    };
    let text = human_in(verbose, tell_one(Body::Retransmit(Box::new(synack()))));
    assert!(text.contains("? (the socket has no file yet)"), "{text}");
}

fn named(name: &str) -> crate::event::Drop {
    let mut drop = hostile();
    let name: Name = name.into();
    drop.netns.name = Some(Name::clone(&name));
    drop.reason.name = Name::clone(&name);
    drop.location.symbol = Some(Name::clone(&name));
    drop.interface = Some(crate::event::Interface {
        index: 1,
        name: Some(Name::clone(&name)),
    });
    drop.owner.process = Some(crate::event::Process { pid: 1, name });
    drop
}

proptest! {
    #[test]
    fn no_name_does_anything_to_a_terminal(name in any::<String>()) {
        let tell = |sink: &mut dyn Sink| {
            sink.event(&event(0, Body::Drop(Box::new(named(&name)))), Visibility::Shown).unwrap();
            let mut totals = summary();
            totals.diagnosis.clone_from(&name);
            totals.drop_groups[0].reason = name.as_str().into();
            totals.drop_groups[0].interface = Some(name.as_str().into());
            totals.flows[0].netns.name = Some(name.as_str().into());
            totals.flows[0].owner.process = Some(crate::event::Process { pid: 1, name: name.as_str().into() });
            sink.summary(&totals, Moment::Final).unwrap();
        };
        for text in [json(tell), human(tell)] {
            prop_assert!(!text.chars().any(|c| c != '\n' && is_hidden(c)), "{text:?}");
        }
        prop_assert_eq!(json(tell).lines().count(), 3);
    }

    #[test]
    fn json_gives_every_name_back(name in any::<String>()) {
        let text = json(tell_one(Body::Drop(Box::new(named(&name)))));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&value["reason"], &name);
        prop_assert_eq!(&value["process"]["name"], &name);
        prop_assert_eq!(&value["interface"]["name"], &name);
    }
}
