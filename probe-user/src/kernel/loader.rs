//! Loads the kernel programs with the settings for this kernel, attaches and detaches them.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, anyhow};
use aya::{
    Btf as AyaBtf, Ebpf, EbpfLoader, VerifierLogLevel,
    maps::{MapData, RingBuf},
    programs::{BtfTracePoint, ProgramError},
};
use probe_common::{Filters, Offsets, offsets::Features};
use zerocopy::IntoBytes;

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("DROPWATCH_EBPF_OBJECT"));

/// The programs, in the order in which they are attached: those that count first.
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
const VERIFIER_LINES: usize = 50;

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

/// The programs, loaded.
pub struct Programs {
    ebpf: Ebpf,
}

impl Programs {
    /// Loads every program; nothing is attached yet.
    pub fn load(settings: &Settings) -> Result<Self> {
        let log_level: u8 = if settings.debug { 4 } else { 0 };
        let mut ebpf = EbpfLoader::new()
            .btf(None)
            .verifier_log_level(if std::env::var("VLOG").is_ok() {VerifierLogLevel::DEBUG} else {VerifierLogLevel::DISABLE})
            .override_global("OFFSETS", settings.offsets.as_bytes(), true)
            .override_global("FEATURES", settings.features.as_bytes(), true)
            .override_global("FILTERS", settings.filters.as_bytes(), true)
            .override_global("AYA_LOG_LEVEL", &log_level, false)
            .map_max_entries("EVENTS", settings.ring_bytes)
            .load(OBJECT)
            .context("load the kernel programs")?;
        let t = std::time::Instant::now();
        let btf = AyaBtf::from_sys_fs().context("read /sys/kernel/btf/vmlinux")?;
        eprintln!("aya btf {:?}", t.elapsed());
        for name in PROGRAMS {
            program(&mut ebpf, name)?.load(name, &btf).map_err(|error| explain(name, error))?;
            eprintln!("{name} {:?} {:?}", t.elapsed(), program(&mut ebpf, name)?.info()?.verified_instruction_count());
        }
        Ok(Self { ebpf })
    }

    /// Attaches every program.
    pub fn attach(&mut self) -> Result<()> {
        for name in PROGRAMS {
            program(&mut self.ebpf, name)?.attach().with_context(|| format!("attach to the tracepoint {name}"))?;
        }
        Ok(())
    }

    /// Detaches every program; maps stay readable.
    pub fn detach(&mut self) -> Result<()> {
        for name in PROGRAMS {
            program(&mut self.ebpf, name)?.unload().with_context(|| format!("detach from the tracepoint {name}"))?;
        }
        Ok(())
    }
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint> {
    let program = ebpf.program_mut(name).ok_or_else(|| anyhow!("the object has no program {name}"))?;
    program.try_into().with_context(|| format!("the program {name} is of another type"))
}

/// Keeps the lines of the verifier's log that say why.
fn explain(name: &str, error: ProgramError) -> anyhow::Error {
    let ProgramError::LoadError { io_error, verifier_log } = &error else {
        return anyhow::Error::new(error).context(format!("load the program {name}"));
    };
    let log = verifier_log.to_string();
    if std::env::var("VLOG").is_ok() { std::fs::write("/tmp/w/vlog.txt", &log).unwrap(); }
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(VERIFIER_LINES)..).unwrap_or_default().join("\n  ");
    anyhow!("load the program {name}: {io_error}; the verifier's last lines:\n  {last}")
}
