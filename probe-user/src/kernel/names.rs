//! The kernel's names, in the form the stage that adds names asks for them.

use std::sync::{Arc, Mutex};

use probe_common::RawNetns;

use super::clock::boottime_ns;
use super::{Kernel, Knowledge, lock};
use crate::enrich::{
    InterfaceNames, NetnsNames, OwnerNames, ReasonName, ReasonNames, Sources, Symbols,
};
use crate::event::{Location, Name, Netns, Owner, SocketId};

/// One answer to every question.
struct Names(Arc<Mutex<Knowledge>>);

/// Where the names of this kernel come from.
pub fn sources(kernel: &Kernel) -> Sources {
    let names = || Names(Arc::clone(&kernel.knowledge));
    Sources {
        symbols: Box::new(names()),
        reasons: Box::new(names()),
        netns: Box::new(names()),
        interfaces: Box::new(names()),
        owners: Box::new(names()),
    }
}

impl Symbols for Names {
    fn lookup(&mut self, address: u64) -> Option<Location> {
        let mut knowledge = lock(&self.0);
        let symbol = knowledge.symbols.lookup(address, boottime_ns())?;
        Some(Location {
            address,
            symbol: Some(symbol.name.into()),
            offset: symbol.offset,
            module: symbol.module.map(Into::into),
        })
    }
}

impl ReasonNames for Names {
    fn drop_reason(&mut self, code: u32) -> Option<ReasonName> {
        let reason = lock(&self.0).reasons.lookup(code)?;
        Some(ReasonName {
            name: reason.name,
            subsystem: reason.subsystem,
        })
    }

    fn reset_reason(&mut self, code: u32) -> Option<Name> {
        lock(&self.0).reasons.reset_reason(code)
    }
}

impl NetnsNames for Names {
    fn lookup(&mut self, inode: u32, cookie: Option<u64>) -> Option<Name> {
        let raw = RawNetns {
            cookie: cookie.unwrap_or(0),
            inode,
            reserved: 0,
        };
        lock(&self.0).namespaces.describe(raw).name
    }
}

impl InterfaceNames for Names {
    fn lookup(&mut self, netns: &Netns, index: u32) -> Option<Name> {
        let mut knowledge = lock(&self.0);
        let Knowledge {
            interfaces,
            namespaces,
            ..
        } = &mut *knowledge;
        interfaces.name(namespaces, netns, index, boottime_ns())
    }
}

impl OwnerNames for Names {
    fn owner(&mut self, socket: &SocketId) -> Owner {
        lock(&self.0).owners.owner(socket, boottime_ns())
    }

    fn remember(&mut self, socket: &SocketId, owner: &Owner) {
        lock(&self.0).owners.remember(socket, owner, boottime_ns());
    }

    fn forget(&mut self, socket: &SocketId) {
        lock(&self.0).owners.forget(socket);
    }
}
