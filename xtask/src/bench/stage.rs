//! Where it is measured: what is built for it, a namespace with a storm of drops, and traffic.

use super::{PREFIX, tracer::Tracer};
use crate::{
    host,
    netns::{Netns, Process},
};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) struct Stage {
    pub(crate) once: bool,
    pub(crate) stop: Arc<AtomicBool>,
    bin: PathBuf,
    /// The floor programs' loader.
    pub(crate) floor: PathBuf,
    storm: PathBuf,
    /// The files of this run: gone with it.
    files: PathBuf,
}

/// What a storm says of itself.
pub(crate) struct Storm {
    pub(crate) sent: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
}

const PORT: &str = "5201";

impl Stage {
    pub(crate) fn new(target: &Path, once: bool, stop: Arc<AtomicBool>) -> Result<Self> {
        let folder = target.join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let files = env::temp_dir().join(format!("{PREFIX}-{}", std::process::id()));
        fs::create_dir_all(&files).with_context(|| format!("create {}", files.display()))?;
        Ok(Self {
            once,
            stop,
            bin: target.join("release/dropwatch-rs"),
            floor: compile("xtask/bench/floor.c", &folder.join("floor"))?,
            storm: compile("scenarios/storm/xdpstorm.c", &folder.join("xdpstorm"))?,
            files,
        })
    }

    /// An error once a signal has come.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
        Ok(())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    pub(crate) fn tracer(&self, args: &[&str]) -> Result<Tracer> {
        self.check()?;
        Tracer::start(&self.bin, &self.file("ready"), args)
    }

    /// A namespace that takes the storm: an address of its own, and no way out.
    pub(crate) fn namespace(&self, role: &str) -> Result<Netns> {
        self.check()?;
        let namespace = Netns::new(PREFIX, role)?;
        namespace.ip(&["addr", "add", "10.66.99.9/32", "dev", "lo"])?;
        namespace.ip(&["route", "add", "blackhole", "10.66.98.0/24"])?;
        let settings = "cd /proc/sys/net/ipv4/conf && for at in all lo; do \
                        echo 1 > $at/accept_local && echo 0 > $at/rp_filter || exit; done";
        host::output(namespace.command("sh").args(["-c", settings]))?;
        Ok(namespace)
    }

    /// Datagrams to a closed port, from one CPU: as many as go, or so many a second.
    pub(crate) fn storm(&self, namespace: &Netns, seconds: u64, rate: u64) -> Result<Storm> {
        self.check()?;
        let mut command = namespace.command("taskset");
        command.args(["-c", &last_cpu()]).arg(&self.storm).args([
            "-f",
            "16",
            "-t",
            &seconds.to_string(),
            "-r",
            &rate.to_string(),
        ]);
        let said: Value =
            serde_json::from_str(&host::output(&mut command)?).context("the storm says no JSON")?;
        let number = |name: &str| said.get(name).and_then(Value::as_f64);
        Ok(Storm {
            sent: said.get("sent").and_then(Value::as_u64).context("sent")?,
            seconds: number("seconds").context("seconds")?,
            per_second: number("pps").context("pps")?,
        })
    }

    /// One TCP connection over the loopback of the namespace, as fast as it goes; megabytes a second.
    pub(crate) fn bulk(&self, namespace: &Netns, seconds: u64) -> Result<f64> {
        self.check()?;
        let own = env::current_exe().context("find xtask's own file")?;
        let address = format!("{}:{PORT}", Ipv4Addr::LOCALHOST);
        let mut server = namespace.command(&own);
        server.args(["demo-traffic", "--listen", &address]);
        let _server = Process::start(
            "the receiver",
            server.stdout(Stdio::null()).stderr(Stdio::null()),
        )?;
        thread::sleep(Duration::from_millis(100));
        let mut client = namespace.command(&own);
        client.args(["demo-traffic", "--connect", &address]);
        let said = host::output(client.args(["--seconds", &seconds.to_string()]))?;
        // `sent 9000 MB to 127.0.0.1:5201 in 2 s`
        let sent: f64 = said
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("the sender says {said:?}"))?;
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        Ok(sent / seconds as f64)
    }

    /// So many flows with one event each.
    pub(crate) fn flows(&self, namespace: &Netns, udp: u16, tcp: u16) -> Result<()> {
        self.check()?;
        let own = env::current_exe().context("find xtask's own file")?;
        let mut command = namespace.command(own);
        command.args(["bench-flows", "--udp", &udp.to_string()]);
        host::output(command.args(["--tcp", &tcp.to_string()])).map(drop)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.files) {
            eprintln!("xtask: remove {}: {error}", self.files.display());
        }
    }
}

/// Drops one of so many incoming packets of the bulk traffic; whether this machine can.
pub(crate) fn lose(namespace: &Netns, one_of: u32) -> Result<bool> {
    if host::find("nft").is_none() {
        return Ok(false);
    }
    for rule in [
        "add table inet bench".to_owned(),
        "add chain inet bench input { type filter hook input priority 0; }".to_owned(),
        format!("add rule inet bench input tcp dport {PORT} numgen random mod {one_of} == 0 drop"),
    ] {
        host::output(namespace.command("nft").arg(rule))?;
    }
    Ok(true)
}

/// `UdpNoPorts` of a namespace.
pub(crate) fn no_ports(namespace: &Netns) -> Result<u64> {
    let text = host::output(namespace.command("cat").arg("/proc/net/snmp"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next(), lines.next());
    names
        .unwrap_or_default()
        .split_whitespace()
        .zip(values.unwrap_or_default().split_whitespace())
        .find_map(|(name, value)| (name == "NoPorts").then(|| value.parse().ok())?)
        .context("/proc/net/snmp has no Udp NoPorts")
}

/// The tracer is to have the other ones to itself.
fn last_cpu() -> String {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    cpus.saturating_sub(1).to_string()
}

fn compile(source: &str, to: &Path) -> Result<PathBuf> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-w", "-o"])
        .arg(to)
        .arg(host::root().join(source));
    host::output(&mut gcc)?;
    Ok(to.to_owned())
}
