//! Behaviour as `ProducerStateManagerTest` pins it.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "small numbers in tests; overflow would fail them"
)]

use std::path::Path;

use super::append::TV_UNKNOWN;
use super::snapshots::FolderSnapshots;
use super::*;
use crate::error::ProducerRule;
use crate::format::attributes::Attributes;
use crate::io::disk::Disk;

mod sequences;
mod snapshots;
mod transactions;

const PRODUCER: i64 = 1;
const EXPIRATION_MS: i64 = 1000;

fn open(folder: &Path) -> ProducerStateManager {
    let files = FolderSnapshots::new(folder, &Disk::default());
    ProducerStateManager::open(Arc::new(files), EXPIRATION_MS).unwrap()
}

/// A batch of `records` records.
#[derive(Clone, Copy, Debug)]
struct Batch {
    producer_id: i64,
    epoch: i16,
    sequence: i32,
    offset: Offset,
    records: i32,
    timestamp: TimestampMs,
    transactional: bool,
}

const fn batch(epoch: i16, sequence: i32, offset: Offset) -> Batch {
    Batch {
        producer_id: PRODUCER,
        epoch,
        sequence,
        offset,
        records: 1,
        timestamp: 0,
        transactional: false,
    }
}

const fn transactional(epoch: i16, sequence: i32, offset: Offset) -> Batch {
    Batch {
        transactional: true,
        ..batch(epoch, sequence, offset)
    }
}

impl Batch {
    const fn by(self, producer_id: i64) -> Self {
        Self {
            producer_id,
            ..self
        }
    }

    const fn records(self, records: i32) -> Self {
        Self { records, ..self }
    }

    const fn at(self, timestamp: TimestampMs) -> Self {
        Self { timestamp, ..self }
    }

    fn header(self, is_control: bool) -> BatchHeader {
        let attributes = u8::from(self.transactional) << 4 | u8::from(is_control) << 5;
        BatchHeader {
            base_offset: self.offset,
            size: 61,
            partition_leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: self.records - 1,
            base_timestamp: self.timestamp,
            max_timestamp: self.timestamp,
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            base_sequence: self.sequence,
            records_count: Some(self.records),
        }
    }

    fn append(self, state: &mut ProducerStateManager, origin: AppendOrigin) -> Result<()> {
        let header = self.header(false);
        let analysis = state.analyze([(&header, None)], origin, TV_UNKNOWN)?;
        state.update_all(analysis.appends);
        state.update_map_end_offset(header.next_offset());
        Ok(())
    }

    fn ok(self, state: &mut ProducerStateManager) {
        self.append(state, AppendOrigin::Client).unwrap();
    }

    #[track_caller]
    fn refused(self, state: &mut ProducerStateManager, rule: ProducerRule) {
        refused(self.append(state, AppendOrigin::Client), rule);
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, rule: ProducerRule) {
    match result {
        Err(Error::ProducerRefused(fault)) => assert_eq!(fault.rule, rule),
        other => panic!("{other:?}"),
    }
}

/// A marker, completed as an append does it.
fn end(
    state: &mut ProducerStateManager,
    batch: Batch,
    coordinator_epoch: i32,
    origin: AppendOrigin,
    transaction_version: i16,
) -> Result<Option<(CompletedTxn, Offset)>> {
    let marker = EndTransaction {
        is_abort: true,
        coordinator_epoch,
        timestamp: batch.timestamp,
    };
    let header = Batch {
        sequence: -1,
        ..batch
    }
    .header(true);
    let analysis = state.analyze([(&header, Some(marker))], origin, transaction_version)?;
    state.update_all(analysis.appends);
    let mut stable = None;
    for txn in analysis.completed {
        stable = Some((txn, state.last_stable_offset(&txn)));
        state.complete_txn(&txn)?;
    }
    state.update_map_end_offset(header.next_offset());
    Ok(stable)
}

fn abort(state: &mut ProducerStateManager, epoch: i16, coordinator: i32, offset: Offset) {
    let marker = transactional(epoch, -1, offset);
    end(state, marker, coordinator, AppendOrigin::Coordinator, 0).unwrap();
}

fn snapshots(folder: &Path) -> Vec<Offset> {
    let files = FolderSnapshots::new(folder, &Disk::default());
    let found = files.list().unwrap().into_iter();
    found.map(|(offset, _)| offset).collect()
}
