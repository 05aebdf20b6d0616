//! Where the doors to network namespaces are: processes, names below /run/netns, bind mounts elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Paths;

/// A file behind which a namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) path: PathBuf,
    /// Change time of a named one: the name, and even the inode number, may be those of the one before.
    pub(super) stamp: Option<(i64, i64)>,
    pub(super) kind: DoorKind,
}

/// The best comes first: a name outlives processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DoorKind {
    Named,
    Mounted,
    Process,
}

/// A door that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) inode: u32,
    pub(super) door: Door,
    pub(super) name: Option<String>,
}

/// The names below /run/netns. No such directory: no names.
pub(super) fn named(run_netns: &Path, mut found: impl FnMut(Found)) {
    let Ok(directory) = fs::read_dir(run_netns) else {
        return;
    };
    for entry in directory.flatten() {
        let path = entry.path();
        let Ok(status) = fs::metadata(&path) else {
            continue;
        };
        // `ip netns add` makes an empty file first and mounts the namespace on it a moment later. Entering tells
        // whether it is one; the size of a namespace file is 0 as well.
        if !status.is_file() {
            continue;
        }
        let Ok(inode) = u32::try_from(status.ino()) else {
            continue;
        };
        found(Found {
            inode,
            door: Door {
                path,
                stamp: Some((status.ctime(), status.ctime_nsec())),
                kind: DoorKind::Named,
            },
            name: Some(entry.file_name().to_string_lossy().into_owned()),
        });
    }
}

/// Every process's namespace, the one of its main thread.
pub(super) fn processes(proc: &Path, mut found: impl FnMut(Found)) -> io::Result<()> {
    for entry in fs::read_dir(proc)?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let path = process_door(proc, pid);
        let Some(inode) = fs::read_link(&path)
            .ok()
            .and_then(|link| inode_of_link(link.as_os_str()))
        else {
            continue;
        };
        found(Found {
            inode,
            door: Door {
                path,
                stamp: None,
                kind: DoorKind::Process,
            },
            name: None,
        });
    }
    Ok(())
}

/// The namespace of one process.
pub(super) fn process_door(proc: &Path, pid: u32) -> PathBuf {
    proc.join(pid.to_string()).join("ns/net")
}

/// Bind mounts of namespaces outside /run/netns, such as those of container engines.
pub(super) fn mounted(paths: &Paths, mut found: impl FnMut(Found)) {
    // Another host's /proc: its mounts are reached through its first process.
    let elsewhere = paths.proc != Path::new("/proc");
    let process = if elsewhere { "1" } else { "self" };
    let Ok(text) = fs::read(paths.proc.join(process).join("mountinfo")) else {
        return;
    };
    for (inode, mount_point) in nsfs_mounts(&text) {
        if mount_point
            .parent()
            .is_some_and(|parent| parent.ends_with("run/netns"))
        {
            continue;
        }
        let path = if elsewhere {
            paths
                .proc
                .join("1/root")
                .join(mount_point.strip_prefix("/").unwrap_or(&mount_point))
        } else {
            mount_point
        };
        found(Found {
            inode,
            door: Door {
                path,
                stamp: None,
                kind: DoorKind::Mounted,
            },
            name: None,
        });
    }
}

/// Inode and mount point of each network namespace in the text of `mountinfo`.
pub(super) fn nsfs_mounts(mountinfo: &[u8]) -> Vec<(u32, PathBuf)> {
    let mut mounts = Vec::new();
    for line in mountinfo.split(|byte| *byte == b'\n') {
        // 36 35 0:4 net:[4026532281] /run/docker/netns/default rw shared:1 - nsfs nsfs rw
        let mut words = line.split(|byte| *byte == b' ');
        let Some(inode) = words
            .nth(3)
            .and_then(|root| inode_of_link(OsStr::from_bytes(root)))
        else {
            continue;
        };
        let Some(mount_point) = words.next() else {
            continue;
        };
        if words.skip_while(|word| *word != b"-").nth(1) == Some(b"nsfs") {
            mounts.push((
                inode,
                PathBuf::from(OsStr::from_bytes(&unescape(mount_point))),
            ));
        }
    }
    mounts
}

/// `\040` and the like, as the kernel escapes blanks.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'\\'
            && let Some((digits, after)) = tail.split_at_checked(3)
            && let Some(byte) = std::str::from_utf8(digits)
                .ok()
                .and_then(|text| u8::from_str_radix(text, 8).ok())
        {
            bytes.push(byte);
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

/// `net:[4026531840]`
pub(super) fn inode_of_link(link: &OsStr) -> Option<u32> {
    link.to_str()?
        .strip_prefix("net:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}
