use std::ffi::OsStr;

use proptest::prelude::*;

use super::scan::{Door, DoorKind, inode_of_link, nsfs_mounts};
use super::*;

fn found(inode: u32, path: &str, kind: DoorKind) -> Found {
    Found {
        inode,
        door: Door {
            path: PathBuf::from(path),
            stamp: None,
            kind,
        },
        name: None,
    }
}

fn netns(inode: u32, cookie: u64, name: Option<&str>) -> Netns {
    Netns {
        inode,
        cookie: Some(cookie),
        name: name.map(Name::from),
    }
}

fn namespaces() -> Namespaces {
    Namespaces::new(Paths {
        proc: PathBuf::from("/nowhere"),
        run_netns: PathBuf::from("/nowhere"),
    })
}

#[test]
fn links_and_mounts_are_read() {
    assert_eq!(
        inode_of_link(OsStr::new("net:[4026531840]")),
        Some(4_026_531_840)
    );
    assert_eq!(inode_of_link(OsStr::new("mnt:[4026531840]")), None);
    assert_eq!(inode_of_link(OsStr::new("net:[x]")), None);
    let text = b"\
22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw
36 35 0:4 net:[4026532281] /run/docker/netns/a\\040b rw shared:1 - nsfs nsfs rw
37 35 0:4 mnt:[4026532282] /run/snapd/ns/x rw - nsfs nsfs rw
38 35 0:4 net:[4026532283] /mnt/y rw master:1 propagate_from:2 - nsfs nsfs rw
39 35 0:4 net:[4026532284] /mnt/z rw - ext4 /dev/a rw
40 35
";
    let expected = [
        (4_026_532_281, PathBuf::from("/run/docker/netns/a b")),
        (4_026_532_283, PathBuf::from("/mnt/y")),
    ];
    assert_eq!(nsfs_mounts(text), expected);
}

#[test]
fn an_inode_that_was_given_to_another_namespace_is_told_apart_by_its_cookie() {
    let mut all = namespaces();
    let mut changes = Changes::default();
    let place = |cookie| {
        Ok(Place {
            inode: 7,
            cookie: Some(cookie),
        })
    };
    all.meet(
        place(100),
        Found {
            name: Some("old".to_owned()),
            ..found(7, "/a", DoorKind::Named)
        },
        &mut changes,
    );
    all.meet(
        place(200),
        Found {
            name: Some("new".to_owned()),
            ..found(7, "/a", DoorKind::Named)
        },
        &mut changes,
    );
    assert_eq!(
        changes.started,
        [netns(7, 100, Some("old")), netns(7, 200, Some("new"))]
    );
    assert_eq!(changes.ended, [netns(7, 100, Some("old"))]);
    let raw = |cookie| RawNetns {
        cookie,
        inode: 7,
        reserved: 0,
    };
    assert_eq!(all.describe(raw(100)), netns(7, 100, Some("old")));
    assert_eq!(all.describe(raw(200)), netns(7, 200, Some("new")));
    assert_eq!(all.describe(raw(300)), netns(7, 300, None));
    assert_eq!(all.describe(raw(0)).name.as_deref(), Some("new"));
    assert_eq!(all.describe(RawNetns::UNKNOWN), Netns::default());
}

#[test]
fn a_known_door_confirms_and_a_better_one_is_taken() {
    let mut all = namespaces();
    let mut changes = Changes::default();
    all.meet(
        Ok(Place {
            inode: 7,
            cookie: Some(1),
        }),
        found(7, "/proc/5/ns/net", DoorKind::Process),
        &mut changes,
    );
    let mut search = Search::new(&all.known);
    search.add(found(7, "/proc/5/ns/net", DoorKind::Process));
    search.add(Found {
        name: Some("blue".to_owned()),
        ..found(7, "/run/netns/blue", DoorKind::Named)
    });
    search.add(found(7, "/proc/6/ns/net", DoorKind::Process));
    let sightings = search.found;
    assert!(sightings[&7].confirmed);
    all.take_in(sightings, &mut changes);
    assert_eq!(all.known[&7].door.kind, DoorKind::Named);
    assert_eq!(all.known[&7].netns.name.as_deref(), Some("blue"));
    assert_eq!(changes.started.len(), 1);

    let mut search = Search::new(&all.known);
    search.add(found(7, "/proc/6/ns/net", DoorKind::Process));
    assert!(
        !search.found[&7].confirmed,
        "another door: perhaps another namespace"
    );
}

