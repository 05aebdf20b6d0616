//! What it holds after 10 000 flows had an event each: its own memory, and that of its kernel maps.

use super::{stage::Stage, table::Row};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{thread, time::Duration};

const BUDGET_MIB: f64 = 32.0;
/// Datagrams and connections, each to a closed port.
const UDP: u16 = 5000;
const TCP: u16 = 5000;

pub(crate) fn rows(stage: &Stage) -> Result<Vec<Row>> {
    let namespace = stage.namespace("flows")?;
    // All: a connection refused is not even shown without.
    let tracer = stage.tracer(&["--all", "--netns", namespace.name()])?;
    let before = tracer.memory("VmRSS")?;
    stage.flows(&namespace, UDP, TCP)?;
    thread::sleep(Duration::from_millis(500));
    let (after, most) = (tracer.memory("VmRSS")?, tracer.memory("VmHWM")?);
    let summary = tracer.stop()?;
    let packets = number(&summary, "/drops/packets")?;
    let maps = number(&summary, "/overhead/map_bytes")?;
    let evicted = number(&summary, "/lost/evicted_flows")?;
    let wanted = f64::from(UDP) + f64::from(TCP);
    let mib = |mib: f64| format!("{mib:.1} MiB");
    let fault = (packets < wanted).then(|| format!("of {wanted} drops {packets} were shown"));
    let mut rows = vec![
        Row::at_most(
            "memory (RSS) after 10 000 flows",
            after / 1024.0,
            BUDGET_MIB,
            mib,
        )
        .with(&format!(
            ", before {}, most ever {}",
            mib(before / 1024.0),
            mib(most / 1024.0)
        )),
        Row::at_most(
            "memory of kernel maps",
            maps / 1024.0 / 1024.0,
            BUDGET_MIB,
            mib,
        ),
    ];
    rows.push(Row::right(
        "flows that had an event",
        format!("{packets} drops, {evicted} flows evicted"),
        fault,
    ));
    Ok(rows)
}

/// A number of the summary.
pub(crate) fn number(summary: &Value, pointer: &str) -> Result<f64> {
    summary
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("the summary has no {pointer}"))
}
