use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::processes::socket_inode;
use super::*;

mod live;

/// A directory that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("owners-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn owners(&self) -> Owners {
        Owners::new(self.0.clone(), self.0.join("cgroup"))
    }

    fn process(&self, pid: u32, name: impl AsRef<[u8]>, sockets: &[u64]) {
        let directory = self.0.join(pid.to_string());
        fs::create_dir_all(directory.join("fd")).unwrap();
        fs::write(directory.join("comm"), [name.as_ref(), b"\n"].concat()).unwrap();
        symlink("/dev/null", directory.join("fd/0")).unwrap();
        for (fd, inode) in (3..).zip(sockets) {
            symlink(
                format!("socket:[{inode}]"),
                directory.join(format!("fd/{fd}")),
            )
            .unwrap();
        }
    }

    fn close(&self, pid: u32, fd: u32) {
        fs::remove_file(self.0.join(format!("{pid}/fd/{fd}"))).unwrap();
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.0.join(pid.to_string())).unwrap();
    }

    fn cgroup(&self, path: &str) -> u64 {
        let directory = self.0.join("cgroup").join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::write(self.0.join("cgroup/cgroup.procs"), "").unwrap();
        fs::metadata(directory).unwrap().ino()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Seconds.
fn s(seconds: u64) -> u64 {
    seconds * SECOND_NS
}

fn pid(owners: &mut Owners, inode: u64, now_ns: u64) -> Result<u32, &'static str> {
    owners.process(inode, now_ns).map(|process| process.pid)
}

fn socket(inode: Option<u64>) -> SocketId {
    SocketId {
        cookie: None,
        inode,
        cgroup_id: Some(7),
        address: 0x1000,
    }
}

#[test]
fn a_socket_leads_to_its_process() {
    let host = Scratch::new();
    host.process(10, "sshd", &[100]);
    host.process(20, "nginx", &[200, 201]);
    fs::create_dir_all(host.0.join("sys/fd")).unwrap();
    let mut owners = host.owners();
    owners.sweep().unwrap();
    assert_eq!(owners.index.len(), 3);
    assert_eq!(
        owners.process(201, 0),
        Ok(Process {
            pid: 20,
            name: "nginx".into()
        })
    );
    assert_eq!(
        owners.process(100, 0),
        Ok(Process {
            pid: 10,
            name: "sshd".into()
        })
    );
    assert_eq!(pid(&mut owners, 999, 0), Err(NOBODY));
}

#[test]
fn new_sockets_are_found_in_new_and_in_old_processes() {
    let host = Scratch::new();
    host.process(10, "old", &[100]);
    let mut owners = host.owners();
    owners.sweep().unwrap();
    host.process(30, "new", &[300]);
    symlink("socket:[101]", host.0.join("10/fd/9")).unwrap();
    assert_eq!(pid(&mut owners, 300, 0), Ok(30));
    assert_eq!(pid(&mut owners, 101, 0), Ok(10));
}

#[test]
fn forked_workers_share_a_listener_and_the_lowest_answers() {
    let host = Scratch::new();
    for worker in [22, 9, 21] {
        host.process(worker, "worker", &[500]);
    }
    let mut owners = host.owners();
    owners.sweep().unwrap();
    assert_eq!(
        (pid(&mut owners, 500, s(1)), owners.sharers(500)),
        (Ok(9), 3)
    );
    host.end(9);
    assert_eq!(pid(&mut owners, 500, s(3)), Ok(21));
    host.close(21, 3);
    assert_eq!(pid(&mut owners, 500, s(5)), Ok(22));
}

#[test]
fn an_owner_that_ended_is_remembered() {
    let host = Scratch::new();
    host.process(10, "curl", &[100]);
    let mut owners = host.owners();
    assert_eq!(pid(&mut owners, 100, 0), Ok(10));
    host.end(10);
    assert_eq!(
        owners.process(100, s(100)),
        Ok(Process {
            pid: 10,
            name: "curl".into()
        })
    );
    // Somebody else has a socket with that inode by now.
    host.process(11, "wget", &[100]);
    assert_eq!(
        owners.process(100, s(200)),
        Ok(Process {
            pid: 11,
            name: "wget".into()
        })
    );
}

