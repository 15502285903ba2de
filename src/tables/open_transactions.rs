//! Open transactions of each partition, joined with what their coordinator says of them (KIP-664).
//!
//! A transaction is *hanging* if nothing will ever end it: its coordinator does not know the producer, or does not
//! count the partition among those of an ongoing transaction. Its first offset blocks `read_committed` consumers.
//!
//! | the coordinator's log | the transaction |
//! |---|---|
//! | has the producer, in an ongoing or prepared transaction with this partition | is open |
//! | has the producer, otherwise | hangs |
//! | lacks the producer, and all its partitions are there, by the metadata log or without a gap | hangs |
//! | is missing or damaged | unknown |

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
};

use super::coverage::Coverage;
use super::entries::TableRecords;
use super::plan::plan;
use super::producers::{Producers, folders, known_time, table, times};
use super::topic::{MessageDecoder, Topic};
use crate::error::{Error, Result};
use crate::producers::entry::ProducerEntry;
use crate::segment::reader::ReadOptions;
use crate::types::{Offset, TopicPartition};

/// Transaction of a transactional id in a coordinator's log.
#[derive(Clone, Debug, Default)]
struct Transaction {
    transactional_id: String,
    producer_id: i64,
    /// Of a producer whose id was replaced (KIP-890).
    previous_producer_id: i64,
    status: i64,
    partitions: BTreeSet<TopicPartition>,
}

impl Transaction {
    /// `TransactionState` by its number, as Kafka's tools print it.
    const fn state(&self) -> Option<&'static str> {
        match self.status {
            0 => Some("Empty"),
            1 => Some("Ongoing"),
            2 => Some("PrepareCommit"),
            3 => Some("PrepareAbort"),
            4 => Some("CompleteCommit"),
            5 => Some("CompleteAbort"),
            6 => Some("Dead"),
            7 => Some("PrepareEpochFence"),
            _ => None,
        }
    }

    /// Markers are still to be written.
    const fn is_going_on(&self) -> bool {
        matches!(self.status, 1 | 2 | 3 | 7)
    }
}

/// The coordinators' logs.
#[derive(Debug, Default)]
struct Coordinators {
    by_producer: BTreeMap<i64, Transaction>,
    /// No partition of them is missing, as far as can be seen.
    is_whole: bool,
}

