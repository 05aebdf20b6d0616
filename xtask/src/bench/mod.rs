//! `cargo xtask bench`: what tracing costs, each measured value against its budget, in one table.

mod cost;
mod flood;
pub(crate) mod flows;
mod memory;
mod pipeline;
mod stage;
mod startup;
mod table;
mod tracer;

use crate::{counts::Counts, host, netns};
use anyhow::{Context as _, Result};
use stage::Stage;
use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use table::{Row, Verdict};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Every measurement once and briefly: whether it works, and a first idea of the numbers
    #[arg(long)]
    pub(crate) once: bool,
    /// Fail if a budget is missed, not only if something is wrong
    #[arg(long)]
    pub(crate) strict: bool,
    /// The kernel programs to build in [default: those committed]
    #[arg(long)]
    pub(crate) object: Option<PathBuf>,
    /// The target folder in which everything is built and the pipeline is measured
    #[arg(long, hide = true, conflicts_with = "object")]
    built: Option<PathBuf>,
}

impl Args {
    /// As CI runs it.
    pub(crate) fn once(object: Option<PathBuf>) -> Self {
        Self {
            once: true,
            strict: false,
            object,
            built: None,
        }
    }
}

/// Namespaces and files of ours begin like this.
const PREFIX: &str = "dwbench";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.built.is_none() && !host::is_root() && host::find("sudo").is_some() {
        let target = prepare(args)?;
        return as_root(args, &target);
    }
    Ok(counts(args)?.exit_code())
}

/// Measures and prints everything: each row that has a budget or must be right passes, fails or is skipped.
pub(crate) fn counts(args: &Args) -> Result<Counts> {
    let target = match &args.built {
        Some(target) => target.clone(),
        None => prepare(args)?,
    };
    let begin = Instant::now();
    let mut rows = pipeline::rows(&target)?;
    match kernel_rows(args, &target)? {
        Ok(measured) => rows.splice(0..0, measured).for_each(drop),
        Err(why) => rows.insert(0, Row::skipped("everything in the kernel", why)),
    }
    println!("\n{}", table::render(&rows));
    let counts = tally(&rows, args.strict);
    println!(
        "measured in {} s{}; {}",
        begin.elapsed().as_secs(),
        if args.once { ", each once" } else { "" },
        standing(&rows)
    );
    Ok(counts)
}

/// Builds what is to be measured and measures what needs no kernel; the target folder.
fn prepare(args: &Args) -> Result<PathBuf> {
    host::build_release(args.object.as_deref())?;
    pipeline::measure(args.object.as_deref(), args.once)?;
    host::target()
}

/// The same command through sudo, with what is already built.
fn as_root(args: &Args, target: &Path) -> Result<ExitCode> {
    let own = env::current_exe().context("find xtask's own file")?;
    let mut command = host::privileged(own);
    command.arg("bench").arg("--built").arg(target);
    if args.once {
        command.arg("--once");
    }
    if args.strict {
        command.arg("--strict");
    }
    let status = command.status().context("start sudo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What needs root and a kernel to trace; or why it cannot be measured here.
fn kernel_rows(args: &Args, target: &Path) -> Result<Result<Vec<Row>, String>> {
    if !host::is_root() {
        return Ok(Err("it needs root".into()));
    }
    for (tool, package) in [
        ("ip", "iproute2"),
        ("setpriv", "util-linux"),
        ("taskset", "util-linux"),
        ("gcc", "gcc"),
    ] {
        if host::find(tool).is_none() {
            return Ok(Err(format!(
                "{tool} is missing: {}",
                host::apt_command(&[package])
            )));
        }
    }
    // From here on a signal ends the bench in order: what it made goes when its owners are dropped.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catch signals")?;
    }
    netns::sweep(PREFIX);
    let stage = Stage::new(target, args.once, stop)?;
    let mut rows = Vec::new();
    for (name, part) in [
        ("startup", startup::rows as fn(&Stage) -> Result<Vec<Row>>),
        ("memory", memory::rows),
        ("cost in the kernel", cost::rows),
        ("drop flood", flood::rows),
    ] {
        eprintln!("xtask: measuring {name}");
        let measured = part(&stage);
        if stage.stop.load(Ordering::Relaxed) {
            return measured.and_then(|_| stage.check()).map(|()| Ok(rows));
        }
        // One part that fails does not hide the others.
        rows.extend(
            measured.unwrap_or_else(|error| vec![Row::right(name, "", Some(format!("{error:#}")))]),
        );
    }
    Ok(Ok(rows))
}

/// Passed, failed and skipped rows. A missed budget fails only where that is asked for: what a machine of many tenants
/// measures is no reason to reject a change.
fn tally(rows: &[Row], strict: bool) -> Counts {
    let mut counts = Counts::default();
    for row in rows {
        counts += match &row.verdict {
            Verdict::Wrong(_) => Counts::FAILED,
            Verdict::Missed(_) if strict => Counts::FAILED,
            Verdict::Met | Verdict::Missed(_) => Counts::PASSED,
            Verdict::Skipped(_) => Counts::SKIPPED,
            Verdict::Shown => Counts::default(),
        };
    }
    counts
}

/// `9 met, 2 missed, 0 wrong, 1 skipped`
fn standing(rows: &[Row]) -> String {
    let count = |of: fn(&Verdict) -> bool| rows.iter().filter(|row| of(&row.verdict)).count();
    format!(
        "{} met, {} missed, {} wrong, {} skipped",
        count(|verdict| *verdict == Verdict::Met),
        count(|verdict| matches!(verdict, Verdict::Missed(_))),
        count(|verdict| matches!(verdict, Verdict::Wrong(_))),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_budget_fails_only_if_asked_for() {
        let rows = [
            Row::at_most("slow", 2.0, 1.0, |value| value.to_string()),
            Row::shown("shown", "1"),
            Row::skipped("none", "no root"),
        ];
        assert_eq!(
            tally(&rows, false).to_string(),
            "1 passed, 0 failed, 1 skipped"
        );
        assert_eq!(
            tally(&rows, true).to_string(),
            "0 passed, 1 failed, 1 skipped"
        );
        assert_eq!(standing(&rows), "0 met, 1 missed, 0 wrong, 1 skipped");
    }

    #[test]
    fn what_is_wrong_always_fails() {
        let rows = [Row::right("drops", "9", Some("10 in the kernel".into()))];
        assert_eq!(
            tally(&rows, false).to_string(),
            "0 passed, 1 failed, 0 skipped"
        );
    }
}