#[test]
fn a_name_is_read_again_but_not_more_than_once_a_second() {
    let host = Scratch::new();
    host.process(10, "before", &[100]);
    let mut owners = host.owners();
    assert_eq!(&*owners.process(100, s(1)).unwrap().name, "before");
    fs::write(host.0.join("10/comm"), "after\n").unwrap();
    assert_eq!(&*owners.process(100, s(1) + 1).unwrap().name, "before");
    assert_eq!(&*owners.process(100, s(2)).unwrap().name, "after");
}

#[test]
fn names_are_kept_as_they_are() {
    let host = Scratch::new();
    for (number, name, kept) in [
        (1, b"\x1b[2J]0;x\x07".as_slice(), "\x1b[2J]0;x\x07"),
        (2, b"two\nlines\n", "two\nlines\n"),
        (3, b"\xff\xfe", "\u{fffd}\u{fffd}"),
        (4, b"", ""),
        (5, b"a) R 1 (b", "a) R 1 (b"),
    ] {
        host.process(number, name, &[u64::from(number)]);
        assert_eq!(
            &*host.owners().process(u64::from(number), 0).unwrap().name,
            kept
        );
    }
}

#[test]
fn what_nobody_has_does_not_cost_a_search_each_time() {
    let host = Scratch::new();
    host.process(10, "sshd", &[100]);
    let mut owners = host.owners();
    assert_eq!(pid(&mut owners, 7, 0), Err(NOBODY));
    let sweeps = owners.index.started;
    for now in 0..1000 {
        assert_eq!(pid(&mut owners, 7, now), Err(NOBODY));
    }
    assert_eq!(owners.index.started, sweeps);
    assert_eq!(pid(&mut owners, 7, s(2)), Err(NOBODY));
    assert_eq!(owners.index.started, sweeps + 1);
}

#[test]
fn watched_processes_are_found_whatever_was_spent() {
    let host = Scratch::new();
    host.process(10, "parent", &[100]);
    host.process(20, "child", &[100, 200]);
    host.process(30, "other", &[300]);
    let mut owners = host.owners();
    owners.allowance.spend(s(1000));
    owners.watch(&[20], &[]);
    assert_eq!(pid(&mut owners, 200, 0), Ok(20));
    assert_eq!(
        pid(&mut owners, 100, 0),
        Ok(20),
        "the one that was asked for, not the lowest"
    );
    assert_eq!(pid(&mut owners, 300, 0), Err(NOT_YET));
    symlink("socket:[301]", host.0.join("20/fd/9")).unwrap();
    assert_eq!(pid(&mut owners, 301, 0), Ok(20));
}

#[test]
fn a_sweep_in_slices_finds_everything() {
    let host = Scratch::new();
    for number in 1..=200 {
        host.process(number, "p", &[u64::from(number)]);
    }
    let mut processes = Processes::new(host.0.clone());
    let mut index = Index::default();
    let mut steps = 0;
    while index.finished == 0 {
        assert_eq!(index.search(&mut processes, 999, 0), None);
        steps += 1;
    }
    assert!(steps >= 100, "{steps}");
    assert_eq!(index.len(), 200);
    assert!((1..=200).all(|inode| index.holders(inode).len() == 1));
}

#[test]
fn what_an_unfinished_first_sweep_saw_is_known() {
    let host = Scratch::new();
    host.process(1, "a", &[100]);
    host.process(2, "b", &[200]);
    let mut processes = Processes::new(host.0.clone());
    let mut index = Index::default();
    index.sweep(&mut processes, 0).unwrap();
    assert_eq!(
        (
            index.finished,
            index.holders(100).len(),
            index.holders(200).len()
        ),
        (0, 1, 0)
    );
    assert_eq!(
        index
            .search(&mut processes, 200, 0)
            .map(|holder| holder.pid),
        Some(2)
    );
    assert_eq!((index.finished, index.len()), (1, 2));
}

