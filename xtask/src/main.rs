//! `cargo xtask COMMAND`: everything one does with this repository. CI runs nothing else.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: talking to the terminal is its job"
)]

mod bench;
mod blind;
mod ci;
mod counts;
mod demo;
mod ebpf;
mod fuzz;
mod host;
mod lockfile;
mod netns;
mod object;
mod run;
mod scenarios;
mod sources;
mod test;
mod toolchain;
mod traffic;

use clap::{Parser, Subcommand};
use std::{ffi::OsString, process::ExitCode};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build dropwatch-rs (release) and run it: `cargo xtask run -- --port 5201`
    Run {
        /// Handed to dropwatch-rs as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Every test: unit, documentation and, as root, the kernel tests
    Test(test::Args),
    /// Run the tests and accept what they print as the new expected output
    Bless {
        /// Handed to `cargo test` as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// A lossy link between two network namespaces, traffic over it, dropwatch-rs on it, and its summary
    Demo(demo::Args),
    /// Provoke real faults and hold what dropwatch-rs says against the right answers
    Scenarios(scenarios::Args),
    /// Startup, memory, throughput and cost in the kernel, each against its budget
    Bench(bench::Args),
    /// Feed random bytes to the parsers of outside data
    Fuzz(fuzz::Args),
    /// Build the kernel programs from source into the object that probe-user embeds
    BuildEbpf(ebpf::Args),
    /// Install what `build-ebpf` needs
    InstallToolchain,
    /// Every check, in order, up to the first that fails
    Ci(ci::Args),
    #[command(hide = true)]
    DemoTraffic(traffic::Args),
    #[command(hide = true)]
    BenchFlows(bench::flows::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run { args } => run::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Bless { args } => test::bless(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Scenarios(args) => scenarios::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchFlows(args) => bench::flows::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::BuildEbpf(args) => ebpf::run(&args),
        Command::InstallToolchain => toolchain::install(),
        Command::Ci(args) => Ok(ci::run(args)),
        Command::DemoTraffic(args) => traffic::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
