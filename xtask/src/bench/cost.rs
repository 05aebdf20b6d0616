//! What each program costs an event, as the kernel counts it, beside the cheapest programs that could do a part of it.

use super::{
    stage::{self, Stage},
    table::Row,
    tracer::{self, Programs, Runs, Tracer},
};
use crate::{
    host,
    netns::{Netns, Process},
};
use anyhow::{Context as _, Result};
use probe_common::{DropCount, DropCountKey, RawDrop};
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    time::Instant,
};

const BUDGET: f64 = 1.5;
const BUDGET_CORE: f64 = 0.02;
/// Drops a second: little enough that every one of them is also streamed.
const RATE: u64 = 100_000;
/// How much of that rate must remain.
const BUDGET_KEPT: f64 = 0.98;
/// One of so many packets of the lossy connection is lost.
const LOSS: u32 = 50;
/// With fewer events there is nothing to divide by.
const FEWEST: u64 = 50;

/// By name of the program.
type Measured = BTreeMap<String, Runs>;

pub(crate) fn rows(stage: &Stage) -> Result<Vec<Row>> {
    let floor = Floor::start(stage)?;
    let namespace = stage.namespace("cost")?;
    let seconds = if stage.once { 1 } else { 3 };

    let mut kept = 0.0;
    #[expect(clippy::cast_precision_loss, reason = "a small constant")]
    let mut drops = |args: &[&str]| {
        measure(stage, &floor, args, || {
            let storm = stage.storm(&namespace, seconds, RATE)?;
            kept = storm.per_second / RATE as f64;
            Ok(())
        })
    };
    let (counted, _) = drops(&["--port", "1"])?;
    let (streamed, _) = drops(&[])?;
    let mut rows = vec![
        against("kfree_skb, counted", &counted, "kfree_skb", "floor_hash"),
        against(
            "kfree_skb, counted and streamed",
            &streamed,
            "kfree_skb",
            "floor_ring",
        ),
        Row::at_least(
            "100 000 drops/s, all streamed: kept",
            kept,
            BUDGET_KEPT,
            ratio,
        ),
    ];
    rows.extend(tcp(stage, &floor, &namespace, seconds)?);
    rows.push(floors(&streamed));
    Ok(rows)
}

/// TCP without loss, with loss, and what is refused.
fn tcp(stage: &Stage, floor: &Floor, namespace: &Netns, seconds: u64) -> Result<Vec<Row>> {
    let alone = stage.bulk(namespace, seconds)?;
    let mut traced = 0.0;
    let (clean, time) = measure(stage, floor, &[], || {
        traced = stage.bulk(namespace, seconds)?;
        Ok(())
    })?;
    let (ns, events) = clean
        .iter()
        .filter(|(name, _)| !name.starts_with("floor"))
        .fold((0.0, 0.0), |(ns, events), (_, runs)| {
            (ns + float(runs.ns), events + float(runs.count))
        });
    let share = Row::at_most(
        "TCP over loopback: share of a core",
        ns / time / 1e9,
        BUDGET_CORE,
        |share| format!("{:.2} %", share * 100.0),
    );
    let mut rows = vec![
        against(
            "tcp_probe, flow of no interest",
            &clean,
            "tcp_probe",
            "floor_lookup",
        ),
        share.with(&format!(", {:.0} events/s", events / time)),
        Row::shown(
            "TCP over loopback: throughput with / without",
            format!("{traced:.0} / {alone:.0} MB/s ({:.2})", traced / alone),
        ),
    ];
    let (refused, _) = measure(stage, floor, &["--all"], || {
        stage.flows(namespace, 500, 2000)
    })?;
    let mut loads = vec![("connections refused", refused)];
    if stage::lose(namespace, LOSS)? {
        // Shown and not shown: the difference is what a record costs that has to wake its reader.
        for (load, args) in [
            ("bulk with loss", &[] as &[&str]),
            ("the same, none shown", &["--port", "1"]),
        ] {
            let (lossy, _) = measure(stage, floor, args, || {
                stage.bulk(namespace, seconds).map(drop)
            })?;
            loads.push((load, lossy));
        }
    }
    for (load, measured) in loads {
        for (name, runs) in &measured {
            if runs.count >= FEWEST && !name.starts_with("floor") {
                let text = format!("{:.0} ns ({} events)", each(*runs), runs.count);
                rows.push(Row::shown(format!("{name}, {load}"), text));
            }
        }
    }
    Ok(rows)
}

