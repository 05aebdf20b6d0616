//! Traffic.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::netns::Netns;
use super::{PATIENCE, TICK};

/// Closes a connection with a reset: nothing is sent again after it.
pub(crate) fn abort(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("set linger");
    drop(stream);
}

/// Takes connections, reads what comes, closes when the peer does; resets what is left when dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Only reads.
    #[track_caller]
    pub(crate) fn sink(netns: &Netns, address: &str) -> Self {
        Self::new(netns, address, false)
    }

    /// Sends a byte back for whatever it reads.
    #[track_caller]
    pub(crate) fn echo(netns: &Netns, address: &str) -> Self {
        Self::new(netns, address, true)
    }

    #[track_caller]
    fn new(netns: &Netns, address: &str, echo: bool) -> Self {
        let listener = netns.inside(|| TcpListener::bind(address).expect("listen"));
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let accepting = thread::spawn(move || {
            let mut connections = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let stopped = Arc::clone(&stopped);
                        connections.push(thread::spawn(move || serve(stream, &stopped, echo)));
                    }
                    Err(_) => thread::sleep(TICK),
                }
            }
            for connection in connections {
                connection.join().expect("a connection");
            }
        });
        Self {
            port,
            stop,
            accepting: Some(accepting),
        }
    }
}

fn serve(mut stream: TcpStream, stop: &AtomicBool, echo: bool) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(TICK)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) if echo => drop(stream.write(b"k")),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
    abort(stream);
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

/// Connects from inside a namespace.
#[track_caller]
pub(crate) fn connect(netns: &Netns, to: &str) -> TcpStream {
    let to: SocketAddr = to.parse().expect("an address");
    netns
        .inside(|| TcpStream::connect_timeout(&to, PATIENCE))
        .expect("connect")
}

/// Tries to connect for so long; nothing is sent again afterwards.
#[track_caller]
pub(crate) fn try_connect(netns: &Netns, to: &str, how_long: Duration) -> Result<(), ErrorKind> {
    let to: SocketAddr = to.parse().expect("an address");
    let connected = netns.inside(|| TcpStream::connect_timeout(&to, how_long));
    connected.map(abort).map_err(|error| error.kind())
}

/// Sends `bytes` and waits until the peer has them all and has closed; gives up with a reset after `at_most`.
pub(crate) fn send(mut stream: TcpStream, bytes: usize, at_most: Duration) {
    let end = Instant::now() + at_most;
    let chunk = vec![b'x'; 1 << 14];
    let mut left = bytes;
    stream.set_write_timeout(Some(TICK)).unwrap();
    stream.set_read_timeout(Some(TICK)).unwrap();
    while left > 0 && Instant::now() < end {
        match stream.write(&chunk[..left.min(chunk.len())]) {
            Ok(written) => left -= written,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("write: {error}"),
        }
    }
    if left == 0 {
        stream.shutdown(Shutdown::Write).expect("shut down");
    }
    while left == 0 && Instant::now() < end {
        match stream.read(&mut [0; 16]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
    abort(stream);
}

/// Several connections at a time, each as [`send`].
#[track_caller]
pub(crate) fn send_many(
    netns: &Netns,
    to: &str,
    connections: usize,
    bytes: usize,
    at_most: Duration,
) {
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let stream = connect(netns, to);
            thread::spawn(move || send(stream, bytes, at_most))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a transfer");
    }
}

/// Sends datagrams from inside a namespace.
#[track_caller]
pub(crate) fn datagrams(netns: &Netns, from: &str, to: &str, count: usize) {
    netns.inside(|| {
        let socket = UdpSocket::bind(from).expect("bind");
        for _ in 0..count {
            socket.send_to(b"datagram", to).expect("send");
        }
    });
}

/// A program that is killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    #[track_caller]
    pub(crate) fn new(command: &mut Command) -> Self {
        Self(command.spawn().expect("start a program"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
