//! A map that keeps what was used last.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Holds at least the `half` last used entries, and never more than twice as many.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Eq + Hash + Copy, V> Recent<K, V> {
    pub(super) fn new(half: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            half,
        }
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: K) {
        self.young.remove(&key);
        self.old.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut recent = Recent::new(100);
        for key in 0..10_000 {
            recent.insert(key, key);
            assert_eq!(recent.get_mut(0), Some(&mut 0));
            assert!(recent.young.len() + recent.old.len() <= 200);
        }
        assert_eq!(recent.get_mut(1), None);
        assert_eq!(recent.get_mut(9_900), Some(&mut 9_900));
        recent.remove(0);
        assert_eq!(recent.get_mut(0), None);
    }
}
