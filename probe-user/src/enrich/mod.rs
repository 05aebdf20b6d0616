//! Adds names to events, and what follows from names: class, meaning and advice of a reason, the direction of a packet.
//! Never changes facts; a missing name stays the number.

pub mod direction;
mod location;
mod owner;
mod reason;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use self::location::Place;
pub use self::owner::{NO_SOCKET, OwnerNames};
pub use self::reason::{Meaning, meaning};
use crate::decode::{Decoded, Hints, NOT_SPECIFIED};
use crate::event::{
    Body, Cgroup, Direction, Drop, Event, Interface, Location, Name, Netns, Owner, Reset, SocketId,
};

/// Code addresses → functions.
pub trait Symbols {
    fn lookup(&mut self, address: u64) -> Option<Location>;
}

/// Names of reasons, as the running kernel spells them (without `SKB_DROP_REASON_`).
pub trait ReasonNames {
    /// Of a drop.
    fn drop_reason(&mut self, code: u32) -> Option<ReasonName>;
    /// Of a reset (`enum sk_rst_reason`).
    fn reset_reason(&mut self, code: u32) -> Option<Name>;
}

/// A drop reason's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonName {
    pub name: Name,
    /// `None`: core.
    pub subsystem: Option<Name>,
}

/// Names of network namespaces. Names come and go: the implementation decides what to remember.
pub trait NetnsNames {
    fn lookup(&mut self, inode: u32, cookie: Option<u64>) -> Option<Name>;
}

/// Names of interfaces, for events that carry only the index.
pub trait InterfaceNames {
    fn lookup(&mut self, netns: &Netns, index: u32) -> Option<Name>;
}

/// Where names come from.
pub struct Sources {
    pub symbols: Box<dyn Symbols + Send>,
    pub reasons: Box<dyn ReasonNames + Send>,
    pub netns: Box<dyn NetnsNames + Send>,
    pub interfaces: Box<dyn InterfaceNames + Send>,
    pub owners: Box<dyn OwnerNames + Send>,
}

/// Knows no names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nameless;

impl Symbols for Nameless {
    fn lookup(&mut self, _: u64) -> Option<Location> {
        None
    }
}

impl ReasonNames for Nameless {
    fn drop_reason(&mut self, _: u32) -> Option<ReasonName> {
        None
    }

    fn reset_reason(&mut self, _: u32) -> Option<Name> {
        None
    }
}

impl NetnsNames for Nameless {
    fn lookup(&mut self, _: u32, _: Option<u64>) -> Option<Name> {
        None
    }
}

impl InterfaceNames for Nameless {
    fn lookup(&mut self, _: &Netns, _: u32) -> Option<Name> {
        None
    }
}

impl OwnerNames for Nameless {
    fn owner(&mut self, socket: &SocketId) -> Owner {
        Owner {
            cgroup: socket.cgroup_id.map(|id| Cgroup { id, path: None }),
            ..Owner::default()
        }
    }
}

/// What is looked up once for all drops with the same reason and location.
struct Case {
    name: Name,
    subsystem: Option<Name>,
    place: Arc<Place>,
    meaning: Meaning,
    /// A name is missing: to be tried again from time to time (modules are loaded later).
    incomplete: bool,
    uses: u32,
}

/// More than any kernel has; beyond it the memory starts anew.
const MAX_CASES: usize = 16_384;
/// How often a missing name is asked for again.
const RETRY_EVERY: u32 = 1024;

/// Names events.
pub struct Enricher {
    sources: Sources,
    /// By reason (`None`: the kernel gave none) and location.
    cases: HashMap<(Option<u32>, u64), Case>,
    places: location::Places,
    not_specified: Name,
}

impl Enricher {
    pub fn new(sources: Sources) -> Self {
        Self {
            sources,
            cases: HashMap::new(),
            places: location::Places::default(),
            not_specified: NOT_SPECIFIED.into(),
        }
    }

    /// Forgets every function and reason looked up so far (a module was loaded).
    pub fn refresh(&mut self) {
        self.cases.clear();
        self.places.clear();
    }

