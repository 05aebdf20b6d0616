//! Lets user space measure HZ, which BTF does not tell: each packet of its private socket notes jiffies and time.

use aya_ebpf::{
    helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns},
    macros::map,
    maps::Array,
};
use probe_common::stats::Tick;

/// The last tick noted.
#[map]
static TICK: Array<Tick> = Array::with_max_entries(1, 0);

/// Accepts the packet.
#[inline(always)]
pub(crate) fn run() -> i64 {
    if let Some(tick) = TICK.get_ptr_mut(0) {
        // SAFETY: a helper without arguments.
        let jiffies = unsafe { bpf_jiffies64() };
        // SAFETY: a helper without arguments.
        let monotonic_ns = unsafe { bpf_ktime_get_ns() };
        // SAFETY: a live map value that one socket's packets write, one after the other.
        unsafe {
            tick.write(Tick {
                jiffies,
                monotonic_ns,
            });
        }
    }
    i64::from(u32::MAX)
}
