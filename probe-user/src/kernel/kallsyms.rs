//! Names for code addresses, from `/proc/kallsyms`.
//!
//! The table is kept small, because it stays in memory for the whole run: text symbols only, 14 bytes each plus one
//! copy of the name. The file is read in pieces, never as a whole. What it says is outside text: a line that makes no
//! sense is skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// How far the last function before a gap can reach. Nothing says where it ends; beyond this an address is somebody
/// else's, most likely a module's that was loaded after the file was read.
const LAST_SYMBOL_REACH: u64 = 64 * 1024;
/// The end of the last function is not known, but it is surely in no other page than this many bytes away. An address
/// further off is believed only after a fresh look at the file.
const LAST_SYMBOL_SURE: u64 = 4096;
/// Looking again costs tens of milliseconds: not more often than this.
const RELOAD_INTERVAL_NS: u64 = 10_000_000_000;

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
        .split(|byte| byte.is_ascii_whitespace())
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

/// The host's symbols: read in the background, read again when an address is in none of them.
#[derive(Debug)]
pub struct LiveSymbols {
    proc: PathBuf,
    loading: Option<JoinHandle<io::Result<Symbols>>>,
    symbols: Symbols,
    /// When the file was read again.
    last_load_ns: Option<u64>,
}

impl LiveSymbols {
    /// Starts to read. `proc` is usually `/proc`.
    pub fn start(proc: &Path) -> Self {
        let path = proc.to_owned();
        let loading = std::thread::Builder::new()
            .name("kallsyms".to_owned())
            .spawn(move || Symbols::load(&path))
            .ok();
        Self {
            proc: proc.to_owned(),
            loading,
            symbols: Symbols::default(),
            last_load_ns: None,
        }
    }

    /// What was read; waits for it the first time. A file that cannot be read gives an empty table: addresses are then
    /// shown as numbers.
    pub fn symbols(&mut self) -> &Symbols {
        if let Some(loading) = self.loading.take() {
            self.symbols = match loading.join() {
                Ok(Ok(symbols)) => symbols,
                Ok(Err(error)) => {
                    log::warn!(
                        "read {}: {error}; locations are shown as addresses",
                        self.proc.join("kallsyms").display()
                    );
                    Symbols::default()
                }
                Err(_panic) => Symbols::default(),
            };
        }
        &self.symbols
    }

