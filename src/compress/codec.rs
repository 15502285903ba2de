//! A codec and the level it is written at, in Kafka's bounds (`CompressionType`, KIP-390).

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::types::Compression;

/// A codec and the level to write it at. Readers need not know the level.
///
/// | codec | levels | default | |
/// |---|---|---|---|
/// | gzip | 1 to 9, -1 | -1 | zlib's own choice, which is 6 |
/// | lz4 | 1 to 17 | 9 | 9 is the fast compressor; all others are LZ4 HC at that level, above 12 as at 12 |
/// | zstd | -131072 to 22 | 3 | |
///
/// The others have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Codec {
    compression: Compression,
    level: i32,
}

const GZIP_LEVELS: RangeInclusive<i32> = 1..=9;
const GZIP_DEFAULT: i32 = -1;
const LZ4_LEVELS: RangeInclusive<i32> = 1..=17;
/// Not the ninth of seventeen strengths: Kafka's name for the fast compressor (`Lz4BlockOutputStream`).
pub(super) const LZ4_DEFAULT: i32 = 9;
const ZSTD_LEVELS: RangeInclusive<i32> = -131_072..=22;
const ZSTD_DEFAULT: i32 = 3;

impl Codec {
    /// Records as they are.
    pub const NONE: Self = Self::new(Compression::None);

    /// This codec at Kafka's default level.
    #[must_use]
    pub const fn new(compression: Compression) -> Self {
        let level = match compression {
            Compression::None | Compression::Snappy => 0,
            Compression::Gzip => GZIP_DEFAULT,
            Compression::Lz4 => LZ4_DEFAULT,
            Compression::Zstd => ZSTD_DEFAULT,
        };
        Self { compression, level }
    }

    /// This codec at this level.
    ///
    /// # Errors
    /// `InvalidArgument` for a level outside Kafka's bounds, or a codec without levels.
    pub fn with_level(compression: Compression, level: i32) -> Result<Self> {
        let (levels, also) = match compression {
            Compression::None | Compression::Snappy => {
                return Err(Error::InvalidArgument(format!(
                    "{compression} has no levels: found {level}"
                )));
            }
            Compression::Gzip => (GZIP_LEVELS, GZIP_DEFAULT),
            Compression::Lz4 => (LZ4_LEVELS, LZ4_DEFAULT),
            Compression::Zstd => (ZSTD_LEVELS, ZSTD_DEFAULT),
        };
        if levels.contains(&level) || level == also {
            return Ok(Self { compression, level });
        }
        let (least, most) = levels.into_inner();
        let default = match compression {
            Compression::Gzip => " or -1",
            _ => "",
        };
        Err(Error::InvalidArgument(format!(
            "{compression} level: expected {least} to {most}{default}, found {level}"
        )))
    }

    /// The codec.
    #[must_use]
    pub const fn compression(self) -> Compression {
        self.compression
    }

    /// The level; 0 where there are none.
    #[must_use]
    pub const fn level(self) -> i32 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of `CompressionType`'s validators, and one beyond.
    #[test]
    fn kafkas_bounds() {
        for (compression, good, bad) in [
            (Compression::Gzip, &[-1, 1, 9][..], &[-2, 0, 10][..]),
            (Compression::Lz4, &[1, 9, 17], &[-1, 0, 18]),
            (Compression::Zstd, &[-131_072, -1, 0, 22], &[-131_073, 23]),
            (Compression::Snappy, &[], &[0, 1]),
            (Compression::None, &[], &[0]),
        ] {
            for &level in good {
                let codec = Codec::with_level(compression, level).unwrap();
                assert_eq!((codec.compression(), codec.level()), (compression, level));
            }
            for &level in bad {
                let error = Codec::with_level(compression, level)
                    .unwrap_err()
                    .to_string();
                assert!(
                    error.contains(compression.name()) && error.contains(&level.to_string()),
                    "{error}"
                );
            }
        }
        let defaults =
            [Compression::Gzip, Compression::Lz4, Compression::Zstd].map(|c| Codec::new(c).level());
        assert_eq!(defaults, [-1, 9, 3]);
    }
}
