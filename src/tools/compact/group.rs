//! Grouping of neighbouring segments that become one (`Cleaner.groupSegmentsBySize`).

use crate::error::Result;
use crate::io::storage::Storage;
use crate::types::Offset;
use crate::write::{SegmentInfo, WritableLog};

/// Sizes of a segment that decide about grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SegmentSizes {
    base_offset: Offset,
    log: u64,
    offset_index: u64,
    time_index: u64,
}

/// Groups the segments: as many neighbours as neither `segment.bytes`, `segment.index.bytes` nor the reach of a relative
/// offset forbids. What a segment may reach to is one below the next one's base, or below `first_uncleanable_offset`.
///
/// # Errors
/// `Io`; `CorruptIndex`.
pub(super) fn group<S: Storage>(
    log: &WritableLog<S>,
    segments: &[SegmentInfo],
    first_uncleanable_offset: Offset,
) -> Result<Vec<Vec<Offset>>> {
    let mut sizes = Vec::with_capacity(segments.len());
    for info in segments {
        let mut segment = log.open_closed(info.base_offset)?;
        sizes.push(SegmentSizes {
            base_offset: info.base_offset,
            log: info.size,
            offset_index: segment.offset_index()?.size_in_bytes() as u64,
            time_index: segment.time_index()?.size_in_bytes() as u64,
        });
        segment.close_handlers();
    }
    let limits = SegmentSizes {
        base_offset: first_uncleanable_offset,
        log: u64::try_from(log.config().segment_bytes).unwrap_or_default(),
        offset_index: u64::try_from(log.config().segment_index_bytes).unwrap_or_default(),
        time_index: u64::try_from(log.config().segment_index_bytes).unwrap_or_default(),
    };
    Ok(group_sizes(&sizes, &limits))
}

/// `limits.base_offset` is the first uncleanable offset.
fn group_sizes(sizes: &[SegmentSizes], limits: &SegmentSizes) -> Vec<Vec<Offset>> {
    let mut groups: Vec<(SegmentSizes, Vec<Offset>)> = Vec::new();
    for (at, &next) in sizes.iter().enumerate() {
        let after = sizes.get(at.saturating_add(1));
        let reach = after
            .map_or(limits.base_offset, |after| after.base_offset)
            .saturating_sub(1);
        if let Some((sum, bases)) = groups.last_mut() {
            let joined = SegmentSizes {
                base_offset: next.base_offset,
                log: sum.log.saturating_add(next.log),
                offset_index: sum.offset_index.saturating_add(next.offset_index),
                time_index: sum.time_index.saturating_add(next.time_index),
            };
            let first = bases.first().copied().unwrap_or(next.base_offset);
            let span = reach.saturating_sub(first);
            if joined.log <= limits.log
                && joined.offset_index <= limits.offset_index
                && joined.time_index <= limits.time_index
                && (next.log == 0 || span <= i64::from(i32::MAX))
            {
                *sum = joined;
                bases.push(next.base_offset);
                continue;
            }
        }
        groups.push((next, vec![next.base_offset]));
    }
    groups.into_iter().map(|(_, bases)| bases).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(of: &[(Offset, u64)]) -> Vec<SegmentSizes> {
        let sizes = of.iter().map(|&(base_offset, log)| SegmentSizes {
            base_offset,
            log,
            offset_index: 8,
            time_index: 12,
        });
        sizes.collect()
    }

    fn groups(of: &[(Offset, u64)], log: u64, index: u64, end: Offset) -> Vec<Vec<Offset>> {
        let limits = SegmentSizes {
            base_offset: end,
            log,
            offset_index: index,
            time_index: index,
        };
        group_sizes(&sizes(of), &limits)
    }

    /// `CleanerTest.testSegmentGrouping` and the tests beside it.
    #[test]
    fn limits() {
        let four = [(0, 10), (10, 10), (20, 10), (30, 10)];
        assert_eq!(groups(&four, 100, 100, 40), [vec![0, 10, 20, 30]]);
        assert_eq!(groups(&four, 1, 100, 40).len(), 4);
        assert_eq!(groups(&four, 20, 100, 40), [[0, 10], [20, 30]]);
        assert_eq!(
            groups(&four, 100, 24, 40),
            [[0, 10], [20, 30]],
            "time index"
        );
        assert_eq!(groups(&four, 100, 1, 40).len(), 4);
        assert!(groups(&[], 1, 1, 0).is_empty());
    }

    #[test]
    fn relative_offsets() {
        let max = i64::from(i32::MAX);
        assert_eq!(groups(&[(0, 1), (10, 1)], 9, 99, max + 1), [[0, 10]]);
        assert_eq!(groups(&[(0, 1), (10, 1)], 9, 99, max + 2).len(), 2);
        assert_eq!(
            groups(&[(0, 1), (10, 0)], 9, 99, max + 2),
            [[0, 10]],
            "empty"
        );
        let far = [(0, 1), (10, 1), (max + 5, 1)];
        assert_eq!(groups(&far, 9, 99, max + 6), [vec![0], vec![10, max + 5]]);
    }
}
