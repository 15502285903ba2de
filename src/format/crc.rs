//! Checksums: CRC-32 (IEEE) of magic 0 and 1, CRC-32C (Castagnoli) of magic 2 and snapshots.

use crc_fast::CrcAlgorithm;

/// A running checksum, for a batch that comes in parts.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack; a box would cost more than the copy"
)]
pub enum Crc {
    /// CRC-32, magic 0 and 1.
    Legacy(crc32fast::Hasher),
    /// CRC-32C, magic 2.
    Castagnoli(crc_fast::Digest),
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a 32-bit checksum, which the crate returns as it does 64-bit ones"
)]
const fn low_32(crc: u64) -> u32 {
    crc as u32
}

/// CRC-32 of these bytes.
#[inline]
#[must_use]
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC-32C of these bytes.
#[inline]
#[must_use]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

impl Crc {
    /// CRC-32 of no bytes yet.
    #[must_use]
    pub fn legacy() -> Self {
        Self::Legacy(crc32fast::Hasher::new())
    }

    /// CRC-32C of no bytes yet.
    #[must_use]
    pub fn castagnoli() -> Self {
        Self::Castagnoli(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Legacy(hasher) => hasher.update(bytes),
            Self::Castagnoli(digest) => digest.update(bytes),
        }
    }

    /// The checksum of all bytes.
    #[must_use]
    pub fn finish(self) -> u32 {
        match self {
            Self::Legacy(hasher) => hasher.finalize(),
            Self::Castagnoli(digest) => low_32(digest.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The check values of the CRC catalogue.
    #[test]
    fn check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    /// Lengths and alignments around the widths that the implementations work in.
    #[test]
    fn every_length_and_alignment() {
        let data: Vec<u8> = (0..70_000u32)
            .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        for start in [0, 1, 7, 40] {
            for len in (0..1200).chain([4095, 4096, 16_384, 65_537]) {
                let bytes = &data[start..start + len];
                assert_eq!(crc32c(bytes), ::crc32c::crc32c(bytes), "{len} from {start}");
            }
        }
    }

    proptest! {
        /// In parts as a whole, and as another implementation has it.
        #[test]
        fn parts_make_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..6)) {
            let whole = parts.concat();
            let mut running = [Crc::legacy(), Crc::castagnoli()];
            for crc in &mut running {
                for part in &parts {
                    crc.update(part);
                }
            }
            let [legacy, castagnoli] = running.map(Crc::finish);
            prop_assert_eq!(legacy, crc32(&whole));
            prop_assert_eq!(castagnoli, crc32c(&whole));
            prop_assert_eq!(castagnoli, ::crc32c::crc32c(&whole));
        }
    }
}
