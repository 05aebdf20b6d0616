//! What /proc says about processes and the sockets they have open. Processes end while they are looked at: that is no
//! error, they just have no sockets any more.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, RawDir, open, readlinkat_raw};
use rustix::io::Errno;

use crate::event::Name;

/// `socket:[18446744073709551615]` and more: what is cut off here is no socket.
const LINK_BYTES: usize = 32;
/// The kernel's limit is 16, for its own threads 64.
const COMM_BYTES: u64 = 128;
const DIRECTORY_BYTES: usize = 32 << 10;

/// The processes below one /proc.
#[derive(Debug)]
pub(super) struct Processes {
    /// Ends with a slash; the rest of the path is appended and taken away again.
    path: String,
    base: usize,
    buffer: Vec<MaybeUninit<u8>>,
    /// Some process could not be looked into.
    pub(super) denied: bool,
}

impl Processes {
    pub(super) fn new(proc: PathBuf) -> Self {
        let mut path = proc
            .into_os_string()
            .into_string()
            .unwrap_or_else(|_| "/proc".to_owned());
        path.push('/');
        Self {
            base: path.len(),
            path,
            buffer: vec![MaybeUninit::uninit(); DIRECTORY_BYTES],
            denied: false,
        }
    }

    /// Their ids, ascending.
    pub(super) fn pids(&mut self) -> io::Result<Vec<u32>> {
        self.path.truncate(self.base);
        let directory = open_directory(&self.path)?;
        let mut pids = Vec::new();
        let mut entries = RawDir::new(directory, &mut self.buffer);
        while let Some(entry) = entries.next() {
            pids.extend(number(entry?.file_name()));
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Every socket a process has open, as descriptor and inode, until told to stop.
    pub(super) fn sockets(&mut self, pid: u32, each: impl FnMut(u32, u64) -> ControlFlow<()>) {
        if let Err(Errno::ACCESS | Errno::PERM) = self.try_sockets(pid, each) {
            self.denied = true;
        }
    }

    fn try_sockets(
        &mut self,
        pid: u32,
        mut each: impl FnMut(u32, u64) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let directory = open_directory(self.path_of(pid, "fd"))?;
        let mut entries = RawDir::new(&directory, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(fd) = number(entry.file_name()) else {
                continue;
            };
            let mut link = [MaybeUninit::uninit(); LINK_BYTES];
            let inode = match readlinkat_raw(&directory, entry.file_name(), &mut link[..]) {
                Ok((link, _)) => socket_inode(link),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            if let Some(inode) = inode
                && each(fd, inode).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Is that descriptor that socket?
    pub(super) fn has(&mut self, pid: u32, fd: u32, inode: u64) -> bool {
        let path = self.path_of(pid, "fd/");
        let mut link = [MaybeUninit::uninit(); LINK_BYTES];
        write!(path, "{fd}").is_ok()
            && readlinkat_raw(rustix::fs::CWD, path.as_str(), &mut link[..])
                .is_ok_and(|(link, _)| socket_inode(link) == Some(inode))
    }

    /// Its name: whatever it calls itself.
    pub(super) fn name(&mut self, pid: u32) -> Option<Name> {
        let mut bytes = Vec::new();
        let file = File::open(self.path_of(pid, "comm").as_str()).ok()?;
        file.take(COMM_BYTES).read_to_end(&mut bytes).ok()?;
        // The line break is the kernel's; one before it would be part of the name.
        let name = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Some(String::from_utf8_lossy(name).into())
    }

    fn path_of(&mut self, pid: u32, file: &str) -> &mut String {
        self.path.truncate(self.base);
        self.path.push_str(&pid.to_string());
        self.path.push('/');
        self.path.push_str(file);
        &mut self.path
    }
}

fn open_directory(path: &str) -> Result<OwnedFd, Errno> {
    open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn number(name: &CStr) -> Option<u32> {
    decimal(name.to_bytes())?.try_into().ok()
}

/// `socket:[123]`
pub(super) fn socket_inode(link: &[u8]) -> Option<u64> {
    decimal(link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

/// Digits, and nothing else: no sign.
fn decimal(digits: &[u8]) -> Option<u64> {
    let first = digits.first()?;
    if !first.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
