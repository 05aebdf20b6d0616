//! What the surroundings say about the output: asked once, then handed around.

use std::env;
use std::io::{IsTerminal as _, stdout};

use jiff::tz::TimeZone;

/// Where the output goes and who reads it.
#[derive(Clone, Debug)]
pub struct Environment {
    pub stdout_is_terminal: bool,
    /// `NO_COLOR` is set and not empty (no-color.org), or the terminal knows no colours.
    pub no_color: bool,
    /// Width of the terminal.
    pub columns: Option<u16>,
    pub time_zone: TimeZone,
}

impl Environment {
    /// This process's. Times are shown in the local time zone, or in UTC where that cannot be found out.
    pub fn of_process() -> Self {
        let stdout = stdout();
        Self {
            stdout_is_terminal: stdout.is_terminal(),
            no_color: env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
                || env::var_os("TERM").is_some_and(|term| term == "dumb"),
            columns: rustix::termios::tcgetwinsize(&stdout)
                .ok()
                .map(|size| size.ws_col)
                .filter(|columns| *columns > 0),
            time_zone: TimeZone::try_system().unwrap_or(TimeZone::UTC),
        }
    }

    /// No terminal, UTC.
    pub fn plain() -> Self {
        Self {
            stdout_is_terminal: false,
            no_color: false,
            columns: None,
            time_zone: TimeZone::UTC,
        }
    }
}
