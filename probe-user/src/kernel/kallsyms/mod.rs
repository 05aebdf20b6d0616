//! Names for code addresses, from `/proc/kallsyms`.
//!
//! The table is kept small, because it stays in memory for the whole run: text symbols only, 14 bytes each plus one
//! copy of the name. The file is read in pieces, never as a whole. What it says is outside text: a line that makes no
//! sense is skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

pub use live::LiveSymbols;

mod live;
#[cfg(test)]
mod tests;

/// How far the last function before a gap can reach. Nothing says where it ends; beyond this an address is somebody
/// else's, most likely a module's that was loaded after the file was read.
const LAST_SYMBOL_REACH: u64 = 64 * 1024;
/// The end of the last function is not known, but it is surely in no other page than this many bytes away. An address
/// further off is believed only after a fresh look at the file.
const LAST_SYMBOL_SURE: u64 = 4096;

/// A code address with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    pub name: &'a str,
    /// Of the address within the function.
    pub offset: u64,
    /// `None`: the kernel itself.
    pub module: Option<&'a str>,
}

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Ascending.
    addresses: Vec<u64>,
    /// Where in `names` the name of the symbol with that index begins.
    starts: Vec<u32>,
    /// 1 + index into `module_names`; 0: the kernel itself.
    modules: Vec<u16>,
    /// Every name, each ended by a line feed.
    names: String,
    module_names: Vec<String>,
    hidden: bool,
}

struct Entry {
    address: u64,
    start: u32,
    module: u16,
}

impl Symbols {
    /// Reads `kallsyms` below that directory, usually `/proc`.
    pub fn load(proc: &Path) -> io::Result<Self> {
        Self::parse(BufReader::with_capacity(
            64 * 1024,
            File::open(proc.join("kallsyms"))?,
        ))
    }

    /// Reads text as it is in `/proc/kallsyms`. Fails only where reading does.
    pub fn parse(mut text: impl BufRead) -> io::Result<Self> {
        let mut symbols = Self::default();
        let mut entries = Vec::new();
        let mut zeroes = 0_usize;
        let mut line = Vec::with_capacity(256);
        loop {
            line.clear();
            if text.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some((address, name, module)) = split(&line) else {
                continue;
            };
            if address == 0 {
                zeroes = zeroes.saturating_add(1);
            } else if let Some(entry) = symbols.intern(address, name, module) {
                entries.push(entry);
            }
        }
        // Without CAP_SYSLOG (or with kptr_restrict) every address is 0; percpu symbols may be so at all times.
        symbols.hidden = entries.is_empty() && zeroes > 0;
        // Stable: of several names of one address, the first in the file stays the first here.
        entries.sort_by_key(|entry: &Entry| entry.address);
        symbols.addresses = entries.iter().map(|entry| entry.address).collect();
        symbols.starts = entries.iter().map(|entry| entry.start).collect();
        symbols.modules = entries.iter().map(|entry| entry.module).collect();
        symbols.names.shrink_to_fit();
        Ok(symbols)
    }

    fn intern(&mut self, address: u64, name: &str, module: Option<&str>) -> Option<Entry> {
        let start = u32::try_from(self.names.len()).ok()?;
        let module = match module {
            None => 0,
            // Symbols of one module stand together.
            Some(module) => {
                if self.module_names.last().is_none_or(|last| last != module) {
                    self.module_names.push(module.to_owned());
                }
                u16::try_from(self.module_names.len()).ok()?
            }
        };
        self.names.push_str(name);
        self.names.push('\n');
        Some(Entry {
            address,
            start,
            module,
        })
    }

    /// The kernel shows this user no addresses.
    pub fn hidden(&self) -> bool {
        self.hidden
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let modules: usize = self.module_names.iter().map(String::capacity).sum();
        self.addresses.capacity() * 8
            + self.starts.capacity() * 4
            + self.modules.capacity() * 2
            + self.names.capacity()
            + modules
    }

    /// The function the address lies in.
    pub fn lookup(&self, address: u64) -> Option<Symbol<'_>> {
        let (index, _sure) = self.find(address)?;
        let start = *self.addresses.get(index)?;
        Some(Symbol {
            name: self.name(index)?,
            offset: address.checked_sub(start)?,
            module: self.module(index),
        })
    }

    /// First address of the function with that name, and the one after its last.
    pub fn range(&self, name: &str) -> Option<(u64, u64)> {
        let start = self.address(name)?;
        let after = self.addresses.partition_point(|address| *address <= start);
        let limit = start.saturating_add(LAST_SYMBOL_REACH);
        let end = self
            .addresses
            .get(after)
            .copied()
            .filter(|end| *end < limit)
            .unwrap_or(limit);
        Some((start, end))
    }

    /// Where the function with that name begins. Of several with one name, the kernel's own with the lowest address.
    pub fn address(&self, name: &str) -> Option<u64> {
        let mut in_module = None;
        for (index, address) in self.addresses.iter().enumerate() {
            if self.name(index) == Some(name) {
                if self.module(index).is_none() {
                    return Some(*address);
                }
                in_module = in_module.or(Some(*address));
            }
        }
        in_module
    }

    /// Is the name of that address beyond doubt, or might a module have been loaded there since?
    fn is_sure(&self, address: u64) -> bool {
        self.find(address).is_some_and(|(_index, sure)| sure)
    }

    /// Index of the symbol, and whether that is beyond doubt.
    fn find(&self, address: u64) -> Option<(usize, bool)> {
        let after = self.addresses.partition_point(|start| *start <= address);
        let last = after.checked_sub(1)?;
        let start = *self.addresses.get(last)?;
        let first = self.addresses.partition_point(|other| *other < start);
        let offset = address.checked_sub(start)?;
        // Up to the next symbol of the same module there is no room for another.
        if self
            .modules
            .get(after)
            .is_some_and(|next| self.modules.get(last) == Some(next))
        {
            return Some((first, true));
        }
        (offset < LAST_SYMBOL_REACH).then_some((first, offset < LAST_SYMBOL_SURE))
    }

    fn name(&self, index: usize) -> Option<&str> {
        let start = usize::try_from(*self.starts.get(index)?).ok()?;
        self.names.get(start..)?.split('\n').next()
    }

    fn module(&self, index: usize) -> Option<&str> {
        let number = usize::from(*self.modules.get(index)?);
        self.module_names
            .get(number.checked_sub(1)?)
            .map(String::as_str)
    }
}

/// `ffffffff81e40710 t skb_release_data` or `ffffffffc0a01000 t nft_do_chain\t[nf_tables]`: text symbols only.
fn split(line: &[u8]) -> Option<(u64, &str, Option<&str>)> {
    // Three of four lines of a kernel with all symbols are data: told apart before anything else is looked at.
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let address = words.next()?;
    if !matches!(words.next()?, b"t" | b"T" | b"w" | b"W") {
        return None;
    }
    let name = std::str::from_utf8(words.next()?).ok()?;
    let module = words
        .next()
        .and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let module = match module {
        Some(module) => Some(std::str::from_utf8(module).ok()?),
        None => None,
    };
    Some((hexadecimal(address)?, name, module))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}
