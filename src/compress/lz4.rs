//! LZ4: one frame of independent blocks, walked here because old producers hashed its header wrongly (KIP-57,
//! `Lz4BlockInputStream`) and because blocks decode straight into the caller's memory so.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 4 | `04 22 4d 18` | |
//! | 1 | FLG | bits 7-6 version 01, 5 independent, 4 block checksum, 3 content size, 2 content checksum, 1-0 zero |
//! | 1 | BD | bits 6-4: 4 to 7 for 64 KiB to 4 MiB; others zero |
//! | 8 | content size | if flagged; skipped |
//! | 1 | HC | second byte of xxHash32 over FLG to content size; not examined for magic 0 |
//! | repeated | u32 length (top bit: stored), block, xxHash32 if flagged | |
//! | 4 | 0 | end; what follows is ignored, the content checksum too |

mod block;
mod write;

pub(super) use write::Lz4Writer;

use lz4_flex::block::{DecompressError, decompress_into};

use super::{Sink, bytes};
use crate::error::{Error, Result};

const MAGIC: u32 = 0x184d_2204;
const VERSION: u8 = 0x40;
const VERSION_MASK: u8 = 0xc0;
const BLOCK_INDEPENDENCE: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const FLG_RESERVED: u8 = 0x03;
const BD_RESERVED: u8 = 0x8f;
const STORED: u32 = 0x8000_0000;
/// A match length byte of 255 yields 255 bytes, and nothing in the format expands more.
const MAX_RATIO: usize = 255;

/// Size of the last blocks when decoded, so that the buffer for the next one is about large enough.
#[derive(Debug)]
pub(super) struct Lz4 {
    /// Output for 16 bytes of input.
    ratio: usize,
}

impl Default for Lz4 {
    fn default() -> Self {
        Self { ratio: 48 }
    }
}

#[expect(clippy::little_endian_bytes, reason = "LZ4 frames are little-endian")]
fn get_u32_le(src: &[u8], at: usize) -> Option<u32> {
    bytes(src, at).map(|b| u32::from_le_bytes(*b))
}

#[cold]
fn cut(what: &'static str, at: usize, src: &[u8]) -> Error {
    Error::corrupt(
        what,
        at as u64,
        "more bytes",
        format_args!("the end at {}", src.len()),
    )
}

struct FrameHeader {
    flags: u8,
    max_block: usize,
    blocks_at: usize,
}

impl FrameHeader {
    fn parse(magic: u8, src: &[u8]) -> Result<Self> {
        match get_u32_le(src, 0) {
            Some(MAGIC) => {}
            Some(found) => {
                return Err(Error::corrupt(
                    "lz4 magic",
                    0,
                    format_args!("{MAGIC:#010x}"),
                    format_args!("{found:#010x}"),
                ));
            }
            None => return Err(cut("lz4 header", 0, src)),
        }
        let flags = src
            .get(4)
            .copied()
            .ok_or_else(|| cut("lz4 header", 4, src))?;
        let descriptor = src
            .get(5)
            .copied()
            .ok_or_else(|| cut("lz4 header", 5, src))?;
        if flags & (VERSION_MASK | FLG_RESERVED | BLOCK_INDEPENDENCE)
            != VERSION | BLOCK_INDEPENDENCE
        {
            return Err(Error::corrupt(
                "lz4 frame flags",
                4,
                "version 01, independent blocks, reserved bits zero",
                format_args!("{flags:#04x}"),
            ));
        }
        let code = descriptor >> 4;
        if descriptor & BD_RESERVED != 0 || !(4..=7).contains(&code) {
            return Err(Error::corrupt(
                "lz4 block size code",
                5,
                "0x40, 0x50, 0x60 or 0x70",
                format_args!("{descriptor:#04x}"),
            ));
        }
        let hash_at = if flags & CONTENT_SIZE != 0 { 14 } else { 6 };
        let stored = src
            .get(hash_at)
            .copied()
            .ok_or_else(|| cut("lz4 header", hash_at, src))?;
        let hashed = src.get(4..hash_at).unwrap_or_default();
        let computed = xxh32(hashed).to_be_bytes()[2];
        if magic > 0 && stored != computed {
            return Err(Error::corrupt(
                "lz4 header checksum",
                hash_at as u64,
                format_args!("{stored:#04x} as stored"),
                format_args!("{computed:#04x} over the header"),
            ));
        }
        Ok(Self {
            flags,
            max_block: 1usize << code.saturating_mul(2).saturating_add(8),
            blocks_at: hash_at.saturating_add(1),
        })
    }
}

