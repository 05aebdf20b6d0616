//! The only place that reads kernel memory.
//!
//! * [`Typed`]: a tracepoint argument that can never be NULL, or what `bpf_skc_to_tcp_sock` made of one. The verifier knows
//!   its type, so a load at a member's offset is one instruction.
//! * [`Address`]: anything else. Read with `bpf_probe_read_kernel`, which survives any address. From Linux 6.12 a typed load
//!   through a trusted argument that is NULL after all would crash the kernel: such arguments are read as numbers first.

use core::mem::MaybeUninit;

use aya_ebpf::{EbpfContext, helpers::generated::bpf_probe_read_kernel};
use probe_common::{
    offsets::{ABSENT, byte, shift, width},
    stats::Stat,
};

use crate::maps::count;

/// Members of something in kernel memory.
pub(crate) trait Memory: Copy {
    /// The bytes at that place as a number; 0 if the member is absent or cannot be read.
    fn get<T: Copy + Default>(self, place: u32) -> T;

    /// The bitfield (or the plain byte) at that place.
    #[inline(always)]
    fn bits(self, place: u32) -> u8 {
        let value: u8 = self.get(place);
        if width(place) == 0 {
            value
        } else {
            (value >> shift(place)) & ((1u32 << width(place)) - 1) as u8
        }
    }
}

/// A pointer whose type the verifier knows.
#[derive(Clone, Copy)]
pub(crate) struct Typed(*const u8);

impl Typed {
    /// Argument `n` of the tracepoint.
    ///
    /// # Safety
    /// On no supported kernel may the argument be NULL.
    #[inline(always)]
    pub(crate) unsafe fn argument(
        ctx: &aya_ebpf::programs::BtfTracePointContext,
        n: usize,
    ) -> Self {
        Self(ctx.arg(n))
    }

    /// The same socket as a `struct tcp_sock`, if it is one.
    #[inline(always)]
    pub(crate) fn tcp_sock(self) -> Option<Self> {
        // SAFETY: takes a socket, returns a pointer to it or NULL.
        let tcp =
            unsafe { aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock(self.0.cast_mut().cast()) };
        if tcp.is_null() {
            None
        } else {
            Some(Self(tcp.cast_const().cast()))
        }
    }

    /// The address as a number.
    #[inline(always)]
    pub(crate) fn address(self) -> Address {
        Address(self.0 as u64)
    }
}

impl Memory for Typed {
    #[inline(always)]
    fn get<T: Copy + Default>(self, place: u32) -> T {
        if place == ABSENT {
            return T::default();
        }
        // SAFETY: the verifier accepts only an offset at which the type has a member of that size.
        let member = unsafe { self.0.add(byte(place)) };
        // SAFETY: as above.
        unsafe { core::ptr::read_volatile(member.cast()) }
    }
}

/// A number that may be an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) u64);

impl Address {
    /// Argument `n` of the tracepoint, not trusted to be anything.
    #[inline(always)]
    pub(crate) fn argument(ctx: &aya_ebpf::programs::BtfTracePointContext, n: usize) -> Self {
        Self(Self(ctx.as_ptr() as u64 + 8 * n as u64).read().unwrap_or(0))
    }

    /// Could it be an address in the kernel's half?
    #[inline(always)]
    pub(crate) fn is_kernel(self) -> bool {
        self.0 >= 0xff00_0000_0000_0000
    }

    /// What is there.
    #[inline(always)]
    pub(crate) fn read<T: Copy>(self) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: writes at most the size of `value` or fails.
        let failed = unsafe {
            bpf_probe_read_kernel(
                value.as_mut_ptr().cast(),
                size_of::<T>() as u32,
                self.0 as *const _,
            )
        };
        if failed != 0 {
            count(Stat::ReadFault);
            return None;
        }
        // SAFETY: filled by the helper.
        Some(unsafe { value.assume_init() })
    }

    /// The address of a member.
    #[inline(always)]
    pub(crate) fn member(self, place: u32) -> Self {
        Self(self.0.wrapping_add(byte(place) as u64))
    }

    /// Follows a pointer member; `None` if it is not there or does not point into the kernel.
    #[inline(always)]
    pub(crate) fn follow(self, place: u32) -> Option<Self> {
        if place == ABSENT || !self.is_kernel() {
            return None;
        }
        Some(Self(self.member(place).read()?)).filter(|address| address.is_kernel())
    }
}

impl Memory for Address {
    #[inline(always)]
    fn get<T: Copy + Default>(self, place: u32) -> T {
        if place == ABSENT {
            return T::default();
        }
        self.member(place).read().unwrap_or_default()
    }
}
