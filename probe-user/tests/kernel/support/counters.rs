//! The counters a namespace keeps, read without the program.

use std::collections::BTreeMap;
use std::fs;

use super::netns::Netns;
use super::wait_for;

/// Every counter by the name `nstat` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    #[track_caller]
    pub(crate) fn read(netns: &Netns) -> Self {
        let texts = netns.inside(|| {
            ["snmp", "netstat", "snmp6"].map(|name| {
                fs::read_to_string(format!("/proc/thread-self/net/{name}")).expect("read counters")
            })
        });
        let mut counters = BTreeMap::new();
        for text in &texts[..2] {
            let lines: Vec<_> = text.lines().collect();
            for pair in lines.chunks(2) {
                let mut names = pair[0].split_whitespace();
                let group = names.next().expect("a group").trim_end_matches(':');
                for (name, value) in names.zip(pair[1].split_whitespace().skip(1)) {
                    // `TcpMaxConn` is -1.
                    counters.insert(format!("{group}{name}"), value.parse().unwrap_or(0));
                }
            }
        }
        for line in texts[2].lines() {
            if let Some((name, value)) = line.split_once(char::is_whitespace) {
                counters.insert(name.to_owned(), value.trim().parse().unwrap_or(0));
            }
        }
        Self(counters)
    }

    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> u64 {
        *self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Those of TCP: what else a host does is its own affair.
    pub(crate) fn of_tcp(&self) -> BTreeMap<&str, u64> {
        let counters = self.0.iter().filter(|(name, _)| name.starts_with("Tcp"));
        counters
            .map(|(name, value)| (name.as_str(), *value))
            .collect()
    }

    /// How far each one moved.
    #[track_caller]
    pub(crate) fn since(&self, before: &Self) -> Self {
        let moved = self.0.iter().map(|(name, value)| {
            let before = before.0.get(name).copied().unwrap_or(0);
            (name.clone(), value.wrapping_sub(before))
        });
        Self(moved.collect())
    }
}

/// Waits until no TCP socket is left that could still send something again.
#[track_caller]
pub(crate) fn settle(netns: &Netns) {
    const LISTEN: &str = "0A";
    const TIME_WAIT: &str = "06";
    wait_for("the sockets to be closed", || {
        let busy = netns.inside(|| {
            ["tcp", "tcp6"].iter().any(|name| {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{name}"))
                    .expect("read sockets");
                text.lines()
                    .skip(1)
                    .filter_map(|line| line.split_whitespace().nth(3))
                    .any(|state| state != LISTEN && state != TIME_WAIT)
            })
        });
        (!busy).then_some(())
    });
}