/// Our program against the floor it has to be near.
fn against(what: &str, measured: &Measured, program: &str, floor: &str) -> Row {
    let enough = |name: &str| measured.get(name).filter(|runs| runs.count >= FEWEST);
    let (Some(ours), Some(least)) = (enough(program), enough(floor)) else {
        return Row::skipped(what, "too few events");
    };
    let (ours, least) = (each(*ours), each(*least));
    Row::at_most(what, ours / least, BUDGET, ratio)
        .with(&format!(" ({ours:.0} ns; {floor} {least:.0} ns)"))
}

/// The floors themselves, to compare machines by.
fn floors(measured: &Measured) -> Row {
    let text: Vec<_> = measured
        .iter()
        .filter(|(name, runs)| name.starts_with("floor") && runs.count >= FEWEST)
        .map(|(name, runs)| format!("{name} {:.0} ns", each(*runs)))
        .collect();
    Row::shown("floor programs", text.join(", "))
}

/// Traces a load; what ours and the floor programs ran meanwhile, and for how many seconds.
fn measure(
    stage: &Stage,
    floor: &Floor,
    args: &[&str],
    load: impl FnOnce() -> Result<()>,
) -> Result<(Measured, f64)> {
    let tracer = stage.tracer(args)?;
    let before = floor.all(&tracer)?;
    let begin = Instant::now();
    load()?;
    let time = begin.elapsed().as_secs_f64();
    let after = floor.all(&tracer)?;
    // While they are loaded, the programs can be named.
    let names = Floor::names(stage, &after)?;
    tracer.stop()?;
    let mut measured = Measured::new();
    for (id, runs) in after {
        if let Some(name) = names.get(&id) {
            let runs = runs.since(before.get(&id).copied().unwrap_or_default());
            measured.insert(name.clone(), runs);
        }
    }
    Ok((measured, time))
}

fn each(runs: Runs) -> f64 {
    float(runs.ns) / float(runs.count)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// The floor programs. As long as they are loaded the kernel also measures every program's time.
struct Floor {
    process: Process,
}

impl Floor {
    fn start(stage: &Stage) -> Result<Self> {
        stage.check()?;
        let ready = stage.file("floor");
        let sizes = [
            size_of::<DropCountKey>(),
            size_of::<DropCount>(),
            size_of::<RawDrop>(),
        ];
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(&stage.floor)
            .arg("run")
            .args(sizes.map(|size| size.to_string()))
            .arg(&ready)
            .stdout(Stdio::null());
        let mut process = Process::start("the floor programs", &mut command)?;
        tracer::wait_for(&ready, &mut process).context("the floor programs")?;
        Ok(Self { process })
    }

    /// The floor programs and the tracer's.
    fn all(&self, tracer: &Tracer) -> Result<Programs> {
        let mut programs = tracer::programs(self.process.id())?;
        programs.extend(tracer.programs()?);
        Ok(programs)
    }

    fn names(stage: &Stage, programs: &Programs) -> Result<BTreeMap<u32, String>> {
        let mut command = Command::new(&stage.floor);
        command.arg("names");
        command.args(programs.keys().map(ToString::to_string));
        let text = host::output(&mut command)?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs
            .filter_map(|(id, name)| Some((id.parse().ok()?, name.to_owned())))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::Verdict;

    fn runs(ns: u64, count: u64) -> Runs {
        Runs {
            ns,
            count,
            missed: 0,
        }
    }

    #[test]
    fn a_program_is_held_against_its_floor() {
        let measured = Measured::from([
            ("kfree_skb".to_owned(), runs(30_000, 100)),
            ("floor_hash".to_owned(), runs(15_000, 100)),
        ]);
        let row = against("drop", &measured, "kfree_skb", "floor_hash");
        assert_eq!(row.verdict, Verdict::Missed("1.33 times the budget".into()));
        let row = against("drop", &measured, "kfree_skb", "floor_ring");
        assert_eq!(row.verdict, Verdict::Skipped("too few events".into()));
    }
}