#[test]
fn a_closed_socket_has_its_last_owner_until_its_flow_ends() {
    let host = Scratch::new();
    host.process(10, "curl", &[100]);
    let mut owners = host.owners();
    let owner = owners.owner(&socket(Some(100)), 0);
    assert_eq!(
        owners.owner(&socket(None), 0).unknown_because,
        Some(NO_INODE)
    );
    owners.remember(&socket(Some(100)), &owner, 0);
    host.end(10);
    assert_eq!(owners.owner(&socket(None), s(2)), owner);
    let elsewhere = SocketId {
        cgroup_id: Some(8),
        ..socket(None)
    };
    assert_eq!(
        owners.owner(&elsewhere, s(2)).unknown_because,
        Some(NO_INODE)
    );
    assert_eq!(
        owners.owner(&socket(None), s(500)).unknown_because,
        Some(NO_INODE)
    );
    owners.forget(&socket(None));
    assert_eq!(
        owners.owner(&socket(None), s(2)).unknown_because,
        Some(NO_INODE)
    );
}

#[test]
fn cgroups_have_paths_and_containers() {
    let host = Scratch::new();
    let id = "ab".repeat(32);
    let root = host.cgroup("");
    let unit = host.cgroup("system.slice/nginx.service");
    let inside = host.cgroup(&format!("system.slice/docker-{id}.scope/init.scope"));
    let mut owners = host.owners();
    owners.sweep().unwrap();
    assert_eq!(owners.cgroup(root, 0).as_deref(), Some("/"));
    let of = |id, owners: &mut Owners| {
        let owner = owners.owner(
            &SocketId {
                cgroup_id: Some(id),
                ..socket(None)
            },
            0,
        );
        (owner.cgroup.unwrap().path, owner.container)
    };
    assert_eq!(
        of(unit, &mut owners),
        (Some("/system.slice/nginx.service".into()), None)
    );
    assert_eq!(of(inside, &mut owners).1.as_deref(), Some(id.as_str()));
    assert_eq!(of(1, &mut owners), (None, None));
    // One that came later, and one that went.
    let later = host.cgroup("later.slice");
    fs::remove_dir(host.0.join("cgroup/system.slice/nginx.service")).unwrap();
    assert_eq!(owners.cgroup(later, s(1)).as_deref(), Some("/later.slice"));
    assert_eq!(
        owners.cgroup(unit, s(1)).as_deref(),
        Some("/system.slice/nginx.service")
    );
}

#[test]
fn watched_cgroups_are_found_whatever_was_spent() {
    let host = Scratch::new();
    host.cgroup("a.slice");
    let mut owners = host.owners();
    owners.allowance.spend(s(1000));
    owners.watch(&[], &[PathBuf::from("/a.slice")]);
    let below = host.cgroup("a.slice/b.service");
    let other = host.cgroup("c.slice");
    assert_eq!(
        owners.cgroup(below, 0).as_deref(),
        Some("/a.slice/b.service")
    );
    assert_eq!(owners.cgroup(other, 0), None);
}

#[test]
fn in_the_hybrid_layout_the_second_version_is_looked_at() {
    let host = Scratch::new();
    fs::create_dir_all(host.0.join("cgroup/unified/a.slice")).unwrap();
    fs::create_dir_all(host.0.join("cgroup/memory/a.slice")).unwrap();
    fs::write(host.0.join("cgroup/unified/cgroup.procs"), "").unwrap();
    let id = fs::metadata(host.0.join("cgroup/unified/a.slice"))
        .unwrap()
        .ino();
    assert_eq!(host.owners().cgroup(id, 0).as_deref(), Some("/a.slice"));
}

proptest! {
    #[test]
    fn every_inode_is_read_from_its_link(inode in any::<u64>()) {
        prop_assert_eq!(socket_inode(format!("socket:[{inode}]").as_bytes()), Some(inode));
    }

    #[test]
    fn no_other_link_is_a_socket(link in any::<Vec<u8>>(), text in "(socket:\\[)?[-+ 0-9a-z]{0,22}\\]?") {
        for link in [link, text.into_bytes()] {
            if let Some(inode) = socket_inode(&link) {
                let digits = String::from_utf8(link[8..link.len() - 1].to_vec()).unwrap();
                prop_assert_eq!(digits.parse(), Ok(inode));
                prop_assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
            }
        }
    }
}
