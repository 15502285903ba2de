//! Snappy: the Java "xerial" stream (`org.xerial.snappy.SnappyInputStream`), or one raw block from other clients.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | `82 53 4e 41 50 50 59 00` | |
//! | 4, 4 | version, minimum compatible version | 1, 1; Java looks at neither |
//! | repeated | i32 length, one raw snappy block | |
//!
//! A header may be repeated between chunks if streams were concatenated. Fewer than 4 remaining bytes are the end.

mod write;

pub(super) use write::SnappyWriter;

use snap::raw::{Decoder, decompress_len};

use super::{Sink, bytes};
use crate::error::{Error, Result};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_LEN: usize = MAGIC.len() + 8;
/// `SnappyOutputStream.MAX_BLOCK_SIZE`
const MAX_CHUNK: usize = 512 << 20;
/// A copy of 64 bytes takes 3, and nothing in the format expands more.
const MAX_RATIO: usize = 22;

pub(super) fn decompress(src: &[u8], sink: &mut Sink<'_>) -> Result<()> {
    if src.is_empty() {
        return Err(Error::corrupt("snappy stream", 0, "a block", "no bytes"));
    }
    if src.len() < HEADER_LEN || !src.starts_with(&MAGIC) {
        return raw_block(src, 0, sink);
    }
    let mut at = HEADER_LEN;
    while let Some(length) = bytes(src, at).map(|b| i32::from_be_bytes(*b)) {
        let begin = at.saturating_add(4);
        if bytes::<4>(src, at) == MAGIC.first_chunk() {
            // Its first four bytes alone decide, as in Java.
            if src.len().saturating_sub(at) < HEADER_LEN {
                return Ok(());
            }
            at = at.saturating_add(HEADER_LEN);
            continue;
        }
        let length = match usize::try_from(length) {
            Ok(length) if length <= MAX_CHUNK => length,
            _ => {
                return Err(Error::corrupt(
                    "snappy chunk length",
                    at as u64,
                    format_args!("0 to {MAX_CHUNK}"),
                    length,
                ));
            }
        };
        let end = begin.saturating_add(length);
        let Some(block) = src.get(begin..end) else {
            return Err(Error::corrupt(
                "snappy chunk",
                begin as u64,
                format_args!("{length} bytes"),
                src.len().saturating_sub(begin),
            ));
        };
        raw_block(block, begin, sink)?;
        at = end;
    }
    Ok(())
}

fn raw_block(block: &[u8], at: usize, sink: &mut Sink<'_>) -> Result<()> {
    let broken = |found: &dyn std::fmt::Display| {
        Error::corrupt("snappy block", at as u64, "valid snappy data", found)
    };
    if block.is_empty() {
        return Err(broken(&"no bytes"));
    }
    let declared = decompress_len(block).map_err(|error| broken(&error))?;
    if declared > block.len().saturating_mul(MAX_RATIO) {
        return Err(Error::corrupt(
            "snappy block length",
            at as u64,
            format_args!("what {} bytes can hold", block.len()),
            declared,
        ));
    }
    if declared > sink.room() {
        return Err(sink.too_large(at));
    }
    let output = sink.grow(declared)?;
    Decoder::new()
        .decompress(block, output)
        .map_err(|error| broken(&error))?;
    Ok(())
}
