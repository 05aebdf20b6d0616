//! Writing a record: reserve, fill, submit; or count the loss.

use aya_ebpf::helpers::{bpf_get_smp_processor_id, generated::bpf_ktime_get_boot_ns};
use probe_common::{ABI_VERSION, Header, RecordKind, header::WAKE_INTERVAL_NS, stats::Stat};

use crate::maps::{EVENTS, WOKEN, count};

const BPF_RB_NO_WAKEUP: u64 = 1;

/// Now, on the clock of [`Header::ktime_ns`].
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Records that begin with a [`Header`] and for which all zeros is a valid value.
///
/// # Safety
/// Both must be true of the implementing type.
pub(crate) unsafe trait Record: Sized + 'static {
    const KIND: RecordKind;
}

/// Streams one record; false if the ring was full.
#[inline(always)]
pub(crate) fn emit<T: Record>(fill: impl FnOnce(&mut T)) -> bool {
    let Some(mut slot) = EVENTS.reserve::<T>(0) else {
        count(Stat::RingFull);
        return false;
    };
    let record = slot.as_mut_ptr();
    zero(record);
    // SAFETY: the slot is aligned to 8 bytes, and zeros are a valid value.
    let record = unsafe { &mut *record };
    let header: *mut T = record;
    let header: *mut Header = header.cast();
    let now = now();
    // SAFETY: a helper without arguments.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let filled = Header {
        kind: T::KIND as u16,
        abi: ABI_VERSION,
        len: size_of::<T>() as u32,
        cpu,
        reserved: 0,
        ktime_ns: now,
    };
    // SAFETY: every record begins with a header.
    unsafe { header.write(filled) };
    fill(record);
    slot.submit(wake_up(now));
    count(Stat::Records);
    true
}

/// How to submit: waking the reader costs more than all else, so each CPU does it once in a while; the reader looks again by
/// itself for as long as there are records.
#[inline(always)]
fn wake_up(now: u64) -> u64 {
    let Some(woken) = WOKEN.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: a live map value of this CPU.
    let woken = unsafe { &mut *woken };
    if now.wrapping_sub(*woken) < WAKE_INTERVAL_NS {
        return BPF_RB_NO_WAKEUP;
    }
    *woken = now;
    0
}

/// Fills a record with zeros, eight bytes at a time. Volatile, or the compiler would call a `memset` that goes byte by byte.
#[inline(always)]
fn zero<T: Record>(record: *mut T) {
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8) };
    let words: *mut u64 = record.cast();
    let mut i = 0;
    while i < size_of::<T>() / 8 {
        // SAFETY: within the record.
        let word = unsafe { words.add(i) };
        // SAFETY: aligned and within the reserved slot.
        unsafe { word.write_volatile(0) };
        i += 1;
    }
}
