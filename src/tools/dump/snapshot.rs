//! Producer snapshots and transaction indexes (`dumpProducerIdSnapshot`, `dumpTxnIndex`).

use super::target::{DumpTarget, open};
use super::text::{TextOutput, put};
use crate::error::{Error, Result};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn, ProducerState, sequence_before};
use crate::io::folder::read_file;
use crate::producers::snapshots::MAX_SNAPSHOT;
use crate::segment::source::{Access, SegmentSource};

/// A producer a line.
///
/// # Errors
/// `CorruptIndex` where the file is unsound (nothing is printed of it then), `Io`.
pub(super) fn dump_snapshot(target: &DumpTarget, text: &mut TextOutput<'_>) -> Result<()> {
    let bytes = read_file(&target.path, MAX_SNAPSHOT)?;
    let producers = ProducerState::parse_snapshot(&bytes).map_err(|e| e.at(&target.path))?;
    for producer in producers {
        let open_since = Some(producer.current_txn_first_offset).filter(|&offset| offset >= 0);
        put!(
            text,
            "producerId: ",
            producer.producer_id,
            " producerEpoch: ",
            producer.producer_epoch,
            " coordinatorEpoch: ",
            producer.coordinator_epoch,
            " currentTxnFirstOffset: ",
            open_since,
            " lastTimestamp: ",
            producer.timestamp,
        );
        // A producer known by a marker alone has no batch.
        if producer.last_offset >= 0 {
            put!(
                text,
                " firstSequence: ",
                sequence_before(producer.last_sequence, producer.offset_delta),
                " lastSequence: ",
                producer.last_sequence,
                " lastOffset: ",
                producer.last_offset,
                " offsetDelta: ",
                producer.offset_delta,
                " timestamp: ",
                producer.timestamp,
            );
        }
        text.end_line()?;
    }
    Ok(())
}

/// An aborted transaction a line.
///
/// # Errors
/// `UnsupportedFormat` for a version above the known one (nothing is printed then), `Io`.
pub(super) fn dump_txn_index(target: &DumpTarget, text: &mut TextOutput<'_>) -> Result<()> {
    target.base_offset()?;
    let mut index = open(&target.path, Access::Records)?;
    each_txn(&mut index, |txn, position| {
        let (version, known) = (shown_version(&txn), AbortedTxn::CURRENT_VERSION);
        if i16::from(version) > known {
            let what = "aborted transaction version";
            let error =
                Error::unsupported(what, position, format_args!("at most {known}"), version);
            return Err(error.at(&target.path));
        }
        Ok(())
    })?;
    each_txn(&mut index, |txn, _| {
        put!(
            text,
            "version: ",
            i16::from(shown_version(&txn)),
            " producerId: ",
            txn.producer_id,
            " firstOffset: ",
            txn.first_offset,
            " lastOffset: ",
            txn.last_offset,
            " lastStableOffset: ",
            txn.last_stable_offset,
        );
        text.end_line()
    })
}

/// The version as Kafka 4.3 takes it: the high byte, signed.
const fn shown_version(txn: &AbortedTxn) -> i8 {
    i8::from_be_bytes([txn.version.to_be_bytes()[0]])
}

/// Every whole entry; a part of one at the end is nothing, as it is to Kafka.
fn each_txn(
    index: &mut SegmentSource,
    mut see: impl FnMut(AbortedTxn, u64) -> Result<()>,
) -> Result<()> {
    let mut position = 0u64;
    while let Some(txn) = AbortedTxn::parse(index.bytes(position, ABORTED_TXN_SIZE)?) {
        see(txn, position)?;
        position = position.saturating_add(ABORTED_TXN_SIZE as u64);
    }
    Ok(())
}
