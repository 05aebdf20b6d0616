//! Names of network interfaces, for records that have an index only.
//!
//! The kernel programs read the name together with the index wherever the device is at hand; what is left is a packet
//! that only remembers the index it came in by.

use std::collections::BTreeMap;
use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use super::netns::Namespaces;
use crate::event::{Name, Netns};

/// Then everything is forgotten and asked for again.
const MAX_NAMES: usize = 4096;
/// A name may be changed, and an index given to another device.
const FRESH_NS: u64 = 60_000_000_000;

/// Interface names by namespace and index.
#[derive(Debug, Default)]
pub struct Interfaces {
    /// `None`: there is no such interface (any more).
    names: BTreeMap<(Key, u32), (u64, Option<Name>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Cookie(u64),
    Inode(u32),
}

impl Interfaces {
    /// The name of the interface with that index, if the namespace can be asked.
    pub fn name(
        &mut self,
        namespaces: &mut Namespaces,
        netns: &Netns,
        index: u32,
        now_ns: u64,
    ) -> Option<Name> {
        self.remembered(netns, index, now_ns, || {
            namespaces.visit(netns, move || ask(index)).ok().flatten()
        })
    }

    fn remembered(
        &mut self,
        netns: &Netns,
        index: u32,
        now_ns: u64,
        ask: impl FnOnce() -> Option<Name>,
    ) -> Option<Name> {
        let key = (
            netns.cookie.map_or(Key::Inode(netns.inode), Key::Cookie),
            index,
        );
        if let Some((asked_ns, name)) = self.names.get(&key)
            && now_ns.saturating_sub(*asked_ns) < FRESH_NS
        {
            return name.clone();
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let name = ask();
        self.names.insert(key, (now_ns, name.clone()));
        name
    }
}

/// In the namespace the calling thread is in.
fn ask(index: u32) -> io::Result<Option<Name>> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match netdevice::index_to_name(&socket, index) {
        Ok(name) => Ok(Some(Name::from(name))),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn netns(cookie: Option<u64>) -> Netns {
        Netns {
            inode: 7,
            cookie,
            name: None,
        }
    }

    #[test]
    fn a_name_is_asked_for_once_a_minute() {
        let mut interfaces = Interfaces::default();
        let mut ask = |cookie, now_ns, answer: Option<&str>| {
            interfaces.remembered(&netns(cookie), 2, now_ns, || answer.map(Name::from))
        };
        assert_eq!(ask(Some(1), 0, Some("eth0")).as_deref(), Some("eth0"));
        assert_eq!(
            ask(Some(1), FRESH_NS - 1, Some("wan0")).as_deref(),
            Some("eth0")
        );
        assert_eq!(
            ask(Some(1), FRESH_NS, Some("wan0")).as_deref(),
            Some("wan0")
        );
        assert_eq!(
            ask(Some(2), FRESH_NS, None),
            None,
            "same inode number, another namespace"
        );
        assert_eq!(ask(None, FRESH_NS, Some("lo")).as_deref(), Some("lo"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut interfaces = Interfaces::default();
        for index in 0..10_000 {
            interfaces.remembered(&netns(Some(1)), index, 0, || None);
        }
        assert!(interfaces.names.len() <= MAX_NAMES);
    }

    #[test]
    fn the_first_interface_of_a_namespace_is_lo() {
        assert_eq!(ask(1).unwrap().as_deref(), Some("lo"));
        assert_eq!(ask(u32::MAX >> 1).unwrap(), None);
    }
}
