//! Network namespaces that go away with their owner, and the processes run in them.

use crate::host;
use anyhow::{Context as _, Result};
use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A network namespace, deleted on drop.
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    /// A new one with its loopback up; its name carries the process that owns it.
    pub(crate) fn new(prefix: &str, role: &str) -> Result<Self> {
        let name = format!("{prefix}-{role}-{}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `ip` acting in the namespace.
    pub(crate) fn ip(&self, args: &[&str]) -> Result<()> {
        host::output(Command::new("ip").args(["-n", &self.name]).args(args)).map(drop)
    }

    /// A command that will run in the namespace, and that the kernel ends when we die.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "ip", "netns", "exec", &self.name])
            .arg(program);
        command
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "del", &self.name]) {
            eprintln!("xtask: {error:#}");
        }
    }
}

fn ip(args: &[&str]) -> Result<()> {
    host::output(Command::new("ip").args(args)).map(drop)
}

/// Deletes namespaces with our prefix whose owner was killed before it could.
pub(crate) fn sweep(prefix: &str) {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.rsplit('-').next());
        let is_orphan = owner.is_some_and(|pid| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        });
        if is_orphan {
            drop(Netns { name });
        }
    }
}

/// A process we started, ended on drop.
pub(crate) struct Process {
    child: Child,
    name: &'static str,
}

impl Process {
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self { child, name })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it prints, if its command asked for a pipe.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("wait for {}", self.name))
    }

    /// Asks it to stop as Ctrl-C does, and waits; whether it has ended in time.
    pub(crate) fn interrupt(&mut self, patience: Duration) -> Result<bool> {
        if self.ended()?.is_none()
            && let Some(id) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
        {
            rustix::process::kill_process(id, rustix::process::Signal::INT)
                .with_context(|| format!("interrupt {}", self.name))?;
        }
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if self.ended()?.is_some() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(self.ended()?.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None))
            && self.child.kill().is_ok()
            && self.child.wait().is_err()
        {
            eprintln!("xtask: {} could not be ended", self.name);
        }
    }
}
