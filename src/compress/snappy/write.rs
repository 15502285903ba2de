//! The xerial stream, as `org.xerial.snappy.SnappyOutputStream` writes it: blocks of 32 KB.

use std::fmt;

use snap::raw::{Encoder, max_compress_len};

use super::MAGIC;
use crate::compress::compressor::{LibraryRefused, grow};

/// `SnappyOutputStream.DEFAULT_BLOCK_SIZE`
const BLOCK: usize = 32 << 10;
/// Version and minimum compatible version.
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// The encoder with its table, kept between calls.
#[derive(Default)]
pub(in crate::compress) struct SnappyWriter(Option<Encoder>);

impl fmt::Debug for SnappyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnappyWriter")
    }
}

impl SnappyWriter {
    pub(in crate::compress) fn compress(
        &mut self,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), LibraryRefused> {
        let encoder = self.0.get_or_insert_with(Encoder::new);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSIONS);
        for chunk in src.chunks(BLOCK) {
            let at = out.len();
            let room = grow(out, max_compress_len(chunk.len()).saturating_add(4))?;
            let (length, block) = room.split_at_mut_checked(4).unwrap_or_default();
            let written = encoder
                .compress(chunk, block)
                .map_err(|error| error.to_string())?;
            let stated = i32::try_from(written).map_err(|error| error.to_string())?;
            length.copy_from_slice(&stated.to_be_bytes());
            out.truncate(at.saturating_add(4).saturating_add(written));
        }
        Ok(())
    }
}
