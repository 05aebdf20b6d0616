//! Who owns a socket: the process that has it open, its cgroup, its container.
//!
//! Goal: the owner as it is, however the packet was handled: never the process that happens to run on the CPU.
//! Why like this: the kernel knows the inode of a socket's file but not who has that file open; only
//! `/proc/PID/fd` tells, one link after the other. 5 000 processes with 100 sockets each are half a million links, two
//! or three seconds of work.
//! Proposal: one sweep at the start, of a second at most. Later sockets are looked for where they most likely are: processes that are watched
//! (`--pid`), processes that answered lately, processes that are new, and in the end all of them in slices, within 1 % of
//! one core (`allowance.rs`). What was found is checked again before it is used, at most once a second.
//! Limits: a process that ends before its first packet is looked up is not found; a socket that only a thread with a
//! descriptor table of its own has open is not found; of several processes the one with the lowest id is told.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use allowance::{Allowance, Slice};
use cgroups::{Cgroups, Place};
pub use container::container;
use index::{Holder, Index};
use processes::Processes;
use recent::Recent;

use crate::event::{Cgroup, Name, Owner, Process, SocketId};

mod allowance;
mod cgroups;
mod container;
mod index;
mod processes;
mod recent;
#[cfg(test)]
mod tests;

/// The socket has no file: it was not accepted yet, or the process closed it and the kernel still works for it.
pub const NO_INODE: &str = "not accepted yet, or closed";
/// Every process was looked at.
pub const NOBODY: &str = "no process has it open any more";
/// The search goes on with the next packet.
pub const NOT_YET: &str = "not found yet: looking for it is limited to 1 % of a CPU";
/// Some processes could not be looked into: it may be one of them.
pub const DENIED: &str = "no process that may be looked into has it open (CAP_SYS_PTRACE)";

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
/// A step of a search: the caller is kept waiting for a few of these at most, but for processes with very many
/// descriptors.
const SLICE_NS: u64 = 5 * MILLISECOND_NS;
/// What the first sweep may take.
const SWEEP_NS: u64 = SECOND_NS;
/// Sockets whose owner is remembered, also after its end.
const MAX_ANSWERS: usize = 8192;
/// Processes that answered lately.
const MAX_HOT: usize = 8;
/// A watched process is looked at again for a socket it did not have.
const WATCH_AGAIN_NS: u64 = 100 * MILLISECOND_NS;
/// Of a socket that nobody has: it may be handed to a process later.
const MAX_WAIT_NS: u64 = 60 * SECOND_NS;
/// A closed socket whose packets are repeated: the kernel gives up after about two minutes.
const CLOSED_NS: u64 = 180 * SECOND_NS;
/// Of those that share a socket, so many are asked whether they still have it.
const MAX_ASKED: usize = 16;

/// Whose a socket was when that was last checked.
#[derive(Clone, Debug)]
struct Answer {
    process: Process,
    fd: u32,
    checked_ns: u64,
}

/// A socket that was not found.
#[derive(Clone, Copy, Debug)]
struct Miss {
    watched_ns: u64,
    again_ns: u64,
    wait_ns: u64,
    /// When so many sweeps have ended, one has begun after the socket was asked for.
    proof: u64,
}

/// A socket of a flow, and whose it is: for when it has no file any more.
#[derive(Clone, Debug)]
struct Flow {
    process: Process,
    cookie: Option<u64>,
    cgroup_id: Option<u64>,
    seen_ns: u64,
}

/// The owners of sockets.
#[derive(Debug)]
pub struct Owners {
    processes: Processes,
    index: Index,
    cgroups: Cgroups,
    allowance: Allowance,
    answers: Recent<u64, Answer>,
    misses: Recent<u64, Miss>,
    /// By the socket's address.
    flows: Recent<u64, Flow>,
    /// The latest first.
    hot: Vec<u32>,
    watched: Vec<u32>,
}

/// Where the cgroups are of the host whose /proc this is.
pub fn cgroup_root(proc: &Path) -> PathBuf {
    let own = Path::new("/sys/fs/cgroup");
    if proc == Path::new("/proc") {
        own.to_owned()
    } else {
        proc.join("1/root/sys/fs/cgroup")
    }
}

impl Owners {
    /// Looks around, with what the filters ask for watched.
    pub fn start(proc: &Path, pids: &[u32], cgroups: &[PathBuf]) -> io::Result<Self> {
        let mut owners = Self::new(proc.to_owned(), cgroup_root(proc));
        owners.watch(pids, cgroups);
        owners.sweep()?;
        Ok(owners)
    }

