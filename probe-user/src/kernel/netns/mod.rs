//! The network namespaces of the host: which there are, what they are called, how to look into them.
//!
//! A namespace has an inode number, which is what people see (`ls -l /proc/PID/ns/net`) but is given to another one soon
//! after the namespace is gone, and (since Linux 5.14) a cookie, which is never given out twice. Found are those of
//! processes, names below /run/netns and other bind mounts. One that is held only by an open descriptor or by a thread
//! other than a process's first has no door and is not found.
//!
//! Looking for new ones costs a call for every process, so how often that is done follows from what it took the last
//! time ([`Pace`]): at most 1 % of one core. The few names below /run/netns are looked at every time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use probe_common::RawNetns;
use rustix::time::{ClockId, clock_gettime};

use crate::event::{Name, Netns};
use scan::{Door, Found};
pub(crate) use worker::{Place, Visitor};

mod scan;
#[cfg(test)]
mod tests;
mod worker;

const SECOND_NS: u64 = 1_000_000_000;
/// Namespaces that ended whose names are remembered, for events that are told late.
const MAX_PAST: usize = 1024;

/// Where the host shows its processes and its named namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `--proc`
    pub proc: PathBuf,
    /// `--run-netns`
    pub run_netns: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            run_netns: PathBuf::from("/run/netns"),
        }
    }
}

/// When to do again what costs time: no sooner than in a second, and never for more than 1 % of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    next_ns: u64,
}

impl Pace {
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// It was done, and took that much CPU time.
    pub fn spent(&mut self, now_ns: u64, cost_ns: u64) {
        self.next_ns = now_ns.saturating_add(cost_ns.saturating_mul(100).max(SECOND_NS));
    }
}

/// What a look around brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub started: Vec<Netns>,
    pub ended: Vec<Netns>,
}

#[derive(Clone, Debug)]
struct Namespace {
    netns: Netns,
    door: Door,
}

/// The network namespaces of the host.
#[derive(Debug)]
pub struct Namespaces {
    paths: Paths,
    worker: worker::Worker,
    /// By inode number, which is unique at any one moment.
    known: BTreeMap<u32, Namespace>,
    past: BTreeMap<u64, Netns>,
    pace: Pace,
}

impl Namespaces {
    /// None known yet: [`Namespaces::scan`] looks.
    pub fn new(paths: Paths) -> Self {
        let worker = worker::Worker::new();
        Self {
            paths,
            worker,
            known: BTreeMap::new(),
            past: BTreeMap::new(),
            pace: Pace::default(),
        }
    }

