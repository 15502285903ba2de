//! One frame. Kafka's streams leave the content size out; it is written here, which every decoder reads and ours is the
//! faster for.

use std::fmt;
use std::io::Cursor;

use zstd_safe::{CCtx, CParameter, compress_bound, get_error_name};

use crate::compress::compressor::LibraryRefused;

/// The context, kept between calls with the level it is set to.
#[derive(Default)]
pub(in crate::compress) struct ZstdWriter(Option<(i32, CCtx<'static>)>);

impl fmt::Debug for ZstdWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.0.as_ref().map(|(level, _)| level);
        f.debug_tuple("ZstdWriter").field(&level).finish()
    }
}

impl ZstdWriter {
    pub(in crate::compress) fn compress(
        &mut self,
        level: i32,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), LibraryRefused> {
        let (current, context) = match &mut self.0 {
            Some(kept) => kept,
            none => none.insert((0, CCtx::try_create().ok_or("no memory")?)),
        };
        if *current != level {
            context
                .set_parameter(CParameter::CompressionLevel(level))
                .map_err(get_error_name)?;
            *current = level;
        }
        out.try_reserve(compress_bound(src.len()))
            .map_err(|_| "no memory")?;
        let end = out.len();
        let mut target = Cursor::new(out);
        target.set_position(end as u64);
        context
            .compress2(&mut target, src)
            .map_err(get_error_name)?;
        Ok(())
    }
}
