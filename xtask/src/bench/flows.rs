//! Many flows with one event each: datagrams and connections to a closed port, each from or to an address of its own.

use anyhow::{Context as _, Result, bail};
use std::{
    io::ErrorKind,
    net::{Ipv4Addr, TcpStream, UdpSocket},
    process::ExitCode,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many datagrams
    #[arg(long)]
    udp: u16,
    /// How many connections
    #[arg(long)]
    tcp: u16,
}

/// Nobody listens there in a namespace of our own.
const CLOSED: u16 = 9;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    for number in 0..args.udp {
        let [high, low] = number.to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 2, high, low), 0)).context("bind")?;
        socket
            .send_to(b"x", (Ipv4Addr::LOCALHOST, CLOSED))
            .context("send")?;
    }
    for number in 0..args.tcp {
        let [high, low] = number.to_be_bytes();
        match TcpStream::connect((Ipv4Addr::new(127, 3, high, low), CLOSED)) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error).context("connect"),
            Ok(_) => bail!("port {CLOSED} is not closed"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
