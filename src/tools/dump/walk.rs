//! Iterates over the batches of a `.log` as Kafka's tool does: neighbours are not compared, so that damaged files can
//! be inspected (`FileRecords.slice`, `FileLogInputStream`).

use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, MAGIC_AT, RECORD_BATCH_OVERHEAD};
use crate::format::cursor::{get_i8, get_i64};
use crate::segment::source::SegmentSource;
use crate::types::{Offset, Position};

/// One batch, by what every format begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchFrame {
    /// Position of the batch.
    pub(super) position: Position,
    /// All its bytes; they are there.
    pub(super) size: usize,
    /// The offset field.
    pub(super) offset: Offset,
    /// As Java sees it: a signed byte.
    pub(super) magic: i8,
}

impl BatchFrame {
    /// Read as a message of magic 0 or 1; what lies below 0 too, as Java's bytes are signed.
    pub(super) const fn is_legacy(&self) -> bool {
        self.magic < 2
    }

    /// The offset of the last record.
    ///
    /// # Errors
    /// `CorruptRecord` where the file ends inside the header, `Io`.
    pub(super) fn last_offset(&self, log: &mut SegmentSource) -> Result<Offset> {
        if self.is_legacy() {
            Ok(self.offset)
        } else {
            self.header(log).map(|header| header.last_offset())
        }
    }

    /// The whole header, unchecked.
    ///
    /// # Errors
    /// `CorruptRecord` where the file ends inside it, `UnsupportedFormat` for a magic below 0, `Io`.
    pub(super) fn header(&self, log: &mut SegmentSource) -> Result<BatchHeader> {
        if self.magic < 0 {
            let error = Error::unsupported("magic", MAGIC_AT as u64, "0, 1 or 2", self.magic);
            return Err(self.place(error, log));
        }
        let head = log.bytes(self.position, RECORD_BATCH_OVERHEAD)?;
        let left = head.len();
        BatchHeader::as_it_stands(head).ok_or_else(|| {
            let expected = format!("{RECORD_BATCH_OVERHEAD} bytes");
            let found = format!("{left} to the end of the file");
            self.place(Error::corrupt("batch header", 0, expected, found), log)
        })
    }

    /// An error about this batch, said of its file.
    pub(super) fn place(&self, error: Error, log: &SegmentSource) -> Error {
        error.shift(self.position).at(log.path())
    }
}

/// The frame at `position`, if a whole one ends before `end`.
///
/// # Errors
/// `CorruptRecord` for a length below the smallest, `Io`.
pub(super) fn frame_at(
    log: &mut SegmentSource,
    position: Position,
    end: Position,
) -> Result<Option<BatchFrame>> {
    let left = end.min(log.len()).saturating_sub(position);
    let head = log.bytes(position, RECORD_BATCH_OVERHEAD)?;
    let frame = BatchHeader::size_in_file(head, left).map(|size| {
        Some(BatchFrame {
            position,
            size: size?,
            offset: get_i64(head, 0)?,
            magic: get_i8(head, MAGIC_AT)?,
        })
    });
    frame.map_err(|error| error.shift(position).at(log.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::folder::open_file;
    use crate::segment::source::Access;

    #[test]
    fn the_last_seventeen_bytes_are_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000000000000000000.log");
        for (zeros, is_seen) in [(0, false), (17, false), (18, true)] {
            std::fs::write(&path, vec![0; zeros]).unwrap();
            let size = zeros as u64;
            let file = open_file(&path).unwrap().0;
            let mut log = SegmentSource::over(file, size, Access::Records).unwrap();
            let found = frame_at(&mut log, 0, u64::MAX);
            if is_seen {
                let error = found.unwrap_err().to_string();
                assert!(
                    error.contains("byte 8: batch length: expected at least 14, found 0"),
                    "{error}"
                );
            } else {
                assert_eq!(found.unwrap(), None);
            }
        }
    }
}
