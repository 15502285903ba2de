//! Checksums of any range of a file, each byte of which is read once.
//!
//! The checksum of the first `n` bytes is kept for every [`STEP`]. CRCs are linear, so that of a range follows from
//! those of the two prefixes at its ends: `crc(a..b) = crc(..b) ^ shift(crc(..a), b - a)`, where the shift is a
//! multiplication by x^(8 * length) modulo the polynomial. So a candidate costs at most two steps of bytes and a few
//! multiplications, however long it claims to be.
//!
//! `crc_fast::checksum_combine` gives the same, but squares a matrix of 64 by 64 bits for each bit of the length: many
//! times the cost of the multiplications here, which are needed for each KiB of the file.

use crate::error::Result;
use crate::format::crc::{crc32, crc32c};
use crate::segment::source::SegmentSource;
use crate::types::Position;

/// Bytes from one kept checksum to the next: 8 MiB of checksums for the longest segment.
const STEP: usize = 1 << 10;
/// A shorter range is summed as it is.
const SHORT: u64 = 2 << 10;

/// The polynomials, bits reversed.
const IEEE: u32 = 0xedb8_8320;
const CASTAGNOLI: u32 = 0x82f6_3b78;
/// x^0 and x^8, bits reversed.
const ONE: u32 = 1 << 31;
const BYTE: u32 = 1 << 23;

/// Multiplies two polynomials modulo a third; all of them with their bits reversed.
const fn multiply(a: u32, mut b: u32, polynomial: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 0 {
            b >> 1
        } else {
            b >> 1 ^ polynomial
        };
        bit >>= 1;
    }
    product
}

/// One kind of checksum over one file.
#[derive(Debug)]
pub(super) struct RangeChecksums {
    polynomial: u32,
    sum: fn(&[u8]) -> u32,
    /// `powers[j][d]` is x^(8 * d * 256^j).
    powers: Box<[[u32; 256]; 4]>,
    /// Position of the first prefix.
    begin: Position,
    /// The checksums of 0, 1, 2.. steps from there.
    marks: Vec<u32>,
}

impl RangeChecksums {
    /// CRC-32, of magic 0 and 1.
    pub(super) fn legacy() -> Self {
        Self::new(IEEE, crc32)
    }

    /// CRC-32C, of magic 2.
    pub(super) fn castagnoli() -> Self {
        Self::new(CASTAGNOLI, crc32c)
    }

    fn new(polynomial: u32, sum: fn(&[u8]) -> u32) -> Self {
        let mut powers = Box::new([[ONE; 256]; 4]);
        let mut unit = BYTE;
        for row in powers.iter_mut() {
            let mut power = ONE;
            for place in row.iter_mut() {
                *place = power;
                power = multiply(power, unit, polynomial);
            }
            unit = power;
        }
        Self {
            polynomial,
            sum,
            powers,
            begin: 0,
            marks: vec![0],
        }
    }

    /// The checksum of as many zero bytes after what has `crc`, less what they have by themselves.
    fn shift(&self, crc: u32, length: u64) -> u32 {
        let digits = length.to_be_bytes().into_iter().rev();
        let places = self
            .powers
            .iter()
            .zip(digits)
            .filter(|(_, digit)| *digit != 0);
        places.fold(crc, |crc, (row, digit)| {
            let power = row.get(usize::from(digit)).copied().unwrap_or(ONE);
            multiply(power, crc, self.polynomial)
        })
    }

    /// No range that is requested from now on begins before `position`: what lies between the last prefix and there
    /// need not be summed.
    pub(super) fn anchor(&mut self, position: Position) {
        let known = self.marks.len().saturating_sub(1).saturating_mul(STEP) as u64;
        if position > self.begin.saturating_add(known) {
            self.restart(position);
        }
    }

    fn restart(&mut self, position: Position) {
        self.begin = position;
        self.marks.truncate(1);
    }

    /// The checksum of `from..to`; `None` where the file ends before.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn of(
        &mut self,
        source: &mut SegmentSource,
        from: Position,
        to: Position,
    ) -> Result<Option<u32>> {
        let length = to.saturating_sub(from);
        if length <= SHORT {
            let wanted = usize::try_from(length).unwrap_or_default();
            let bytes = source.bytes(from, wanted)?;
            return Ok((bytes.len() == wanted).then(|| (self.sum)(bytes)));
        }
        if from < self.begin {
            self.restart(from);
        }
        let Some(after) = self.prefix(source, to)? else {
            return Ok(None);
        };
        let before = self.prefix(source, from)?;
        Ok(before.map(|before| self.shift(before, length) ^ after))
    }

    /// The checksum from where prefixes begin up to `end`.
    fn prefix(&mut self, source: &mut SegmentSource, end: Position) -> Result<Option<u32>> {
        let length = end.saturating_sub(self.begin);
        let step = STEP as u64;
        let mark = usize::try_from(length.div_euclid(step)).unwrap_or(usize::MAX);
        while self.marks.len() <= mark {
            let done = self.marks.len().saturating_sub(1) as u64;
            let at = self.begin.saturating_add(done.saturating_mul(step));
            let bytes = source.bytes(at, STEP)?;
            if bytes.len() < STEP {
                return Ok(None);
            }
            let next = (self.sum)(bytes);
            let last = self.marks.last().copied().unwrap_or_default();
            self.marks.push(self.shift(last, step) ^ next);
        }
        let rest = usize::try_from(length.rem_euclid(step)).unwrap_or_default();
        let at = end.saturating_sub(rest as u64);
        let bytes = source.bytes(at, rest)?;
        let crc = self.marks.get(mark).copied().unwrap_or_default();
        let is_there = bytes.len() == rest;
        let tail = (self.sum)(bytes);
        Ok(is_there.then(|| self.shift(crc, rest as u64) ^ tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::folder::DiskFolder;
    use crate::segment::source::Access;

    /// Any range has the checksum that its bytes have when they are summed by themselves.
    #[test]
    fn a_range_has_the_checksum_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let data: Vec<u8> = (0..300_000u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        std::fs::write(&path, &data).unwrap();
        let on_disk = DiskFolder::at(folder.path());
        let mut source =
            SegmentSource::open(&on_disk, "a.log", data.len() as u64, Access::Headers).unwrap();
        for (mut sums, sum) in [
            (RangeChecksums::legacy(), crc32 as fn(&[u8]) -> u32),
            (RangeChecksums::castagnoli(), crc32c),
        ] {
            for (from, to) in [
                (100, 100_000),
                (100, 101),
                (1124, 299_999),
                (70_000, 70_000 + 2049),
                (5, 250_000),
                (299_000, 300_000),
                (290_000, 300_000),
                (100, 300_000),
            ] {
                let bytes = &data[from..to];
                let found = sums.of(&mut source, from as u64, to as u64).unwrap();
                assert_eq!(found, Some(sum(bytes)), "{from}..{to}");
            }
            assert_eq!(sums.of(&mut source, 7, 300_001).unwrap(), None);
        }
    }
}
