//! `cargo xtask demo`: dropwatch-rs on a link that loses packets, in ten seconds, with nothing left behind.

use crate::{
    host,
    netns::{self, Netns, Process},
};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long the traffic runs
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many packets of a hundred the receiver's firewall drops
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    loss: u8,
    /// The dropwatch-rs to show [default: built in release mode]
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Use our own traffic even where iperf3 is installed
    #[arg(long)]
    no_iperf3: bool,
    /// Handed to dropwatch-rs instead of `--port 5201`
    #[arg(last = true)]
    flags: Vec<OsString>,
}

const PREFIX: &str = "dwdemo";
const PORT: &str = "5201";
const SENDER: &str = "10.64.200.1";
const RECEIVER: &str = "10.64.200.2";
/// Bits per second: slow enough to read along.
const BITRATE: &str = "2M";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let bin = args
        .bin
        .clone()
        .map_or_else(|| host::build_release(None), Ok)?;
    if !host::is_root() {
        return as_root(args, &bin);
    }
    for (tool, package) in [
        ("ip", "iproute2"),
        ("nft", "nftables"),
        ("setpriv", "util-linux"),
    ] {
        ensure!(
            host::find(tool).is_some(),
            "{tool} is missing: {}",
            host::apt_command(&[package])
        );
    }
    // From here on a signal ends the demo in order: the namespaces and processes go when their owners are dropped.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catch signals")?;
    }
    show(args, &bin, &stop)?;
    Ok(if stop.load(Ordering::Relaxed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The same command through sudo, with what is already built.
fn as_root(args: &Args, bin: &Path) -> Result<ExitCode> {
    let own = env::current_exe().context("find xtask's own file")?;
    let mut command = host::privileged(own);
    command.arg("demo").arg("--bin").arg(bin);
    command.args([
        "--seconds",
        &args.seconds.to_string(),
        "--loss",
        &args.loss.to_string(),
    ]);
    if args.no_iperf3 {
        command.arg("--no-iperf3");
    }
    let status = command
        .arg("--")
        .args(&args.flags)
        .status()
        .context("start sudo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn show(args: &Args, bin: &Path, stop: &AtomicBool) -> Result<()> {
    netns::sweep(PREFIX);
    // Owners in this order: the last is dropped first, so the processes end before their namespaces.
    let (sender, receiver) = (
        Netns::new(PREFIX, "sender")?,
        Netns::new(PREFIX, "receiver")?,
    );
    link(&sender, &receiver)?;
    lose(&receiver, args.loss)?;
    let iperf3 = host::find("iperf3").filter(|_| !args.no_iperf3);
    let mut server = Process::start("the receiver", &mut server(&receiver, iperf3.as_deref())?)?;

    let ready = env::temp_dir().join(format!("{PREFIX}-{}.ready", std::process::id()));
    // Should we be killed, the kernel stops it in our place.
    let mut watch = Command::new("setpriv");
    watch.args(["--pdeathsig", "INT"]).arg(bin);
    if args.flags.is_empty() {
        watch.args(["--port", PORT]);
    } else {
        watch.args(&args.flags);
    }
    let mut watch = Process::start("dropwatch-rs", watch.arg("--ready-file").arg(&ready))?;
    let attached = wait_for(&ready, &mut watch, stop);
    if ready.exists() {
        fs::remove_file(&ready).with_context(|| format!("remove {}", ready.display()))?;
    }
    attached?;

    eprintln!(
        "xtask: {} -> {RECEIVER}:{PORT}, {} of 100 packets dropped by the receiver's firewall",
        SENDER, args.loss
    );
    let mut client = Process::start(
        "the sender",
        &mut client(&sender, iperf3.as_deref(), args.seconds)?,
    )?;
    let end = Instant::now() + Duration::from_secs(args.seconds + 5);
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if let Some(status) = client.ended()? {
            ensure!(
                status.success() || stop.load(Ordering::Relaxed),
                "the sender failed: {status}"
            );
            break;
        }
        if let Some(status) = watch.ended()? {
            bail!("dropwatch-rs ended too early: {status}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    // What is still in flight shall be seen too.
    thread::sleep(Duration::from_millis(300));
    ensure!(
        watch.interrupt(Duration::from_secs(20))?,
        "dropwatch-rs did not stop within 20 s of Ctrl-C"
    );
    if let Some(status) = watch.ended()? {
        ensure!(status.success(), "dropwatch-rs failed: {status}");
    }
    client.interrupt(Duration::from_secs(2))?;
    server.interrupt(Duration::from_secs(2))?;
    Ok(())
}

fn link(sender: &Netns, receiver: &Netns) -> Result<()> {
    sender.ip(&[
        "link",
        "add",
        "eth0",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        receiver.name(),
    ])?;
    for (namespace, address) in [(sender, SENDER), (receiver, RECEIVER)] {
        namespace.ip(&["addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
        // Packets as on a wire: else one packet of 64 KiB would be lost in one piece.
        namespace.ip(&["link", "set", "eth0", "gso_max_segs", "1"])?;
        namespace.ip(&["link", "set", "eth0", "up"])?;
    }
    Ok(())
}

/// A rule that drops at random what comes in for the port.
fn lose(receiver: &Netns, loss: u8) -> Result<()> {
    for rule in [
        "add table inet demo".to_owned(),
        "add chain inet demo input { type filter hook input priority 0; }".to_owned(),
        format!(
            "add rule inet demo input tcp dport {PORT} numgen random mod 100 < {loss} counter drop"
        ),
    ] {
        if loss > 0 {
            host::output(receiver.command("nft").arg(rule))?;
        }
    }
    Ok(())
}

fn server(receiver: &Netns, iperf3: Option<&Path>) -> Result<Command> {
    let mut command = if let Some(iperf3) = iperf3 {
        let mut command = receiver.command(iperf3);
        command.args(["--server", "--bind", RECEIVER, "--port", PORT]);
        command
    } else {
        let mut command = receiver.command(env::current_exe().context("find xtask's own file")?);
        command.args(["demo-traffic", "--listen", &format!("{RECEIVER}:{PORT}")]);
        command
    };
    // Its report would mix with the lines of dropwatch-rs.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

fn client(sender: &Netns, iperf3: Option<&Path>, seconds: u64) -> Result<Command> {
    let seconds = seconds.to_string();
    let mut command = if let Some(iperf3) = iperf3 {
        let mut command = sender.command(iperf3);
        command.args([
            "--client",
            RECEIVER,
            "--port",
            PORT,
            "--time",
            &seconds,
            "--connect-timeout",
            "5000",
            "--bitrate",
            BITRATE,
        ]);
        command
    } else {
        let mut command = sender.command(env::current_exe().context("find xtask's own file")?);
        command.args([
            "demo-traffic",
            "--connect",
            &format!("{RECEIVER}:{PORT}"),
            "--seconds",
            &seconds,
        ]);
        command
    };
    command.stdout(Stdio::null());
    Ok(command)
}

fn wait_for(ready: &Path, watch: &mut Process, stop: &AtomicBool) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    while !ready.exists() {
        if let Some(status) = watch.ended()? {
            bail!("dropwatch-rs did not attach: {status}");
        }
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        ensure!(
            Instant::now() < end,
            "dropwatch-rs did not attach within 20 s"
        );
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
