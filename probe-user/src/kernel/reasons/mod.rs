//! Names of drop reasons, as the running kernel spells them.
//!
//! The numbers move: `NOT_SPECIFIED` was 1 in 6.1 and is 2 since 6.12, and even stable updates insert values in the
//! middle (6.12.117 did). So every name comes from the kernel that gave the number, and a number without a name is shown
//! as the number.
//!
//! The upper 16 bits of a reason name the subsystem it belongs to (seen in 6.12 and later); these numbers moved as well.
//! The reasons of a subsystem are an enum of its module, whose BTF exists once the module is loaded: it is read when the
//! first of its reasons arrives.

mod format;
mod glob;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use self::format::parse_format;
use super::btf::{Btf, BtfError};
use super::offsets;
use crate::event::Name;

/// Prefix of core reasons; `SKB_CONSUMED` and `SKB_NOT_DROPPED_YET` do not have it.
const CORE: &str = "SKB_DROP_REASON_";
const SUBSYSTEM: &str = "SKB_DROP_REASON_SUBSYS_";
const RESET: &str = "SK_RST_REASON_";

/// Where the reasons of a subsystem are.
struct Source {
    /// Start of the subsystem's name.
    subsystem: &'static str,
    module: &'static str,
    enumeration: &'static str,
    /// The first that fits is cut off.
    prefixes: &'static [&'static str],
}

const SOURCES: [Source; 3] = [
    Source {
        subsystem: "openvswitch",
        module: "openvswitch",
        enumeration: "ovs_drop_reason",
        prefixes: &["OVS_DROP_"],
    },
    // Two subsystems in 6.12, mac80211_unusable and mac80211_monitor. A second enum, without the underscores, has the
    // same values in a type that sparse checks.
    Source {
        subsystem: "mac80211",
        module: "mac80211",
        enumeration: "___mac80211_drop_reason",
        prefixes: &["___RX_DROP_U_", "___RX_DROP_M_", "___RX_DROP_", "___RX_"],
    },
    // Since 7.1, in vmlinux.
    Source {
        subsystem: "qdisc",
        module: "sch_generic",
        enumeration: "qdisc_drop_reason",
        prefixes: &["QDISC_DROP_"],
    },
];

/// Reads the BTF of a module; replaced in tests.
pub type LoadModule = Box<dyn FnMut(&str) -> Result<Btf, BtfError> + Send>;

/// A reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonName {
    /// As the kernel spells it, without the prefix all have; the number where it has no name.
    pub name: Name,
    /// In lower case, the number where it has no name; `None`: core.
    pub subsystem: Option<Name>,
}

/// The reasons a kernel knows.
pub struct ReasonNames {
    /// Does `kfree_skb` pass a reason?
    given: bool,
    /// Core reasons, and those of the subsystems read so far.
    names: BTreeMap<u32, Name>,
    /// By the upper 16 bits of their reasons.
    subsystems: BTreeMap<u32, Name>,
    resets: BTreeMap<u32, Name>,
    /// Enums found or looked for: a flood of unknown reasons must not read megabytes for each.
    tried: BTreeSet<&'static str>,
    load_module: LoadModule,
}

impl ReasonNames {
    /// Of the running kernel.
    pub fn new(vmlinux: &Btf) -> Self {
        Self::with_sources(
            vmlinux,
            format::read_format,
            Box::new(Btf::from_running_module),
        )
    }

    /// With other sources than the running kernel.
    ///
    /// `format` gives the text of tracefs `events/skb/kfree_skb/format`: asked where `kfree_skb` has a reason and BTF
    /// does not list its values, as may be in a backport to an older kernel.
    pub fn with_sources(
        vmlinux: &Btf,
        format: impl FnOnce() -> Option<String>,
        load_module: LoadModule,
    ) -> Self {
        let mut reasons = Self {
            given: offsets::has_drop_reason(vmlinux),
            names: BTreeMap::new(),
            subsystems: BTreeMap::new(),
            resets: read(vmlinux, "sk_rst_reason", &[RESET]).collect(),
            tried: BTreeSet::new(),
            load_module,
        };
        if !reasons.given {
            return reasons;
        }
        reasons.names.extend(
            read(vmlinux, "skb_drop_reason", &[CORE]).filter(|&(code, _)| subsystem_of(code) == 0),
        );
        if reasons.names.is_empty() {
            reasons
                .names
                .extend(parse_format(&format().unwrap_or_default()));
        }
        reasons.subsystems = read(vmlinux, "skb_drop_reason_subsys", &[SUBSYSTEM])
            // 0 is CORE: no subsystem.
            .filter(|&(number, ref name)| number != 0 && &**name != "NUM")
            .map(|(number, name)| (number, name.to_ascii_lowercase().into()))
            .collect();
        // What is built in has its enum in vmlinux.
        for source in &SOURCES {
            reasons.add(source, vmlinux);
        }
        reasons
    }

