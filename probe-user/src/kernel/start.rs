//! From nothing to attached: what takes time is done side by side.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow};
use probe_common::Filters;

use super::btf::Btf;
use super::clock::{Clock, boottime_ns};
use super::counters::read_all;
use super::debug::DebugMessages;
use super::interfaces::Interfaces;
use super::kallsyms::LiveSymbols;
use super::loader::{PROGRAMS, Programs, Settings};
use super::netns::{Namespaces, Pace, Paths};
use super::owners::Owners;
use super::preflight::{Host, Report, Tracepoint};
use super::reasons::ReasonNames;
use super::{Kernel, Knowledge, offsets};
use crate::aggregate::reconcile::{Ledger, Moment};
use crate::config::{Config, FilterConfig, ReasonGlob};
use crate::exit::{CannotTrace, Usage};

/// Ticks after which nothing of the start is left to be given back.
const SETTLING_TICKS: u8 = 2;

/// Most namespaces and reasons are few; these are the kernel's own bits of a reason.
const CORE_REASONS: u32 = 1 << 16;

/// What the kernel's types say, kept only while starting: the types themselves take megabytes.
struct Types {
    offsets: probe_common::Offsets,
    features: probe_common::offsets::Features,
    reasons: ReasonNames,
    absent: Vec<&'static str>,
}

impl Types {
    fn read() -> Result<Self> {
        let btf = Btf::from_running_kernel().map_err(|error| {
            CannotTrace(format!(
                "{error}; without it the programs cannot know this kernel's structures"
            ))
        })?;
        let absent = PROGRAMS
            .into_iter()
            .filter(|name| btf.tracepoint_args(name).is_none())
            .collect();
        let (offsets, features) =
            offsets::resolve(&btf).map_err(|missing| CannotTrace(missing.to_string()))?;
        Ok(Self {
            offsets,
            features,
            reasons: ReasonNames::new(&btf),
            absent,
        })
    }
}

/// Can this host be traced by this user? Looks, but loads nothing.
pub fn doctor(paths: &Paths) -> Report {
    let host = Host::read(&paths.run_netns);
    let mut report = Report::new(&host);
    if let Ok(types) = Types::read() {
        let tracepoints: Vec<_> = PROGRAMS
            .iter()
            .map(|name| Tracepoint {
                name,
                present: !types.absent.contains(name),
                required: true,
            })
            .collect();
        report.check_tracepoints(&host, &tracepoints);
        report.check_reasons(&host, types.reasons.known());
    }
    report
}

impl Kernel {
    /// Loads and attaches the programs. Counters are read just before and just after.
    pub fn attach(config: &Config) -> Result<Self> {
        let paths = Paths {
            proc: config.host.proc.clone(),
            run_netns: config.host.run_netns.clone(),
        };
        let host = Host::read(&paths.run_netns);
        let report = Report::new(&host);
        if let Some(sentence) = report.must_stop() {
            return Err(CannotTrace(sentence).into());
        }
        let mut symbols = LiveSymbols::start(&paths.proc);
        let mut types = Types::read()?;
        if !types.absent.is_empty() {
            let missing = types.absent.join(", ");
            return Err(CannotTrace(format!(
                "this kernel has no tracepoint {missing}; Linux 5.10 and later have it"
            ))
            .into());
        }
        let mut namespaces = Namespaces::new(paths);
        namespaces.scan().context("look for network namespaces")?;
        let filters = resolve(&config.filter, &mut namespaces, &types.reasons)?;
        if let Some((start, end)) = symbols.symbols().range("skb_release_data") {
            types.features.skb_release_data_start = start;
            types.features.skb_release_data_end = end;
        }
        let settings = Settings {
            offsets: types.offsets,
            features: types.features,
            filters,
            ring_bytes: config.limits.ring_bytes,
            debug: config.verbose,
        };
        let mut programs = Programs::load(&settings)?;
        let mut warnings = report.warnings();
        let hz = programs
            .measure_hz()
            .map_err(|error| {
                warnings.push(format!(
                    "{error:#}; times that the kernel keeps in jiffies are left out"
                ));
            })
            .ok();

        let debug = config
            .verbose
            .then(|| DebugMessages::new(&mut programs))
            .transpose()?;

        let owners = Owners::start(
            &config.host.proc,
            &config.filter.pids,
            &config.filter.cgroups,
        )
        .context("look for processes")?;
        let mut ledger = Ledger::default();
        ledger.record(Moment::BeforeAttach, read_all(&mut namespaces));
        programs.attach()?;
        let attached_ns = boottime_ns();
        ledger.record(Moment::AfterAttach, read_all(&mut namespaces));

        let knowledge = Knowledge {
            symbols,
            reasons: types.reasons,
            namespaces,
            interfaces: Interfaces::default(),
            owners,
        };
        Ok(Self {
            programs,
            knowledge: Arc::new(Mutex::new(knowledge)),
            clock: Clock::start(),
            ledger,
            pace: Pace::default(),
            failures_traced: types.features.retransmit_err != 0,
            hz,
            settling: SETTLING_TICKS,
            debug,
            attached_ns,
            warnings,
        })
    }
}

