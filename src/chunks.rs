//! Chunks: a segment in tiered storage as Aiven's plugin stores it, in parts that can be read alone.
//!
//! A chunk of the original file becomes a zstd frame if the manifest says so, and then, if it has a data key, 12 bytes of
//! nonce, the AES-256-GCM ciphertext and its tag of 16 bytes. Data keys are wrapped by RSA with OAEP, SHA3-512 and MGF1
//! over SHA3-512. Sources: `CompressionChunkEnumeration`, `EncryptionChunkEnumeration`, `RsaEncryptionProvider`.

mod sealed;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::types::{Compression, Position};

pub use self::sealed::{DataKey, unwrap_data_key};

/// Zstandard came with this one.
const MAGIC: u8 = 2;

/// A chunk as its index describes it.
#[derive(Clone, Copy, Debug)]
pub struct StoredChunk {
    /// Its bytes in the object.
    pub size: usize,
    /// Bytes of the file that it holds.
    pub original: usize,
}

/// Decodes consecutive chunks that begin at `position` of an object; returns the bytes of the file.
///
/// # Errors
/// `CorruptRecord`, at a position in the chunk, where there is too little, a tag does not fit, or a frame is broken or
/// gives another length; `OutOfMemory`.
pub fn decode_chunks(
    stored: &[u8],
    position: Position,
    chunks: &[StoredChunk],
    is_compressed: bool,
    key: Option<&DataKey>,
) -> Result<Vec<u8>> {
    let mut decoder = Decompressor::new();
    let mut out = Vec::new();
    let (mut rest, mut at) = (stored, position);
    for chunk in chunks {
        let Some((bytes, after)) = rest.split_at_checked(chunk.size) else {
            let expected = format!("a chunk of {} bytes", chunk.size);
            return Err(Error::corrupt("object", at, expected, rest.len()));
        };
        let plain = match key {
            Some(key) => Cow::Owned(key.open(bytes, at)?),
            None => Cow::Borrowed(bytes),
        };
        let before = out.len();
        if is_compressed {
            let limit = DecodeLimit(chunk.original);
            decoder
                .decompress(Compression::Zstd, MAGIC, &plain, &mut out, limit)
                .map_err(|error| error.shift(at))?;
        } else {
            out.try_reserve(plain.len())
                .map_err(|_| Error::no_memory(plain.len()))?;
            out.extend_from_slice(&plain);
        }
        let found = out.len().saturating_sub(before);
        if found != chunk.original {
            let expected = format!("{} bytes of the file", chunk.original);
            return Err(Error::corrupt("chunk", at, expected, found));
        }
        rest = after;
        at = at.saturating_add(chunk.size as u64);
    }
    Ok(out)
}

/// Decompresses the sizes of chunks that a manifest holds.
///
/// # Errors
/// `CorruptRecord` where the frame is broken or holds more than `limit` bytes; `OutOfMemory`.
pub fn decompress_sizes(stored: &[u8], limit: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let limit = DecodeLimit(limit);
    Decompressor::new().decompress(Compression::Zstd, MAGIC, stored, &mut out, limit)?;
    Ok(out)
}
