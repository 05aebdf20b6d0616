//! Drops by what they have in common.

use std::collections::HashMap;
use std::sync::Arc;

use super::flow::{NetnsId, OTHER};
use super::summary::DropGroup;
use crate::event::{Drop, DropClass, Location, Netns};

/// Class included: one reason at one place can be harmless or not, by the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    reason: u32,
    class: DropClass,
    location: u64,
    netns: NetnsId,
    interface: u32,
}

#[derive(Debug)]
pub(super) struct Groups {
    max: usize,
    known: HashMap<Key, DropGroup>,
    /// Drops of the groups for which there was no room.
    other: u64,
}

impl Groups {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            known: HashMap::new(),
            other: 0,
        }
    }

    pub(super) fn count(&mut self, drop: &Drop) {
        let key = Key {
            reason: drop.reason.code,
            class: drop.reason.class,
            location: drop.location.address,
            netns: NetnsId::of(&drop.netns),
            interface: drop
                .interface
                .as_ref()
                .map_or(0, |interface| interface.index),
        };
        if let Some(group) = self.known.get_mut(&key) {
            group.packets += drop.count;
            if group.location.symbol.is_none() && drop.location.symbol.is_some() {
                group.location.clone_from(&drop.location);
            }
        } else if self.known.len() < self.max {
            self.known.insert(key, group(drop));
        } else {
            self.other += drop.count;
        }
    }

    /// Most packets first; at the end one group for all that had no room.
    pub(super) fn sorted(&self) -> Vec<DropGroup> {
        let mut groups: Vec<DropGroup> = self.known.values().cloned().collect();
        groups.sort_by(|a, b| {
            b.packets
                .cmp(&a.packets)
                .then_with(|| a.reason.cmp(&b.reason))
                .then_with(|| {
                    (a.location.address, a.netns.inode).cmp(&(b.location.address, b.netns.inode))
                })
        });
        if self.other > 0 {
            groups.push(DropGroup {
                reason: OTHER.into(),
                class: DropClass::Unspecified,
                meaning: None,
                advice: None,
                location: Location::default(),
                netns: Netns::default(),
                interface: None,
                packets: self.other,
            });
        }
        groups
    }
}

fn group(drop: &Drop) -> DropGroup {
    DropGroup {
        reason: Arc::clone(&drop.reason.name),
        class: drop.reason.class,
        meaning: drop.reason.meaning,
        advice: drop.reason.advice,
        location: drop.location.clone(),
        netns: drop.netns.clone(),
        interface: drop
            .interface
            .as_ref()
            .and_then(|interface| interface.name.clone()),
        packets: drop.count,
    }
}
