//! As many drops as one CPU can make: what of them remains under the tracer, what it costs, and whether all are counted.

use super::{
    memory::number,
    stage::{self, Stage},
    table::{Row, median},
};
use crate::netns::Netns;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{thread, time::Duration};

/// What must remain of the flood.
const BUDGET_KEPT: f64 = 0.75;
/// Of one core, for the user side.
const BUDGET_CPU: f64 = 0.05;
/// Memory is flat if it grows by no more.
const BUDGET_GROWTH_KIB: f64 = 1024.0;

/// Medians of rounds are made of these.
#[derive(Default)]
struct Rounds {
    flood: Vec<f64>,
    kept: Vec<f64>,
    cpu: Vec<f64>,
    growth: Vec<f64>,
    shown: Vec<f64>,
    dropped: f64,
    elsewhere: f64,
    fault: Option<String>,
}

pub(crate) fn rows(stage: &Stage) -> Result<Vec<Row>> {
    let namespace = stage.namespace("flood")?;
    let (count, seconds) = if stage.once { (1, 1) } else { (3, 2) };
    let (mut shown, mut counted) = (Rounds::default(), Rounds::default());
    let mut before = stage.storm(&namespace, seconds, 0)?.per_second;
    // Every traced flood lies between two that are not.
    for _ in 0..count {
        for (rounds, args) in [
            (&mut shown, &[] as &[&str]),
            (&mut counted, &["--port", "1"]),
        ] {
            let traced = round(stage, &namespace, seconds, args, rounds)?;
            let after = stage.storm(&namespace, seconds, 0)?.per_second;
            let alone = f64::midpoint(before, after);
            rounds.kept.push(traced / alone);
            rounds.flood.push(alone);
            before = after;
        }
    }
    let mut rows = vec![Row::shown(
        "flood without tracer",
        format!(
            "{:.0} drops/s, median of {}",
            middle(&shown.flood)?,
            shown.flood.len()
        ),
    )];
    rows.extend(shown.rows("all streamed")?);
    rows.extend(counted.rows("all counted, none shown")?);
    Ok(rows)
}

/// A flood under the tracer, drops a second; the rest goes into `rounds`.
fn round(
    stage: &Stage,
    namespace: &Netns,
    seconds: u64,
    args: &[&str],
    rounds: &mut Rounds,
) -> Result<f64> {
    let tracer = stage.tracer(args)?;
    thread::sleep(Duration::from_millis(200));
    let (cpu, memory) = (tracer.cpu()?, tracer.memory("VmRSS")?);
    let ports = stage::no_ports(namespace)?;
    let storm = stage.storm(namespace, seconds, 0)?;
    let cpu = tracer.cpu()?.saturating_sub(cpu).as_secs_f64();
    rounds.cpu.push(cpu / storm.seconds);
    rounds.growth.push(tracer.memory("VmRSS")? - memory);
    let dropped = stage::no_ports(namespace)?.saturating_sub(ports);
    let summary = tracer.stop()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let dropped_f64 = dropped as f64;
    let host = number(&summary, "/host_drops_by_reason/NO_SOCKET")?;
    let ours = observed(&summary, namespace.name()).context("no books of the flood")?;
    // Matched, less those whose record did not fit.
    let matched = number(&summary, "/drops/packets")?;
    rounds
        .shown
        .push((matched - number(&summary, "/lost/no_record")?) / dropped_f64);
    rounds.dropped += dropped_f64;
    // Other namespaces of the host may drop as well: of ours the number is exact.
    rounds.elsewhere += host - dropped_f64;
    if ours != dropped || dropped != storm.sent || host < dropped_f64 {
        rounds.fault = Some(format!(
            "{} sent, UdpNoPorts {dropped}, counted {ours}, on the host {host}",
            storm.sent
        ));
    }
    Ok(storm.per_second)
}

/// What the summary counted against `UdpNoPorts` of that namespace.
fn observed(summary: &Value, namespace: &str) -> Option<u64> {
    let books = summary.get("reconcile")?.as_array()?;
    books
        .iter()
        .find(|book| {
            let text = |pointer: &str| book.pointer(pointer).and_then(Value::as_str);
            text("/counter") == Some("UdpNoPorts") && text("/netns/name") == Some(namespace)
        })?
        .get("observed")?
        .as_u64()
}

impl Rounds {
    fn rows(&self, how: &str) -> Result<Vec<Row>> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let ratio = |ratio: f64| format!("{ratio:.2}");
        let mut rows = vec![
            Row::at_least(
                format!("flood, {how}: kept"),
                middle(&self.kept)?,
                BUDGET_KEPT,
                ratio,
            ),
            Row::at_most(
                format!("flood, {how}: CPU of the user side"),
                middle(&self.cpu)?,
                BUDGET_CPU,
                percent,
            ),
            Row::at_most(
                format!("flood, {how}: memory grows by"),
                middle(&self.growth)?,
                BUDGET_GROWTH_KIB,
                |kib| format!("{kib:.0} KiB"),
            ),
            Row::right(
                format!("flood, {how}: drops counted"),
                format!("{:.0}, and {:.0} elsewhere", self.dropped, self.elsewhere),
                self.fault.clone(),
            ),
        ];
        if how.contains("streamed") {
            let shown = percent(middle(&self.shown)?);
            rows.push(Row::shown(
                format!("flood, {how}: shown with details"),
                shown,
            ));
        }
        Ok(rows)
    }
}

fn middle(values: &[f64]) -> Result<f64> {
    median(values).context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_of_the_right_namespace() {
        let book = |counter: &str, name: &str, observed: u64| serde_json::json!({"netns": {"name": name}, "counter": counter, "observed": observed});
        let summary = serde_json::json!({"reconcile": [
            book("UdpNoPorts", "other", 1), book("IpInHdrErrors", "ours", 2), book("UdpNoPorts", "ours", 3)
        ]});
        assert_eq!(observed(&summary, "ours"), Some(3));
        assert_eq!(observed(&summary, "none"), None);
    }
}
