//! The segments of rewritten batches, written by the segment writer.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::format::file_name::{FileKind, FileName};
use crate::io::disk::Disk;
use crate::io::file::open_as;
use crate::io::folder::DiskFolder;
use crate::log::config::LogConfig;
use crate::segment::writer::WritableSegment;
use crate::segment::writer::roll::{RollParams, base_of};
use crate::types::{NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, Offset, TimestampMs};

/// A partition folder that is being written.
pub(super) struct PartitionOutput<'a> {
    folder: DiskFolder,
    path: PathBuf,
    config: &'a LogConfig,
    /// Segments begin by the settings, and not where the source's do.
    rerolls: bool,
    now_ms: TimestampMs,
    segment: Option<WritableSegment>,
    modified_ms: Option<TimestampMs>,
    aborted: Vec<AbortedTxn>,
    next_offset: Offset,
    /// Base offset of the source's last segment, so far.
    last_base: Offset,
    /// The highest leader epoch in the segment.
    epoch: i32,
    written: u64,
}

impl<'a> PartitionOutput<'a> {
    pub(super) fn new(
        disk: &Disk,
        path: &Path,
        config: &'a LogConfig,
        rerolls: bool,
        now_ms: TimestampMs,
    ) -> Self {
        Self {
            folder: DiskFolder::new(path, disk),
            path: path.to_path_buf(),
            config,
            rerolls,
            now_ms,
            segment: None,
            modified_ms: None,
            aborted: Vec::new(),
            next_offset: 0,
            last_base: 0,
            epoch: NO_PARTITION_LEADER_EPOCH,
            written: 0,
        }
    }

    /// A segment of the source begins.
    pub(super) fn begin(
        &mut self,
        base_offset: Offset,
        modified_ms: Option<TimestampMs>,
    ) -> Result<()> {
        if !self.rerolls || self.segment.is_none() {
            self.roll(base_offset)?;
        }
        self.modified_ms = modified_ms;
        self.last_base = base_offset;
        Ok(())
    }

    /// Aborted transactions of the source's segment, for the segments that their markers go into.
    pub(super) fn note_aborted(&mut self, aborted: Vec<AbortedTxn>) {
        self.aborted.extend(aborted);
    }

    /// Appends batches, which lie one after the other in `bytes`.
    pub(super) fn append(&mut self, mut bytes: &[u8], mut headers: &[BatchHeader]) -> Result<()> {
        while let Some(first) = headers.first() {
            let count = if self.falls(first) {
                0
            } else {
                self.room_for(headers, first)?
            };
            if count == 0 {
                self.roll(base_of(first, self.next_offset))?;
                continue;
            }
            let (now, later) = headers.split_at_checked(count).unwrap_or((headers, &[]));
            let size = now.iter().map(|header| header.size).sum();
            let (whole, rest) = bytes.split_at_checked(size).unwrap_or((bytes, &[]));
            if let (Some(segment), Some(last)) = (&mut self.segment, now.last()) {
                segment.append(last.last_offset(), whole.into(), now)?;
                self.next_offset = last.next_offset();
                let epochs = now.iter().map(|header| header.partition_leader_epoch);
                self.epoch = epochs.fold(self.epoch, i32::max);
            }
            (bytes, headers) = (rest, later);
        }
        Ok(())
    }

    /// Returns whether a batch is of a leader epoch below one in the segment: in one segment that is damage.
    fn falls(&self, first: &BatchHeader) -> bool {
        (0..self.epoch).contains(&first.partition_leader_epoch)
            && self
                .segment
                .as_ref()
                .is_some_and(|segment| segment.size() > 0)
    }

    /// Counts how many of these batches go into the segment, by the settings and the room in its indexes.
    fn room_for(&mut self, headers: &[BatchHeader], first: &BatchHeader) -> Result<usize> {
        let Some(segment) = &mut self.segment else {
            return Ok(headers.len());
        };
        let (bytes, ms) = if self.rerolls {
            (self.config.segment_bytes, self.config.segment_ms)
        } else {
            (i32::MAX, i64::MAX)
        };
        let params = RollParams {
            max_segment_ms: ms,
            max_segment_bytes: u64::try_from(bytes).unwrap_or_default(),
            max_timestamp: first.max_timestamp,
            last_offset: first.last_offset(),
            size: first.size as u64,
            now_ms: self.now_ms,
        };
        let count = segment.takes(headers, &params)?;
        // An empty segment takes any batch.
        if count == 0 && (segment.size() == 0 || !segment.roll_reasons(&params)?.any()) {
            return Ok(1);
        }
        Ok(count)
    }

    /// Ends the segment and begins another one.
    fn roll(&mut self, base_offset: Offset) -> Result<()> {
        if let Some(mut segment) = self.end()? {
            segment.on_become_inactive()?;
            self.close(segment)?;
        }
        let settings = self.config.segment_settings();
        let segment = WritableSegment::open(&self.folder, base_offset, settings, self.now_ms)?;
        self.segment = Some(segment);
        self.epoch = NO_PARTITION_LEADER_EPOCH;
        Ok(())
    }

    /// Gives the segment, with the aborted transactions that are its own.
    fn end(&mut self) -> Result<Option<WritableSegment>> {
        let Some(mut segment) = self.segment.take() else {
            return Ok(None);
        };
        // A transaction is noted where its marker is.
        let next_offset = self.next_offset;
        let (own, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.aborted)
            .into_iter()
            .partition(|aborted| aborted.last_offset < next_offset);
        self.aborted = later;
        own.iter()
            .try_for_each(|aborted| segment.append_aborted(aborted))?;
        Ok(Some(segment))
    }

    fn close(&mut self, mut segment: WritableSegment) -> Result<()> {
        segment.flush()?;
        segment.close()?;
        self.written = self.written.saturating_add(segment.size());
        let name = FileName::new(segment.base_offset(), FileKind::Log).to_string();
        if segment.max_timestamp()?.timestamp == NO_TIMESTAMP
            && let Some(ms) = self.modified_ms.and_then(|ms| u64::try_from(ms).ok())
        {
            // Retention falls back on it.
            let path = self.path.join(name);
            let file = open_as(&path, std::fs::File::options().write(true));
            let (file, _) = file.map_err(Error::io(&path))?;
            let time = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
            if let Some(time) = time {
                file.set_modified(time).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }

    /// Closes the last segment; returns the bytes of all.
    pub(super) fn finish(mut self) -> Result<u64> {
        // The name of an empty segment is all that says where the log ends.
        if self.rerolls && self.last_base > self.next_offset {
            self.roll(self.last_base)?;
        }
        if let Some(segment) = self.end()? {
            self.close(segment)?;
        }
        Ok(self.written)
    }
}
