//! One member, as `java.util.zip.GZIPOutputStream` writes it: no name, no time.

use std::fmt;

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::compress::compressor::LibraryRefused;

/// Magic, deflate, no flags, no time, no extra flags, system unknown: what Java 16 and later write.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Largest overhead of deflate: five bytes for each 16 KB stored, and the end.
const OVERHEAD: usize = 64;

/// The deflater, kept between calls with the level it was made for.
#[derive(Default)]
pub(in crate::compress) struct GzipWriter(Option<(i32, Compress)>);

impl fmt::Debug for GzipWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.0.as_ref().map(|(level, _)| level);
        f.debug_tuple("GzipWriter").field(&level).finish()
    }
}

impl GzipWriter {
    #[expect(clippy::little_endian_bytes, reason = "gzip is little-endian")]
    pub(in crate::compress) fn compress(
        &mut self,
        level: i32,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), LibraryRefused> {
        let deflater = match &mut self.0 {
            Some((made, deflater)) if *made == level => {
                deflater.reset();
                deflater
            }
            other => {
                let strength =
                    u32::try_from(level).map_or_else(|_| Compression::default(), Compression::new);
                &mut other.insert((level, Compress::new(strength, false))).1
            }
        };
        out.extend_from_slice(&HEADER);
        let mut wanted = (src.len() / 2).saturating_add(OVERHEAD);
        loop {
            let done = usize::try_from(deflater.total_in()).unwrap_or(usize::MAX);
            out.try_reserve(wanted).map_err(|_| "no memory")?;
            let input = src.get(done..).unwrap_or_default();
            let status = deflater
                .compress_vec(input, out, FlushCompress::Finish)
                .map_err(|error| error.to_string())?;
            match status {
                Status::StreamEnd => break,
                _ => wanted = wanted.max(src.len() / 4).max(OVERHEAD),
            }
        }
        out.extend_from_slice(&crc32fast::hash(src).to_le_bytes());
        // The length counts modulo 2^32.
        let length = u32::try_from(src.len() & 0xffff_ffff).unwrap_or_default();
        out.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }
}
