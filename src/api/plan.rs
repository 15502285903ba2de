//! Planning: which bytes of which files a scan reads, and how that is divided.

pub(crate) use crate::scan::bounds::{PartitionBounds, bounds};
pub(crate) use crate::scan::divide::divide;
pub(crate) use crate::scan::pieces::{NoIndexEntry, Pieces};
pub(crate) use crate::scan::plan::{
    ByPartition, Ending, IsolationLevel, Partitions, PlanOptions, Pruning, Starting, Timestamp,
    plan_scan,
};
pub(crate) use crate::scan::range::{Cut, NO_PARTITION, PartitionRange, SegmentRange};
pub(crate) use crate::segment::filter::{AbortedRange, TimestampBounds};
