//! The one thread that enters other network namespaces.
//!
//! A thread that is in a namespace keeps it alive, and so does an open descriptor of it. So the thread goes home after
//! every job, and no descriptor outlives the step into the namespace: a namespace that is deleted while the tool runs
//! is really gone a moment later.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `statfs` of a namespace file says this.
const NSFS_MAGIC: i64 = 0x6e73_6673;
/// Its own door, whatever `--proc` says: that may show another host's processes.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";

type Job = Box<dyn FnOnce(&mut Visitor) + Send>;

/// Runs jobs on a thread of its own, one after the other.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Option<SyncSender<Job>>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { jobs: None }
    }

    /// Runs the job and waits for its result.
    pub(crate) fn run<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Visitor) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (reply, result) = channel();
        let job: Job = Box::new(move |visitor| answer(&reply, job(visitor)));
        let jobs = match self.jobs.take() {
            Some(jobs) => jobs,
            None => start()?,
        };
        let sent = jobs.send(job);
        let result = result.recv();
        match (sent, result) {
            (Ok(()), Ok(result)) => {
                self.jobs = Some(jobs);
                Ok(result)
            }
            // The thread ended because it could not go home. The next job gets a new one.
            _ => Err(io::Error::other(
                "the thread that enters network namespaces ended",
            )),
        }
    }
}

fn answer<T>(reply: &Sender<T>, result: T) {
    if reply.send(result).is_err() {
        log::debug!("nobody waits for the result of a visit");
    }
}

fn start() -> io::Result<SyncSender<Job>> {
    let (jobs, todo) = sync_channel::<Job>(1);
    std::thread::Builder::new()
        .name("netns".to_owned())
        .spawn(move || {
            let Ok(home) = File::open(OWN_NETNS) else {
                return;
            };
            let mut visitor = Visitor { home, away: false };
            for job in todo {
                job(&mut visitor);
                if let Err(error) = visitor.go_home() {
                    log::warn!("return from another network namespace: {error}");
                    return;
                }
            }
        })?;
    Ok(jobs)
}

/// Which namespace the thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) inode: u32,
    /// `None` before Linux 5.14.
    pub(crate) cookie: Option<u64>,
}

/// The thread, as jobs see it.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// The tool's own namespace, which the tool keeps alive anyway.
    home: File,
    away: bool,
}

impl Visitor {
    /// Enters the namespace behind that file, and says which it is.
    pub(crate) fn enter(&mut self, door: &Path) -> io::Result<Place> {
        let inode = {
            // Not blocking: what lies below /run/netns may be anything, a FIFO too.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let door = rustix::fs::open(door, flags, Mode::empty())?;
            let inode = namespace_inode(door.as_fd())?;
            move_into_link_name_space(door.as_fd(), Some(LinkNameSpaceType::Network))?;
            inode
        };
        self.away = true;
        Ok(Place {
            inode,
            cookie: cookie()?,
        })
    }

    fn go_home(&mut self) -> io::Result<()> {
        if self.away {
            move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network))?;
            self.away = false;
        }
        Ok(())
    }
}

fn namespace_inode(file: BorrowedFd<'_>) -> io::Result<u32> {
    #[expect(
        clippy::useless_conversion,
        reason = "the type of f_type differs between architectures"
    )]
    let magic = i64::try_from(rustix::fs::fstatfs(file)?.f_type).unwrap_or(0);
    if magic != NSFS_MAGIC {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a namespace",
        ));
    }
    u32::try_from(rustix::fs::fstat(file)?.st_ino).map_err(io::Error::other)
}

/// `net_cookie` of the namespace the calling thread is in; `None` where the kernel has no such option.
fn cookie() -> io::Result<Option<u64>> {
    // Any socket will do; this kind goes without delay, and with it its hold on the namespace.
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut cookie = 0_u64;
    let mut length: libc::socklen_t = 8;
    #[expect(unsafe_code, reason = "rustix 1.1 has no call for SO_NETNS_COOKIE")]
    // SAFETY: the kernel writes at most `length` = 8 bytes to `cookie` and the length to `length`; both live until the
    // call returns, and any eight bytes are a valid u64. The descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        return Ok((cookie != 0).then_some(cookie));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOPROTOOPT) {
        Ok(None)
    } else {
        Err(error)
    }
}
