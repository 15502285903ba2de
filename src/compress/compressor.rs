//! Compresses records with a codec, and reuses its contexts.

use super::Codec;
use super::gzip::GzipWriter;
use super::lz4::Lz4Writer;
use super::snappy::SnappyWriter;
use super::zstd::ZstdWriter;
use crate::error::{Error, Result};
use crate::types::Compression;

/// Reusable compression contexts; one per thread.
#[derive(Debug, Default)]
pub struct Compressor {
    gzip: GzipWriter,
    snappy: SnappyWriter,
    lz4: Lz4Writer,
    zstd: ZstdWriter,
}

impl Compressor {
    /// Without any context yet: each codec makes its own when first used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `src` compressed, framed as Kafka frames the records of magic 2.
    ///
    /// # Errors
    /// `InvalidRecord` where there is no memory; `out` is then as it was.
    pub fn compress(&mut self, codec: Codec, src: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let begun = out.len();
        let result = match codec.compression() {
            Compression::None => {
                out.extend_from_slice(src);
                Ok(())
            }
            Compression::Gzip => self.gzip.compress(codec.level(), src, out),
            Compression::Snappy => self.snappy.compress(src, out),
            Compression::Lz4 => self.lz4.compress(codec.level(), src, out),
            Compression::Zstd => self.zstd.compress(codec.level(), src, out),
        };
        result.map_err(|found| {
            out.truncate(begun);
            Error::invalid(
                "records to compress",
                0,
                format_args!("{} bytes that {} takes", src.len(), codec.compression()),
                found,
            )
        })
    }
}

/// Reason why a library refused; running out of memory is the only known one.
pub(super) type LibraryRefused = std::borrow::Cow<'static, str>;

/// `len` bytes more after what `out` holds, zeroed, to be written over.
pub(super) fn grow(out: &mut Vec<u8>, len: usize) -> Result<&mut [u8], LibraryRefused> {
    out.try_reserve(len).map_err(|_| "no memory")?;
    let at = out.len();
    out.resize(at.saturating_add(len), 0);
    Ok(out.get_mut(at..).unwrap_or_default())
}
