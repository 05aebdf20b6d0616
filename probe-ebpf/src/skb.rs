//! Packets: their headers, their device, their namespace.

use aya_ebpf::{
    helpers::generated::bpf_probe_read_kernel, macros::map, maps::PerCpuArray,
    programs::BtfTracePointContext,
};
use probe_common::{HEADER_SNAP, RawNetns, packet::Headers, stats::Stat};

use crate::{
    globals::{offset, setting},
    maps::count,
    read::{Address, Memory, Typed},
    sock,
};

/// Programs of one CPU that can be under way at once on Linux 5.10, where one can interrupt itself; later kernels allow one.
const DEPTH: usize = 4;
/// Any offset below 256 can be read 20 bytes on; behind that is room for `forget`.
const CELL: usize = 256 + 24;
const CELL_LEN: usize = 64;
const BUFFER: usize = CELL + CELL_LEN;

/// Room for the headers of the packets one program looks at.
#[repr(C)]
pub(crate) struct Buffers {
    depth: u64,
    headers: [[u8; BUFFER]; DEPTH],
}

// The stack is too small for headers. Each program has buffers of its own, because from Linux 7.2 on another program can
// run on the same CPU in between.
#[map]
pub(crate) static DROP_HEADERS: PerCpuArray<Buffers> = PerCpuArray::with_max_entries(1, 0);
#[map]
pub(crate) static RESET_HEADERS: PerCpuArray<Buffers> = PerCpuArray::with_max_entries(1, 0);

/// A buffer that is ours until we leave.
pub(crate) struct Scratch {
    buffers: *mut Buffers,
    buffer: *mut u8,
}

impl Scratch {
    #[inline(always)]
    pub(crate) fn enter(buffers: &PerCpuArray<Buffers>) -> Option<Self> {
        let buffers = buffers.get_ptr_mut(0)?;
        // SAFETY: a live map value of this CPU; whoever interrupts us restores what it changes.
        let buffers_ref = unsafe { &mut *buffers };
        let depth = buffers_ref.depth as usize;
        if depth >= DEPTH {
            count(Stat::NestedTooDeep);
            return None;
        }
        buffers_ref.depth += 1;
        let buffer = buffers_ref.headers[depth].as_mut_ptr();
        Some(Self { buffers, buffer })
    }

    /// The same value, but the verifier no longer knows how it came about: what follows is looked at once and not once for
    /// each way to get here.
    #[inline(always)]
    pub(crate) fn forget<T: Copy>(&self, value: T) -> T {
        forget(self.buffer, value)
    }

    /// A pointer as a mere number: from memory it comes back without its type, so that nothing can be loaded through it but by
    /// `bpf_probe_read_kernel`. Argument `n` of the tracepoint, which may be NULL.
    #[inline(always)]
    pub(crate) fn argument(&self, ctx: &BtfTracePointContext, n: usize) -> Address {
        Address(self.forget(ctx.arg(n)))
    }

    /// Likewise, a pointer that a typed object holds.
    #[inline(always)]
    pub(crate) fn pointer(&self, object: Typed, place: u32) -> Address {
        Address(self.forget(object.get(place)))
    }

    #[inline(always)]
    pub(crate) fn leave(self) {
        // SAFETY: as in `enter`.
        let buffers = unsafe { &mut *self.buffers };
        buffers.depth -= 1;
    }
}

/// The bytes of a packet from its network header on.
pub(crate) struct View {
    buffer: *mut u8,
    pub(crate) len: u32,
}

impl Headers for View {
    #[inline(always)]
    fn array<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        if at > 255 || at + N as u32 > self.len {
            return None;
        }
        // The mask tells the verifier what the comparison told the compiler.
        let at = (at & setting!(BYTE_MASK)) as usize;
        // SAFETY: at + N ≤ 255 + 20, the size of the buffer.
        let bytes = unsafe { self.buffer.add(at) };
        // SAFETY: as above; byte arrays have no alignment.
        Some(unsafe { bytes.cast::<[u8; N]>().read() })
    }

    #[inline(always)]
    fn forget(&self, number: u32) -> u32 {
        forget(self.buffer, number)
    }
}

