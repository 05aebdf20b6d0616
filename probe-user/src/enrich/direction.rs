//! Which way a dropped packet went: from the socket, the function that freed it, its route and its interfaces. What they
//! do not settle stays unknown.

use crate::decode::Hints;
use crate::event::{Direction, Drop};

/// Which part of the network stack a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Receive,
    Transmit,
    Forward,
    /// Netfilter: called on every way.
    Hook,
}

impl Side {
    /// The field of the table; `None` for `-`: the function tells nothing.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "rx" => Self::Receive,
            "tx" => Self::Transmit,
            "fw" => Self::Forward,
            "nf" => Self::Hook,
            _ => return None,
        })
    }
}

/// Where the route of a packet leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// No route yet.
    None,
    /// To a socket of this host; of packets this host sends to itself as well.
    Local,
    /// To another host.
    Forward,
}

impl Route {
    /// By the name of the route's input function.
    pub(super) fn of(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "ip_forward" | "ip6_forward" | "ip_mr_input" | "ip6_mr_input" => Self::Forward,
            "ip_local_deliver" | "ip6_input" | "ip6_mc_input" => Self::Local,
            _ => return None,
        })
    }
}

/// The direction. `route` is `None` where its function is not known.
pub fn direction(
    drop: &Drop,
    hints: &Hints,
    side: Option<Side>,
    route: Option<Route>,
) -> Option<Direction> {
    const PACKET_OTHERHOST: u8 = 3;
    if drop.socket.is_some_and(|socket| socket.is_receiver) {
        return Some(Direction::Receive);
    }
    match side {
        Some(Side::Receive) => return Some(Direction::Receive),
        Some(Side::Forward) => return Some(Direction::Forward),
        Some(Side::Transmit) => {
            let came_in = hints.iif != 0 && hints.iif != hints.ifindex;
            return Some(if came_in {
                Direction::Forward
            } else {
                Direction::Transmit
            });
        }
        Some(Side::Hook) | None => {}
    }
    if hints.iif == 0 {
        // Nothing passes a hook on its way in before the kernel has noted the interface; elsewhere only a sender's
        // socket tells, which a packet gets on its way in later still.
        let is_sent = side == Some(Side::Hook) || drop.socket.is_some();
        return is_sent.then_some(Direction::Transmit);
    }
    match route? {
        Route::Forward => Some(Direction::Forward),
        Route::Local => Some(Direction::Receive),
        Route::None if hints.packet_type == PACKET_OTHERHOST => Some(Direction::Receive),
        // Before routing. A bridge, too, has packets without a route, between two interfaces.
        Route::None if hints.ifindex == 0 || hints.ifindex == hints.iif => Some(Direction::Receive),
        Route::None => None,
    }
}
