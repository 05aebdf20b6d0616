//! Exit codes, and what is said on stderr before one that is not 0.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::sink::escape::Harmless;

/// How the program ends. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It traced (also when whoever read the output had enough).
    Traced = 0,
    /// It failed while running.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// This host or this user cannot trace.
    CannotTrace = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Marks an error as a bad command line: one sentence with the flag, the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

/// Marks an error as "cannot trace here": what is missing, what cannot work without it, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotTrace(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CannotTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}
impl Error for CannotTrace {}

/// The exit code an error leads to.
pub fn of(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        Exit::Traced
    } else if marked::<Usage>(error) {
        Exit::Usage
    } else if marked::<CannotTrace>(error) {
        Exit::CannotTrace
    } else {
        Exit::Failed
    }
}

/// Says on `stderr` what went wrong, each line with the program's name, and returns the exit code. Nothing is said of a
/// closed pipe: `| head` has what it wanted.
pub fn report(error: &anyhow::Error, stderr: &mut dyn Write) -> Exit {
    let exit = of(error);
    if exit != Exit::Traced {
        let written: io::Result<()> = format!("{error:#}")
            .lines()
            .filter(|line| !line.trim().is_empty())
            .try_for_each(|line| writeln!(stderr, "dropwatch-rs: {}", Harmless(line)));
        // There is nobody left to tell.
        drop(written);
    }
    exit
}

/// Was the reader of the output gone?
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause
            .downcast_ref::<io::Error>()
            .map(io::Error::kind)
            .or_else(|| {
                cause
                    .downcast_ref::<serde_json::Error>()
                    .and_then(serde_json::Error::io_error_kind)
            });
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

fn marked<E: Error + Send + Sync + 'static>(error: &anyhow::Error) -> bool {
    error.downcast_ref::<E>().is_some() || error.chain().any(<dyn Error>::is::<E>)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    fn said(error: &anyhow::Error) -> (Exit, String) {
        let mut stderr = Vec::new();
        let exit = report(error, &mut stderr);
        (exit, String::from_utf8(stderr).unwrap())
    }

    #[test]
    fn a_failure_is_told_with_its_causes() {
        let error = anyhow!("permission denied").context("attach skb:kfree_skb");
        assert_eq!(
            said(&error),
            (
                Exit::Failed,
                "dropwatch-rs: attach skb:kfree_skb: permission denied\n".into()
            )
        );
    }

    #[test]
    fn every_line_carries_the_name_and_no_control_character() {
        let error = anyhow!("first\n\nsecond \x1b[31m");
        assert_eq!(
            said(&error).1,
            "dropwatch-rs: first\ndropwatch-rs: second \\x1b[31m\n"
        );
    }

    #[test]
    fn a_marker_decides_wherever_it_stands() {
        assert_eq!(said(&Usage("--port 0".into()).into()).0, Exit::Usage);
        assert_eq!(
            said(&anyhow::Error::from(CannotTrace("no BTF".into())).context("start")).0,
            Exit::CannotTrace
        );
        let inside: anyhow::Error = Err::<(), _>(io::Error::other("x"))
            .context(CannotTrace("no BTF".into()))
            .unwrap_err();
        assert_eq!(
            said(&inside),
            (Exit::CannotTrace, "dropwatch-rs: no BTF: x\n".into())
        );
    }

    #[test]
    fn a_closed_pipe_is_success_and_silent() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe))
            .context("write the summary");
        assert_eq!(said(&error), (Exit::Traced, String::new()));
        let json: serde_json::Error = serde_json::to_writer(Closed, &1).unwrap_err();
        assert_eq!(said(&json.into()).0, Exit::Traced);
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
