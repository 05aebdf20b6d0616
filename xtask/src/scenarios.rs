//! `cargo xtask scenarios`: the faults of `scenarios/`, provoked for real, and the product held against them.

use crate::{
    blind::{self, Outcome},
    counts::Counts,
    host,
};
use anyhow::{Result, bail};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Groups of checks: count, place, owner, cause, class, silent, reconcile, extra
    #[arg(long, default_value = DEFAULT_GROUPS)]
    only: String,
    /// Start dropwatch-rs before the scenario builds its network, or when that stands
    #[arg(long, default_value = "ready", value_parser = ["before", "ready"])]
    attach: String,
    /// Keep the output of every scenario in this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// The dropwatch-rs to test [default: built in release mode]
    #[arg(long)]
    bin: Option<PathBuf>,
    /// The kernel programs to build in [default: those committed]
    #[arg(long, conflicts_with = "bin")]
    object: Option<PathBuf>,
    /// Numbers or names [default: all]
    names: Vec<String>,
}

const DEFAULT_GROUPS: &str = "count,place,reconcile,extra";

impl Args {
    /// All of them, with the default checks.
    pub(crate) fn all(object: Option<PathBuf>) -> Self {
        Self {
            only: DEFAULT_GROUPS.into(),
            attach: "ready".into(),
            out: None,
            bin: None,
            object,
            names: Vec::new(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let counts = counts(args)?;
    println!("{counts}");
    Ok(counts.exit_code())
}

/// Runs the scenarios; those that need another kernel than this one count as skipped.
pub(crate) fn counts(args: &Args) -> Result<Counts> {
    let missing = host::missing_packages();
    if !missing.is_empty() {
        bail!(
            "programs are missing; install them: {}",
            host::apt_command(&missing)
        );
    }
    let bin = args
        .bin
        .clone()
        .map_or_else(|| host::build_release(args.object.as_deref()), Ok)?;
    blind::judge(|names| {
        let names = if names.is_empty() { &args.names } else { names };
        score(args, &bin, names)
    })
}

fn score(args: &Args, bin: &Path, names: &[String]) -> Result<Outcome> {
    let mut score = host::privileged(host::root().join("scenarios/score"));
    score
        .arg("--bin")
        .arg(bin)
        .args(["--only", &args.only, "--attach", &args.attach]);
    if let Some(out) = &args.out {
        score.arg("--out").arg(out);
    }
    let mut counts = Counts::default();
    let mut failed = BTreeSet::new();
    let status = host::tee(
        score.args(names).env("PYTHONDONTWRITEBYTECODE", "1"),
        |line| {
            let mut words = line.split_whitespace();
            if let (Some(name), Some("FAILED")) = (words.next(), words.next()) {
                failed.insert(name.to_owned());
            }
            let is_total = Counts::is_total(line);
            if is_total {
                counts.read_line(line);
            }
            !is_total
        },
    )?;
    if !status.success() && counts.failed == 0 {
        println!("FAILED: score: {status}");
        counts += Counts::FAILED;
    }
    Ok(Outcome {
        counts,
        failed: failed.into_iter().collect(),
    })
}