/// Writes plain numbers to the cell of a buffer and reads them back.
#[inline(always)]
fn forget<T: Copy>(buffer: *mut u8, value: T) -> T {
    const { assert!(size_of::<T>() <= CELL_LEN && align_of::<T>() <= 8) };
    // SAFETY: behind the bytes that `array` reads, within the buffer.
    let cell: *mut T = unsafe { buffer.add(CELL) }.cast();
    // SAFETY: aligned and ours.
    unsafe { cell.write_volatile(value) };
    // SAFETY: as above.
    unsafe { cell.read_volatile() }
}

impl View {
    /// Copies the bytes, eight at a time. Volatile, or the compiler would call a `memcpy` that goes byte by byte.
    #[inline(always)]
    pub(crate) fn copy_to(&self, out: &mut [u8; HEADER_SNAP]) {
        let from: *const u64 = self.buffer.cast_const().cast();
        let to: *mut u64 = out.as_mut_ptr().cast();
        let mut i = 0;
        while i < HEADER_SNAP / 8 {
            // SAFETY: the buffer is at least that long.
            let word = unsafe { from.add(i) };
            // SAFETY: aligned: buffers lie at multiples of 8.
            let word = unsafe { word.read_volatile() };
            // SAFETY: `out` is that long.
            let place = unsafe { to.add(i) };
            // SAFETY: aligned: so do the headers of a record.
            unsafe { place.write_volatile(word) };
            i += 1;
        }
    }
}

/// What every path needs of a packet.
pub(crate) struct Packet {
    /// From the network header on; empty without one.
    pub(crate) headers: View,
    /// Address of the network header, 0 without one.
    pub(crate) network: u64,
    pub(crate) head: u64,
    pub(crate) network_offset: u16,
    /// EtherType in host byte order.
    pub(crate) ethertype: u16,
}

impl Packet {
    #[inline(always)]
    pub(crate) fn read<M: Memory>(skb: M, scratch: &Scratch) -> Self {
        let head: u64 = skb.get(offset!(skb_head));
        let network_offset: u16 = skb.get(offset!(skb_network_header));
        let tail: u32 = skb.get(offset!(skb_tail));
        let ethertype = u16::from_be(skb.get(offset!(skb_protocol)));
        let mut packet = Self {
            headers: View {
                buffer: scratch.buffer,
                len: 0,
            },
            network: 0,
            head,
            network_offset,
            ethertype,
        };
        // Not set is 0: the buffer was zeroed when it was allocated.
        if network_offset == 0 || u32::from(network_offset) >= tail {
            return packet;
        }
        packet.network = head + u64::from(network_offset);
        let available = tail - u32::from(network_offset);
        let len = if available > HEADER_SNAP as u32 {
            HEADER_SNAP as u32
        } else {
            available
        };
        let len = len & setting!(BYTE_MASK);
        // SAFETY: writes at most 255 bytes into a buffer that is longer.
        let failed = unsafe {
            bpf_probe_read_kernel(scratch.buffer.cast(), len, packet.network as *const _)
        };
        if failed == 0 {
            packet.headers.len = scratch.forget(len);
        } else {
            count(Stat::ReadFault);
        }
        packet
    }
}

/// The namespace of a packet's device, if the word `skb->dev` really is one: it shares its place with other things.
#[inline(always)]
pub(crate) fn netns_of_device(device: Address) -> Option<RawNetns> {
    sock::netns(device.follow(offset!(dev_net))?)
}

/// The route a packet has.
#[inline(always)]
pub(crate) fn route(skb: Address) -> Option<Address> {
    // The lowest bit says that the reference is not counted.
    let route: u64 = skb.get(offset!(skb_refdst));
    Some(Address(route & !1)).filter(|route| route.is_kernel())
}

/// Namespace of the device a packet's route leads to.
#[inline(always)]
pub(crate) fn netns_of_route(skb: Address) -> Option<RawNetns> {
    sock::netns(
        route(skb)?
            .follow(offset!(dst_dev))?
            .follow(offset!(dev_net))?,
    )
}
