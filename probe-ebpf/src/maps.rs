//! The maps: what leaves the kernel, what is counted, what is remembered.

use aya_ebpf::{
    macros::map,
    maps::{LruHashMap, PerCpuArray, PerCpuHashMap, RingBuf},
};
use probe_common::{
    DropCount, DropCountKey, FlowState, RetransmitCount, RetransmitCountKey,
    counts::MAX_COUNT_KEYS,
    flow::MAX_FLOWS,
    stats::{STATS_LEN, Stat},
};

/// Records to user space. The size is set at load time (`--ring-size`).
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);

/// Every drop on the host, before any filter.
#[map]
pub(crate) static DROP_COUNTS: PerCpuHashMap<DropCountKey, DropCount> =
    PerCpuHashMap::with_max_entries(MAX_COUNT_KEYS, 0);

/// Every retransmit on the host, before any filter.
#[map]
pub(crate) static RETRANSMIT_COUNTS: PerCpuHashMap<RetransmitCountKey, RetransmitCount> =
    PerCpuHashMap::with_max_entries(MAX_COUNT_KEYS, 0);

/// The programs' own counters, by `Stat`.
#[map]
static STATS: PerCpuArray<u64> = PerCpuArray::with_max_entries(STATS_LEN, 0);

/// Sockets that retransmitted or match an explicit filter, by address.
#[map]
pub(crate) static FLOWS: LruHashMap<u64, FlowState> = LruHashMap::with_max_entries(MAX_FLOWS, 0);

/// When this CPU last woke the reader, ns.
#[map]
pub(crate) static WOKEN: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Counts one of the programs' own mishaps. A function of its own, because every read of kernel memory can end here.
#[inline(never)]
pub(crate) fn count(stat: Stat) {
    if let Some(counter) = STATS.get_ptr_mut(stat as u32) {
        // SAFETY: a live map value of this CPU.
        add(unsafe { &mut *counter }, 1);
    }
}

/// Adds to a counter in a per-CPU map. Atomic, because on Linux 5.10 a program can interrupt itself on its CPU; the plain form
/// that does not return the old value, because 5.10 knows no other.
#[inline(always)]
pub(crate) fn add(counter: &mut u64, n: u64) {
    let counter: *mut u64 = counter;
    // SAFETY: one atomic addition to an aligned, live map value.
    unsafe {
        core::arch::asm!("lock *(u64 *)({counter} + 0) += {n}", counter = in(reg) counter, n = in(reg) n);
    }
}

/// The counter of a key, made if it is new; `None` (and counted) if the table is full.
macro_rules! counter {
    ($map:ident, $key:expr, $zero:expr) => {{
        let key = $key;
        match $crate::maps::$map.get_ptr_mut(&key) {
            Some(counter) => Some(counter),
            None => {
                // Another CPU may have been faster; then the key is there all the same.
                let _already_there =
                    $crate::maps::$map.insert(&key, &$zero, $crate::maps::BPF_NOEXIST);
                let found = $crate::maps::$map.get_ptr_mut(&key);
                if found.is_none() {
                    $crate::maps::count(probe_common::stats::Stat::CountTableFull);
                }
                found
            }
        }
    }};
}
pub(crate) use counter;

/// `bpf_map_update_elem`: only if the key is new.
pub(crate) const BPF_NOEXIST: u64 = 1;
