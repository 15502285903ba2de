//! Losses of a read that continues after damage, by partition and segment.

use std::sync::Arc;

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName};
use crate::log::gaps;
use crate::scan::planned::OpenSegment;
use crate::scan::range::{PartitionRange, SegmentRange};
use crate::segment::metrics::Metrics;
use crate::segment::resync::{Lost, Reason, Resync, ResyncItem};
use crate::types::{Offset, Position, TopicPartition};

/// A lost range and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The segment's file name.
    pub segment: Arc<str>,
    /// Bytes and offsets, and the reason.
    pub lost: Lost,
}

impl LostRange {
    /// Of a segment of `range`.
    #[must_use]
    pub(crate) fn of(range: &PartitionRange, segment: &str, lost: Lost) -> Self {
        Self {
            topic: range.topic.as_str().into(),
            partition: range.partition,
            segment: segment.into(),
            lost,
        }
    }
}

/// Adds `next` to `all`: as a part of the last one if nothing lies between, as where two readers of a segment meet. Whether
/// it is a range of its own.
pub(crate) fn add(all: &mut Vec<LostRange>, next: LostRange) -> bool {
    if let Some(last) = all.last_mut()
        && last.partition == next.partition
        && last.segment == next.segment
        && last.topic == next.topic
        && last.lost.join(&next.lost)
    {
        return false;
    }
    all.push(next);
    true
}

/// The segment that a gap between two segments stands for; `None` where compaction may have made it.
pub(crate) fn missing(range: &PartitionRange, (from, to): (Offset, Offset)) -> Option<LostRange> {
    let name = TopicPartition::new(&range.topic, range.partition);
    if gaps::may_be_compacted(&range.folder, &name, to) {
        return None;
    }
    let lost = Lost {
        position: 0,
        end: 0,
        first_offset: Some(from),
        last_offset: Some(to.saturating_sub(1)),
        reason: Reason::Missing,
    };
    let segment = FileName::new(from, FileKind::Log).to_string();
    Some(LostRange::of(range, &segment, lost))
}

/// The batches of a planned segment, past damage.
#[derive(Debug)]
pub(crate) struct SoundBatches {
    walk: Resync,
    segment: SegmentRange,
    wanted: (Offset, Offset),
    /// The offset after the last batch that was found.
    floor: Offset,
}

impl SoundBatches {
    /// Those of a segment whose turn has come.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn open(opened: &OpenSegment) -> Result<Self> {
        let segment = opened.segment.clone();
        Ok(Self {
            walk: Resync::new(opened.source.as_file(), segment.size, segment.bounds())?,
            floor: segment.base_offset,
            segment,
            wanted: opened.wanted,
        })
    }

    /// The offset after the last batch that was found, or the segment's base.
    #[must_use]
    pub(crate) const fn next_offset(&self) -> Offset {
        self.floor
    }

    /// The next one within the wanted offsets; of a wrapper the base offset is the first one's. What is lost before it goes
    /// to `out`.
    ///
    /// # Errors
    /// As [`Resync::next_step`].
    pub(crate) fn next_batch(
        &mut self,
        range: &PartitionRange,
        metrics: &mut Metrics,
        out: &mut Vec<LostRange>,
    ) -> Result<Option<(Position, BatchHeader)>> {
        let (from, to) = self.wanted;
        let mut is_lost = false;
        while let Some(step) = self.walk.next_step()? {
            match step {
                ResyncItem::Batch(_, header) if header.base_offset >= to => return Ok(None),
                ResyncItem::Batch(position, header) => {
                    self.floor = header.next_offset();
                    is_lost = false;
                    if header.last_offset() >= from {
                        metrics.bytes = metrics.bytes.saturating_add(header.size as u64);
                        metrics.batches = metrics.batches.saturating_add(1);
                        return Ok(Some((position, header)));
                    }
                    metrics.batches_skipped = metrics.batches_skipped.saturating_add(1);
                }
                ResyncItem::Lost(lost) => {
                    is_lost = true;
                    if lost.touches(self.floor, self.wanted) {
                        metrics.lose(lost.bytes());
                        out.push(LostRange::of(range, &self.segment.file_name, lost));
                    }
                }
            }
        }
        let next = self.segment.next_base_offset.filter(|_| !is_lost);
        let gap = next
            .filter(|&next| next > self.floor)
            .map(|next| (self.floor, next));
        if let Some(gone) = gap.and_then(|gap| missing(range, gap)) {
            metrics.lose(0);
            out.push(gone);
        }
        self.segment.next_base_offset = None;
        Ok(None)
    }
}
