//! The program under test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::netns::Netns;
use super::{PATIENCE, TICK, num, text, wait_for};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_dropwatch-rs");

/// A run under way; killed when dropped.
pub(crate) struct Tracer {
    child: Child,
    ready: PathBuf,
    lines: Arc<Mutex<Vec<Value>>>,
    stdout: Option<JoinHandle<()>>,
    stderr: Option<JoinHandle<String>>,
}

/// What a run printed.
pub(crate) struct Trace {
    pub(crate) status: ExitStatus,
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

/// A file name nobody else uses.
pub(crate) fn scratch(what: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("dwkt-{what}{number}-{}", std::process::id()))
}

impl Tracer {
    /// Starts the program with `-o json`; returns once every probe is attached.
    #[track_caller]
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["-o", "json"]).args(args);
        Self::start_as(&mut command)
    }

    /// Shows these namespaces only: a flood elsewhere on the host does not fill the ring.
    #[track_caller]
    pub(crate) fn of(namespaces: &[&Netns], args: &[&str]) -> Self {
        let names = namespaces.iter().flat_map(|netns| ["--netns", &netns.name]);
        // A test build prints a tenth of what the program prints: it must not lose the details that the test looks at.
        let ring = ["--ring-size", "64MiB"];
        Self::start(names.chain(ring).chain(args.iter().copied()))
    }

    /// Several at a time: attaching takes a moment.
    #[track_caller]
    pub(crate) fn start_all(args: &[&[&str]]) -> Vec<Self> {
        let started: Vec<_> = args
            .iter()
            .map(|args| Self::spawn(Command::new(PROGRAM).args(["-o", "json"]).args(*args)))
            .collect();
        started.into_iter().map(Self::ready).collect()
    }

    /// Starts a command that becomes the program.
    #[track_caller]
    pub(crate) fn start_as(command: &mut Command) -> Self {
        Self::spawn(command).ready()
    }

    #[track_caller]
    fn spawn(command: &mut Command) -> Self {
        let ready = scratch("ready");
        let mut child = command
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the program");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = Arc::clone(&lines);
        let stdout = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("read what it prints");
                let value = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
                read.lock().unwrap().push(value);
            }
        });
        Self {
            child,
            ready,
            lines,
            stdout: Some(stdout),
            stderr: Some(read_all(stderr)),
        }
    }

    #[track_caller]
    fn ready(mut self) -> Self {
        wait_for("the program to be ready", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                let stderr = self.stderr.take().unwrap().join().unwrap();
                panic!("it ended ({status}): {stderr}");
            }
            self.ready.exists().then_some(())
        });
        self
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("send a signal");
    }

    /// Waits until what was printed so far passes `check`.
    #[track_caller]
    pub(crate) fn wait<T>(&self, what: &str, check: impl Fn(&[Value]) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            let lines = self.lines.lock().unwrap();
            if let Some(found) = check(&lines) {
                return found;
            }
            if Instant::now() > end {
                let lines: Vec<_> = lines.iter().rev().take(30).map(Value::to_string).collect();
                panic!(
                    "waited in vain for {what}; last lines:\n{}",
                    lines.join("\n")
                );
            }
            drop(lines);
            thread::sleep(TICK);
        }
    }

    /// Ends it as Ctrl-C does.
    #[track_caller]
    pub(crate) fn stop(self) -> Trace {
        self.signal(Signal::INT);
        self.end()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Trace {
        let status = wait_for("the program to end", || self.child.try_wait().unwrap());
        self.stdout.take().unwrap().join().expect("its output");
        let stderr = self.stderr.take().unwrap().join().expect("its messages");
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        let trace = Trace {
            status,
            lines,
            stderr,
        };
        assert!(
            trace.status.success(),
            "it ended with {status}: {}",
            trace.stderr
        );
        trace
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
        drop(fs::remove_file(&self.ready));
    }
}

/// Reads in a thread to the end.
pub(crate) fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Trace {
    /// Objects of one kind.
    pub(crate) fn all<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines
            .iter()
            .filter(move |line| text(line, "/event") == event)
    }

    /// Objects of one kind in one namespace.
    pub(crate) fn of<'a>(
        &'a self,
        event: &'a str,
        netns: &'a Netns,
    ) -> impl Iterator<Item = &'a Value> {
        self.all(event)
            .filter(move |line| num(line, "/netns/inode") == netns.inode)
    }

    /// Packets dropped in a namespace for a reason; `keep`: only those.
    pub(crate) fn drops(&self, netns: &Netns, reason: &str, keep: impl Fn(&Value) -> bool) -> u64 {
        self.of("drop", netns)
            .filter(|drop| text(drop, "/reason") == reason && keep(drop))
            .map(|drop| num(drop, "/count"))
            .sum()
    }

    /// Every drop of a namespace, for messages.
    pub(crate) fn show(&self, event: &str, netns: &Netns) -> String {
        let lines: Vec<_> = self.of(event, netns).map(Value::to_string).collect();
        lines.join("\n")
    }

    #[track_caller]
    pub(crate) fn summary(&self) -> &Value {
        let last = self.lines.last().expect("it printed something");
        assert_eq!(text(last, "/event"), "summary", "the last line: {last}");
        last
    }

    /// The row of a counter in the summary.
    pub(crate) fn row(&self, netns: &Netns, counter: &str) -> Option<&Value> {
        let rows = self.summary()["reconcile"].as_array().expect("rows");
        let mut rows = rows.iter().filter(|row| {
            num(row, "/netns/inode") == netns.inode && text(row, "/counter") == counter
        });
        let row = rows.next();
        assert!(rows.next().is_none(), "two rows for {counter}");
        row
    }
}