    /// Looks everywhere now.
    pub fn scan(&mut self) -> io::Result<Changes> {
        let mut search = Search::new(&self.known);
        scan::named(&self.paths.run_netns, |found| search.add(found));
        scan::mounted(&self.paths, |found| search.add(found));
        scan::processes(&self.paths.proc, |found| search.add(found)).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("list {}: {error}", self.paths.proc.display()),
            )
        })?;
        let found = search.found;
        let gone: Vec<u32> = self
            .known
            .keys()
            .filter(|inode| !found.contains_key(inode))
            .copied()
            .collect();
        let mut changes = Changes::default();
        for inode in gone {
            self.end(inode, &mut changes);
        }
        self.take_in(found, &mut changes);
        Ok(changes)
    }

    /// Looks at the names, and everywhere when it is time to. `now_ns` is of the kernel's clock.
    pub fn rescan(&mut self, now_ns: u64) -> io::Result<Changes> {
        if self.pace.is_due(now_ns) {
            let start = cpu_time_ns();
            let changes = self.scan();
            self.pace.spent(now_ns, cpu_time_ns().saturating_sub(start));
            return changes;
        }
        let mut search = Search::new(&self.known);
        scan::named(&self.paths.run_netns, |found| search.add(found));
        let found = search.found;
        let mut changes = Changes::default();
        self.take_in(found, &mut changes);
        Ok(changes)
    }

    /// All known ones.
    pub fn iter(&self) -> impl Iterator<Item = &Netns> {
        self.known.values().map(|namespace| &namespace.netns)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// None is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What is known of a namespace that the kernel programs saw, also of one that ended.
    pub fn describe(&self, raw: RawNetns) -> Netns {
        let cookie = (raw.cookie != 0).then_some(raw.cookie);
        let by_inode = self.known.get(&raw.inode).map(|namespace| &namespace.netns);
        let same = by_inode
            .filter(|netns| netns.cookie.is_none() || cookie.is_none() || netns.cookie == cookie);
        let known = same.or_else(|| self.past.get(&cookie?));
        Netns {
            inode: raw.inode,
            cookie,
            name: known.and_then(|netns| netns.name.clone()),
        }
    }

    /// The namespace that `--netns NAME|PID|PATH` means.
    pub fn resolve(&mut self, spec: &str) -> anyhow::Result<RawNetns> {
        let door = self.door_of(spec)?;
        let shown = door.display().to_string();
        let place = self.worker.run(move |visitor| visitor.enter(&door))?;
        let place = place.with_context(|| {
            format!("--netns {spec}: {shown} is no network namespace that can be entered")
        })?;
        Ok(RawNetns {
            cookie: place.cookie.unwrap_or(0),
            inode: place.inode,
            reserved: 0,
        })
    }

    fn door_of(&self, spec: &str) -> anyhow::Result<PathBuf> {
        if spec.contains('/') {
            if !Path::new(spec).exists() {
                bail!("--netns {spec}: no such file");
            }
            return Ok(PathBuf::from(spec));
        }
        if spec.is_empty() || spec == "." || spec == ".." {
            bail!(
                "--netns needs a name below {}, a process id or a path",
                self.paths.run_netns.display()
            );
        }
        let named = self.paths.run_netns.join(spec);
        let process = spec
            .parse()
            .ok()
            .map(|pid| scan::process_door(&self.paths.proc, pid));
        let is_process = process
            .as_ref()
            .is_some_and(|door| door.symlink_metadata().is_ok());
        match (named.exists(), process) {
            (true, Some(process)) if is_process => bail!(
                "--netns {spec} is the name of a namespace and the id of a process: say {} or {}",
                named.display(),
                process.display()
            ),
            (true, _) => Ok(named),
            (false, Some(process)) if is_process => Ok(process),
            (false, Some(_)) => bail!("--netns {spec}: no process has this id"),
            (false, None) => {
                let mut existing: Vec<String> = Vec::new();
                scan::named(&self.paths.run_netns, |found| existing.extend(found.name));
                existing.sort();
                let existing = if existing.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", existing.join(", "))
                };
                bail!(
                    "--netns {spec}: no namespace of that name in {}: {existing}",
                    self.paths.run_netns.display()
                )
            }
        }
    }

    /// Runs the job inside every namespace, one after the other. Those that cannot be entered, or are no longer the same,
    /// have an error.
    pub fn visit_all<T: Send + 'static>(
        &mut self,
        job: impl Fn() -> io::Result<T> + Send + 'static,
    ) -> Vec<(Netns, io::Result<T>)> {
        let targets: Vec<Namespace> = self.known.values().cloned().collect();
        let visits = self.worker.run(move |visitor| {
            targets
                .into_iter()
                .map(|target| visit(visitor, target, &job))
                .collect::<Vec<_>>()
        });
        visits.unwrap_or_else(|error| {
            log::warn!("enter network namespaces: {error}");
            Vec::new()
        })
    }

    /// Runs the job inside one namespace.
    pub fn visit<T: Send + 'static>(
        &mut self,
        netns: &Netns,
        job: impl Fn() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let target = self
            .known
            .get(&netns.inode)
            .cloned()
            .ok_or(io::ErrorKind::NotFound)?;
        self.worker
            .run(move |visitor| visit(visitor, target, &job).1)?
    }

    /// Learns what lies behind doors that are new, and remembers the best door and the name of the others.
    fn take_in(&mut self, found: BTreeMap<u32, Sighting>, changes: &mut Changes) {
        let mut unsure = Vec::new();
        for (inode, sighting) in found {
            match self.known.get_mut(&inode) {
                Some(namespace) if sighting.confirmed => {
                    if sighting.best.door.kind < namespace.door.kind {
                        namespace.door = sighting.best.door;
                    }
                    set_name(&mut namespace.netns, sighting.best.name);
                }
                _ => unsure.push(sighting.best),
            }
        }
        if unsure.is_empty() {
            return;
        }
        let looked = self.worker.run(move |visitor| {
            unsure
                .into_iter()
                .map(|found| (visitor.enter(&found.door.path), found))
                .collect::<Vec<_>>()
        });
        match looked {
            Ok(looked) => looked
                .into_iter()
                .for_each(|(place, found)| self.meet(place, found, changes)),
            Err(error) => log::warn!("enter network namespaces: {error}"),
        }
    }

    fn meet(&mut self, place: io::Result<Place>, found: Found, changes: &mut Changes) {
        let place = match place {
            Ok(place) if place.inode == found.inode => place,
            // It went, or the door leads elsewhere by now: the next look will tell.
            Ok(_) => return,
            Err(error) => {
                log::debug!("enter {}: {error}", found.door.path.display());
                return;
            }
        };
        if let Some(known) = self.known.get_mut(&place.inode) {
            if known.netns.cookie == place.cookie {
                known.door = found.door;
                set_name(&mut known.netns, found.name);
                return;
            }
            self.end(place.inode, changes);
        }
        let netns = Netns {
            inode: place.inode,
            cookie: place.cookie,
            name: found.name.map(Name::from),
        };
        changes.started.push(netns.clone());
        self.known.insert(
            place.inode,
            Namespace {
                netns,
                door: found.door,
            },
        );
    }

    fn end(&mut self, inode: u32, changes: &mut Changes) {
        let Some(namespace) = self.known.remove(&inode) else {
            return;
        };
        if let Some(cookie) = namespace.netns.cookie {
            self.past.insert(cookie, namespace.netns.clone());
            if self.past.len() > MAX_PAST {
                self.past.pop_first();
            }
        }
        changes.ended.push(namespace.netns);
    }
}

