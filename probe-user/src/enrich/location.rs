//! The function that freed a packet, and what it tells.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::direction::{Route, Side};
use super::reason::Meaning;
use super::{Symbols, table};
use crate::event;

const TABLE: &str = include_str!("../data/locations.tsv");

/// What a location says, for the functions that match.
#[derive(Debug)]
pub(super) struct Location {
    pattern: &'static str,
    side: Option<Side>,
    /// Reasons it speaks for.
    reasons: Vec<&'static str>,
    meaning: Option<Meaning>,
}

static RULES: LazyLock<Vec<Location>> = LazyLock::new(|| {
    table::rows(TABLE)
        .filter_map(|[pattern, side, reasons, letters, proofs, text, advice]| {
            Some(Location {
                pattern,
                side: Side::parse(side),
                reasons: table::some(reasons)
                    .map(|list| list.split(',').collect())
                    .unwrap_or_default(),
                meaning: match table::some(letters) {
                    Some(letters) => Some(Meaning::parse(letters, proofs, text, advice)?),
                    None => None,
                },
            })
        })
        .collect()
});

/// One location of the running kernel.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) location: event::Location,
    pub(super) side: Option<Side>,
    /// The rules for this function, the most specific first.
    rules: Vec<&'static Location>,
}

impl Place {
    fn of(location: event::Location) -> Self {
        // The compiler splits functions: `name.isra.0`, `name.part.0`, `name.cold`.
        let symbol = location
            .symbol
            .as_deref()
            .map(|symbol| symbol.split('.').next().unwrap_or(symbol));
        let mut rules: Vec<&'static Location> = match symbol {
            Some(symbol) => RULES
                .iter()
                .filter(|rule| matches(rule.pattern, symbol))
                .collect(),
            None => Vec::new(),
        };
        rules.sort_by_key(|rule| {
            (
                rule.pattern.contains('*'),
                std::cmp::Reverse(rule.pattern.len()),
            )
        });
        let side = rules.iter().find_map(|rule| rule.side);
        Self {
            location,
            side,
            rules,
        }
    }

    /// What this reason means here; `None`: the location adds nothing.
    pub(super) fn meaning(&self, reason: &str) -> Option<Meaning> {
        self.rules
            .iter()
            .filter(|rule| rule.reasons.contains(&reason))
            .find_map(|rule| rule.meaning.clone())
    }
}

/// Does the name match a pattern in which `*` stands for any characters?
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    after.is_empty()
        || rest
            .char_indices()
            .any(|(at, _)| rest.get(at..).is_some_and(|rest| matches(after, rest)))
}

/// The locations seen so far.
#[derive(Default)]
pub(super) struct Places {
    places: HashMap<u64, Arc<Place>>,
    routes: HashMap<u64, Option<Route>>,
}

/// More than any kernel has; beyond it the memory starts anew.
const MAX_PLACES: usize = 16_384;

impl Places {
    pub(super) fn get(&mut self, address: u64, symbols: &mut dyn Symbols) -> Arc<Place> {
        if self.places.len() >= MAX_PLACES {
            self.places.clear();
        }
        let place = self.places.entry(address).or_insert_with(|| {
            let unknown = || event::Location {
                address,
                ..event::Location::default()
            };
            Arc::new(Place::of(symbols.lookup(address).unwrap_or_else(unknown)))
        });
        Arc::clone(place)
    }

    /// Where a route leads, by its input function; 0: the packet has no route.
    pub(super) fn route(&mut self, input: u64, symbols: &mut dyn Symbols) -> Option<Route> {
        if input == 0 {
            return Some(Route::None);
        }
        if self.routes.len() >= MAX_PLACES {
            self.routes.clear();
        }
        *self
            .routes
            .entry(input)
            .or_insert_with(|| Route::of(symbols.lookup(input)?.symbol.as_deref()?))
    }

    pub(super) fn forget(&mut self, address: u64) {
        self.places.remove(&address);
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.routes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_understood() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(RULES.len(), rows);
        for [pattern, side, ..] in table::rows::<7>(TABLE) {
            assert!(side == "-" || Side::parse(side).is_some(), "{pattern}");
        }
    }

    #[test]
    fn an_exact_pattern_wins_over_a_prefix() {
        let place = |symbol: &str| {
            Place::of(event::Location {
                symbol: Some(symbol.into()),
                ..event::Location::default()
            })
        };
        assert_eq!(place("tbf_enqueue").rules[0].pattern, "tbf_enqueue");
        assert_eq!(place("tbf_segment.isra.0").rules[0].pattern, "tbf_*");
        assert_eq!(
            place("__netif_receive_skb_core.constprop.0").rules[0].pattern,
            "__netif_receive_skb_core*"
        );
        assert!(place("frobnicate").rules.is_empty());
    }

    #[test]
    fn a_star_stands_anywhere() {
        assert!(matches("udp_*rcv*", "udp_queue_rcv_one_skb"));
        assert!(matches("*_xmit", "veth_xmit"));
        assert!(!matches("*_xmit", "veth_xmit_one"));
        assert!(!matches("netif_rx*", "__netif_rx"));
    }
}
