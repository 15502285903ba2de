//! Committed offsets: `__consumer_offsets` replayed as its coordinator loads it (`OffsetMetadataManager`).
//!
//! | record | effect |
//! |---|---|
//! | a commit | sets the offset |
//! | a commit in a transaction | is pending |
//! | a tombstone | removes the offset, and its pending commits |
//! | COMMIT of the producer | sets the pending offset, unless a later record committed another |
//! | ABORT of the producer | drops the pending offset |
//!
//! Memory grows with the offsets that exist, not with the records. A group is in one partition, and so are the commits
//! of its transactions: an offset that is pending at the end of a partition belongs to an open transaction.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::entries::{self, TableRecords};
use super::metadata_state::{AllRefused, RefusedRecord};
use super::topic::{MessageDecoder, RecordPart, Topic};
use crate::error::Result;
use crate::format::control::ControlType;
use crate::format::cursor::get_i16;
use crate::format::uuid::Uuid;
use crate::scan::range::PartitionRange;
use crate::segment::metrics::Metrics;
use crate::segment::reader::ReadOptions;
use crate::types::{Offset, TimestampMs};

/// The last kind of key that is of a commit (`CoordinatorRecordType`).
const LAST_COMMIT_KIND: i16 = 1;

/// Committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) offset: Offset,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Box<str>,
    /// -1 where the record has none.
    pub(crate) committed_at: TimestampMs,
    /// -1 where the record has none.
    pub(crate) expires_at: TimestampMs,
    pub(crate) topic_id: Uuid,
}

/// Group, topic and partition of an offset.
pub(crate) type OffsetKey = (Arc<str>, Arc<str>, i32);

/// A row: an offset, or a change of one.
#[derive(Clone, Debug)]
pub(crate) struct OffsetRow {
    pub(crate) place: OffsetKey,
    /// `None` for a deletion.
    pub(crate) commit: Option<Commit>,
    /// In an open transaction.
    pub(crate) is_pending: bool,
    /// Of the record.
    pub(crate) log_offset: Offset,
    /// Of the record.
    pub(crate) log_timestamp: TimestampMs,
}

/// The offsets at the end of `ranges`, by group, topic and partition; `with_pending` also those that were never
/// committed, but are in an open transaction.
///
/// # Errors
/// What reading finds; never what a record holds.
pub(crate) fn current(
    ranges: Vec<PartitionRange>,
    with_pending: bool,
) -> Result<(Vec<OffsetRow>, Replayed)> {
    let mut state = OffsetState::default();
    let replayed = replay(ranges, &mut state)?;
    Ok((state.into_rows(with_pending), replayed))
}

/// Every change but those of aborted transactions, in the order of the records.
///
/// # Errors
/// As [`current`].
pub(crate) fn history(ranges: Vec<PartitionRange>) -> Result<(Vec<OffsetRow>, Replayed)> {
    let mut changes = OffsetChanges::default();
    let replayed = replay(ranges, &mut changes)?;
    Ok((changes.rows.into_iter().flatten().collect(), replayed))
}

/// Result of a replay.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) metrics: Metrics,
    /// Commits that could not be decoded: what was committed before them may be shown.
    pub(crate) refused: AllRefused,
}

/// Receiver of events, in order.
trait OffsetReplay {
    /// A commit or, without one, a deletion; by a producer where it is in a transaction.
    fn change(&mut self, row: OffsetRow, producer_id: Option<i64>);
    /// A producer's transaction ends.
    fn end_transaction(&mut self, producer_id: i64, is_committed: bool);
    /// There is no more of this partition.
    fn end_partition(&mut self);
}

fn replay(ranges: Vec<PartitionRange>, to: &mut impl OffsetReplay) -> Result<Replayed> {
    let options = ReadOptions {
        include_control: true,
        ..ReadOptions::default()
    };
    let mut entries = TableRecords::new(ranges, options);
    let mut names = Names::default();
    let (mut partition, mut refused) = (None, AllRefused::default());
    while entries.advance()? {
        let here = entries.context().partition;
        if partition.replace(here).is_some_and(|last| last != here) {
            to.end_partition();
        }
        let mut decoder = MessageDecoder::new()?;
        let mut records = 0usize;
        for entry in entries.iter() {
            if let Err(reason) = apply(&mut decoder, &entry, &mut names, to) {
                refused.add(RefusedRecord {
                    segment: Arc::clone(&entries.context().segment),
                    offset: entry.offset,
                    reason: format!("{}-{here}: {reason}", Topic::ConsumerOffsets.name()),
                    is_unknown: true,
                });
            }
            records = records.saturating_add(1);
        }
        entries.consume(records);
    }
    to.end_partition();
    Ok(Replayed {
        metrics: entries.metrics(),
        refused,
    })
}