fn visit<T>(
    visitor: &mut Visitor,
    target: Namespace,
    job: &impl Fn() -> io::Result<T>,
) -> (Netns, io::Result<T>) {
    let result = visitor.enter(&target.door.path).and_then(|place| {
        if place.inode != target.netns.inode || place.cookie != target.netns.cookie {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another namespace has taken its place",
            ));
        }
        job()
    });
    (target.netns, result)
}

/// A name is never forgotten: it may have been deleted while the namespace lives on.
fn set_name(netns: &mut Netns, name: Option<String>) {
    if let Some(name) = name
        && netns.name.as_deref() != Some(name.as_str())
    {
        netns.name = Some(Arc::from(name));
    }
}

fn cpu_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(SECOND_NS)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The doors of one namespace, as one look around found them.
#[derive(Debug)]
struct Sighting {
    best: Found,
    /// The door by which it is known is still there: it is the same namespace.
    confirmed: bool,
}

struct Search<'a> {
    known: &'a BTreeMap<u32, Namespace>,
    found: BTreeMap<u32, Sighting>,
}

impl<'a> Search<'a> {
    fn new(known: &'a BTreeMap<u32, Namespace>) -> Self {
        Self {
            known,
            found: BTreeMap::new(),
        }
    }

    fn add(&mut self, found: Found) {
        let confirmed = self
            .known
            .get(&found.inode)
            .is_some_and(|known| known.door == found.door);
        if let Some(sighting) = self.found.get_mut(&found.inode) {
            sighting.confirmed |= confirmed;
            if found.door.kind < sighting.best.door.kind {
                sighting.best = found;
            }
        } else {
            self.found.insert(
                found.inode,
                Sighting {
                    best: found,
                    confirmed,
                },
            );
        }
    }
}
