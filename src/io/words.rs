//! Unaligned reads and copies that cost one comparison each: the only unchecked access to bytes in the crate.
//!
//! Both types are safe to use with any position: what does not fit is `None`. They hold the bytes' bounds so that the
//! check is a single one, which the record loops need and a slice of a slice does not give.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: reads behind a check of their own"
)]

/// Bytes that are read in words.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    /// Positions below this have eight bytes.
    ends8: usize,
    /// Positions below this have sixteen bytes.
    ends16: usize,
}

impl<'a> Words<'a> {
    /// Over these bytes.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            ends8: bytes.len().saturating_sub(7),
            ends16: bytes.len().saturating_sub(15),
        }
    }

    /// The eight bytes from `at`, the first one lowest.
    #[inline]
    #[must_use]
    #[expect(
        clippy::little_endian_bytes,
        reason = "the first byte is to be the lowest on every machine"
    )]
    pub const fn eight(self, at: usize) -> Option<u64> {
        if at >= self.ends8 {
            return None;
        }
        // SAFETY: `at` is below len - 7, so eight bytes from it are inside the slice; a byte array needs no alignment.
        let word = unsafe { *self.bytes.as_ptr().wrapping_add(at).cast::<[u8; 8]>() };
        Some(u64::from_le_bytes(word))
    }

    /// The sixteen bytes from `at`, in two words, the first byte lowest.
    #[inline]
    #[must_use]
    #[expect(
        clippy::little_endian_bytes,
        reason = "the first byte is to be the lowest on every machine"
    )]
    pub const fn sixteen(self, at: usize) -> Option<(u64, u64)> {
        if at >= self.ends16 {
            return None;
        }
        // SAFETY: `at` is below len - 15, so sixteen bytes from it are inside the slice; byte arrays need no alignment.
        let [first, second] =
            unsafe { *self.bytes.as_ptr().wrapping_add(at).cast::<[[u8; 8]; 2]>() };
        Some((u64::from_le_bytes(first), u64::from_le_bytes(second)))
    }

    /// The byte at `at`.
    #[inline]
    #[must_use]
    pub const fn byte(self, at: usize) -> Option<u8> {
        if at >= self.bytes.len() {
            return None;
        }
        // SAFETY: `at` is below the slice's length.
        Some(unsafe { *self.bytes.as_ptr().wrapping_add(at) })
    }

    /// All of them.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// Asks for these bytes to be brought near, a cache line at a time. A hint that can do no harm; nothing where the
/// processor has none.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is inside the slice, and a prefetch reads nothing that could fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
