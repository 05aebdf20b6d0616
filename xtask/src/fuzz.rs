//! `cargo xtask fuzz`: libFuzzer on the parsers of outside data, with the stable compiler.
//!
//! `cargo fuzz` wants a nightly compiler for its sanitizers. Our parsers are safe code, where what a fuzzer can find is a
//! panic, an overflow or an endless loop; coverage alone finds those, and stable rustc can count it.

use crate::{counts::Counts, host};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    process::{Command, ExitCode},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Targets [default: all]
    #[arg(value_parser = TARGETS)]
    pub(crate) targets: Vec<String>,
}

const TARGETS: [&str; 3] = ["decode", "btf", "packet"];

/// What `cargo fuzz build --sanitizer none` hands to rustc, and checks that a release build leaves out.
const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=yes",
    "-Coverflow-checks=yes",
    "-Ccodegen-units=1",
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let counts = counts(args)?;
    println!("{counts}");
    Ok(counts.exit_code())
}

/// Runs the targets one after the other: each passes or fails.
pub(crate) fn counts(args: &Args) -> Result<Counts> {
    ensure!(
        host::find("c++").is_some(),
        "libFuzzer needs a C++ compiler: {}",
        host::apt_command(&["g++"])
    );
    let triple = triple()?;
    let folder = host::target()?.join("fuzz");
    host::run(
        host::cargo()
            .args([
                "build",
                "--release",
                "--manifest-path",
                "fuzz/Cargo.toml",
                "--target",
                &triple,
            ])
            .arg("--target-dir")
            .arg(&folder)
            .env_remove("RUSTFLAGS")
            .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")),
    )?;
    let mut counts = Counts::default();
    for target in TARGETS {
        if !args.targets.is_empty() && !args.targets.iter().any(|wanted| wanted == target) {
            continue;
        }
        let corpus = host::root().join("fuzz/corpus").join(target);
        let artifacts = host::root().join("fuzz/artifacts").join(target);
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let mut fuzzer = Command::new(folder.join(&triple).join("release").join(target));
        fuzzer
            .arg(&corpus)
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(format!("-max_total_time={}", args.seconds))
            .args([
                "-max_len=4096",
                "-timeout=10",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
                "-verbosity=1",
            ]);
        let status = host::tee(&mut fuzzer, |line| {
            // Progress and the recommended dictionary are too much; the end of the run and every crash are not.
            !line.starts_with(['#', '"']) || line.contains("DONE")
        })?;
        println!(
            "fuzz target {target}: {}",
            if status.success() { "ok" } else { "FAILED" }
        );
        counts += if status.success() {
            Counts::PASSED
        } else {
            Counts::FAILED
        };
    }
    Ok(counts)
}

/// The host's triple: naming it keeps the coverage flags away from build scripts and macros.
fn triple() -> Result<String> {
    let version = host::output(Command::new("rustc").arg("-vV").current_dir(host::root()))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("rustc -vV names no host")?.to_owned())
}
