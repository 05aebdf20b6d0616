//! What is to be done: the command line, understood and checked. Nothing here asks the kernel.
//!
//! Every rule has its own `check_…` in checks.rs.

mod checks;
mod environment;
mod reasons;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use probe_common::filter::{Filters, MAX_VALUES, Masked, MaskedList, PortRange, Ports};

use self::checks::{
    check_limits, check_only_retransmits, check_output, check_protocols_have_ports, each, optional,
};
pub use self::environment::Environment;
pub use self::reasons::{ReasonFilter, ReasonGlob};
pub use self::values::NetnsSpec;
pub use crate::cli::Only;
use crate::cli::{FilterArgs, TraceArgs};
use crate::event::{Body, DropClass, Event, Owner};
use crate::exit::Usage;
use crate::sink::{FilterShown, OutputConfig, Visibility};

const DEFAULT_MAX_FLOWS: usize = 10_000;
/// Room for some 4 500 drops; the user side maps it twice, and all of it must fit into 32 MiB.
const DEFAULT_RING_BYTES: u32 = 2 << 20;

/// A run, decided.
#[derive(Clone, Debug)]
pub struct Config {
    pub filter: FilterConfig,
    pub output: OutputConfig,
    /// Debug messages of the kernel programs.
    pub verbose: bool,
    /// Print a summary so far that often.
    pub interval: Option<Duration>,
    pub limits: Limits,
    pub host: HostPaths,
    /// Created once every probe is attached.
    pub ready_file: Option<PathBuf>,
}

/// When to stop, and how much to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub duration: Option<Duration>,
    /// Shown events.
    pub count: Option<u64>,
    pub max_flows: usize,
    pub ring_bytes: u32,
}

/// Where the host's own view of itself is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    pub proc: PathBuf,
    pub run_netns: PathBuf,
}

/// What is shown and summed per flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterConfig {
    pub ports: Vec<PortRange>,
    pub source_ports: Vec<PortRange>,
    pub destination_ports: Vec<PortRange>,
    pub hosts: Vec<Masked>,
    pub sources: Vec<Masked>,
    pub destinations: Vec<Masked>,
    pub protocols: Vec<u8>,
    pub netns: Vec<NetnsSpec>,
    pub interfaces: Vec<String>,
    pub pids: Vec<u32>,
    pub cgroups: Vec<PathBuf>,
    pub reasons: ReasonFilter,
    pub only: Option<Only>,
    pub all: bool,
}

impl Config {
    /// Makes sense of what was typed.
    pub fn resolve(args: &TraceArgs, environment: &Environment) -> Result<Self, Usage> {
        Ok(Self {
            filter: FilterConfig::resolve(&args.filters)?,
            output: check_output(&args.output, environment),
            verbose: args.output.verbose,
            interval: optional(
                "--interval",
                args.output.interval.as_deref(),
                values::duration,
            )?,
            limits: check_limits(&args.limits)?,
            host: HostPaths {
                proc: args
                    .host
                    .proc
                    .clone()
                    .unwrap_or_else(|| PathBuf::from("/proc")),
                run_netns: args
                    .host
                    .run_netns
                    .clone()
                    .unwrap_or_else(|| PathBuf::from("/run/netns")),
            },
            ready_file: args.host.ready_file.clone(),
        })
    }

    /// The filters as the kernel programs take them: see [`FilterConfig::filters`].
    pub fn filters(&self) -> Filters {
        self.filter.filters()
    }
}

impl FilterConfig {
    fn resolve(args: &FilterArgs) -> Result<Self, Usage> {
        let filter = Self {
            ports: each("--port", &args.port, values::ports)?,
            source_ports: each("--src-port", &args.src_port, values::ports)?,
            destination_ports: each("--dst-port", &args.dst_port, values::ports)?,
            hosts: each("--host", &args.host, values::prefix)?,
            sources: each("--src", &args.src, values::prefix)?,
            destinations: each("--dst", &args.dst, values::prefix)?,
            protocols: each("--proto", &args.proto, values::protocol)?,
            netns: each("--netns", &args.netns, values::netns)?,
            interfaces: each("--interface", &args.interface, values::interface)?,
            pids: each("--pid", &args.pid, values::pid)?,
            cgroups: each("--cgroup", &args.cgroup, values::cgroup)?,
            reasons: ReasonFilter {
                include: each("--reason", &args.reason, ReasonGlob::new)?,
                exclude: each("--exclude-reason", &args.exclude_reason, ReasonGlob::new)?,
            },
            only: args.only,
            all: args.all,
        };
        check_only_retransmits(&filter, args)?;
        check_protocols_have_ports(&filter)?;
        Ok(filter)
    }

