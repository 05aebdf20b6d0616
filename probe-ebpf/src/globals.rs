//! Settings that user space writes into the read-only data before the programs are loaded.
//!
//! The verifier knows their values, so a branch on one costs nothing (the dead side is pruned) and an offset read from here
//! makes a typed load. The compiler must not know them: fields are read volatile.

use probe_common::{Filters, Offsets, offsets::Features};

#[unsafe(no_mangle)]
pub(crate) static OFFSETS: Offsets = Offsets::UNRESOLVED;
#[unsafe(no_mangle)]
pub(crate) static FEATURES: Features = Features::NONE;
#[unsafe(no_mangle)]
static FILTERS: Filters = Filters::NONE;
/// Always 255, but only the verifier knows: a mask that the compiler cannot optimise away.
#[unsafe(no_mangle)]
pub(crate) static BYTE_MASK: u32 = 255;

/// Reads a setting or one field of it.
macro_rules! setting {
    ($($place:tt)+) => {
        // SAFETY: a plain number in a static that is never written after load.
        unsafe { core::ptr::read_volatile(&raw const $crate::globals::$($place)+) }
    };
}

/// Where a member of a kernel structure lies: a place of `probe_common::offsets`.
macro_rules! offset {
    ($member:ident) => {
        $crate::globals::setting!(OFFSETS.$member)
    };
}

pub(crate) use {offset, setting};

/// What is to be shown. The address is hidden from the compiler, so that it does not put in the values of the build.
#[inline(always)]
pub(crate) fn filters() -> &'static Filters {
    let filters = core::hint::black_box(&raw const FILTERS);
    // SAFETY: the address of a static that is never written after load.
    unsafe { &*filters }
}
