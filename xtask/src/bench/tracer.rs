//! A dropwatch-rs that is being measured, and what the kernel knows about a process and its programs.

use crate::netns::Process;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::Path,
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Of all it prints only the end is kept: the summary is the last line.
const TAIL: usize = 4 << 20;

pub(crate) struct Tracer {
    process: Process,
    reader: JoinHandle<Vec<u8>>,
    /// From exec to attached.
    pub(crate) startup: Duration,
}

impl Tracer {
    /// Starts it and waits until every probe is attached.
    pub(crate) fn start(bin: &Path, ready: &Path, args: &[&str]) -> Result<Self> {
        remove(ready)?;
        // Should we be killed, the kernel stops it in our place.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "INT"])
            .arg(bin)
            .args(["-o", "json", "--ready-file"])
            .arg(ready)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let begin = Instant::now();
        let mut process = Process::start("dropwatch-rs", &mut command)?;
        let pipe = process.stdout().context("dropwatch-rs has no stdout")?;
        let reader = thread::spawn(move || tail(pipe));
        wait_for(ready, &mut process)?;
        let startup = begin.elapsed();
        remove(ready)?;
        Ok(Self {
            process,
            reader,
            startup,
        })
    }

    /// Stops it as Ctrl-C does; its summary.
    pub(crate) fn stop(mut self) -> Result<Value> {
        ensure!(
            self.process.interrupt(Duration::from_secs(20))?,
            "dropwatch-rs did not stop within 20 s of Ctrl-C"
        );
        let Ok(tail) = self.reader.join() else {
            bail!("reading the output of dropwatch-rs failed");
        };
        let line = tail
            .split(|byte| *byte == b'\n')
            .rfind(|line| !line.is_empty());
        serde_json::from_slice(line.unwrap_or_default())
            .context("the last line of dropwatch-rs is no summary")
    }

    /// CPU time so far, in user space and in system calls.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let (_, fields) = text.rsplit_once(')').context("a stat file without name")?;
        // utime and stime, in hundredths of a second on every Linux.
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Memory in KiB: `VmRSS`, `VmHWM`.
    pub(crate) fn memory(&self, field: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .with_context(|| format!("{path} has no {field}"))
    }

    pub(crate) fn programs(&self) -> Result<Programs> {
        programs(self.process.id())
    }
}

fn tail(mut pipe: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length) = pipe.read(&mut buffer) {
        if length == 0 {
            break;
        }
        kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
        if kept.len() > 4 * TAIL {
            kept.drain(..kept.len() - TAIL);
        }
    }
    kept
}

/// Waits for a file that a process creates when it is ready.
pub(crate) fn wait_for(ready: &Path, process: &mut Process) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    while !ready.exists() {
        if let Some(status) = process.ended()? {
            bail!("it ended before it was ready: {status}");
        }
        ensure!(Instant::now() < end, "it was not ready within 20 s");
        thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

pub(crate) fn remove(file: &Path) -> Result<()> {
    if file.exists() {
        fs::remove_file(file).with_context(|| format!("remove {}", file.display()))?;
    }
    Ok(())
}

/// What the kernel counted of each program, by the program's number.
pub(crate) type Programs = BTreeMap<u32, Runs>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) ns: u64,
    pub(crate) count: u64,
    /// Events that passed it by.
    pub(crate) missed: u64,
}

impl Runs {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(before.ns),
            count: self.count.saturating_sub(before.count),
            missed: self.missed.saturating_sub(before.missed),
        }
    }
}

/// The programs that a process holds, from its fdinfo.
pub(crate) fn programs(process: u32) -> Result<Programs> {
    let folder = format!("/proc/{process}/fdinfo");
    let entries = fs::read_dir(&folder).with_context(|| format!("read {folder}"))?;
    // A descriptor may be closed while we look.
    let texts = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    Ok(texts.filter_map(|text| runs(&text)).collect())
}

/// One file of fdinfo, if it is a program's.
fn runs(text: &str) -> Option<(u32, Runs)> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let runs = Runs {
        ns: field("run_time_ns")?,
        count: field("run_cnt")?,
        missed: field("recursion_misses").unwrap_or(0),
    };
    Some((u32::try_from(field("prog_id")?).ok()?, runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fdinfo_of_a_program_and_of_a_link() {
        let program = "pos:\t0\nprog_type:\t26\nprog_id:\t7\nrun_time_ns:\t900\nrun_cnt:\t3\nrecursion_misses:\t1\n";
        let expected = Runs {
            ns: 900,
            count: 3,
            missed: 1,
        };
        assert_eq!(runs(program), Some((7, expected)));
        assert_eq!(runs("link_type:\traw_tracepoint\nprog_id:\t7\n"), None);
    }

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let long = [vec![b'x'; 5 * TAIL], b"end".to_vec()].concat();
        let kept = tail(long.as_slice());
        assert!(kept.len() <= 4 * TAIL + (1 << 20));
        assert!(kept.ends_with(b"xend"));
    }
}
