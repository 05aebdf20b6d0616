//! Reading records from bytes: length check, any alignment, no `unsafe`.

use zerocopy::FromBytes;

/// The record at the start of `bytes`; `None` if there are too few. Bytes behind it are ignored.
#[must_use]
pub fn read_pod<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_prefix(bytes).ok().map(|(value, _)| value)
}
