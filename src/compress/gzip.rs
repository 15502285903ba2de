//! gzip: RFC 1952 members one after the other, read as `java.util.zip.GZIPInputStream` reads them.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 2 | `1f 8b` | |
//! | 1 | method | 8 |
//! | 1 | flags | 0x02 header checksum, 0x04 extra, 0x08 name, 0x10 comment |
//! | 6 | time, extra flags, system | ignored |
//! | .. | extra (u16 length first), name, comment (zero-ended), header checksum (u16) | as flagged |
//! | .. | raw deflate | |
//! | 8 | CRC-32 and length of the output, little-endian | both checked |
//!
//! Bytes after a member that do not begin another one are ignored, as Java ignores them.
//!
//! A producer writes one member, which is inflated in one call (`whole`) if its trailer's length and checksum are
//! right. Everything else is left to the streaming inflater, whose result and errors count.

mod whole;
mod write;

pub(super) use write::GzipWriter;

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use self::whole::Inflater;
use super::{Sink, bytes};
use crate::error::{Error, Result};

const FIXED_HEADER_LEN: usize = 10;
const TRAILER_LEN: usize = 8;
const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
/// Deflate's best: 258 bytes for two bits, rounded up.
const MAX_RATIO: usize = 1032;
const FIRST_GUESS: usize = 4 << 10;

/// The inflaters, kept between calls.
#[derive(Default)]
pub(super) struct Gzip {
    whole: Option<Inflater>,
    streaming: Option<Decompress>,
}

impl fmt::Debug for Gzip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gzip")
            .field("whole", &self.whole)
            .field("streaming", &self.streaming.is_some())
            .finish()
    }
}

