//! `cargo xtask run -- ARGS`: build and trace.

use crate::host;
use anyhow::Result;
use std::{ffi::OsString, os::unix::process::CommandExt as _, process::ExitCode};

pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let program = host::build_release(None)?;
    // exec: signals and the exit code are the program's own.
    let error = host::privileged(&program).args(args).exec();
    Err(anyhow::Error::new(error).context(format!("run {}", program.display())))
}
