//! Names as they come in records, each stored once.

use std::collections::HashMap;
use std::sync::Arc;

use super::NOT_SPECIFIED;
use crate::event::Name;

/// More names than any host has; beyond it the store starts anew, so that hostile bytes cannot fill the memory.
const MAX_NAMES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Names {
    fixed: HashMap<[u8; 16], Name>,
    numbers: HashMap<u32, Name>,
    not_specified: Option<Name>,
}

impl Names {
    /// The NUL-padded name; `None` if it is empty.
    pub(super) fn fixed(&mut self, bytes: &[u8; 16]) -> Option<Name> {
        if let Some(name) = self.fixed.get(bytes) {
            return Some(Arc::clone(name));
        }
        let text = bytes
            .split(|&byte| byte == 0)
            .next()
            .filter(|text| !text.is_empty())?;
        let name: Name = String::from_utf8_lossy(text).into();
        if self.fixed.len() >= MAX_NAMES {
            self.fixed.clear();
        }
        self.fixed.insert(*bytes, Arc::clone(&name));
        Some(name)
    }

    /// The reason of kernels that give none.
    pub(super) fn not_specified(&mut self) -> Name {
        Arc::clone(
            self.not_specified
                .get_or_insert_with(|| NOT_SPECIFIED.into()),
        )
    }

    /// A number that may get a name later.
    pub(super) fn number(&mut self, number: u32) -> Name {
        if let Some(name) = self.numbers.get(&number) {
            return Arc::clone(name);
        }
        let name: Name = number.to_string().into();
        if self.numbers.len() >= MAX_NAMES {
            self.numbers.clear();
        }
        self.numbers.insert(number, Arc::clone(&name));
        name
    }
}
