//! The producers of each partition, as a broker that loads the log would know them (`DescribeProducers`, KIP-664).
//!
//! The state is that of [`ProducerStateManager`]: the newest sound snapshot up to the log's end, and the batches after
//! it. Nothing is written, and no producer expires: an archived log keeps its producers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::TimestampMillisecondType;
use arrow_array::{
    Array, ArrayRef, Int16Array, Int32Array, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::{Field, Schema};

use crate::error::{Error, Result};
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FolderState};
use crate::io::storage::{Folder, read_small};
use crate::log::dir::{DirState, LogDir, PartitionFolder, PathKind, dir_above};
use crate::log::listed::ListedLog;
use crate::producers::ProducerStateManager;
use crate::producers::entry::ProducerEntry;
use crate::producers::replay::{Rebuilding, ReplayedLog};
use crate::producers::snapshots::{MAX_SNAPSHOT, SnapshotFiles, snapshots_in};
use crate::segment::batches::Batches;
use crate::segment::lookup::SegmentLookup;
use crate::segment::skipping::PastDamage;
use crate::segment::source::Access;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// A partition and its producers.
#[derive(Debug)]
pub(crate) struct Producers {
    /// Partition of the producers.
    pub(crate) folder: PartitionFolder,
    /// By id.
    pub(crate) entries: Vec<ProducerEntry>,
    /// Start of the oldest open transaction.
    pub(crate) first_undecided: Option<Offset>,
    log: ListedLog,
}

/// The log dirs that `paths` are or lie in, and the live partition folders that they name.
///
/// # Errors
/// `Io` for a path that does not exist; `InvalidArgument` for a directory without any of Kafka's files.
pub(crate) fn folders(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Vec<PartitionFolder>)>> {
    let mut found = Vec::new();
    for path in paths {
        let kind = PathKind::of(path)?;
        if kind == PathKind::LogDir {
            let dir = LogDir::open(path)?;
            let is_live = |folder: &&PartitionFolder| folder.name.state == FolderState::Live;
            let live = dir.folders().iter().filter(is_live).cloned();
            found.push((path.clone(), live.collect()));
            continue;
        }
        let folder = if kind == PathKind::File {
            dir_above(path)
        } else {
            path.clone()
        };
        let name = PathKind::partition(&folder)?;
        let log_dir = dir_above(&folder);
        found.push((log_dir, vec![PartitionFolder { name, path: folder }]));
    }
    Ok(found)
}

