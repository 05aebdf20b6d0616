//! The ring buffer the kernel programs write to.

use std::io;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use probe_common::header::LOOK_AGAIN_NS;
use tokio::io::{Interest, unix::AsyncFd};
use tokio::time::sleep;

const LOOK_AGAIN: Duration = Duration::from_nanos(LOOK_AGAIN_NS);
/// As many records may fill a small ring before the reader would look again.
const MANY: usize = 128;

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

    /// Waits until it is time to look for records again, after `taken` were there. The kernel programs do not wake the reader
    /// for every record: as long as there are some, it looks by itself.
    pub async fn more(&mut self, taken: usize) -> io::Result<()> {
        match taken {
            0 => self.records.readable_mut().await?.clear_ready(),
            1..MANY => sleep(LOOK_AGAIN).await,
            _ => {}
        }
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
