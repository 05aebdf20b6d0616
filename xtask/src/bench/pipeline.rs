//! Records a second through decode, enrich and aggregate, on one core: what `probe-user/benches/pipeline.rs` measures.

use super::table::Row;
use crate::host;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::{fs, path::Path};

const BUDGET: f64 = 1e6;
/// The group of the bench: also the name of its folder.
const GROUP: &str = "pipeline";

/// Runs the bench; its results stay in the target folder.
pub(crate) fn measure(object: Option<&Path>, once: bool) -> Result<()> {
    let bench = || {
        let mut cargo = host::cargo();
        cargo.args(["bench", "--package", "probe-user", "--bench", GROUP]);
        cargo.envs(host::object_variable(object));
        cargo
    };
    host::run(bench().arg("--no-run"))?;
    let results = host::target()?.join("criterion").join(GROUP);
    if results.exists() {
        fs::remove_dir_all(&results).with_context(|| format!("remove {}", results.display()))?;
    }
    let times = if once {
        ["--warm-up-time", "0.2", "--measurement-time", "0.5"]
    } else {
        ["--warm-up-time", "1", "--measurement-time", "3"]
    };
    let mut bench = bench();
    bench.args(["--", "--noplot"]).args(times);
    let status = host::tee(&mut bench, |line| line.contains("error"))?;
    ensure!(status.success(), "{}: {status}", host::show(&bench));
    Ok(())
}

/// What was measured, slowest first.
pub(crate) fn rows(target: &Path) -> Result<Vec<Row>> {
    let folder = target.join("criterion").join(GROUP);
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut rates = Vec::new();
    for entry in entries.flatten() {
        let results = entry.path().join("new");
        if results.is_dir() {
            let benchmark = read(&results.join("benchmark.json"))?;
            let estimates = read(&results.join("estimates.json"))?;
            rates
                .push(rate(&benchmark, &estimates).with_context(|| results.display().to_string())?);
        }
    }
    ensure!(!rates.is_empty(), "{} has no results", folder.display());
    rates.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    Ok(rates
        .into_iter()
        .map(|(name, rate)| {
            Row::at_least(
                format!("pipeline, one core: {name}"),
                rate,
                BUDGET,
                |rate| format!("{:.2} M records/s", rate / 1e6),
            )
        })
        .collect())
}

/// The name of a benchmark and its records a second.
fn rate(benchmark: &Value, estimates: &Value) -> Result<(String, f64)> {
    let name = benchmark.get("function_id").and_then(Value::as_str);
    let records = benchmark
        .pointer("/throughput/Elements")
        .and_then(Value::as_f64);
    let ns = estimates
        .pointer("/median/point_estimate")
        .and_then(Value::as_f64);
    Ok((
        name.context("no function_id")?.to_owned(),
        records.context("no throughput")? / ns.context("no median")? * 1e9,
    ))
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_records_by_time() -> Result<()> {
        let benchmark =
            serde_json::json!({"function_id": "drops", "throughput": {"Elements": 10_000}});
        let estimates = serde_json::json!({"median": {"point_estimate": 5e6}});
        assert_eq!(rate(&benchmark, &estimates)?, ("drops".into(), 2e6));
        assert!(rate(&benchmark, &serde_json::json!({})).is_err());
        Ok(())
    }
}