    /// Names a drop reason. `None`: this kernel gives none (before 5.17).
    pub fn lookup(&mut self, code: u32) -> Option<ReasonName> {
        if !self.given {
            return None;
        }
        if !self.names.contains_key(&code) {
            self.look_in_module(code);
        }
        Some(ReasonName {
            name: self
                .names
                .get(&code)
                .map_or_else(|| number(code), Arc::clone),
            subsystem: self.subsystem(code),
        })
    }

    /// Names the reason of a reset this host sent. `None`: this kernel gives none (before 6.10).
    pub fn reset_reason(&self, code: u32) -> Option<Name> {
        if self.resets.is_empty() {
            return None;
        }
        Some(
            self.resets
                .get(&code)
                .map_or_else(|| number(code), Arc::clone),
        )
    }

    /// Codes of the core reasons whose name fits: `*` any characters, `?` one, upper and lower case alike. The prefix
    /// may be written or left out.
    pub fn codes_matching(&self, glob: &str) -> Vec<u32> {
        let glob = match glob.get(..CORE.len()) {
            Some(prefix) if prefix.eq_ignore_ascii_case(CORE) => {
                glob.get(CORE.len()..).unwrap_or_default()
            }
            _ => glob,
        };
        let core = self
            .names
            .iter()
            .filter(|&(&code, _)| subsystem_of(code) == 0);
        core.filter(|(_, name)| glob::matches(glob, name))
            .map(|(&code, _)| code)
            .collect()
    }

    /// How many drop reasons have a name so far; 0: this kernel gives none, or does not say what they are called.
    pub fn known(&self) -> usize {
        self.names.len()
    }

    fn subsystem(&self, code: u32) -> Option<Name> {
        let subsystem = subsystem_of(code);
        if subsystem == 0 || self.subsystems.is_empty() {
            return None;
        }
        Some(
            self.subsystems
                .get(&subsystem)
                .map_or_else(|| number(subsystem), Arc::clone),
        )
    }

    fn look_in_module(&mut self, code: u32) {
        let Some(subsystem) = self.subsystems.get(&subsystem_of(code)) else {
            return;
        };
        let Some(source) = SOURCES
            .iter()
            .find(|source| subsystem.starts_with(source.subsystem))
        else {
            return;
        };
        if !self.tried.insert(source.enumeration) {
            return;
        }
        match (self.load_module)(source.module) {
            Ok(btf) => self.add(source, &btf),
            Err(error) => log::debug!("names of {subsystem} drop reasons: {error}"),
        }
    }

    /// Takes the reasons of a subsystem from BTF that may have them.
    fn add(&mut self, source: &Source, btf: &Btf) {
        for (code, name) in read(btf, source.enumeration, source.prefixes) {
            // These enums have values for internal use as well, which would replace core reasons: mac80211's RX_QUEUED
            // is 0.
            let subsystem = self.subsystems.get(&subsystem_of(code));
            if subsystem.is_some_and(|subsystem| subsystem.starts_with(source.subsystem)) {
                self.names.insert(code, name);
                self.tried.insert(source.enumeration);
            }
        }
    }
}

impl fmt::Debug for ReasonNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReasonNames")
            .field("given", &self.given)
            .field("known", &self.known())
            .field("tried", &self.tried)
            .finish_non_exhaustive()
    }
}

/// Values of an enum with their short names, without the markers of its start (`__OVS_DROP_REASON`) and end (`…_MAX`):
/// the kernel never gives those.
fn read(btf: &Btf, enumeration: &str, prefixes: &[&str]) -> impl Iterator<Item = (u32, Name)> {
    let values = btf.enum_values(enumeration).unwrap_or_default();
    values.into_iter().filter_map(move |(name, code)| {
        let short = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        let name = short.unwrap_or(&name);
        if name.starts_with("__") || name == "MAX" {
            return None;
        }
        Some((u32::try_from(code).ok()?, name.into()))
    })
}

/// `SKB_DROP_REASON_SUBSYS_SHIFT`
fn subsystem_of(code: u32) -> u32 {
    code >> 16
}

fn number(number: u32) -> Name {
    number.to_string().into()
}