impl Producers {
    /// Reads the state of every partition below `paths`, by topic and partition; and the errors of those that cannot be
    /// read.
    ///
    /// # Errors
    /// As [`folders`].
    pub(crate) fn of_all(paths: &[PathBuf]) -> Result<(Vec<Self>, Vec<Error>)> {
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        // Many folders of one log dir share its checkpoints.
        let mut states = BTreeMap::new();
        for (log_dir, folders) in folders(paths)? {
            let state = states
                .entry(log_dir)
                .or_insert_with_key(|log_dir| DirState::read(log_dir));
            for folder in folders {
                // It has none.
                if folder.name.topic_partition.topic == CLUSTER_METADATA_TOPIC {
                    continue;
                }
                match Self::of(folder, state) {
                    Ok(producers) => found.push(producers),
                    Err(error) if error.is_of_the_files() => unread.push(error),
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort_by(|a: &Self, b: &Self| a.folder.cmp(&b.folder));
        Ok((found, unread))
    }

    /// Reads the state of one partition of a log dir.
    ///
    /// # Errors
    /// Faults in a batch on the way, `Io`.
    pub(crate) fn of(folder: PartitionFolder, dir: &DirState) -> Result<Self> {
        let log = ListedLog::open_in(Folder::at(&folder.path), folder.name.clone(), dir)?;
        let files = ReadOnly {
            folder: Folder::at(&folder.path),
            trusted: (0..log.segments().len())
                .find(|&n| !log.is_trusted(n))
                .and_then(|n| log.segments().get(n))
                .map(|segment| segment.base_offset),
        };
        let mut state = ProducerStateManager::open(Arc::new(files), i64::MAX)?;
        let to = Rebuilding {
            log_start_offset: log.log_start_offset(),
            log_end_offset: log.log_end_offset()?,
            now_ms: 0,
            // A log of before there were snapshots is looked through all the same.
            was_clean: false,
        };
        state.rebuild(&mut &log, to)?;
        Ok(Self {
            entries: state.active_producers().cloned().collect(),
            first_undecided: state.first_undecided_offset(),
            folder,
            log,
        })
    }

    /// The timestamp of the batch that begins at `offset`; `None` where it is gone or has none.
    pub(crate) fn timestamp_at(&self, offset: Offset) -> Option<TimestampMs> {
        let segment = self.log.segments().get(self.log.floor(offset))?;
        let mut lookup = SegmentLookup::open(segment).ok()?;
        let (_, header) = lookup.find(offset).ok()??;
        let timestamp = match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            _ => header.base_timestamp,
        };
        (header.base_offset == offset && timestamp != NO_TIMESTAMP).then_some(timestamp)
    }
}

/// Snapshots that are read, while nothing is written or removed.
#[derive(Debug)]
struct ReadOnly {
    folder: Folder,
    /// Those above are made again when a broker recovers the segments from here on (`LogLoader.recoverSegment`).
    trusted: Option<Offset>,
}

impl SnapshotFiles for ReadOnly {
    fn list(&self) -> Result<Vec<(Offset, String)>> {
        let mut found = snapshots_in(&*self.folder)?;
        found.retain(|&(offset, _)| self.trusted.is_none_or(|trusted| offset <= trusted));
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        read_small(&*self.folder, name, MAX_SNAPSHOT)
    }

    fn write(&self, _name: &str, _data: &[u8], _sync: bool) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn mark_deleted(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }
}

impl ReplayedLog for &ListedLog {
    type Policy = PastDamage;

    fn base_offsets(&self) -> Vec<Offset> {
        let segments = self.segments().iter();
        segments.map(|segment| segment.base_offset).collect()
    }

    /// The log ends where its listed bytes do.
    fn batches(
        &mut self,
        base_offset: Offset,
        start: Offset,
        _: Option<Offset>,
    ) -> Result<Option<Batches<PastDamage>>> {
        let Some(segment) = self.segments().get(self.floor(base_offset)) else {
            return Ok(None);
        };
        let Some((position, _)) = SegmentLookup::open(segment)?.find(start)? else {
            return Ok(None);
        };
        let source = segment.open_by_copy(Access::Headers)?;
        Ok(Some(segment.batches(source, position)))
    }
}

/// Milliseconds since the epoch, as a column.
pub(crate) fn times(values: Vec<Option<TimestampMs>>) -> ArrayRef {
    let times = PrimitiveArray::<TimestampMillisecondType>::from(values);
    Arc::new(times.with_timezone("UTC"))
}

/// A table of these columns.
///
/// # Errors
/// `Internal`.
pub(crate) fn table(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays)
        .map_err(|error| Error::internal(format_args!("Arrow refused a column: {error}")))
}

/// Finds every producer of every partition below `paths`; and the errors of those that cannot be read.
///
/// # Errors
/// As [`Producers::of_all`].
pub(crate) fn producers(paths: &[PathBuf]) -> Result<(RecordBatch, Vec<Error>)> {
    let (all, unread) = Producers::of_all(paths)?;
    let rows = || {
        all.iter().flat_map(|partition| {
            let key = &partition.folder.name.topic_partition;
            partition.entries.iter().map(move |entry| (key, entry))
        })
    };
    let numbers = |value: fn(&ProducerEntry) -> i64| -> ArrayRef {
        Arc::new(
            rows()
                .map(|(_, entry)| value(entry))
                .collect::<Int64Array>(),
        )
    };
    let small = |value: fn(&ProducerEntry) -> i32| -> ArrayRef {
        Arc::new(
            rows()
                .map(|(_, entry)| value(entry))
                .collect::<Int32Array>(),
        )
    };
    let topics = rows().map(|(key, _)| Some(key.topic.as_str()));
    let partitions = rows().map(|(key, _)| key.partition);
    let epochs = rows().map(|(_, entry)| entry.producer_epoch());
    let last = rows().map(|(_, entry)| known_time(entry.last_timestamp()));
    let rows = table(vec![
        ("topic", Arc::new(topics.collect::<StringArray>())),
        ("partition", Arc::new(partitions.collect::<Int32Array>())),
        ("producerId", numbers(ProducerEntry::producer_id)),
        ("producerEpoch", Arc::new(epochs.collect::<Int16Array>())),
        ("lastSequence", small(ProducerEntry::last_sequence)),
        ("lastOffset", numbers(ProducerEntry::last_data_offset)),
        ("lastTimestamp", times(last.collect())),
        ("coordinatorEpoch", small(ProducerEntry::coordinator_epoch)),
        ("currentTransactionFirstOffset", numbers(open_since)),
    ])?;
    Ok((rows, unread))
}

/// A timestamp, if there is one.
pub(super) fn known_time(timestamp: TimestampMs) -> Option<TimestampMs> {
    (timestamp != NO_TIMESTAMP).then_some(timestamp)
}

fn open_since(entry: &ProducerEntry) -> Offset {
    entry.current_txn_first_offset().unwrap_or(-1)
}