/// Gives back to the system what starting took: the kernel's types are 60 MB for a moment, and the allocator would keep
/// them for a steady state that needs a tenth of it.
#[cfg_attr(
    target_env = "gnu",
    expect(
        unsafe_code,
        reason = "the allocator can be asked only through the C library"
    )
)]
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, touches nothing but free memory of the allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The filters with what only the kernel can tell.
fn resolve(
    config: &FilterConfig,
    namespaces: &mut Namespaces,
    reasons: &ReasonNames,
) -> Result<Filters> {
    let mut filters = config.filters();
    for (slot, spec) in filters.netns.iter_mut().zip(&config.netns) {
        *slot = namespaces
            .resolve(&spec.to_string())
            .map_err(|error| unusable(&error))?;
    }
    filters.netns_len = u32::try_from(config.netns.len()).context("count the namespaces")?;
    set_reasons(
        &mut filters.reason,
        "--reason",
        &config.reasons.include,
        reasons,
    )?;
    set_reasons(
        &mut filters.exclude_reason,
        "--exclude-reason",
        &config.reasons.exclude,
        reasons,
    )?;
    Ok(filters)
}

/// Why a namespace cannot be used as a filter: it may not be entered, or there is none.
fn unusable(error: &anyhow::Error) -> anyhow::Error {
    let cause = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    let is_denied = cause
        .into_iter()
        .any(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
    if is_denied {
        let missing = "CAP_SYS_ADMIN missing, without it no other network namespace can be entered; run it with sudo";
        CannotTrace(format!("{error:#}; {missing}")).into()
    } else {
        Usage(format!("{error:#}")).into()
    }
}

fn set_reasons(
    set: &mut probe_common::filter::ReasonSet,
    flag: &str,
    globs: &[ReasonGlob],
    reasons: &ReasonNames,
) -> Result<(), Usage> {
    set.active = u32::from(!globs.is_empty());
    for glob in globs {
        let codes = reasons.codes_matching(glob.as_str());
        if codes.is_empty() {
            let glob = glob.as_str();
            return Err(Usage(format!(
                "{flag} {glob}: this kernel has no such drop reason; `dropwatch-rs doctor` says how many it names"
            )));
        }
        for code in codes.into_iter().filter(|code| *code < CORE_REASONS) {
            set.insert(code);
        }
    }
    Ok(())
}

/// Creates the file that says that every probe is attached.
pub fn announce(config: &Config) -> Result<()> {
    if let Some(path) = &config.ready_file {
        File::create(path)
            .map_err(|error| anyhow!("create the ready file {}: {error}", path.display()))?;
    }
    Ok(())
}
