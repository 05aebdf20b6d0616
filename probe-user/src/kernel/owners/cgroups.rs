//! Paths of cgroups by their id. Since Linux 5.5 the id of a cgroup is the inode number of its directory, and never given
//! out twice.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::container::container;
use super::recent::Recent;
use crate::event::Name;

/// Then only those that exist are kept.
const MAX_PLACES: usize = 16_384;
/// Ids for which there was no directory.
const MAX_ABSENT: usize = 1024;
/// When to look again for such a one.
const RETRY_NS: u64 = 10_000_000_000;
/// When to look again below the watched ones.
const WATCH_AGAIN_NS: u64 = 100_000_000;
/// Deeper than any hierarchy that makes sense.
const MAX_DEPTH: usize = 64;

/// What the path of a cgroup says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: Name,
    pub(super) container: Option<Name>,
}

/// The cgroups of the v2 hierarchy.
#[derive(Debug)]
pub(super) struct Cgroups {
    root: PathBuf,
    places: HashMap<u64, Place>,
    absent: Recent<u64, u64>,
    watched: Vec<PathBuf>,
}

impl Cgroups {
    /// `root`: where cgroups are mounted, usually /sys/fs/cgroup. In the hybrid layout the v2 hierarchy is below it.
    pub(super) fn new(root: PathBuf) -> Self {
        let hybrid = root.join("unified");
        let is_v2 = |directory: &Path| directory.join("cgroup.procs").exists();
        let root = if !is_v2(&root) && is_v2(&hybrid) {
            hybrid
        } else {
            root
        };
        Self {
            root,
            places: HashMap::new(),
            absent: Recent::new(MAX_ABSENT),
            watched: Vec::new(),
        }
    }

    /// New cgroups below these are found at once.
    pub(super) fn watch(&mut self, paths: &[PathBuf]) {
        self.watched = paths.to_vec();
    }

    pub(super) fn known(&self, id: u64) -> Option<&Place> {
        self.places.get(&id)
    }

    /// Is it worth looking for?
    pub(super) fn is_due(&mut self, id: u64, now_ns: u64) -> bool {
        self.absent
            .get_mut(id)
            .is_none_or(|again_ns| now_ns >= *again_ns)
    }

    /// Looks below the watched ones only.
    pub(super) fn look_at_watched(&mut self, id: u64, now_ns: u64) {
        if self.watched.is_empty() {
            return;
        }
        for path in self.watched.clone() {
            let below = path.strip_prefix("/").unwrap_or(&path);
            let directory = self.root.join(below);
            self.add(&directory, &path.to_string_lossy(), 0);
        }
        if !self.places.contains_key(&id) {
            self.absent
                .insert(id, now_ns.saturating_add(WATCH_AGAIN_NS));
        }
    }

    /// Looks at all. `id` is then known, or not there.
    pub(super) fn look(&mut self, id: u64, now_ns: u64) {
        if self.places.len() > MAX_PLACES {
            self.places.clear();
        }
        let root = self.root.clone();
        self.add(&root, "/", 0);
        if !self.places.contains_key(&id) {
            self.absent.insert(id, now_ns.saturating_add(RETRY_NS));
        }
    }

    fn add(&mut self, directory: &Path, path: &str, depth: usize) {
        // It may be gone by now, which is no error.
        if let Err(error) = self.try_add(directory, path, depth)
            && error.kind() != io::ErrorKind::NotFound
        {
            log::debug!("look at {}: {error}", directory.display());
        }
    }

    fn try_add(&mut self, directory: &Path, path: &str, depth: usize) -> io::Result<()> {
        let status = fs::symlink_metadata(directory)?;
        if self
            .places
            .get(&status.ino())
            .is_none_or(|place| *place.path != *path)
        {
            self.places.insert(
                status.ino(),
                Place {
                    path: path.into(),
                    container: container(path),
                },
            );
        }
        // Every directory has a link from each of those in it: most have none, and need not be read.
        if status.nlink() == 2 || depth >= MAX_DEPTH {
            return Ok(());
        }
        for entry in fs::read_dir(directory)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let parent = path.trim_end_matches('/');
                let below = format!("{parent}/{}", entry.file_name().to_string_lossy());
                self.add(&entry.path(), &below, depth + 1);
            }
        }
        Ok(())
    }
}
