//! `cargo xtask test` and `cargo xtask bless`.

use crate::{blind, counts::Counts, host};
use anyhow::{Result, ensure};
use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, ExitCode},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail where a kernel test cannot run, instead of skipping it
    #[arg(long)]
    pub(crate) require_kernel: bool,
    /// The kernel programs to build in [default: those committed]
    #[arg(long)]
    pub(crate) object: Option<PathBuf>,
}

/// The members that run on the host.
const HOST: [&str; 3] = ["--workspace", "--exclude", "probe-ebpf"];
/// The kernel tests share one kernel: one at a time.
const KERNEL: [&str; 6] = [
    "--package",
    "probe-user",
    "--features",
    "kernel-tests",
    "--test",
    "kernel",
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let counts = counts(args)?;
    println!("{counts}");
    Ok(counts.exit_code())
}

/// Runs every test.
pub(crate) fn counts(args: &Args) -> Result<Counts> {
    let nextest = has_nextest();
    let cargo = |options: &[&str]| {
        let mut cargo = cargo(options);
        cargo.envs(host::object_variable(args.object.as_deref()));
        cargo
    };
    let mut counts = Counts::default();
    if nextest {
        let mut unit = cargo(&[
            "nextest",
            "run",
            "--no-fail-fast",
            "--no-tests",
            "pass",
            "--color",
            "never",
        ]);
        counts += count(unit.args(HOST))?;
        counts += count(cargo(&["test", "--doc", "--no-fail-fast"]).args(HOST))?;
    } else {
        counts += count(cargo(&["test", "--no-fail-fast"]).args(HOST))?;
    }
    counts += kernel(cargo, nextest, args.require_kernel)?;
    Ok(counts)
}

fn kernel(cargo: impl Fn(&[&str]) -> Command, nextest: bool, required: bool) -> Result<Counts> {
    let mut counts = Counts::default();
    if let Some(why) = obstacle() {
        println!("SKIPPED kernel tests: {why}");
        counts += Counts::SKIPPED;
    } else if nextest {
        let options = [
            "nextest",
            "run",
            "--profile",
            "kernel",
            "--no-fail-fast",
            "--color",
            "never",
            "--success-output",
            "immediate",
        ];
        counts += blind::judge(|names| {
            let mut failed = Vec::new();
            let mut tests = cargo(&options);
            let mut counts = count_each(tests.args(KERNEL).args(names), |line| {
                failed.extend(failed_test(line));
            })?;
            failed.sort();
            failed.dedup();
            if !names.is_empty() {
                // The others are left out on request.
                counts.skipped = 0;
            }
            Ok(blind::Outcome { counts, failed })
        })?;
    } else {
        counts += count(cargo(&["test", "--no-fail-fast"]).args(KERNEL).args([
            "--",
            "--test-threads=1",
            "--nocapture",
        ]))?;
    }
    if required && counts.skipped > 0 {
        println!(
            "FAILED: kernel tests are required here, {} could not run",
            counts.skipped
        );
        counts += Counts::FAILED;
    }
    Ok(counts)
}

/// Why the kernel tests cannot run here.
fn obstacle() -> Option<String> {
    if !host::root().join("probe-user/tests/kernel").exists() {
        return Some("there is no probe-user/tests/kernel".into());
    }
    if !host::is_root() {
        return Some("they need root: run this command as root".into());
    }
    let missing = host::missing_packages();
    (!missing.is_empty()).then(|| {
        format!(
            "programs are missing; install them: {}",
            host::apt_command(&missing)
        )
    })
}

/// Runs a test command and adds up its results; one that dies without a result counts as a failure.
fn count(command: &mut Command) -> Result<Counts> {
    count_each(command, |_| ())
}

/// As [`count`], and shows each line to `look`.
fn count_each(command: &mut Command, mut look: impl FnMut(&str)) -> Result<Counts> {
    let mut counts = Counts::default();
    let status = host::tee(command, |line| {
        counts.read_line(line);
        look(line);
        true
    })?;
    if !status.success() && counts.failed == 0 {
        println!("FAILED: {}: {status}", host::show(command));
        counts += Counts::FAILED;
    }
    Ok(counts)
}

/// The test that a line of nextest says has failed: `FAIL [ 2.995s] (17/37) probe-user::kernel loss::a_full_queue`.
fn failed_test(line: &str) -> Option<String> {
    let line = line.trim();
    let is_result = ["FAIL [", "TIMEOUT ["]
        .iter()
        .any(|result| line.starts_with(result));
    is_result
        .then(|| line.split_whitespace().next_back().map(str::to_owned))
        .flatten()
}

fn cargo(args: &[&str]) -> Command {
    let mut cargo = host::cargo();
    cargo.args(args).env("INSTA_UPDATE", "no");
    cargo
}

fn has_nextest() -> bool {
    host::output(host::cargo().args(["nextest", "--version"])).is_ok()
}

pub(crate) fn bless(args: &[OsString]) -> Result<ExitCode> {
    let mut cargo = cargo(&["test"]);
    let status = host::tee(
        cargo.args(HOST).args(args).env("INSTA_UPDATE", "always"),
        |_| true,
    )?;
    ensure!(
        status.success(),
        "a test fails for another reason than its expected output"
    );
    println!("now read `git diff` before you commit it");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn the_failed_test_is_named_by_the_line_that_says_so() {
        let line = "        FAIL [   2.995s] (17/37) probe-user::kernel loss::a_full_queue";
        assert_eq!(failed_test(line).as_deref(), Some("loss::a_full_queue"));
        assert_eq!(
            failed_test("        PASS [   2.995s] (17/37) probe-user::kernel loss::other"),
            None
        );
        assert_eq!(failed_test("    test loss::a_full_queue ... FAILED"), None);
    }
}
