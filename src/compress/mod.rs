//! The codecs of a batch's records, under a limit.
//!
//! A [`Decompressor`] holds the contexts worth keeping, one per thread. It *appends* to the caller's memory, so that
//! several blocks can share one allocation; on failure that memory is as long as it was before. What the bytes declare
//! about their own size is a hint, never an allocation beyond the [`DecodeLimit`].
//!
//! Each codec reads what Kafka's own reader reads (`org.apache.kafka.common.compress`), quirks included:
//!
//! | module | framing |
//! |---|---|
//! | `gzip` | RFC 1952 members one after the other |
//! | `snappy` | the Java "xerial" stream, or one raw block |
//! | `lz4` | one LZ4 frame of independent blocks (KIP-57) |
//! | `zstd` | frames one after the other (KIP-110) |
//!
//! A [`Compressor`] is the other direction: Kafka's clients and brokers read its output, which has their own framing,
//! at Kafka's levels ([`Codec`]).
//!
//! Positions in errors count from the beginning of the compressed bytes.

mod codec;
mod compressor;
mod gzip;
mod lz4;
mod snappy;
mod zstd;

pub use codec::Codec;
pub use compressor::Compressor;

use crate::error::{Error, Result};
use crate::types::Compression;

/// The most bytes one call may decompress to. Kafka has no such bound; a bomb is an error here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecodeLimit(pub usize);

impl DecodeLimit {
    /// Largest value of a position inside one block.
    pub const MAX: Self = Self(0x7fff_ffff);

    /// The limit in bytes, never above [`DecodeLimit::MAX`].
    #[must_use]
    pub const fn bytes(self) -> usize {
        if self.0 < Self::MAX.0 {
            self.0
        } else {
            Self::MAX.0
        }
    }
}

impl Default for DecodeLimit {
    /// 256 MiB: above any batch a broker accepts by default (1 MiB compressed) at the ratios text reaches.
    fn default() -> Self {
        Self(256 << 20)
    }
}

/// Reusable decompression contexts; one per thread.
#[derive(Debug, Default)]
pub struct Decompressor {
    gzip: gzip::Gzip,
    lz4: lz4::Lz4,
    zstd: zstd::Zstd,
}

impl Decompressor {
    /// Without any context yet: each codec makes its own when first used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what `src` decompresses to, as Kafka's reader for batches of this `magic` sees it.
    ///
    /// # Errors
    /// `CorruptRecord` where the stream breaks its own format or goes beyond the limit, `OutOfMemory` where there is
    /// none for what is within it; `out` is then as it was.
    pub fn decompress(
        &mut self,
        codec: Compression,
        magic: u8,
        src: &[u8],
        out: &mut Vec<u8>,
        limit: DecodeLimit,
    ) -> Result<()> {
        let mut sink = Sink::new(out, codec, limit);
        let result = match codec {
            Compression::None => sink.extend(src, 0),
            Compression::Gzip => self.gzip.decompress(src, &mut sink),
            Compression::Snappy => snappy::decompress(src, &mut sink),
            Compression::Lz4 => self.lz4.decompress(magic, src, &mut sink),
            Compression::Zstd => self.zstd.decompress(src, &mut sink),
        };
        if result.is_err() {
            sink.rewind();
        }
        result
    }
}

/// The caller's memory from where this call began, and how much may still be put there.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    base: usize,
    limit: usize,
    codec: Compression,
}

impl<'a> Sink<'a> {
    const fn new(out: &'a mut Vec<u8>, codec: Compression, limit: DecodeLimit) -> Self {
        Self {
            base: out.len(),
            limit: limit.bytes(),
            out,
            codec,
        }
    }

    /// Bytes written by this call.
    const fn written(&self) -> usize {
        self.out.len().saturating_sub(self.base)
    }

    /// Bytes that may still be written.
    const fn room(&self) -> usize {
        self.limit.saturating_sub(self.written())
    }

    /// Bytes that this call wrote, from its `at`-th byte on.
    fn since(&self, at: usize) -> &[u8] {
        self.out
            .get(self.base.saturating_add(at)..)
            .unwrap_or_default()
    }

    /// Spare capacity for `additional` bytes more, not initialised.
    fn reserve(&mut self, additional: usize) -> Result<()> {
        self.out
            .try_reserve(additional)
            .map_err(|_| Error::no_memory(additional))
    }

    /// `len` bytes more, zeroed, to be written over.
    fn grow(&mut self, len: usize) -> Result<&mut [u8]> {
        self.reserve(len)?;
        let at = self.out.len();
        self.out.resize(at.saturating_add(len), 0);
        Ok(self.out.get_mut(at..).unwrap_or_default())
    }

    fn extend(&mut self, bytes: &[u8], src_at: usize) -> Result<()> {
        if bytes.len() > self.room() {
            return Err(self.too_large(src_at));
        }
        self.reserve(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Gives the last `len` bytes back.
    fn shrink(&mut self, len: usize) {
        self.out.truncate(self.out.len().saturating_sub(len));
    }

    fn rewind(&mut self) {
        self.out.truncate(self.base);
    }

    /// The error for a stream that continues where the limit ends.
    #[cold]
    fn too_large(&self, src_at: usize) -> Error {
        Error::corrupt(
            "decompressed records",
            src_at as u64,
            format_args!("at most {} bytes (the decode limit)", self.limit),
            format_args!("a {} stream that continues", self.codec),
        )
    }
}

/// The `N` bytes at `at`, if they are there.
fn bytes<const N: usize>(src: &[u8], at: usize) -> Option<&[u8; N]> {
    src.get(at..)?.first_chunk()
}

#[cfg(test)]
mod tests;