    /// The filters as the kernel programs take them, as far as they can be known without asking the kernel: namespaces
    /// and reasons are still open.
    pub fn filters(&self) -> Filters {
        // Nothing else has a reason or an interface, so nothing else matches.
        let drops_only = !self.interfaces.is_empty() || self.reasons.includes();
        let mut filters = Filters {
            host: masked(self.hosts.iter().copied()),
            source: masked(self.sources.iter().copied()),
            destination: masked(self.destinations.iter().copied()),
            interface: masked(self.interfaces.iter().map(|name| values::masked_name(name))),
            port: ports(&self.ports),
            source_port: ports(&self.source_ports),
            destination_port: ports(&self.destination_ports),
            by_owner: u32::from(!self.pids.is_empty() || !self.cgroups.is_empty()),
            no_drops: u32::from(self.only == Some(Only::Retransmits)),
            no_retransmits: u32::from(self.only == Some(Only::Drops) || drops_only),
            no_resets: u32::from(self.only.is_some() || drops_only),
            needs_tuple: u32::from(self.needs_tuple()),
            protocol_len: length(self.protocols.len()),
            ..Filters::NONE
        };
        for (slot, number) in filters.protocol.iter_mut().zip(&self.protocols) {
            *slot = *number;
        }
        filters
    }

    /// Does some filter look at addresses, ports or protocol?
    pub fn needs_tuple(&self) -> bool {
        !(self.ports.is_empty()
            && self.source_ports.is_empty()
            && self.destination_ports.is_empty()
            && self.hosts.is_empty()
            && self.sources.is_empty()
            && self.destinations.is_empty()
            && self.protocols.is_empty())
    }

    /// Is a matching event shown live? Benign drops are not, unless `--all` or a `--reason` asks for them.
    pub fn visibility(&self, event: &Event) -> Visibility {
        match &event.body {
            Body::Drop(drop) if !self.shows_drop(&drop.reason.name, drop.reason.class) => {
                Visibility::Hidden
            }
            _ => Visibility::Shown,
        }
    }

    /// As [`Self::visibility`], for a drop with that reason.
    pub fn shows_drop(&self, reason: &str, class: DropClass) -> bool {
        self.all || class != DropClass::Benign || self.reasons.names(reason)
    }

    /// Does an event with that owner match `--pid` and `--cgroup`? One whose owner is not known does not.
    pub fn matches_owner(&self, owner: &Owner) -> bool {
        let pid = owner.process.as_ref().map(|process| process.pid);
        let path = owner
            .cgroup
            .as_ref()
            .and_then(|cgroup| cgroup.path.as_deref())
            .map(Path::new);
        (self.pids.is_empty() || pid.is_some_and(|pid| self.pids.contains(&pid)))
            && (self.cgroups.is_empty()
                || path
                    .is_some_and(|path| self.cgroups.iter().any(|cgroup| path.starts_with(cgroup))))
    }

    /// For the first line of the output: the flags that were given, with their values as understood.
    pub fn shown(&self) -> Vec<FilterShown> {
        let globs =
            |globs: &[ReasonGlob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect();
        let paths = |paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let only = self.only.map(|only| match only {
            Only::Retransmits => "retransmits".to_owned(),
            Only::Drops => "drops".to_owned(),
        });
        let netns = |spec: &NetnsSpec| match spec {
            NetnsSpec::Name(name) => name.clone(),
            NetnsSpec::Pid(pid) => pid.to_string(),
            NetnsSpec::Path(path) => path.display().to_string(),
        };
        let given: [(&'static str, Vec<String>); 14] = [
            (
                "port",
                self.ports.iter().copied().map(values::show_ports).collect(),
            ),
            (
                "src_port",
                self.source_ports
                    .iter()
                    .copied()
                    .map(values::show_ports)
                    .collect(),
            ),
            (
                "dst_port",
                self.destination_ports
                    .iter()
                    .copied()
                    .map(values::show_ports)
                    .collect(),
            ),
            ("host", self.hosts.iter().map(values::show_prefix).collect()),
            (
                "src",
                self.sources.iter().map(values::show_prefix).collect(),
            ),
            (
                "dst",
                self.destinations.iter().map(values::show_prefix).collect(),
            ),
            (
                "proto",
                self.protocols
                    .iter()
                    .map(|number| crate::sink::names::protocol(*number).into_owned())
                    .collect(),
            ),
            ("netns", self.netns.iter().map(netns).collect()),
            ("interface", self.interfaces.clone()),
            ("pid", self.pids.iter().map(ToString::to_string).collect()),
            ("cgroup", paths(&self.cgroups)),
            ("reason", globs(&self.reasons.include)),
            ("exclude_reason", globs(&self.reasons.exclude)),
            ("only", only.into_iter().collect()),
        ];
        let mut shown: Vec<FilterShown> = given
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(flag, values)| FilterShown { flag, values })
            .collect();
        if self.all {
            shown.push(FilterShown {
                flag: "all",
                values: Vec::new(),
            });
        }
        shown
    }
}

fn masked(values: impl ExactSizeIterator<Item = Masked>) -> MaskedList {
    let mut list = MaskedList {
        len: length(values.len()),
        ..Filters::NONE.host
    };
    for (slot, value) in list.values.iter_mut().zip(values) {
        *slot = value;
    }
    list
}

fn ports(values: &[PortRange]) -> Ports {
    let mut list = Ports {
        len: length(values.len()),
        ..Filters::NONE.port
    };
    for (slot, value) in list.values.iter_mut().zip(values) {
        *slot = *value;
    }
    list
}

/// Never more than [`MAX_VALUES`]: `check_number_of_values` saw to it.
fn length(values: usize) -> u32 {
    u32::try_from(values.min(MAX_VALUES)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
