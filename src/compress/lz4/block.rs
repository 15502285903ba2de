//! One block decoded by liblz4 into spare capacity: zeroing the memory first takes 7 % of a scan.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: liblz4 is C, and its safe wrapper takes only initialised memory"
)]

use lz4::liblz4::LZ4_decompress_safe;

use crate::error::{Error, Result};

/// Appends what `block` holds, and returns how many bytes that is; `None` where it is no LZ4 block, or holds more than `room`
/// bytes, with `out` as it was.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn append(block: &[u8], room: usize, out: &mut Vec<u8>) -> Result<Option<usize>> {
    let (Ok(len), Ok(most)) = (i32::try_from(block.len()), i32::try_from(room)) else {
        return Ok(None);
    };
    out.try_reserve(room).map_err(|_| Error::no_memory(room))?;
    let begun = out.len();
    let spare = out.spare_capacity_mut();
    debug_assert!(spare.len() >= room, "it was reserved");
    // SAFETY: `block` is readable for its `len` bytes, and `most` bytes of spare capacity, reserved above, are writable. The
    // library neither reads nor writes beyond, whatever the block says.
    let written =
        unsafe { LZ4_decompress_safe(block.as_ptr().cast(), spare.as_mut_ptr().cast(), len, most) };
    let Some(written) = usize::try_from(written)
        .ok()
        .filter(|&written| written <= room)
    else {
        return Ok(None);
    };
    // SAFETY: the library wrote that many bytes, within what was reserved.
    unsafe { out.set_len(begun.saturating_add(written)) };
    Ok(Some(written))
}
