//! Which process has which socket open, as far as was looked. Looking at every process is a sweep; it can be done in
//! slices, and what it finds replaces what was known before when it is complete.

use std::io;
use std::mem;
use std::ops::ControlFlow;

use super::allowance::Slice;
use super::processes::Processes;

/// 32 MB. What is beyond is not remembered, but still found by a search for it.
const MAX_HOLDERS: usize = 2_000_000;

/// A process that has a socket open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holder {
    pub(super) inode: u64,
    pub(super) pid: u32,
    pub(super) fd: u32,
}

/// The sockets of all processes.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Sorted: those of one socket side by side, the lowest process id first.
    holders: Vec<Holder>,
    /// Processes that were looked at. Sorted.
    seen: Vec<u32>,
    sweep: Option<Sweep>,
    /// Sweeps that began, and that ended: one that began after a socket was first seen proves that nobody has it open.
    pub(super) started: u64,
    pub(super) finished: u64,
}

#[derive(Debug)]
struct Sweep {
    pids: std::vec::IntoIter<u32>,
    holders: Vec<Holder>,
}

impl Index {
    /// All processes known to have the socket open, the lowest id first.
    pub(super) fn holders(&self, inode: u64) -> &[Holder] {
        let start = self.holders.partition_point(|holder| holder.inode < inode);
        let rest = self.holders.get(start..).unwrap_or_default();
        let length = rest.partition_point(|holder| holder.inode == inode);
        rest.get(..length).unwrap_or_default()
    }

    /// Looks at processes never looked at before, then goes on with a sweep, until the socket is found. Both make
    /// progress each time; most of it is the sweep, for the list of processes is an effort of its own.
    pub(super) fn search(
        &mut self,
        processes: &mut Processes,
        inode: u64,
        slice_ns: u64,
    ) -> Option<Holder> {
        // Processes whose list cannot be read have no owners; the caller says that none was found.
        let pids = processes.pids().unwrap_or_default();
        self.look_at_new(processes, &pids, inode, Slice::of(slice_ns))
            .or_else(|| {
                if self.sweep.is_none() {
                    self.begin(processes, pids);
                }
                self.go_on(
                    processes,
                    Some(inode),
                    Slice::of(slice_ns.saturating_mul(4)),
                )
            })
    }

    /// Begins a sweep. What it saw is known also if it does not end in this time.
    pub(super) fn sweep(&mut self, processes: &mut Processes, most_ns: u64) -> io::Result<()> {
        let pids = processes.pids()?;
        self.begin(processes, pids);
        self.go_on(processes, None, Slice::of(most_ns));
        if let Some(sweep) = &self.sweep {
            self.holders.clone_from(&sweep.holders);
            self.holders.sort_unstable();
        }
        Ok(())
    }

    fn look_at_new(
        &mut self,
        processes: &mut Processes,
        pids: &[u32],
        inode: u64,
        slice: Slice,
    ) -> Option<Holder> {
        let is_seen = |pid: &u32| self.seen.binary_search(pid).is_ok();
        let new: Vec<u32> = pids.iter().filter(|pid| !is_seen(pid)).copied().collect();
        let mut seen: Vec<u32> = pids.iter().filter(|pid| is_seen(pid)).copied().collect();
        let mut found = None;
        let mut holders = Vec::new();
        for pid in new {
            found = found.or(collect(processes, pid, Some(inode), &mut holders));
            seen.push(pid);
            if slice.is_over() {
                break;
            }
        }
        seen.sort_unstable();
        self.seen = seen;
        if let Some(sweep) = &mut self.sweep {
            sweep.holders.extend(&holders);
        }
        if !holders.is_empty() {
            self.holders.append(&mut holders);
            // The stable sort is quick on what is sorted but for its end.
            self.holders.sort();
        }
        found
    }

    fn begin(&mut self, processes: &mut Processes, pids: Vec<u32>) {
        processes.denied = false;
        self.started += 1;
        self.seen.clone_from(&pids);
        let holders = Vec::with_capacity(self.holders.len());
        self.sweep = Some(Sweep {
            pids: pids.into_iter(),
            holders,
        });
    }

    fn go_on(
        &mut self,
        processes: &mut Processes,
        inode: Option<u64>,
        slice: Slice,
    ) -> Option<Holder> {
        let sweep = self.sweep.as_mut()?;
        let mut found = None;
        for pid in sweep.pids.by_ref() {
            found = collect(processes, pid, inode, &mut sweep.holders);
            if found.is_some() || slice.is_over() {
                break;
            }
        }
        if sweep.pids.as_slice().is_empty() {
            let mut holders = mem::take(&mut sweep.holders);
            holders.sort_unstable();
            holders.dedup();
            holders.shrink_to_fit();
            self.holders = holders;
            self.sweep = None;
            self.finished = self.started;
        }
        found
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }
}

/// Remembers every socket of a process; the one that is looked for is returned.
fn collect(
    processes: &mut Processes,
    pid: u32,
    inode: Option<u64>,
    holders: &mut Vec<Holder>,
) -> Option<Holder> {
    let mut found: Option<Holder> = None;
    processes.sockets(pid, |fd, socket| {
        let holder = Holder {
            inode: socket,
            pid,
            fd,
        };
        if Some(socket) == inode {
            found.get_or_insert(holder);
        }
        if holders.len() < MAX_HOLDERS {
            holders.push(holder);
        }
        ControlFlow::Continue(())
    });
    found
}