#[test]
fn a_door_that_leads_elsewhere_or_nowhere_is_left_alone() {
    let mut all = namespaces();
    let mut changes = Changes::default();
    all.meet(
        Ok(Place {
            inode: 8,
            cookie: None,
        }),
        found(7, "/a", DoorKind::Named),
        &mut changes,
    );
    all.meet(
        Err(io::ErrorKind::PermissionDenied.into()),
        found(7, "/a", DoorKind::Named),
        &mut changes,
    );
    assert!(all.is_empty());
    assert_eq!(changes, Changes::default());
}

#[test]
fn looking_around_takes_one_percent_at_most() {
    let mut pace = Pace::default();
    assert!(pace.is_due(0));
    pace.spent(0, 1_000_000);
    assert!(!pace.is_due(SECOND_NS - 1) && pace.is_due(SECOND_NS));
    pace.spent(SECOND_NS, 50_000_000);
    assert!(!pace.is_due(5 * SECOND_NS) && pace.is_due(6 * SECOND_NS));
}

#[test]
fn what_netns_cannot_mean_is_said() {
    let mut all = Namespaces::new(Paths {
        proc: PathBuf::from("/proc"),
        run_netns: PathBuf::from("/nowhere"),
    });
    let message =
        |spec: &str, all: &mut Namespaces| format!("{:#}", all.resolve(spec).unwrap_err());
    assert_eq!(
        message("blue", &mut all),
        "--netns blue: no namespace of that name in /nowhere: it has none"
    );
    assert_eq!(
        message("4194305", &mut all),
        "--netns 4194305: no process has this id"
    );
    assert_eq!(
        message("/no/such", &mut all),
        "--netns /no/such: no such file"
    );
    assert_eq!(
        message("", &mut all),
        "--netns needs a name below /nowhere, a process id or a path"
    );
    let error = message("/etc/passwd", &mut all);
    assert!(
        error.starts_with("--netns /etc/passwd: /etc/passwd is no network namespace"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_mountinfo_is_survived(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _mounts = nsfs_mounts(&text);
    }
}

/// Needs root: run by `cargo xtask test`.
#[cfg(feature = "kernel-tests")]
mod kernel {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    fn ip(arguments: &str) -> bool {
        Command::new("ip")
            .args(arguments.split(' '))
            .output()
            .is_ok_and(|output| output.status.success())
    }

    /// Named namespaces that go with the test.
    struct Cleanup(Vec<String>);

    impl Cleanup {
        fn with(names: &[&str]) -> Self {
            let names: Vec<String> = names
                .iter()
                .map(|name| format!("dw{}{name}", std::process::id()))
                .collect();
            for name in &names {
                assert!(ip(&format!("netns add {name}")), "needs root and iproute2");
            }
            Self(names)
        }
    }

    impl Drop for Cleanup {
        fn drop(&mut self) {
            for name in &self.0 {
                ip(&format!("netns del {name}"));
            }
        }
    }

    fn by_name<'a>(all: &'a Namespaces, name: &str) -> Option<&'a Netns> {
        all.iter().find(|netns| netns.name.as_deref() == Some(name))
    }

    #[test]
    fn the_hosts_namespaces_are_found_and_read_without_leaving_the_own_one() {
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let names = Cleanup::with(&["a", "b"]);
        let mut all = Namespaces::new(Paths::default());
        all.scan().unwrap();
        let a = by_name(&all, &names.0[0]).unwrap().clone();
        let b = by_name(&all, &names.0[1]).unwrap().clone();
        assert!(a.inode != b.inode && a.cookie != b.cookie && a.cookie.is_some());
        let own_inode = inode_of_link(own.as_os_str()).unwrap();
        assert!(all.iter().any(|netns| netns.inode == own_inode));
        let raw = all.resolve(&names.0[0]).unwrap();
        assert_eq!((raw.inode, Some(raw.cookie)), (a.inode, a.cookie));
        assert_eq!(all.describe(raw), a);
        assert_eq!(
            all.resolve(&std::process::id().to_string()).unwrap().inode,
            own_inode
        );
        assert_eq!(
            all.resolve(&format!("/run/netns/{}", names.0[1]))
                .unwrap()
                .inode,
            b.inode
        );
        let inside = all
            .visit(&a, || std::fs::read_link("/proc/thread-self/ns/net"))
            .unwrap();
        assert_eq!(inode_of_link(inside.as_os_str()), Some(a.inode));
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), own);
    }

    #[test]
    fn a_namespace_is_found_and_ends_while_running() {
        let mut all = Namespaces::new(Paths::default());
        all.scan().unwrap();
        let names = Cleanup::with(&["c"]);
        // Not due for a full look, but names are looked at each time.
        all.pace.spent(0, SECOND_NS);
        let changes = all.rescan(1).unwrap();
        assert!(
            changes
                .started
                .iter()
                .any(|netns| netns.name.as_deref() == Some(&names.0[0])),
            "{changes:?}"
        );
        let first = by_name(&all, &names.0[0]).unwrap().clone();
        // Same name, most likely the same inode number, another namespace.
        assert!(
            ip(&format!("netns del {}", names.0[0])) && ip(&format!("netns add {}", names.0[0]))
        );
        let changes = all.rescan(2).unwrap();
        let is_new = |netns: &&Netns| netns.name == first.name && netns.cookie != first.cookie;
        let second = changes.started.iter().find(is_new).unwrap().clone();
        drop(names);
        let changes = all.rescan(u64::MAX).unwrap();
        assert!(changes.ended.contains(&second), "{changes:?}");
    }

    #[test]
    fn the_namespace_of_a_process_is_found_until_it_exits() {
        let mut child = Command::new("unshare")
            .args(["-n", "sleep", "30"])
            .spawn()
            .unwrap();
        let mut all = Namespaces::new(Paths::default());
        let own =
            inode_of_link(std::fs::read_link("/proc/self/ns/net").unwrap().as_os_str()).unwrap();
        let start = Instant::now();
        let inode = loop {
            let raw = all.resolve(&child.id().to_string()).unwrap();
            if raw.inode != own {
                break raw.inode;
            }
            assert!(start.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(5));
        };
        all.scan().unwrap();
        assert!(all.iter().any(|netns| netns.inode == inode));
        child.kill().unwrap();
        child.wait().unwrap();
        let changes = all.scan().unwrap();
        assert!(changes.ended.iter().any(|netns| netns.inode == inode));
    }

    /// A veth's end goes when the namespace of its other end is really gone.
    #[test]
    fn a_deleted_namespace_is_not_kept_alive() {
        let names = Cleanup::with(&["d", "e"]);
        let (kept, deleted) = (&names.0[0], &names.0[1]);
        assert!(ip(&format!(
            "-n {kept} link add v0 type veth peer name v1 netns {deleted}"
        )));
        let mut all = Namespaces::new(Paths::default());
        all.scan().unwrap();
        for _ in 0..3 {
            assert!(all.visit_all(|| Ok(())).iter().any(|(netns, result)| {
                netns.name.as_deref() == Some(deleted) && result.is_ok()
            }));
        }
        assert!(ip(&format!("-n {kept} link show v0")));
        assert!(ip(&format!("netns del {deleted}")));
        let start = Instant::now();
        while ip(&format!("-n {kept} link show v0")) {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the deleted namespace lives on"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let changes = all.scan().unwrap();
        assert!(
            changes
                .ended
                .iter()
                .any(|netns| netns.name.as_deref() == Some(deleted))
        );
    }

    #[test]
    fn a_visit_to_a_namespace_that_went_fails() {
        let names = Cleanup::with(&["f"]);
        let mut all = Namespaces::new(Paths::default());
        all.scan().unwrap();
        let netns = by_name(&all, &names.0[0]).unwrap().clone();
        assert!(ip(&format!("netns del {}", names.0[0])));
        assert!(all.visit(&netns, || Ok(())).is_err());
        assert!(ip(&format!("netns add {}", names.0[0])));
        assert!(
            all.visit(&netns, || Ok(())).is_err(),
            "another namespace behind the same door"
        );
    }
}
