//! `cargo xtask ci`: every check, in order. It stops at the first tier that fails and ends with one gate line.

use crate::{bench, counts::Counts, ebpf, fuzz, host, scenarios, test, toolchain};
use anyhow::Result;
use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail where a kernel test or a scenario cannot run, instead of skipping it
    #[arg(long)]
    require_kernel: bool,
    /// How long each fuzz target runs
    #[arg(long, default_value_t = 30)]
    fuzz_seconds: u64,
}

type Tier = (&'static str, fn(&mut Run) -> Result<Counts>);

/// The cheap ones that fail often come first.
const TIERS: [Tier; 10] = [
    ("install", install),
    ("format", format),
    ("kernel object", object),
    ("clippy", clippy),
    ("documentation", documentation),
    ("licences", licences),
    ("tests", tests),
    ("scenarios", scenarios),
    ("fuzz", fuzz),
    ("benches", benches),
];

struct Run {
    args: Args,
    /// The object just built from source: what the tests and scenarios run.
    object: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let start = Instant::now();
    let mut run = Run { args, object: None };
    let (mut total, mut table, mut failed) = (Counts::default(), Vec::new(), None);
    for (name, tier) in TIERS {
        println!("==> {name}");
        let begin = Instant::now();
        let counts = tier(&mut run).unwrap_or_else(|error| {
            println!("{error:#}");
            Counts::FAILED
        });
        total += counts;
        let verdict = if counts.failed > 0 { "FAILED" } else { "ok" };
        table.push(format!(
            "{name:<14} {verdict:<7} {:>6}  {counts}",
            seconds(begin.elapsed())
        ));
        println!("==> {name}: {verdict}, {}\n", seconds(begin.elapsed()));
        if counts.failed > 0 {
            failed = Some(name);
            break;
        }
    }
    println!("{}", table.join("\n"));
    match failed {
        None => println!("gate: open, after {}", seconds(start.elapsed())),
        Some(name) => println!("gate: closed by {name}, after {}", seconds(start.elapsed())),
    }
    println!("{total}");
    total.exit_code()
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

fn install(_: &mut Run) -> Result<Counts> {
    let missing = host::missing_packages();
    if !missing.is_empty() {
        host::apt_install(&missing)?;
    }
    toolchain::install()?;
    Ok(Counts::PASSED)
}

fn format(_: &mut Run) -> Result<Counts> {
    host::run(host::cargo().args(["fmt", "--all", "--check"]))?;
    host::run(host::cargo().args(["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]))?;
    Ok(Counts::PASSED)
}

fn object(run: &mut Run) -> Result<Counts> {
    run.object = Some(ebpf::check()?);
    Ok(Counts::PASSED)
}

fn clippy(_: &mut Run) -> Result<Counts> {
    host::run(
        host::cargo()
            .args([
                "clippy",
                "--workspace",
                "--exclude",
                "probe-ebpf",
                "--all-targets",
                "--all-features",
            ])
            .args(["--", "-D", "warnings"]),
    )?;
    // Types and lints do not depend on the target, so the host's will do; there it has no unwinder of its own.
    host::run(
        host::cargo()
            .args([
                "clippy",
                "--no-deps",
                "--package",
                "probe-ebpf",
                "--target-dir",
            ])
            .arg(host::target()?.join("ebpf-clippy"))
            .args(["--", "-D", "warnings"])
            .env("CARGO_PROFILE_DEV_PANIC", "abort"),
    )?;
    Ok(Counts::PASSED)
}

fn documentation(_: &mut Run) -> Result<Counts> {
    host::run(
        host::cargo()
            .args([
                "doc",
                "--no-deps",
                "--workspace",
                "--exclude",
                "probe-ebpf",
                "--document-private-items",
            ])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    Ok(Counts::PASSED)
}

fn licences(_: &mut Run) -> Result<Counts> {
    if host::output(host::cargo().args(["deny", "--version"])).is_err() {
        println!("SKIPPED licences: cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(Counts::SKIPPED);
    }
    host::run(host::cargo().args(["deny", "check", "licenses", "bans", "sources"]))?;
    Ok(Counts::PASSED)
}

fn tests(run: &mut Run) -> Result<Counts> {
    test::counts(&test::Args {
        require_kernel: run.args.require_kernel,
        object: run.object.clone(),
    })
}

fn scenarios(run: &mut Run) -> Result<Counts> {
    if !host::is_root() && !run.args.require_kernel {
        println!("SKIPPED scenarios: they need root");
        return Ok(Counts::SKIPPED);
    }
    scenarios::counts(&scenarios::Args::all(run.object.clone()))
}

fn fuzz(run: &mut Run) -> Result<Counts> {
    fuzz::counts(&fuzz::Args {
        seconds: run.args.fuzz_seconds,
        targets: Vec::new(),
    })
}

/// Everything once: whether it works and every drop is counted, not how fast a machine of many tenants is.
fn benches(run: &mut Run) -> Result<Counts> {
    bench::counts(&bench::Args::once(run.object.clone()))
}
