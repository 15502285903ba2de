//! The segments of a log under plan, by base offset (`LogSegments`).

use std::collections::BTreeMap;

use super::loaded::LoadedSegment;
use crate::error::Result;
use crate::io::overlay::Overlay;
use crate::producers::replay::ReplayedLog;
use crate::segment::batches::Batches;
use crate::segment::walk::KafkaPolicy;
use crate::segment::writer::WritableSegment;
use crate::types::Offset;

/// A segment under plan.
pub(super) type PlannedSegment = WritableSegment<Overlay>;

/// Segments, in order.
#[derive(Debug, Default)]
pub(super) struct PlannedSegmentList(BTreeMap<Offset, PlannedSegment>);

impl PlannedSegmentList {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get_mut(&mut self, base_offset: Offset) -> Option<&mut PlannedSegment> {
        self.0.get_mut(&base_offset)
    }

    pub(super) fn insert(&mut self, segment: PlannedSegment) {
        self.0.insert(segment.base_offset(), segment);
    }

    pub(super) fn remove(&mut self, base_offset: Offset) -> Option<PlannedSegment> {
        self.0.remove(&base_offset)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &PlannedSegment> {
        self.0.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut PlannedSegment> {
        self.0.values_mut()
    }

    /// The last one.
    pub(super) fn active_mut(&mut self) -> Option<&mut PlannedSegment> {
        self.iter_mut().next_back()
    }

    /// Facts about the segments that a broker has after loading.
    pub(super) fn listed(&self) -> Vec<LoadedSegment> {
        let listed = self.iter().map(|segment| LoadedSegment {
            base_offset: segment.base_offset(),
            size: segment.size(),
            max_timestamp: segment.known().max_timestamp,
        });
        listed.collect()
    }

    /// The base offset of the one that may hold `offset` (`LogSegments.floorSegment`).
    pub(super) fn floor(&self, offset: Offset) -> Option<Offset> {
        self.0.range(..=offset).next_back().map(|(&base, _)| base)
    }

    /// The base offsets of the one that may hold `from` and of those after it that begin below `to`
    /// (`LogSegments.values`).
    pub(super) fn values(&self, from: Offset, to: Offset) -> Vec<Offset> {
        let bases = self.onward(from).map(WritableSegment::base_offset);
        bases.take_while(|&base| from < to && base < to).collect()
    }

    /// The one that may hold `offset`, and those after it; all of them where none does.
    pub(super) fn onward(&self, offset: Offset) -> impl Iterator<Item = &PlannedSegment> {
        let from = self.floor(offset).unwrap_or(Offset::MIN);
        self.0.range(from..).map(|(_, segment)| segment)
    }

    pub(super) fn onward_mut(
        &mut self,
        offset: Offset,
    ) -> impl Iterator<Item = &mut PlannedSegment> {
        let from = self.floor(offset).unwrap_or(Offset::MIN);
        self.0.range_mut(from..).map(|(_, segment)| segment)
    }
}

impl ReplayedLog for PlannedSegmentList {
    type Policy = KafkaPolicy;

    fn base_offsets(&self) -> Vec<Offset> {
        self.0.keys().copied().collect()
    }

    fn batches(
        &mut self,
        base_offset: Offset,
        start: Offset,
        end: Option<Offset>,
    ) -> Result<Option<Batches<KafkaPolicy>>> {
        let Some(segment) = self.get_mut(base_offset) else {
            return Ok(None);
        };
        let end = match end {
            Some(end) => segment.translate_offset(end)?,
            None => None,
        };
        let end = end.unwrap_or(segment.size());
        segment.read(start, end)
    }
}