    /// The event with its names.
    pub fn enrich(&mut self, decoded: Decoded) -> Event {
        let Decoded {
            mut event, hints, ..
        } = decoded;
        match &mut event.body {
            Body::Drop(drop) => self.drop(drop, &hints),
            Body::Reset(reset) => self.reset(reset, &hints),
            Body::Retransmit(retransmit) => {
                self.netns(&mut retransmit.netns);
                self.owner_of_flow(&mut retransmit.owner, &retransmit.socket);
            }
            Body::Sample(sample) => {
                self.netns(&mut sample.netns);
                self.owner_of_flow(&mut sample.owner, &sample.socket);
            }
            Body::FlowEnd(sample) => {
                self.netns(&mut sample.netns);
                self.owner_of_flow(&mut sample.owner, &sample.socket);
                self.sources.owners.forget(&sample.socket);
            }
        }
        event
    }

    fn netns(&mut self, netns: &mut Netns) {
        if netns.name.is_none() {
            netns.name = self.sources.netns.lookup(netns.inode, netns.cookie);
        }
    }

    fn reset(&mut self, reset: &mut Reset, hints: &Hints) {
        self.netns(&mut reset.netns);
        self.owner_of_reset(reset);
        if let Some(name) = hints
            .reason
            .and_then(|code| self.sources.reasons.reset_reason(code))
        {
            reset.reason = Some(name);
        }
    }

    fn drop(&mut self, drop: &mut Drop, hints: &Hints) {
        self.netns(&mut drop.netns);
        self.owner_of_drop(drop);
        let route = self
            .places
            .route(hints.route_input, self.sources.symbols.as_mut());
        let case = self.case(drop, hints);
        drop.reason.name = Arc::clone(&case.name);
        drop.reason.subsystem.clone_from(&case.subsystem);
        drop.location.clone_from(&case.place.location);
        drop.direction = direction::direction(drop, hints, case.place.side, route);
        drop.reason.class = case.meaning.class(drop, hints);
        drop.reason.meaning = case.meaning.text;
        drop.reason.advice = case.meaning.advice;
        self.interface(drop, hints);
    }

    /// What came in by an interface was dropped there even if the packet had lost its device by then.
    fn interface(&mut self, drop: &mut Drop, hints: &Hints) {
        if drop.interface.is_none() && hints.iif != 0 && drop.direction == Some(Direction::Receive)
        {
            drop.interface = Some(Interface {
                index: hints.iif,
                name: None,
            });
        }
        if let Some(interface) = &mut drop.interface
            && interface.name.is_none()
        {
            interface.name = self.sources.interfaces.lookup(&drop.netns, interface.index);
        }
    }

    fn case(&mut self, drop: &Drop, hints: &Hints) -> &Case {
        if self.cases.len() >= MAX_CASES {
            self.refresh();
        }
        let key = (hints.reason, drop.location.address);
        let Self {
            sources,
            cases,
            places,
            not_specified,
        } = self;
        let look_up = |places: &mut location::Places, sources: &mut Sources| {
            let place = places.get(drop.location.address, sources.symbols.as_mut());
            let named = match hints.reason {
                Some(code) => sources.reasons.drop_reason(code),
                None => Some(ReasonName {
                    name: Arc::clone(not_specified),
                    subsystem: None,
                }),
            };
            let incomplete = place.location.symbol.is_none() || named.is_none();
            let ReasonName { name, subsystem } = named.unwrap_or_else(|| ReasonName {
                name: Arc::clone(&drop.reason.name),
                subsystem: None,
            });
            let meaning = place
                .meaning(&name)
                .unwrap_or_else(|| meaning(subsystem.as_deref(), &name));
            Case {
                name,
                subsystem,
                place,
                meaning,
                incomplete,
                uses: 0,
            }
        };
        let case = cases.entry(key).or_insert_with(|| look_up(places, sources));
        case.uses = case.uses.wrapping_add(1);
        if case.incomplete && case.uses.is_multiple_of(RETRY_EVERY) {
            places.forget(drop.location.address);
            *case = look_up(places, sources);
        }
        case
    }
}

#[cfg(test)]
mod tests;
