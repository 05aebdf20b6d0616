//! The ring buffer the kernel programs write to.

use std::io;

use aya::maps::{MapData, RingBuf};
use tokio::io::{Interest, unix::AsyncFd};

/// Records in the order in which the kernel programs reserved them.
pub struct Ring {
    records: AsyncFd<RingBuf<MapData>>,
}

impl Ring {
    /// Must be called inside a runtime: it watches the ring's descriptor.
    #[expect(
        unsafe_code,
        reason = "tokio takes a descriptor to watch only by a call that is unsafe"
    )]
    pub fn new(records: RingBuf<MapData>) -> io::Result<Self> {
        // SAFETY: the ring owns its descriptor, never replaces it, and closes it when the `AsyncFd` drops it.
        let records = unsafe { AsyncFd::register_with_interest(records, Interest::READABLE) }?;
        Ok(Self { records })
    }

    /// Waits until there are records.
    pub async fn readable(&mut self) -> io::Result<()> {
        self.records.readable_mut().await?.clear_ready();
        Ok(())
    }

    /// Hands up to `most` records to `take`; returns how many there were.
    pub fn take(
        &mut self,
        most: usize,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let records = self.records.get_mut();
        let mut taken = 0;
        while taken < most {
            let Some(record) = records.next() else { break };
            take(&record)?;
            taken += 1;
        }
        Ok(taken)
    }
}
