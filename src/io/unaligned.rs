//! Unaligned reads and copies that cost one comparison each: the only unchecked access to bytes in the crate.
//!
//! Safe for any position: a read that does not fit is `None`. The check is a single comparison, which the record loops
//! need and a slice of a slice does not give.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: reads after a check of their own"
)]

/// Bytes that are read in pieces of a fixed size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unaligned<'a>(&'a [u8]);

impl<'a> Unaligned<'a> {
    /// Over these bytes.
    #[inline]
    #[must_use]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Prefetches the byte at `at`, and its neighbours, before it is read; nothing where there is none.
    #[inline]
    pub(crate) fn fetch(self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(byte) = self.0.get(at) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 has the instruction, the byte is there, and the program sees nothing of it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    /// The eight bytes from `at`, the first one lowest.
    #[inline]
    #[must_use]
    #[expect(
        clippy::little_endian_bytes,
        reason = "the first byte must be the lowest on every machine"
    )]
    pub(crate) const fn eight(self, at: usize) -> Option<u64> {
        match self.window(at) {
            Some(word) => Some(u64::from_le_bytes(*word)),
            None => None,
        }
    }

    /// The `N` bytes from `at`.
    #[inline]
    #[must_use]
    pub(crate) const fn window<const N: usize>(self, at: usize) -> Option<&'a [u8; N]> {
        if at >= self.0.len().saturating_sub(N.saturating_sub(1)) {
            return None;
        }
        // SAFETY: `at` is below len - (N - 1), so `N` bytes from it are inside the slice; a byte array needs no
        // alignment.
        Some(unsafe { &*self.0.as_ptr().wrapping_add(at).cast::<[u8; N]>() })
    }

    /// The byte at `at`.
    #[inline]
    #[must_use]
    pub(crate) const fn byte(self, at: usize) -> Option<u8> {
        if at >= self.0.len() {
            return None;
        }
        // SAFETY: `at` is below the slice's length.
        Some(unsafe { *self.0.as_ptr().wrapping_add(at) })
    }

    /// All of them.
    #[inline]
    #[must_use]
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Asks for these bytes to be brought near, a cache line at a time. A hint that can do no harm; nothing where the
/// processor has none.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is inside the slice, and a prefetch reads nothing that could fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
