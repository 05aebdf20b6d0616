//! Whose socket an event is about.

use super::Enricher;
use crate::event::{Drop, Owner, Reset, SocketId};

/// The packet belongs to no socket of this host, or the kernel had not found it yet.
pub const NO_SOCKET: &str = "no socket";

/// Owners of sockets.
pub trait OwnerNames {
    /// What is known of the owner; where the process is not known, why.
    fn owner(&mut self, socket: &SocketId) -> Owner;
    /// The socket is one of a flow whose end will be told.
    fn remember(&mut self, _: &SocketId, _: &Owner) {}
    /// Its flow has ended.
    fn forget(&mut self, _: &SocketId) {}
}

impl Enricher {
    pub(super) fn owner_of_flow(&mut self, owner: &mut Owner, socket: &SocketId) {
        *owner = self.sources.owners.owner(socket);
        self.sources.owners.remember(socket, owner);
    }

    pub(super) fn owner_of_drop(&mut self, drop: &mut Drop) {
        drop.owner = self.owner(drop.socket.map(|socket| socket.id));
    }

    pub(super) fn owner_of_reset(&mut self, reset: &mut Reset) {
        reset.owner = self.owner(reset.socket);
    }

    fn owner(&mut self, socket: Option<SocketId>) -> Owner {
        socket.map_or_else(
            || Owner {
                unknown_because: Some(NO_SOCKET),
                ..Owner::default()
            },
            |socket| self.sources.owners.owner(&socket),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::decode::{Decoded, Hints};
    use crate::enrich::{Nameless, Sources};
    use crate::event::{
        Body, Direction, Endpoint, Event, EventTime, Netns, Process, Sample, TcpInfo, Tuple,
    };

    /// Writes down what it is asked.
    #[derive(Clone, Default)]
    struct Witness(Arc<Mutex<Vec<String>>>);

    impl OwnerNames for Witness {
        fn owner(&mut self, socket: &SocketId) -> Owner {
            self.0
                .lock()
                .unwrap()
                .push(format!("owner {:?}", socket.inode));
            Owner {
                process: Some(Process {
                    pid: 1,
                    name: "x".into(),
                }),
                ..Owner::default()
            }
        }

        fn remember(&mut self, _: &SocketId, owner: &Owner) {
            self.0
                .lock()
                .unwrap()
                .push(format!("remember {}", owner.process.is_some()));
        }

        fn forget(&mut self, _: &SocketId) {
            self.0.lock().unwrap().push("forget".to_owned());
        }
    }

    fn enricher(owners: Witness) -> Enricher {
        Enricher::new(Sources {
            symbols: Box::new(Nameless),
            reasons: Box::new(Nameless),
            netns: Box::new(Nameless),
            interfaces: Box::new(Nameless),
            owners: Box::new(owners),
        })
    }

    fn sample() -> Box<Sample> {
        let end = Endpoint {
            address: [10, 0, 0, 1].into(),
            port: Some(1),
        };
        Box::new(Sample {
            netns: Netns::default(),
            tuple: Tuple {
                protocol: 6,
                source: end,
                destination: end,
            },
            socket: SocketId {
                inode: Some(5),
                ..SocketId::default()
            },
            owner: Owner::default(),
            tcp: TcpInfo::default(),
        })
    }

    fn reset(socket: Option<SocketId>) -> Body {
        Body::Reset(Box::new(Reset {
            netns: Netns::default(),
            tuple: None,
            direction: Direction::Transmit,
            reason: None,
            state: None,
            socket,
            owner: Owner::default(),
        }))
    }

    fn run(enricher: &mut Enricher, body: Body) -> Body {
        let event = Event {
            time: EventTime::default(),
            cpu: 0,
            body,
        };
        enricher
            .enrich(Decoded {
                event,
                undecided: false,
                hints: Hints::default(),
            })
            .body
    }

    #[test]
    fn the_owner_of_a_flow_is_remembered_until_it_ends() {
        let witness = Witness::default();
        let mut enricher = enricher(witness.clone());
        for body in [Body::Sample(sample()), Body::FlowEnd(sample())] {
            let (Body::Sample(it) | Body::FlowEnd(it)) = run(&mut enricher, body) else {
                panic!()
            };
            assert!(it.owner.process.is_some());
        }
        let asked = [
            "owner Some(5)",
            "remember true",
            "owner Some(5)",
            "remember true",
            "forget",
        ];
        assert_eq!(*witness.0.lock().unwrap(), asked);
    }

    #[test]
    fn without_a_socket_nobody_is_asked_and_that_is_said() {
        let witness = Witness::default();
        let mut enricher = enricher(witness.clone());
        let Body::Reset(without) = run(&mut enricher, reset(None)) else {
            panic!()
        };
        assert_eq!(without.owner.unknown_because, Some(NO_SOCKET));
        let Body::Reset(with) = run(&mut enricher, reset(Some(SocketId::default()))) else {
            panic!()
        };
        assert!(with.owner.process.is_some());
        assert_eq!(*witness.0.lock().unwrap(), ["owner None"]);
    }
}