    /// The function the address lies in. Where that is not beyond doubt, the file is read again, at most every 10 s.
    pub fn lookup(&mut self, address: u64, now_ns: u64) -> Option<Symbol<'_>> {
        let symbols = self.symbols();
        let worth_a_look = !symbols.is_empty() && !symbols.is_sure(address);
        let due = self
            .last_load_ns
            .is_none_or(|last| now_ns.saturating_sub(last) >= RELOAD_INTERVAL_NS);
        if worth_a_look && due {
            self.last_load_ns = Some(now_ns);
            match Symbols::load(&self.proc) {
                Ok(symbols) => self.symbols = symbols,
                Err(error) => log::debug!("read kallsyms again: {error}"),
            }
        }
        self.symbols.lookup(address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81e40710 t skb_release_data
ffffffff81e40900 T kfree_skb_list_reason
ffffffff81ff8090 T ip_forward
ffffffff81ff8800 W weak_one
ffffffff82200000 D not_text
ffffffffc0a02000 t nft_later\t[nf_tables]
ffffffffc0a01000 t nft_do_chain\t[nf_tables]
ffffffffc0b00000 t init_module\t[veth]
ffffffffc0b00100 t veth_xmit\t[veth]
";

    fn symbols() -> Symbols {
        Symbols::parse(TEXT.as_bytes()).unwrap()
    }

    fn found(symbols: &Symbols, address: u64) -> Option<(&str, u64, Option<&str>)> {
        symbols
            .lookup(address)
            .map(|symbol| (symbol.name, symbol.offset, symbol.module))
    }

    #[test]
    fn an_address_has_the_name_of_the_function_it_lies_in() {
        let symbols = symbols();
        assert_eq!(
            found(&symbols, 0xffff_ffff_81e4_0710),
            Some(("skb_release_data", 0, None))
        );
        assert_eq!(
            found(&symbols, 0xffff_ffff_81e4_08ff),
            Some(("skb_release_data", 0x1ef, None))
        );
        assert_eq!(
            found(&symbols, 0xffff_ffff_81e4_0900),
            Some(("kfree_skb_list_reason", 0, None))
        );
        assert_eq!(
            found(&symbols, 0xffff_ffff_c0a0_1010),
            Some(("nft_do_chain", 0x10, Some("nf_tables")))
        );
        assert_eq!(
            found(&symbols, 0xffff_ffff_c0a0_2010),
            Some(("nft_later", 0x10, Some("nf_tables")))
        );
        assert_eq!(
            found(&symbols, 0xffff_ffff_c0b0_0101),
            Some(("veth_xmit", 1, Some("veth")))
        );
    }

    #[test]
    fn the_first_of_two_names_of_one_address_is_used() {
        assert_eq!(
            found(&symbols(), 0xffff_ffff_8100_0004),
            Some(("_stext", 4, None))
        );
    }

    #[test]
    fn addresses_outside_every_function_have_no_name() {
        let symbols = symbols();
        assert_eq!(symbols.lookup(0), None);
        assert_eq!(symbols.lookup(0xffff_ffff_8000_0000), None);
        assert_eq!(symbols.lookup(0xffff_ffff_8220_0000), None, "data");
        assert_eq!(
            symbols.lookup(0xffff_ffff_c0b2_0000),
            None,
            "another module"
        );
        assert_eq!(symbols.lookup(u64::MAX), None);
    }

    #[test]
    fn only_the_end_of_a_module_is_doubtful() {
        let symbols = symbols();
        assert!(symbols.is_sure(0xffff_ffff_81e4_0900));
        assert!(symbols.is_sure(0xffff_ffff_c0b0_0101));
        assert!(!symbols.is_sure(0xffff_ffff_c0b0_2000));
    }

    #[test]
    fn functions_are_found_by_name() {
        let symbols = symbols();
        assert_eq!(
            symbols.range("skb_release_data"),
            Some((0xffff_ffff_81e4_0710, 0xffff_ffff_81e4_0900))
        );
        assert_eq!(
            symbols.range("_text"),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8101_0000))
        );
        assert_eq!(symbols.address("ip_forward"), Some(0xffff_ffff_81ff_8090));
        assert_eq!(symbols.address("nft_do_chain"), Some(0xffff_ffff_c0a0_1000));
        assert_eq!(symbols.address("not_text"), None);
        assert_eq!(symbols.address(""), None);
        assert_eq!(symbols.len(), 10);
    }

    #[test]
    fn zero_addresses_mean_that_they_are_hidden() {
        let text = "0000000000000000 T _text\n0000000000000000 t skb_release_data\t[x]\n";
        let symbols = Symbols::parse(text.as_bytes()).unwrap();
        assert!(symbols.hidden() && symbols.is_empty());
        assert_eq!(symbols.lookup(0), None);
        assert!(!self::symbols().hidden());
        assert!(!Symbols::parse(&b""[..]).unwrap().hidden());
    }

    #[test]
    fn lines_that_make_no_sense_are_skipped() {
        let text = b"\n\xff\xfe t x\nffffffff81000000 t \xff\xfe\n123456789abcdef01 t long\nffffffff81000000 t\nzz t y\n10 t good [m";
        let symbols = Symbols::parse(&text[..]).unwrap();
        assert_eq!(symbols.len(), 1);
        assert_eq!(found(&symbols, 0x10), Some(("good", 0, None)));
    }

    #[test]
    fn the_running_kernel_is_read() {
        let mut live = LiveSymbols::start(Path::new("/proc"));
        if live.symbols().hidden() || live.symbols().is_empty() {
            println!("SKIPPED: /proc/kallsyms shows no addresses to this user");
            return;
        }
        let (start, end) = live.symbols().range("ip_rcv").unwrap();
        assert!(end > start);
        assert_eq!(live.lookup(start + 1, 0).unwrap().name, "ip_rcv");
    }

    #[test]
    #[ignore = "a measurement: run it in release mode with --nocapture"]
    fn measure_load() {
        let start = std::time::Instant::now();
        let symbols = Symbols::load(Path::new("/proc")).unwrap();
        let load = start.elapsed();
        let start = std::time::Instant::now();
        let range = symbols.range("skb_release_data");
        println!(
            "{} symbols, {} KiB, loaded in {load:?}; by name in {:?} {range:x?}",
            symbols.len(),
            symbols.memory_bytes() / 1024,
            start.elapsed()
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000), address: u64) {
            let symbols = Symbols::parse(&bytes[..]).unwrap();
            let _symbol = symbols.lookup(address);
            let _range = symbols.range("x");
        }

        #[test]
        fn any_lines_are_survived_and_each_symbol_found(
            lines in prop::collection::vec((1..u64::MAX, "[a-z_]{1,8}", prop::option::of("[a-z]{1,4}")), 1..40)
        ) {
            let text: String = lines.iter().map(|(address, name, module)| match module {
                Some(module) => format!("{address:016x} t {name}\t[{module}]\n"),
                None => format!("{address:016x} T {name}\n"),
            }).collect();
            let symbols = Symbols::parse(text.as_bytes()).unwrap();
            for (address, _, _) in &lines {
                let first = lines.iter().find(|(other, _, _)| other == address).unwrap();
                let symbol = symbols.lookup(*address).unwrap();
                prop_assert_eq!((symbol.name, symbol.offset), (first.1.as_str(), 0));
            }
        }
    }
}
