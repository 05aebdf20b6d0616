//! Loads the kernel programs with the settings for this kernel, attaches and detaches them.

use std::os::unix::net::UnixDatagram;

use anyhow::{Context, Result, anyhow};
use aya::{
    Btf as KernelTypes, Ebpf, EbpfLoader, VerifierLogLevel,
    programs::{BtfTracePoint, Program, ProgramError, SocketFilter},
};
use probe_common::{Filters, Offsets, offsets::Features};
use zerocopy::IntoBytes;

use super::{hz, maps};

/// The compiled programs.
static OBJECT: &[u8] = include!(concat!(env!("OUT_DIR"), "/object.rs"));

/// The programs by their tracepoints, in the order in which they are attached: what is counted first.
pub const PROGRAMS: [&str; 8] = [
    "kfree_skb",
    "tcp_retransmit_skb",
    "tcp_retransmit_synack",
    "tcp_send_reset",
    "tcp_receive_reset",
    "tcp_destroy_sock",
    "tcp_probe",
    "inet_sock_set_state",
];

/// Lines of the verifier's log that an error keeps: the last ones say why.
const VERIFIER_LINES: usize = 12;
/// The most detailed level of the programs' debug messages.
const LOG_DEBUG: u8 = 4;

/// What the programs are told about this kernel and this run.
pub struct Settings {
    pub offsets: Offsets,
    pub features: Features,
    pub filters: Filters,
    /// A power of two, at least a page.
    pub ring_bytes: u32,
    /// The programs' debug messages (`-v`).
    pub debug: bool,
}

/// The programs, loaded; detached when dropped.
pub struct Programs {
    pub(super) ebpf: Ebpf,
    /// Of the ring, once it was taken.
    pub(super) ring_bytes: u64,
}

impl Programs {
    /// Loads every program; nothing is attached yet.
    pub fn load(settings: &Settings) -> Result<Self> {
        let types = std::thread::spawn(KernelTypes::from_sys_fs);
        let mut ebpf = create(settings, VerifierLogLevel::DISABLE)?;
        let types = types
            .join()
            .map_err(|_panic| anyhow!("read /sys/kernel/btf/vmlinux: the reader stopped"))?
            .context("read /sys/kernel/btf/vmlinux")?;
        if load_all(&mut ebpf, &types).is_err() {
            // Once more, this time with the verifier's reasons.
            drop(ebpf);
            ebpf = create(settings, VerifierLogLevel::DEBUG)?;
            load_all(&mut ebpf, &types)?;
        }
        // Freeing 100 000 types takes as long as attaching.
        std::thread::spawn(move || {
            drop(types);
            super::release_memory();
        });
        Ok(Self {
            ebpf,
            ring_bytes: 0,
        })
    }

    /// Attaches every program.
    pub fn attach(&mut self) -> Result<()> {
        for name in PROGRAMS {
            let program = tracepoint(&mut self.ebpf, name)?;
            program
                .attach()
                .with_context(|| format!("attach to the tracepoint {name}"))?;
        }
        Ok(())
    }

    /// Detaches every program; the maps stay readable.
    pub fn detach(&mut self) -> Result<()> {
        for name in PROGRAMS {
            let program = tracepoint(&mut self.ebpf, name)?;
            program
                .unload()
                .with_context(|| format!("detach from the tracepoint {name}"))?;
        }
        Ok(())
    }

    /// Measures jiffies per second.
    pub fn measure_hz(&mut self) -> Result<u32> {
        let (near, far) = UnixDatagram::pair().context("make a socket pair")?;
        let filter: &mut SocketFilter = named(&mut self.ebpf, "tick")?
            .try_into()
            .context("use the program tick")?;
        filter.load().context("load the program tick")?;
        filter
            .attach(&far)
            .context("attach the program tick to the own socket")?;
        let measured = hz::measure(&near, &far, || maps::tick(&self.ebpf));
        let filter: &mut SocketFilter = named(&mut self.ebpf, "tick")?
            .try_into()
            .context("use the program tick")?;
        filter.unload().context("detach the program tick")?;
        measured
    }
}

fn create(settings: &Settings, log: VerifierLogLevel) -> Result<Ebpf> {
    let level: u8 = if settings.debug { LOG_DEBUG } else { 0 };
    EbpfLoader::new()
        .btf(None)
        .verifier_log_level(log)
        .override_global("OFFSETS", settings.offsets.as_bytes(), true)
        .override_global("FEATURES", settings.features.as_bytes(), true)
        .override_global("FILTERS", settings.filters.as_bytes(), true)
        .override_global(aya_log::LEVEL, &level, true)
        .map_max_entries("EVENTS", settings.ring_bytes)
        .load(OBJECT)
        .context("create the maps of the kernel programs")
}

/// Loads the programs, two at a time: the verifier's work is most of the time until tracing starts.
fn load_all(ebpf: &mut Ebpf, types: &KernelTypes) -> Result<()> {
    std::thread::scope(|scope| {
        let loads: Vec<_> = ebpf
            .programs_mut()
            .filter(|(name, _)| PROGRAMS.contains(name))
            .map(|(name, program)| {
                let load = move || -> Result<()> {
                    let program: &mut BtfTracePoint = program
                        .try_into()
                        .with_context(|| format!("use the program {name}"))?;
                    program
                        .load(name, types)
                        .map_err(|error| explain(name, error))
                };
                scope.spawn(load)
            })
            .collect();
        let mut result = Ok(());
        for load in loads {
            let loaded = load.join().unwrap_or_else(|_panic| {
                Err(anyhow!("load the kernel programs: a loader stopped"))
            });
            result = result.and(loaded);
        }
        result
    })
}

fn named<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Program> {
    ebpf.program_mut(name)
        .ok_or_else(|| anyhow!("the object has no program {name}"))
}

fn tracepoint<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint> {
    named(ebpf, name)?
        .try_into()
        .with_context(|| format!("use the program {name}"))
}

/// Keeps the lines of the verifier's log that say why.
fn explain(name: &str, error: ProgramError) -> anyhow::Error {
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = &error
    else {
        return anyhow::Error::new(error).context(format!("load the program {name}"));
    };
    let log = verifier_log.to_string();
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines
        .get(lines.len().saturating_sub(VERIFIER_LINES)..)
        .unwrap_or_default();
    if last.is_empty() {
        return anyhow!("load the program {name}: {io_error}");
    }
    anyhow!(
        "load the program {name}: {io_error}; the verifier's last lines:\n  {}",
        last.join("\n  ")
    )
}
