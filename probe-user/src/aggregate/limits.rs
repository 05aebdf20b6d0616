//! A table of bounded size: the entry that was not touched for the longest time goes first.

use std::collections::HashMap;
use std::hash::Hash;

/// How much the aggregate stage may remember. Totals do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows, ended ones included.
    pub max_flows: usize,
    /// Groups of drops with the same reason, location, namespace and interface.
    pub max_drop_groups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_flows: 10_000,
            max_drop_groups: 4096,
        }
    }
}

/// End of a chain.
const NONE: u32 = u32::MAX;

/// Entries in a chain from the oldest to the newest use, found by key or by number.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    capacity: usize,
    /// The current entry of a key; older ones of the same key are in the chain only.
    current: HashMap<K, u32>,
    entries: Vec<Entry<K, V>>,
    oldest: u32,
    newest: u32,
    evicted: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    older: u32,
    newer: u32,
}

impl<K: Hash + Eq + Clone, V> Table<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.clamp(1, NONE as usize - 1),
            current: HashMap::new(),
            entries: Vec::new(),
            oldest: NONE,
            newest: NONE,
            evicted: 0,
        }
    }

    /// How many entries were pushed out.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The number of the current entry of that key.
    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.current.get(key).copied()
    }

    /// The entry with that number, without making it newer.
    pub(super) fn get(&self, number: u32) -> Option<&V> {
        self.entries.get(number as usize).map(|entry| &entry.value)
    }

    /// The entry with that number; it becomes the newest.
    pub(super) fn touch(&mut self, number: u32) -> Option<&mut V> {
        if self.newest != number {
            self.unlink(number);
            self.link(number);
        }
        self.entries
            .get_mut(number as usize)
            .map(|entry| &mut entry.value)
    }

    /// Makes a new current entry for the key, if need be in the place of the oldest entry of all; an entry the key had
    /// stays in the table.
    pub(super) fn insert(&mut self, key: K, value: V) -> u32 {
        let entry = Entry {
            key: key.clone(),
            value,
            older: NONE,
            newer: NONE,
        };
        let number = if self.entries.len() < self.capacity {
            let number = u32::try_from(self.entries.len()).unwrap_or(NONE);
            self.entries.push(entry);
            number
        } else {
            let number = self.oldest;
            self.unlink(number);
            self.evicted += 1;
            if let Some(old) = self.entries.get_mut(number as usize) {
                if self.current.get(&old.key) == Some(&number) {
                    self.current.remove(&old.key);
                }
                *old = entry;
            }
            number
        };
        self.current.insert(key, number);
        self.link(number);
        number
    }

    /// Gives the entry another key, under which it becomes current.
    pub(super) fn rename(&mut self, number: u32, key: K) {
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return;
        };
        if self.current.get(&entry.key) == Some(&number) {
            self.current.remove(&entry.key);
        }
        entry.key = key.clone();
        self.current.insert(key, number);
    }

    /// All entries, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|entry| &entry.value)
    }

    fn unlink(&mut self, number: u32) {
        let Some((older, newer)) = self
            .entries
            .get(number as usize)
            .map(|entry| (entry.older, entry.newer))
        else {
            return;
        };
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, number: u32) {
        let newest = self.newest;
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.older = newest;
            entry.newer = NONE;
        }
        match self.entries.get_mut(newest as usize) {
            Some(entry) => entry.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_touched_entry_goes_first() {
        let mut table = Table::new(2);
        let a = table.insert('a', 1);
        table.insert('b', 2);
        table.touch(a);
        table.insert('c', 3);
        assert_eq!(table.find(&'b'), None);
        assert_eq!(table.find(&'a').and_then(|n| table.get(n)), Some(&1));
        assert_eq!(table.find(&'c').and_then(|n| table.get(n)), Some(&3));
        assert_eq!(table.evicted(), 1);
    }

    #[test]
    fn an_older_entry_of_a_key_stays_and_its_eviction_leaves_the_current_one_alone() {
        let mut table = Table::new(2);
        table.insert('a', 1);
        table.insert('a', 2);
        assert_eq!(table.values().copied().sum::<i32>(), 3);
        table.insert('b', 3);
        assert_eq!(table.find(&'a').and_then(|n| table.get(n)), Some(&2));
        table.insert('c', 4);
        assert_eq!(table.find(&'a'), None);
    }

    #[test]
    fn it_behaves_like_a_simple_list() {
        let mut table = Table::new(5);
        let mut list: Vec<u32> = Vec::new();
        let mut state = 1_u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 16) % 9;
            match table.find(&key) {
                Some(number) => assert_eq!(table.touch(number), Some(&mut key.clone())),
                None => assert!(table.insert(key, key) < 5),
            }
            list.retain(|&old| old != key);
            list.push(key);
            if list.len() > 5 {
                list.remove(0);
            }
            let mut held: Vec<u32> = table.values().copied().collect();
            held.sort_unstable();
            let mut expected = list.clone();
            expected.sort_unstable();
            assert_eq!(held, expected);
        }
    }
}