impl Coordinators {
    /// Reads those in the log dirs that `paths` are or lie in; errors go to `unread`.
    fn read(paths: &[PathBuf], unread: &mut Vec<Error>) -> Result<Self> {
        let dirs: BTreeSet<PathBuf> = folders(paths)?.into_iter().map(|(dir, _)| dir).collect();
        let dirs: Vec<PathBuf> = dirs.into_iter().collect();
        let coverage = Coverage::of(&dirs, Topic::TransactionState)?;
        let mut found = Self {
            is_whole: coverage.is_whole(),
            ..Self::default()
        };
        for folder in coverage.folders {
            match latest(folder) {
                Ok(latest) => latest.into_values().for_each(|one| found.add(one)),
                Err(error) if error.is_of_the_files() => {
                    found.is_whole = false;
                    unread.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn add(&mut self, transaction: Transaction) {
        let previous = transaction.previous_producer_id;
        if previous >= 0 {
            self.by_producer
                .entry(previous)
                .or_insert_with(|| transaction.clone());
        }
        self.by_producer
            .insert(transaction.producer_id, transaction);
    }

    /// Returns whether a producer's open transaction in a partition hangs; `None` where that is unknown.
    fn is_hanging(&self, producer_id: i64, partition: &TopicPartition) -> Option<bool> {
        match self.by_producer.get(&producer_id) {
            Some(known) => Some(!known.is_going_on() || !known.partitions.contains(partition)),
            None => self.is_whole.then_some(true),
        }
    }
}

/// The transactional ids in the log of a coordinator, which has all of those it has.
fn latest(folder: PathBuf) -> Result<BTreeMap<String, Transaction>> {
    let mut latest: BTreeMap<String, Transaction> = BTreeMap::new();
    let mut entries = TableRecords::new(plan(&[folder], None)?, ReadOptions::default());
    while entries.advance()? {
        let mut decoder = MessageDecoder::new()?;
        let mut records = 0usize;
        for entry in entries.iter() {
            records = records.saturating_add(1);
            let record = decoder.decode(Topic::TransactionState, entry.key, entry.value);
            let id = record
                .key
                .fields()
                .and_then(|key| key.get("transactionalId").text());
            let Some(id) = id else {
                continue;
            };
            let Some(value) = record.value.fields() else {
                if entry.value.is_none() {
                    latest.remove(&*id);
                }
                continue;
            };
            let number = |name| value.get(name).int().unwrap_or(-1);
            let mut partitions = BTreeSet::new();
            for of_topic in value.get("transactionPartitions").items() {
                let Some(fields) = of_topic.fields() else {
                    continue;
                };
                let topic = fields.get("topic").text().unwrap_or_default();
                for partition in fields.get("partitionIds").items() {
                    let partition = partition.narrow::<i32>().unwrap_or(-1);
                    partitions.insert(TopicPartition::new(&*topic, partition));
                }
            }
            let transaction = Transaction {
                transactional_id: id.to_string(),
                producer_id: number("producerId"),
                previous_producer_id: number("previousProducerId"),
                status: number("transactionStatus"),
                partitions,
            };
            latest.insert(transaction.transactional_id.clone(), transaction);
        }
        entries.consume(records);
    }
    Ok(latest)
}

/// One row.
struct OpenTransactionRow<'a> {
    partition: &'a Producers,
    entry: &'a ProducerEntry,
    first: Offset,
    known: Option<&'a Transaction>,
}

/// Finds every open transaction of every partition below `paths`; and the errors of those, and of coordinators' logs,
/// that cannot be read.
///
/// # Errors
/// As [`Producers::of_all`].
pub(crate) fn open_transactions(paths: &[PathBuf]) -> Result<(RecordBatch, Vec<Error>)> {
    let (all, mut unread) = Producers::of_all(paths)?;
    let coordinators = Coordinators::read(paths, &mut unread)?;
    let mut rows = Vec::new();
    for partition in &all {
        for entry in &partition.entries {
            if let Some(first) = entry.current_txn_first_offset() {
                let known = coordinators.by_producer.get(&entry.producer_id());
                rows.push(OpenTransactionRow {
                    partition,
                    entry,
                    first,
                    known,
                });
            }
        }
    }
    let key = |row: &OpenTransactionRow<'_>| row.partition.folder.name.topic_partition.clone();
    let is_hanging =
        |row: &OpenTransactionRow<'_>| coordinators.is_hanging(row.entry.producer_id(), &key(row));
    let blocks =
        |row: &OpenTransactionRow<'_>| Some(row.partition.first_undecided == Some(row.first));
    let texts = |value: &dyn Fn(&OpenTransactionRow<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let longs = |value: &dyn Fn(&OpenTransactionRow<'_>) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Int64Array>())
    };
    let ints = |value: &dyn Fn(&OpenTransactionRow<'_>) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Int32Array>())
    };
    let flags = |value: &dyn Fn(&OpenTransactionRow<'_>) -> Option<bool>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<BooleanArray>())
    };
    let epochs = rows.iter().map(|row| row.entry.producer_epoch());
    let first = rows.iter().map(|row| row.partition.timestamp_at(row.first));
    let last = rows
        .iter()
        .map(|row| known_time(row.entry.last_timestamp()));
    let rows = table(vec![
        ("topic", texts(&|row| Some(key(row).topic))),
        ("partition", ints(&|row| key(row).partition)),
        ("producerId", longs(&|row| row.entry.producer_id())),
        ("producerEpoch", Arc::new(epochs.collect::<Int16Array>())),
        ("firstOffset", longs(&|row| row.first)),
        ("firstTimestamp", times(first.collect())),
        ("lastTimestamp", times(last.collect())),
        (
            "coordinatorEpoch",
            ints(&|row| row.entry.coordinator_epoch()),
        ),
        (
            "transactionalId",
            texts(&|row| row.known.map(|known| known.transactional_id.clone())),
        ),
        (
            "state",
            texts(&|row| row.known.and_then(Transaction::state).map(str::to_owned)),
        ),
        ("isHanging", flags(&is_hanging)),
        ("blocksLastStableOffset", flags(&blocks)),
    ])?;
    // A damaged part of the coordinators' log is met twice.
    let mut seen = BTreeSet::new();
    unread.retain(|error| seen.insert(error.to_string()));
    Ok((rows, unread))
}
