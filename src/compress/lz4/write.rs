//! One frame of independent 64 KB blocks without checksums, as Kafka's `Lz4BlockOutputStream` writes it.

use std::fmt;

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::STORED;
use crate::compress::codec::LZ4_DEFAULT;
use crate::compress::compressor::{LibraryRefused, grow};

/// Magic, version 01 and independent blocks, 64 KB, and the second byte of their xxHash32.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const BLOCK: usize = 64 << 10;
const END_MARK: [u8; 4] = [0; 4];

/// The fast compressor's table, kept between calls.
#[derive(Default)]
pub(in crate::compress) struct Lz4Writer(CompressTable);

impl fmt::Debug for Lz4Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lz4Writer")
    }
}

impl Lz4Writer {
    #[expect(clippy::little_endian_bytes, reason = "LZ4 frames are little-endian")]
    pub(in crate::compress) fn compress(
        &mut self,
        level: i32,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), LibraryRefused> {
        out.extend_from_slice(&HEADER);
        for chunk in src.chunks(BLOCK) {
            let at = out.len();
            let bound = bound(level, chunk.len())?;
            let room = grow(out, bound.saturating_add(4))?;
            let (length, block) = room.split_at_mut_checked(4).unwrap_or_default();
            let written = self.block(level, chunk, block)?;
            // Stored where compressing gains nothing.
            let (written, flag) = match block.get_mut(..chunk.len()) {
                Some(stored) if written >= chunk.len() => {
                    stored.copy_from_slice(chunk);
                    (chunk.len(), STORED)
                }
                _ => (written, 0),
            };
            let stated = u32::try_from(written).map_err(|error| error.to_string())? | flag;
            length.copy_from_slice(&stated.to_le_bytes());
            out.truncate(at.saturating_add(4).saturating_add(written));
        }
        out.extend_from_slice(&END_MARK);
        Ok(())
    }

    fn block(&mut self, level: i32, chunk: &[u8], to: &mut [u8]) -> Result<usize, LibraryRefused> {
        if level == LZ4_DEFAULT {
            compress_into_with_table(chunk, to, &mut self.0)
                .map_err(|error| error.to_string().into())
        } else {
            let mode = CompressionMode::HIGHCOMPRESSION(level);
            compress_to_buffer(chunk, Some(mode), false, to)
                .map_err(|error| error.to_string().into())
        }
    }
}

/// The most a chunk of this length may take; never less than the chunk itself.
fn bound(level: i32, len: usize) -> Result<usize, LibraryRefused> {
    if level == LZ4_DEFAULT {
        Ok(get_maximum_output_size(len))
    } else {
        compress_bound(len).map_err(|error| error.to_string().into())
    }
}
