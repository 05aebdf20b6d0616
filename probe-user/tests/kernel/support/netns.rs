//! Network namespaces of a test's own.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::run;

const PREFIX: &str = "dwkt";
const RUN_NETNS: &str = "/run/netns";
/// The congestion control every kernel allows; no router solicitations, no duplicate address detection, nothing that a test has not asked for.
const QUIET: &str = "net.ipv6.conf.all.accept_ra=0 net.ipv6.conf.default.accept_ra=0 \
    net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0 \
    net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.tcp_congestion_control=reno \
    net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.tcp_no_metrics_save=1";

/// A network namespace; gone when dropped.
pub(crate) struct Netns {
    pub(crate) name: String,
    pub(crate) inode: u64,
}

impl Netns {
    #[track_caller]
    pub(crate) fn new(role: &str) -> Self {
        static CLEAN: Once = Once::new();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        CLEAN.call_once(remove_leftovers);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{role}{number}-{}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]));
        let inode = fs::metadata(Path::new(RUN_NETNS).join(&name))
            .expect("look at the namespace")
            .ino();
        let netns = Self { name, inode };
        netns.sh(&format!("ip link set lo up; sysctl -qw {QUIET}"));
        netns
    }

    /// Runs `what` in a thread inside the namespace: sockets made there stay in it.
    #[track_caller]
    pub(crate) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let door = File::open(Path::new(RUN_NETNS).join(&self.name)).expect("open the namespace");
        let result = thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(door.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("enter the namespace");
                what()
            });
            inside.join()
        });
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name, program])
            .stdin(Stdio::null());
        command
    }

    /// Runs a script of the shell inside; it must succeed.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        run(self.command("sh").args(["-ec", script]))
    }

    /// Runs a script of Python that may use the scenarios' hand-made packets.
    #[track_caller]
    pub(crate) fn python(&self, script: &str) -> String {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/lib");
        run(self
            .command("python3")
            .args(["-c", &format!("from raw import *\n{script}")])
            .env("PYTHONPATH", library)
            .env("PYTHONDONTWRITEBYTECODE", "1"))
    }

    /// Packets that meet `rule` at `hook` are counted by [`Netns::dropped`] and dropped.
    #[track_caller]
    pub(crate) fn drop_rule(&self, name: &str, hook: &str, rule: &str) {
        self.nft(&format!(
            "table inet {name} {{ counter hits {{ }}; chain c {{ type filter hook {hook} priority -300; {rule} counter name hits drop; }}; }}"
        ));
    }

    /// Ends a rule of that name; returns how many packets it dropped.
    #[track_caller]
    pub(crate) fn end_rule(&self, name: &str) -> u64 {
        self.nft(&format!("flush chain inet {name} c"));
        let dropped = self.dropped(name);
        self.nft(&format!("delete table inet {name}"));
        dropped
    }

    /// How many packets a rule dropped.
    #[track_caller]
    pub(crate) fn dropped(&self, name: &str) -> u64 {
        let text = self.sh(&format!("nft -j list counter inet {name} hits"));
        let list: Value = serde_json::from_str(&text).expect("nft prints JSON");
        let objects = list["nftables"].as_array().expect("a list");
        let mut packets = objects
            .iter()
            .filter_map(|object| object.pointer("/counter/packets")?.as_u64());
        packets.next().expect("a counter")
    }

    #[track_caller]
    fn nft(&self, commands: &str) {
        run(self.command("nft").arg(commands));
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let mut delete = Command::new("ip");
        drop(delete.args(["netns", "del", &self.name]).output());
    }
}

/// Namespaces of runs that were killed.
fn remove_leftovers() {
    for entry in fs::read_dir(RUN_NETNS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.rsplit_once('-'))
            .and_then(|(_, pid)| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(Command::new("ip").args(["netns", "del", &name]).output());
        }
    }
}

/// A cable: an interface of its own in each of the two, with these addresses, known to each other. Segmentation is left
/// to TCP, so that a buffer is a packet.
#[track_caller]
pub(crate) fn link(a: (&Netns, &str, &[&str]), b: (&Netns, &str, &[&str])) {
    run(Command::new("ip")
        .args(["-n", &a.0.name, "link", "add", a.1, "type", "veth", "peer"])
        .args(["name", b.1, "netns", &b.0.name]));
    for (netns, interface, addresses) in [a, b] {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            netns.sh(&format!("ip addr add {address} dev {interface} {nodad}"));
        }
        netns.sh(&format!(
            "ip link set {interface} up; ethtool -K {interface} tso off gso off gro off >/dev/null"
        ));
    }
    for (here, there) in [(a, b), (b, a)] {
        let mac = mac(there.0, there.1);
        for address in there.2 {
            let (address, _) = address.split_once('/').expect("a prefix length");
            here.0.sh(&format!(
                "ip neigh replace {address} lladdr {mac} dev {} nud permanent",
                here.1
            ));
        }
    }
}

/// The hardware address of an interface.
#[track_caller]
pub(crate) fn mac(netns: &Netns, interface: &str) -> String {
    let text = netns.sh(&format!("cat /sys/class/net/{interface}/address"));
    text.trim().to_owned()
}

/// Two hosts on a cable: `c0` at the client, `s0` at the server.
pub(crate) struct Pair {
    pub(crate) client: Netns,
    pub(crate) server: Netns,
}

pub(crate) const SERVER: &str = "10.64.0.2";
pub(crate) const SERVER6: &str = "fd66::2";

impl Pair {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let (client, server) = (Netns::new("cli"), Netns::new("srv"));
        link(
            (&client, "c0", &["10.64.0.1/24", "fd66::1/64"]),
            (&server, "s0", &["10.64.0.2/24", "fd66::2/64"]),
        );
        Self { client, server }
    }

    /// The server alone; the client and the cable are gone.
    pub(crate) fn into_server(self) -> Netns {
        self.server
    }

    pub(crate) fn both(&self) -> [&Netns; 2] {
        [&self.client, &self.server]
    }
}
