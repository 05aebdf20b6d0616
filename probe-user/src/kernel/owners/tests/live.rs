//! On the kernel the tests run on.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::*;
use super::{pid, s};

fn inode_of(socket: &TcpListener) -> u64 {
    rustix::fs::fstat(socket).unwrap().st_ino
}

#[test]
fn own_sockets_and_those_left_to_a_child_are_found() {
    let mut owners = Owners::start(Path::new("/proc"), &[], &[]).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let inode = inode_of(&socket);
    let me = owners.process(inode, s(1)).unwrap();
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(
        (me.pid, &*me.name),
        (std::process::id(), name.trim_end_matches('\n'))
    );

    // The child is all that has it now, and then nobody.
    let handed = Stdio::from(socket.as_fd().try_clone_to_owned().unwrap());
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(handed)
        .spawn()
        .unwrap();
    drop(socket);
    let found = owners.process(inode, s(1000)).unwrap();
    assert_eq!((found.pid, &*found.name), (child.id(), "sleep"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(owners.process(inode, s(2000)).unwrap(), found);
    // A process with more rights than this one cannot be looked into.
    assert!(matches!(
        pid(&mut owners, u64::MAX, s(3000)),
        Err(NOBODY | DENIED)
    ));
}

/// In a container the root of what is seen is not the root of the host.
#[test]
fn the_cgroup_of_this_process_is_known() {
    let mut owners = Owners::start(Path::new("/proc"), &[], &[]).unwrap();
    let text = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return;
    };
    let v2 = [
        Path::new("/sys/fs/cgroup"),
        Path::new("/sys/fs/cgroup/unified"),
    ]
    .into_iter()
    .find(|root| root.join("cgroup.procs").exists());
    if let Some(status) =
        v2.and_then(|root| fs::metadata(root.join(path.trim_start_matches('/'))).ok())
    {
        assert_eq!(owners.cgroup(status.ino(), 0).as_deref(), Some(path));
    }
}
