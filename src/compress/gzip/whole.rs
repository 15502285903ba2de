//! A deflate stream whose output has a known length, inflated in one call by libdeflate: 1.25 to 1.75 times as fast as
//! zlib-rs as a stream.
//!
//! libdeflate takes streams that zlib, and so Java, refuses: codes for lengths and distances that deflate does not use, a
//! code of one word where zlib wants a complete one. No compressor writes those, and the checksum of the output decides
//! about them too.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: libdeflate is C, and its safe wrapper does not tell where the \
              stream ended"
)]

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_deflate_decompress_ex,
    libdeflate_free_decompressor, libdeflate_result_LIBDEFLATE_SUCCESS,
};

use crate::error::{Error, Result};

/// About what a decompressor takes.
const CONTEXT: usize = 12 << 10;

/// libdeflate's tables, kept between calls.
pub(super) struct Inflater(NonNull<libdeflate_decompressor>);

// SAFETY: the memory belongs to this value alone, and the library binds it to no thread.
unsafe impl Send for Inflater {}

// SAFETY: a shared reference gives no access to what the pointer leads to.
unsafe impl Sync for Inflater {}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: it was allocated by the library and is freed once.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

impl Inflater {
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn try_new() -> Result<Self> {
        // SAFETY: it has no requirements.
        let made = unsafe { libdeflate_alloc_decompressor() };
        let made = NonNull::new(made).map(Self);
        made.ok_or_else(|| Error::no_memory(CONTEXT))
    }

    /// Appends `len` bytes to `out`, if `src` is one deflate stream of that output, to its last byte; else leaves `out` as
    /// it was and gives false.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn append(&mut self, src: &[u8], len: usize, out: &mut Vec<u8>) -> Result<bool> {
        out.try_reserve(len).map_err(|_| Error::no_memory(len))?;
        let begun = out.len();
        let (mut consumed, mut written) = (0, 0);
        let spare = out.spare_capacity_mut();
        debug_assert!(spare.len() >= len, "it was reserved");
        // SAFETY: the decompressor is this one's alone while it is borrowed; `src` is readable as far as it is long, and
        // `len` bytes of spare capacity, reserved above, are writable. The library neither reads nor writes beyond.
        let result = unsafe {
            libdeflate_deflate_decompress_ex(
                self.0.as_ptr(),
                src.as_ptr().cast::<c_void>(),
                src.len(),
                spare.as_mut_ptr().cast::<c_void>(),
                len,
                &raw mut consumed,
                &raw mut written,
            )
        };
        let is_whole = result == libdeflate_result_LIBDEFLATE_SUCCESS
            && (consumed, written) == (src.len(), len);
        if is_whole {
            // SAFETY: the library wrote all `len` bytes.
            unsafe { out.set_len(begun.saturating_add(len)) };
        }
        Ok(is_whole)
    }
}