    /// Knows nothing yet: [`Owners::sweep`] looks. `cgroup_root`: where cgroups are mounted.
    pub fn new(proc: PathBuf, cgroup_root: PathBuf) -> Self {
        Self {
            processes: Processes::new(proc),
            index: Index::default(),
            cgroups: Cgroups::new(cgroup_root),
            allowance: Allowance::default(),
            answers: Recent::new(MAX_ANSWERS),
            misses: Recent::new(MAX_ANSWERS),
            flows: Recent::new(MAX_ANSWERS),
            hot: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Looks at every process and every cgroup: for the start, when nothing is traced yet. On a very busy host it stops
    /// after a second of work and goes on when it is asked for sockets.
    pub fn sweep(&mut self) -> io::Result<()> {
        self.cgroups.look(0, 0);
        self.index.sweep(&mut self.processes, SWEEP_NS)
    }

    /// Sockets of these processes, and cgroups below these, are found at once and whatever it takes: they were asked for.
    pub fn watch(&mut self, pids: &[u32], cgroups: &[PathBuf]) {
        self.watched = pids.to_vec();
        self.cgroups.watch(cgroups);
    }

    /// What is known of a socket's owner. `now_ns` is of the kernel's clock.
    pub fn owner(&mut self, socket: &SocketId, now_ns: u64) -> Owner {
        let place = socket
            .cgroup_id
            .and_then(|id| self.place(id, now_ns))
            .cloned();
        let process = match socket.inode {
            Some(inode) => self.process(inode, now_ns),
            None => self.last_owner(socket, now_ns).ok_or(NO_INODE),
        };
        let (path, container) =
            place.map_or((None, None), |place| (Some(place.path), place.container));
        Owner {
            cgroup: socket.cgroup_id.map(|id| Cgroup { id, path }),
            container,
            unknown_because: process.as_ref().err().copied(),
            process: process.ok(),
        }
    }

    /// Remembers the owner of a flow, until [`Owners::forget`]: its last packets are sent when the socket is closed.
    pub fn remember(&mut self, socket: &SocketId, owner: &Owner, now_ns: u64) {
        if let Some(process) = &owner.process
            && socket.address != 0
        {
            let flow = Flow {
                process: process.clone(),
                cookie: socket.cookie,
                cgroup_id: socket.cgroup_id,
                seen_ns: now_ns,
            };
            self.flows.insert(socket.address, flow);
        }
    }

    /// The socket is gone: another one may get its address.
    pub fn forget(&mut self, socket: &SocketId) {
        self.flows.remove(socket.address);
    }

    /// The process that has a socket open, by the inode of its file.
    pub fn process(&mut self, inode: u64, now_ns: u64) -> Result<Process, &'static str> {
        if let Some(answer) = self.answers.get_mut(inode)
            && (now_ns.saturating_sub(answer.checked_ns) < SECOND_NS || !self.allowance.has(now_ns))
        {
            return Ok(answer.process.clone());
        }
        let work = Slice::of(u64::MAX);
        let found = self
            .watched_holder(inode, now_ns)
            .or_else(|| self.known_holder(inode));
        let found = match found {
            None if self.may_search(inode, now_ns) => self.search(inode, now_ns),
            found => found,
        };
        let result = match found {
            Some(holder) => self.answer(holder, now_ns),
            None => Err(self.why_not(inode)),
        };
        self.allowance.spend(work.spent_ns());
        result.or_else(|why| {
            // It ended, or closed the socket: still the owner of what happened.
            let last = self.answers.get_mut(inode).ok_or(why)?;
            last.checked_ns = now_ns;
            Ok(last.process.clone())
        })
    }

    /// How many processes have that socket open, as far as is known.
    pub fn sharers(&self, inode: u64) -> usize {
        self.index.holders(inode).len()
    }

    /// The path of a cgroup, from the root of the v2 hierarchy: `/` for that.
    pub fn cgroup(&mut self, id: u64, now_ns: u64) -> Option<Name> {
        self.place(id, now_ns).map(|place| Arc::clone(&place.path))
    }

    fn place(&mut self, id: u64, now_ns: u64) -> Option<&Place> {
        if self.cgroups.known(id).is_none() && self.cgroups.is_due(id, now_ns) {
            let work = Slice::of(u64::MAX);
            self.cgroups.look_at_watched(id, now_ns);
            if self.cgroups.known(id).is_none() && self.allowance.has(now_ns) {
                self.cgroups.look(id, now_ns);
            }
            self.allowance.spend(work.spent_ns());
        }
        self.cgroups.known(id)
    }

    fn last_owner(&mut self, socket: &SocketId, now_ns: u64) -> Option<Process> {
        let flow = self.flows.get_mut(socket.address)?;
        // A socket that is not full (TIME_WAIT) tells no cgroup, but lies elsewhere in memory.
        let is_same = flow.cgroup_id == socket.cgroup_id
            && (flow.cookie.is_none() || flow.cookie == socket.cookie)
            && now_ns.saturating_sub(flow.seen_ns) < CLOSED_NS;
        is_same.then(|| flow.process.clone())
    }

    fn watched_holder(&mut self, inode: u64, now_ns: u64) -> Option<Holder> {
        if self.watched.is_empty() {
            return None;
        }
        let mut miss = self.miss(inode);
        if now_ns < miss.watched_ns {
            return None;
        }
        miss.watched_ns = now_ns.saturating_add(WATCH_AGAIN_NS);
        self.misses.insert(inode, miss);
        let Self {
            watched, processes, ..
        } = self;
        watched
            .iter()
            .find_map(|pid| look_into(processes, *pid, inode))
    }

    /// The lowest of those that had it open and still have.
    fn known_holder(&mut self, inode: u64) -> Option<Holder> {
        let Self {
            index,
            processes,
            answers,
            ..
        } = self;
        let last = answers.get_mut(inode).map(|answer| Holder {
            inode,
            pid: answer.process.pid,
            fd: answer.fd,
        });
        let mut holders = index
            .holders(inode)
            .iter()
            .take(MAX_ASKED)
            .copied()
            .chain(last);
        holders.find(|holder| processes.has(holder.pid, holder.fd, inode))
    }

    fn may_search(&mut self, inode: u64, now_ns: u64) -> bool {
        let is_due = self
            .misses
            .get_mut(inode)
            .is_none_or(|miss| now_ns >= miss.again_ns);
        is_due && self.allowance.has(now_ns)
    }

    fn search(&mut self, inode: u64, now_ns: u64) -> Option<Holder> {
        let mut miss = self.miss(inode);
        let Self {
            index,
            processes,
            hot,
            ..
        } = self;
        let slice = Slice::of(SLICE_NS);
        let found = hot
            .iter()
            .take_while(|_| !slice.is_over())
            .find_map(|pid| look_into(processes, *pid, inode))
            .or_else(|| index.search(processes, inode, SLICE_NS));
        if found.is_none() {
            if self.index.finished >= miss.proof {
                miss.again_ns = now_ns.saturating_add(miss.wait_ns);
                miss.wait_ns = (miss.wait_ns * 2).min(MAX_WAIT_NS);
            }
            self.misses.insert(inode, miss);
        }
        found
    }

    fn miss(&mut self, inode: u64) -> Miss {
        let proof = self.index.started + 1;
        let first = Miss {
            watched_ns: 0,
            again_ns: 0,
            wait_ns: SECOND_NS,
            proof,
        };
        self.misses.get_mut(inode).copied().unwrap_or(first)
    }

    fn why_not(&mut self, inode: u64) -> &'static str {
        let finished = self.index.finished;
        match self.misses.get_mut(inode) {
            Some(miss) if finished >= miss.proof && self.processes.denied => DENIED,
            Some(miss) if finished >= miss.proof => NOBODY,
            _ => NOT_YET,
        }
    }

    fn answer(&mut self, holder: Holder, now_ns: u64) -> Result<Process, &'static str> {
        let Holder { inode, pid, fd } = holder;
        // It has ended within these microseconds.
        let name = self.processes.name(pid).ok_or(NOBODY)?;
        let process = Process { pid, name };
        self.misses.remove(inode);
        self.answers.insert(
            inode,
            Answer {
                process: process.clone(),
                fd,
                checked_ns: now_ns,
            },
        );
        self.hot.retain(|hot| *hot != pid);
        self.hot.insert(0, pid);
        self.hot.truncate(MAX_HOT);
        Ok(process)
    }
}

fn look_into(processes: &mut Processes, pid: u32, inode: u64) -> Option<Holder> {
    let mut found = None;
    processes.sockets(pid, |fd, socket| {
        if socket == inode {
            found = Some(Holder { inode, pid, fd });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found
}