impl Gzip {
    pub(super) fn decompress(&mut self, src: &[u8], sink: &mut Sink<'_>) -> Result<()> {
        let mut at = read_header(src, 0)?;
        if self.only_member(src, at, sink)? {
            return Ok(());
        }
        loop {
            at = self.member(src, at, sink)?;
            match read_header(src, at) {
                Ok(next) => at = next,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Inflates a member that takes up all of the bytes, as its trailer bears out; else leaves the sink as it was.
    fn only_member(&mut self, src: &[u8], start: usize, sink: &mut Sink<'_>) -> Result<bool> {
        let rest = src.get(start..).unwrap_or_default();
        let Some((deflated, _)) = rest.split_last_chunk::<TRAILER_LEN>() else {
            return Ok(false);
        };
        // What may be a lie is never more than the bytes can hold.
        let len = declared(src);
        if len > deflated.len().saturating_mul(MAX_RATIO).min(sink.room()) {
            return Ok(false);
        }
        let inflater = match &mut self.whole {
            Some(inflater) => inflater,
            none => none.insert(Inflater::try_new()?),
        };
        if !inflater.append(deflated, len, sink.out)? {
            return Ok(false);
        }
        let trailer = start.saturating_add(deflated.len());
        let is_right = check_trailer(src, trailer, sink.since(0)).is_ok();
        if !is_right {
            sink.rewind();
        }
        Ok(is_right)
    }

    /// One member's deflate stream and trailer; returns where the next may begin.
    fn member(&mut self, src: &[u8], start: usize, sink: &mut Sink<'_>) -> Result<usize> {
        let inflater = self.streaming.get_or_insert_with(|| Decompress::new(false));
        inflater.reset(false);
        let begun = sink.written();
        let mut wanted = guess(src, start, sink);
        let at = loop {
            let at =
                start.saturating_add(usize::try_from(inflater.total_in()).unwrap_or(usize::MAX));
            sink.reserve(wanted)?;
            let (input, before) = (src.get(at..).unwrap_or_default(), sink.out.len());
            let status = inflater
                .decompress_vec(input, sink.out, FlushDecompress::None)
                .map_err(|error| {
                    Error::corrupt("gzip stream", at as u64, "valid deflate data", error)
                })?;
            let at =
                start.saturating_add(usize::try_from(inflater.total_in()).unwrap_or(usize::MAX));
            if sink.written() > sink.limit {
                return Err(sink.too_large(at));
            }
            if matches!(status, Status::StreamEnd) {
                break at;
            }
            if sink.out.len() < sink.out.capacity() && (at >= src.len() || sink.out.len() == before)
            {
                return Err(Error::corrupt(
                    "gzip stream",
                    at as u64,
                    "the end of the deflate data",
                    "the end of the bytes",
                ));
            }
            wanted = sink
                .written()
                .clamp(FIRST_GUESS, sink.room().saturating_add(1).max(FIRST_GUESS));
        };
        check_trailer(src, at, sink.since(begun))
    }
}

/// Output of the last member, as the last four bytes of all say.
#[expect(clippy::little_endian_bytes, reason = "gzip is little-endian")]
fn declared(src: &[u8]) -> usize {
    let declared = src.last_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    usize::try_from(declared).unwrap_or(usize::MAX)
}

/// Output of the member at `start`: what the last four bytes of all say, as far as deflate could do that.
fn guess(src: &[u8], start: usize, sink: &Sink<'_>) -> usize {
    let possible = src.len().saturating_sub(start).saturating_mul(MAX_RATIO);
    declared(src)
        .min(possible)
        .min(sink.room())
        .saturating_add(1)
        .max(64)
}

/// Checks the header at `start`; returns where the deflate data begins.
#[expect(clippy::little_endian_bytes, reason = "gzip is little-endian")]
fn read_header(src: &[u8], start: usize) -> Result<usize> {
    let cut = || {
        Error::corrupt(
            "gzip header",
            start as u64,
            "a whole header",
            format_args!("{} bytes", src.len().saturating_sub(start)),
        )
    };
    let header = src.get(start..).unwrap_or_default();
    let fixed = header.first_chunk::<FIXED_HEADER_LEN>().ok_or_else(cut)?;
    let &[a, b, method, flags, ..] = fixed;
    if [a, b] != [0x1f, 0x8b] {
        return Err(Error::corrupt(
            "gzip magic",
            start as u64,
            "1f 8b",
            format_args!("{a:02x} {b:02x}"),
        ));
    }
    if method != 8 {
        return Err(Error::corrupt(
            "gzip method",
            start.saturating_add(2) as u64,
            8,
            method,
        ));
    }
    let mut at = FIXED_HEADER_LEN;
    if flags & FLAG_EXTRA != 0 {
        let length = header
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(cut)?;
        at = at
            .saturating_add(2)
            .saturating_add(usize::from(u16::from_le_bytes(*length)));
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let text = header.get(at..).unwrap_or_default();
            let zero = text.iter().position(|&byte| byte == 0).ok_or_else(cut)?;
            at = at.saturating_add(zero).saturating_add(1);
        }
    }
    let hashed = header.get(..at).ok_or_else(cut)?;
    if flags & FLAG_HEADER_CRC != 0 {
        let stored = header
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(cut)?;
        let (stored, computed) = (
            u32::from(u16::from_le_bytes(*stored)),
            crc32fast::hash(hashed) & 0xffff,
        );
        if stored != computed {
            return Err(Error::corrupt(
                "gzip header checksum",
                start.saturating_add(at) as u64,
                format_args!("{stored:#06x} as stored"),
                format_args!("{computed:#06x} over the header"),
            ));
        }
        at = at.saturating_add(2);
    }
    Ok(start.saturating_add(at))
}

#[expect(clippy::little_endian_bytes, reason = "gzip is little-endian")]
fn check_trailer(src: &[u8], at: usize, output: &[u8]) -> Result<usize> {
    let (Some(crc), Some(length)) = (bytes(src, at), bytes(src, at.saturating_add(4))) else {
        return Err(Error::corrupt(
            "gzip trailer",
            at as u64,
            format_args!("{TRAILER_LEN} bytes"),
            src.len().saturating_sub(at),
        ));
    };
    let (stored, computed) = (u32::from_le_bytes(*crc), crc32fast::hash(output));
    if stored != computed {
        return Err(Error::corrupt(
            "gzip checksum (CRC-32)",
            at as u64,
            format_args!("{stored:#010x} as stored"),
            format_args!("{computed:#010x} over the output"),
        ));
    }
    let length = u32::from_le_bytes(*length);
    if usize::try_from(length) != Ok(output.len()) {
        return Err(Error::corrupt(
            "gzip output length",
            at.saturating_add(4) as u64,
            format_args!("{length} as stored"),
            output.len(),
        ));
    }
    Ok(at.saturating_add(TRAILER_LEN))
}
