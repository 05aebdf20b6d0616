//! Reads the maps of the kernel programs: counters are kept per CPU and added up here.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf,
    maps::{Array, Map, MapData, PerCpuArray, PerCpuHashMap, RingBuf},
};
use probe_common::{
    DropCount, DropCountKey, RetransmitCount, RetransmitCountKey,
    pod::read_pod,
    stats::{Stat, Tick},
};
use zerocopy::{FromBytes, IntoBytes};

use super::loader::{PROGRAMS, Programs};

/// What the kernel programs counted, before any filter and after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub drops: Vec<(DropCountKey, DropCount)>,
    pub retransmits: Vec<(RetransmitCountKey, RetransmitCount)>,
    /// By `Stat`.
    pub stats: Vec<u64>,
    pub told: Told,
}

/// What the kernel tells of the programs only while they are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Events that a program missed because it was already running on that CPU (`recursion_misses`, Linux 5.12).
    pub recursion_missed: u64,
    /// Time in the programs, where the kernel measures it (`kernel.bpf_stats_enabled`).
    pub kernel_ns: Option<u64>,
}

impl Counts {
    /// One of the programs' own counters.
    pub fn stat(&self, stat: Stat) -> u64 {
        self.stats.get(stat as usize).copied().unwrap_or(0)
    }
}

impl Programs {
    /// The ring of records; can be taken once.
    pub fn take_ring(&mut self) -> Result<RingBuf<MapData>> {
        let map = self
            .ebpf
            .take_map("EVENTS")
            .ok_or_else(|| anyhow!("the object has no map EVENTS"))?;
        self.ring_bytes = map_fd(&map)
            .and_then(|fd| fdinfo(fd, "memlock:"))
            .unwrap_or(0);
        RingBuf::try_from(map).context("open the ring of records")
    }

    /// All counters, added up over the CPUs.
    pub fn counts(&self) -> Result<Counts> {
        let drops = per_cpu_hash::<_, _, 24, 4>(&self.ebpf, "DROP_COUNTS")?;
        let retransmits = per_cpu_hash::<_, _, 24, 6>(&self.ebpf, "RETRANSMIT_COUNTS")?;
        let stats = PerCpuArray::<_, u64>::try_from(map(&self.ebpf, "STATS")?)
            .context("open the map STATS")?;
        let stats = Stat::ALL
            .iter()
            .map(|stat| {
                Ok(stats
                    .get(&(*stat as u32), 0)
                    .context("read the map STATS")?
                    .iter()
                    .sum())
            })
            .collect::<Result<_>>()?;
        Ok(Counts {
            drops,
            retransmits,
            stats,
            ..Counts::default()
        })
    }

    /// What the kernel tells of all programs together.
    pub fn told(&self) -> Told {
        let sum = |field: &str| {
            let one = |name: &&str| {
                let program = self.ebpf.program(name)?.fd().ok()?;
                fdinfo(program.as_fd().as_raw_fd(), field)
            };
            PROGRAMS.iter().filter_map(one).sum()
        };
        Told {
            recursion_missed: sum("recursion_misses:"),
            kernel_ns: Some(sum("run_time_ns:")).filter(|ns| *ns > 0),
        }
    }

    /// Memory of all maps, as the kernel accounts it.
    pub fn map_bytes(&self) -> u64 {
        let maps = self.ebpf.maps().filter_map(|(_, map)| map_fd(map));
        self.ring_bytes + maps.filter_map(|fd| fdinfo(fd, "memlock:")).sum::<u64>()
    }
}

/// The last tick the program `tick` noted.
pub(super) fn tick(ebpf: &Ebpf) -> Result<Tick> {
    let ticks = Array::<_, [u8; size_of::<Tick>()]>::try_from(map(ebpf, "TICK")?)
        .context("open the map TICK")?;
    let bytes = ticks.get(&0, 0).context("read the map TICK")?;
    read_pod(&bytes).context("read the map TICK")
}

fn map<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a Map> {
    ebpf.map(name)
        .ok_or_else(|| anyhow!("the object has no map {name}"))
}

/// All entries of a per-CPU hash map with keys of `KEY` bytes and values of `WORDS` counters.
fn per_cpu_hash<K: FromBytes, V: FromBytes, const KEY: usize, const WORDS: usize>(
    ebpf: &Ebpf,
    name: &str,
) -> Result<Vec<(K, V)>> {
    const { assert!(size_of::<K>() == KEY && size_of::<V>() == WORDS * size_of::<u64>()) };
    let hash = PerCpuHashMap::<_, [u8; KEY], [u64; WORDS]>::try_from(map(ebpf, name)?)
        .with_context(|| format!("open the map {name}"))?;
    hash.iter()
        .map(|entry| {
            let (key, values) = entry.with_context(|| format!("read the map {name}"))?;
            let mut sums = [0u64; WORDS];
            for value in values.iter() {
                for (sum, counter) in sums.iter_mut().zip(value) {
                    *sum += counter;
                }
            }
            let entry = read_pod(&key).zip(read_pod(sums.as_bytes()));
            entry.with_context(|| format!("decode an entry of the map {name}"))
        })
        .collect()
}

fn map_fd(map: &Map) -> Option<i32> {
    let (Map::RingBuf(data)
    | Map::PerCpuHashMap(data)
    | Map::PerCpuArray(data)
    | Map::LruHashMap(data)
    | Map::Array(data)) = map
    else {
        return None;
    };
    Some(data.fd().as_fd().as_raw_fd())
}

/// A number that the kernel shows of one of our descriptors.
fn fdinfo(fd: i32, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}
