//! From exec to every probe attached, on a host with namespaces and processes.

use super::{
    PREFIX,
    stage::Stage,
    table::{Row, median},
};
use crate::netns::{Netns, Process};
use anyhow::{Context as _, Result};
use std::{
    fs,
    process::{Command, Stdio},
};

const BUDGET_MS: f64 = 300.0;
const NAMESPACES: usize = 10;
const PROCESSES: usize = 200;

pub(crate) fn rows(stage: &Stage) -> Result<Vec<Row>> {
    let namespaces = (0..NAMESPACES)
        .map(|number| Netns::new(PREFIX, &format!("n{number}")))
        .collect::<Result<Vec<_>>>()?;
    // A few more, because others may end meanwhile.
    let missing = (PROCESSES + 20).saturating_sub(processes()?);
    let sleepers = (0..missing)
        .map(|_| {
            stage.check()?;
            let mut sleep = Command::new("setpriv");
            sleep.args(["--pdeathsig", "KILL", "sleep", "300"]);
            Process::start("sleep", sleep.stdout(Stdio::null()))
        })
        .collect::<Result<Vec<_>>>()?;
    let host = format!(
        " ({} namespaces, {} processes)",
        fs::read_dir("/run/netns")
            .context("read /run/netns")?
            .count(),
        processes()?
    );
    let mut times = Vec::new();
    for _ in 0..if stage.once { 1 } else { 7 } {
        let tracer = stage.tracer(&[])?;
        times.push(tracer.startup.as_secs_f64() * 1000.0);
        tracer.stop()?;
    }
    drop((sleepers, namespaces));
    let middle = median(&times).context("no startup was measured")?;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let row = Row::at_most("startup to attached", middle, BUDGET_MS, |ms| {
        format!("{ms:.0} ms")
    });
    Ok(vec![row.with(&format!(
        ", median of {}, longest {longest:.0} ms{host}",
        times.len()
    ))])
}

fn processes() -> Result<usize> {
    let entries = fs::read_dir("/proc").context("read /proc")?;
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    Ok(entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
        .count())
}
