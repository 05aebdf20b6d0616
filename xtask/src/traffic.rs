//! The demo's own traffic, for machines without iperf3: one TCP connection, as fast as it goes.

use anyhow::{Context as _, Result};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    time::{Duration, Instant},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take connections here and read what comes
    #[arg(long, conflicts_with = "connect", required_unless_present = "connect")]
    listen: Option<SocketAddr>,
    /// Connect to this address and send
    #[arg(long)]
    connect: Option<SocketAddr>,
    /// How long to send
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

const CHUNK: usize = 64 * 1024;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(address) = args.listen {
        let listener =
            TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
        for stream in listener.incoming() {
            read_all(stream.context("accept")?)?;
        }
    } else if let Some(address) = args.connect {
        send(address, Duration::from_secs(args.seconds))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read_all(mut stream: TcpStream) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    while stream.read(&mut buffer).context("read")? > 0 {}
    Ok(())
}

fn send(address: SocketAddr, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= end => {
                return Err(error).with_context(|| format!("connect to {address}"));
            }
            // Its SYN may be lost on the demo's link, or the listener not be there yet.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let chunk = vec![0; CHUNK];
    let mut sent = 0_u64;
    while Instant::now() < end {
        stream.write_all(&chunk).context("write")?;
        sent += chunk.len() as u64;
    }
    println!(
        "sent {} MB to {address} in {} s",
        sent / 1_000_000,
        time.as_secs()
    );
    Ok(())
}
