//! Zstandard: frames one after the other, skippable ones among them (KIP-110, magic 2 only).
//!
//! A whole frame is decoded in one call straight into the caller's memory. Producers stream, so frames rarely say their
//! size; the number of blocks bounds it (a block holds at most 128 KiB).

mod write;

pub(super) use write::ZstdWriter;

use std::fmt;
use std::io::Cursor;

use zstd_safe::{DCtx, find_frame_compressed_size, get_error_name, get_frame_content_size};

use super::{Sink, bytes};
use crate::error::{Error, Result};

/// Block_Maximum_Size of the format.
const MAX_BLOCK: usize = 128 << 10;
const MAGIC_LEN: usize = 4;
const BLOCK_HEADER_LEN: usize = 3;
/// About what a context takes.
const CONTEXT: usize = 160 << 10;
// The library names its errors only in words.
const TOO_SMALL: &str = "Destination buffer is too small";
const NO_MEMORY: &str = "Allocation error : not enough memory";

/// The context, kept between calls.
#[derive(Default)]
pub(super) struct Zstd(Option<DCtx<'static>>);

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zstd").field(&self.0.is_some()).finish()
    }
}

impl Zstd {
    pub(super) fn decompress(&mut self, src: &[u8], sink: &mut Sink<'_>) -> Result<()> {
        let mut at = 0usize;
        while let Some(rest) = src.get(at..).filter(|rest| !rest.is_empty()) {
            let size = find_frame_compressed_size(rest)
                .map_err(|code| broken(at, get_error_name(code)))?;
            let frame = rest
                .get(..size)
                .ok_or_else(|| broken(at, "a frame without end"))?;
            self.frame(frame, at, sink)?;
            at = at.saturating_add(size);
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8], at: usize, sink: &mut Sink<'_>) -> Result<()> {
        let context = match &mut self.0 {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(Error::no_memory(CONTEXT))?),
        };
        let most = match get_frame_content_size(frame) {
            Ok(Some(size)) => usize::try_from(size).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let mut room = bound(frame).min(most).min(sink.room());
        loop {
            sink.reserve(room)?;
            let end = sink.out.len();
            let mut target = Cursor::new(&mut *sink.out);
            target.set_position(end as u64);
            match context.decompress(&mut target, frame) {
                Ok(_) if sink.written() > sink.limit => return Err(sink.too_large(at)),
                Ok(_) => return Ok(()),
                Err(code) => {
                    sink.out.truncate(end);
                    let name = get_error_name(code);
                    if name == NO_MEMORY {
                        return Err(Error::no_memory(CONTEXT));
                    }
                    if name != TOO_SMALL {
                        return Err(broken(at, name));
                    }
                    if room >= sink.room() {
                        return Err(sink.too_large(at));
                    }
                    room = room.saturating_mul(2).max(MAX_BLOCK).min(sink.room());
                }
            }
        }
    }
}

#[cold]
fn broken(at: usize, found: &str) -> Error {
    Error::corrupt("zstd stream", at as u64, "a valid zstd frame", found)
}

/// At most so much comes out of a frame, by its block headers (RFC 8878 section 3.1.1). A hint: a wrong one costs time.
fn bound(frame: &[u8]) -> usize {
    let Some(descriptor) = frame.get(MAGIC_LEN).copied() else {
        return 0;
    };
    let single_segment = descriptor & 0x20 != 0;
    let dictionary = [0usize, 1, 2, 4].get(usize::from(descriptor & 3)).copied();
    let content = match descriptor >> 6 {
        0 => usize::from(single_segment),
        shift => 1usize << shift,
    };
    let mut at = MAGIC_LEN
        .saturating_add(1)
        .saturating_add(usize::from(!single_segment))
        .saturating_add(dictionary.unwrap_or(0))
        .saturating_add(content);
    let mut total = 0usize;
    while let Some(&[a, b, c]) = bytes::<BLOCK_HEADER_LEN>(frame, at) {
        let header = u32::from_be_bytes([0, c, b, a]);
        let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
        let (output, stored) = match (header >> 1) & 3 {
            0 => (size, size),
            1 => (size, 1),
            _ => (MAX_BLOCK, size),
        };
        total = total.saturating_add(output.min(MAX_BLOCK));
        at = at.saturating_add(BLOCK_HEADER_LEN).saturating_add(stored);
        if header & 1 != 0 {
            break;
        }
    }
    total
}