impl Lz4 {
    pub(super) fn decompress(&mut self, magic: u8, src: &[u8], sink: &mut Sink<'_>) -> Result<()> {
        let frame = FrameHeader::parse(magic, src)?;
        let mut at = frame.blocks_at;
        loop {
            let word = get_u32_le(src, at).ok_or_else(|| cut("lz4 block length", at, src))?;
            let length = usize::try_from(word & !STORED).unwrap_or(usize::MAX);
            let begin = at.saturating_add(4);
            if length == 0 {
                // Kafka takes the content checksum off the bytes without comparing it.
                return if frame.flags & CONTENT_CHECKSUM != 0 && bytes::<4>(src, begin).is_none() {
                    Err(cut("lz4 content checksum", begin, src))
                } else {
                    Ok(())
                };
            }
            if length > frame.max_block {
                return Err(Error::corrupt(
                    "lz4 block length",
                    at as u64,
                    format_args!("at most {} as the frame says", frame.max_block),
                    format_args!("{length}, which exceeded max"),
                ));
            }
            let end = begin.saturating_add(length);
            let block = src
                .get(begin..end)
                .ok_or_else(|| cut("lz4 block", begin, src))?;
            if word & STORED == 0 {
                self.block(block, begin, frame.max_block, sink)?;
            } else {
                sink.extend(block, begin)?;
            }
            at = end;
            if frame.flags & BLOCK_CHECKSUM != 0 {
                let stored =
                    get_u32_le(src, at).ok_or_else(|| cut("lz4 block checksum", at, src))?;
                let computed = xxh32(block);
                if stored != computed {
                    return Err(Error::corrupt(
                        "lz4 block checksum",
                        at as u64,
                        format_args!("{stored:#010x} as stored"),
                        format_args!("{computed:#010x} over the block"),
                    ));
                }
                at = at.saturating_add(4);
            }
        }
    }

    /// Decodes one compressed block after what the buffer holds.
    ///
    /// liblz4 decodes, as for Kafka, and says only that it cannot: lz4_flex then says whether there was too little
    /// room.
    fn block(
        &mut self,
        block: &[u8],
        at: usize,
        max_block: usize,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let most = block.len().saturating_mul(MAX_RATIO).min(max_block);
        let allowed = most.min(sink.room());
        let guess = block.len().saturating_mul(self.ratio) / 16;
        let mut size = guess.saturating_add(64).min(allowed);
        loop {
            if let Some(written) = block::append(block, size, sink.out)? {
                let seen = written
                    .saturating_mul(18)
                    .checked_div(block.len())
                    .unwrap_or(0);
                self.ratio = seen
                    .saturating_add(1)
                    .max(self.ratio.saturating_sub(self.ratio / 16));
                return Ok(());
            }
            let refused = why_not(block, sink.grow(size)?);
            sink.shrink(size);
            match refused {
                BlockRefused::Room if size < allowed => {
                    size = size.saturating_mul(4).clamp(1 << 10, 1 << 22).min(allowed);
                }
                BlockRefused::Room if allowed < most => return Err(sink.too_large(at)),
                refused => {
                    let found = match refused {
                        BlockRefused::Room => "data for more".to_owned(),
                        BlockRefused::Data(error) => error,
                    };
                    return Err(Error::corrupt(
                        "lz4 block",
                        at as u64,
                        format_args!("lz4 data for at most {max_block} bytes"),
                        found,
                    ));
                }
            }
        }
    }
}

/// Reason why a block was not decoded.
enum BlockRefused {
    /// It holds more than the output takes.
    Room,
    /// It is not LZ4.
    Data(String),
}

/// Finds out why liblz4 did not decode a block into as much memory as `output` has.
#[cold]
fn why_not(block: &[u8], output: &mut [u8]) -> BlockRefused {
    match decompress_into(block, output) {
        Err(DecompressError::OutputTooSmall { .. }) => BlockRefused::Room,
        Err(error) => BlockRefused::Data(error.to_string()),
        Ok(_) => BlockRefused::Data("a block that ends as no LZ4 block may".to_owned()),
    }
}

const PRIME: [u32; 5] = [
    0x9e37_79b1,
    0x85eb_ca77,
    0xc2b2_ae3d,
    0x27d4_eb2f,
    0x1656_67b1,
];

/// xxHash32 with seed 0.
#[expect(
    clippy::little_endian_bytes,
    reason = "xxHash reads little-endian words"
)]
fn xxh32(data: &[u8]) -> u32 {
    let [p1, p2, p3, p4, p5] = PRIME;
    let round = |lane: u32, word: u32| {
        lane.wrapping_add(word.wrapping_mul(p2))
            .rotate_left(13)
            .wrapping_mul(p1)
    };
    let (stripes, rest) = data.as_chunks::<16>();
    let mut hash = if stripes.is_empty() {
        p5
    } else {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0u32.wrapping_sub(p1)];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<4>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = round(*lane, u32::from_le_bytes(*word));
            }
        }
        let [a, b, c, d] = lanes;
        a.rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18))
    };
    // The length counts modulo 2^32.
    hash = hash.wrapping_add(u32::try_from(data.len() & 0xffff_ffff).unwrap_or(u32::MAX));
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        hash = hash
            .wrapping_add(u32::from_le_bytes(*word).wrapping_mul(p3))
            .rotate_left(17)
            .wrapping_mul(p4);
    }
    for &byte in rest {
        hash = hash
            .wrapping_add(u32::from(byte).wrapping_mul(p5))
            .rotate_left(11)
            .wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(p3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::xxh32;

    /// The reference implementation's own vectors, and the header bytes of Kafka's frames.
    #[test]
    fn xxhash_vectors() {
        assert_eq!(xxh32(b""), 0x02cc_5d05);
        assert_eq!(xxh32(b"a"), 0x550d_7456);
        assert_eq!(xxh32(b"abc"), 0x32d1_53ff);
        assert_eq!(
            xxh32(b"Nobody inspects the spammish repetition"),
            0xe229_3b2f
        );
        assert_eq!(xxh32(&[0x60, 0x40]).to_be_bytes()[2], 0x82);
        assert_eq!(
            xxh32(&[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40]).to_be_bytes()[2],
            0x1a
        );
    }
}
