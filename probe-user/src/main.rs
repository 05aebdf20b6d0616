//! The program `dropwatch-rs`: reads the command line, runs, ends with the promised exit code.

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;
use probe_user::cli::Cli;
use probe_user::exit::{self, Exit};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` goes to stdout; where that is closed there is nobody to tell.
            drop(error.print());
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match probe_user::run(&cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::report(&error, &mut stderr());
            drop(stderr().flush());
            exit.into()
        }
    }
}