/// Applies a record; the error says which commit cannot be decoded. Of other records nothing is said.
fn apply<'a>(
    decoder: &mut MessageDecoder<'a>,
    entry: &entries::RawRecord<'a>,
    names: &mut Names,
    to: &mut impl OffsetReplay,
) -> std::result::Result<(), String> {
    let header = entry.header;
    if header.is_control() {
        let kind = entry.key.and_then(|key| ControlType::parse(key).ok());
        if let Some(kind) = kind.filter(|kind| kind.ends_transaction()) {
            to.end_transaction(header.producer_id, kind == ControlType::Commit);
        }
        return Ok(());
    }
    let kind = entry.key.and_then(|key| get_i16(key, 0));
    if !kind.is_some_and(|kind| (0..=LAST_COMMIT_KIND).contains(&kind)) {
        return Ok(());
    }
    let record = decoder.decode(Topic::ConsumerOffsets, entry.key, entry.value);
    let Some(key) = record.key.fields() else {
        return Err("a commit whose key cannot be decoded".to_owned());
    };
    let (group, topic) = (key.get("group"), key.get("topic"));
    let (Some(group), Some(topic), Some(partition)) =
        (group.text(), topic.text(), key.get("partition").narrow())
    else {
        return Err("a commit without a group, a topic or a partition".to_owned());
    };
    let commit = match &record.value {
        RecordPart::Null => None,
        RecordPart::Raw(fault) => {
            let version = record.value_version.unwrap_or(-1);
            let why = if fault.is_of_newer() {
                format!("in version {version}, which is not known to Kafka 4.4 and earlier")
            } else {
                format!(
                    "that cannot be decoded: byte {}: expected {}",
                    fault.at, fault.expected
                )
            };
            return Err(format!(
                "a commit of group {group}, topic {topic}, partition {partition} {why}"
            ));
        }
        RecordPart::Message(value) => {
            let value = value.fields;
            Some(Commit {
                offset: value.get("offset").int().unwrap_or(-1),
                leader_epoch: value.get("leaderEpoch").narrow().unwrap_or(-1),
                metadata: value.get("metadata").text().unwrap_or_default().into(),
                committed_at: value.get("commitTimestamp").int().unwrap_or(-1),
                expires_at: value.get("expireTimestamp").int().unwrap_or(-1),
                topic_id: value.get("topicId").uuid().unwrap_or(Uuid::ZERO),
            })
        }
    };
    let row = OffsetRow {
        place: (names.group(&group), names.topic(&topic), partition),
        commit,
        is_pending: false,
        log_offset: entry.offset,
        log_timestamp: entry.timestamp,
    };
    to.change(row, (header.producer_id >= 0).then_some(header.producer_id));
    Ok(())
}

/// Names that many places share.
#[derive(Debug, Default)]
struct Names {
    topics: HashSet<Arc<str>>,
    /// Records of a group often follow each other.
    last_group: Option<Arc<str>>,
}

impl Names {
    fn topic(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.topics.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        self.topics.insert(Arc::clone(&new));
        new
    }

    fn group(&mut self, name: &str) -> Arc<str> {
        match &self.last_group {
            Some(last) if **last == *name => Arc::clone(last),
            _ => Arc::clone(self.last_group.insert(name.into())),
        }
    }
}

type OffsetsByKey = HashMap<OffsetKey, OffsetRow>;

/// The offsets as they are now.
#[derive(Debug, Default)]
struct OffsetState {
    committed: OffsetsByKey,
    /// By producer, those of the current partition.
    pending: BTreeMap<i64, OffsetsByKey>,
    /// Of the partitions before.
    open: Vec<OffsetRow>,
}

impl OffsetState {
    fn into_rows(self, with_pending: bool) -> Vec<OffsetRow> {
        let mut rows = self.committed;
        let mut open = self.open;
        // The last one first, where producers have one each.
        open.sort_unstable_by_key(|row| std::cmp::Reverse(row.log_offset));
        for row in open {
            // A broker continues to answer with what was committed before.
            match rows.entry(row.place.clone()) {
                Entry::Occupied(mut known) => known.get_mut().is_pending = true,
                Entry::Vacant(place) if with_pending => {
                    place.insert(row).is_pending = true;
                }
                Entry::Vacant(_) => {}
            }
        }
        let mut rows: Vec<OffsetRow> = rows.into_values().collect();
        rows.sort_unstable_by(|a, b| a.place.cmp(&b.place));
        rows
    }
}

impl OffsetReplay for OffsetState {
    fn change(&mut self, row: OffsetRow, producer_id: Option<i64>) {
        match (&row.commit, producer_id) {
            (None, _) => {
                self.committed.remove(&row.place);
                for pending in self.pending.values_mut() {
                    pending.remove(&row.place);
                }
            }
            (Some(_), None) => {
                self.committed.insert(row.place.clone(), row);
            }
            (Some(_), Some(producer_id)) => {
                let pending = self.pending.entry(producer_id).or_default();
                pending.insert(row.place.clone(), row);
            }
        }
    }

    fn end_transaction(&mut self, producer_id: i64, is_committed: bool) {
        let pending = self.pending.remove(&producer_id);
        for (place, row) in pending.into_iter().flatten().filter(|_| is_committed) {
            let known = self.committed.get(&place);
            if known.is_none_or(|known| known.log_offset < row.log_offset) {
                self.committed.insert(place, row);
            }
        }
    }

    fn end_partition(&mut self) {
        let pending = std::mem::take(&mut self.pending).into_values();
        self.open.extend(pending.flat_map(HashMap::into_values));
    }
}

/// All changes; those of aborted transactions are taken out again.
#[derive(Debug, Default)]
struct OffsetChanges {
    rows: Vec<Option<OffsetRow>>,
    /// By producer, places in the list.
    pending: BTreeMap<i64, Vec<usize>>,
}

impl OffsetReplay for OffsetChanges {
    fn change(&mut self, mut row: OffsetRow, producer_id: Option<i64>) {
        if let Some(producer_id) = producer_id {
            row.is_pending = true;
            let pending = self.pending.entry(producer_id).or_default();
            pending.push(self.rows.len());
        }
        self.rows.push(Some(row));
    }

    fn end_transaction(&mut self, producer_id: i64, is_committed: bool) {
        for place in self.pending.remove(&producer_id).into_iter().flatten() {
            let Some(slot) = self.rows.get_mut(place) else {
                continue;
            };
            match slot {
                Some(row) if is_committed => row.is_pending = false,
                _ => *slot = None,
            }
        }
    }

    fn end_partition(&mut self) {
        self.pending.clear();
    }
}
