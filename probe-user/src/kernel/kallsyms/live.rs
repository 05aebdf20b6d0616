//! The table of the running kernel, kept up to date.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::{Symbol, Symbols};

/// Looking again costs tens of milliseconds: not more often than this.
const RELOAD_INTERVAL_NS: u64 = 10_000_000_000;

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
