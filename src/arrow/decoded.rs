//! Keys and values that are decoded: their rows, and the columns that show them.
//!
//! One decoding of a payload feeds several columns. So rows are decoded before any column takes them, side by side with
//! the keys, and the columns here only hand over what has been built. What cannot be decoded ends the rows, or is null in
//! them, or is left out of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};

use super::payload::PayloadPart;
use super::payload_column::payload_bytes;
use super::rows::Rows;
use super::schema::{Column, decoded_type, shown};
use super::sources::DataBuffers;
use super::value_column::{AppendError, ValueColumn};
use crate::error::{Error, FaultKind, Result};
use crate::io::threads::lock;
use crate::records::RecordSlot;
use crate::records::chunk::Chunk;
use crate::scan::reader::Context;
use crate::types::Offset;
use crate::values::decoder::BLOCK;
use crate::values::decoding::{Decoding, OnUndecoded};
use crate::values::fault::{Cause, Undecoded};
use crate::values::payloads::{DecodedPart, PayloadDecoder, Wanted};
use crate::values::schemas::Side;

/// Rows after which the size of a batch is looked at again, at most.
const MOST_UNSEEN: usize = 16;

/// Offsets of one schema that an error names.
const MOST_NAMED: usize = 3;

/// The decoded sides of a batch.
#[derive(Debug)]
pub(super) struct DecodedSides {
    sides: Vec<(Side, Arc<Mutex<PayloadDecoder>>)>,
    on_undecoded: OnUndecoded,
    /// Bytes at which the batch ends.
    most_bytes: usize,
    /// Rows to decode before the size is looked at.
    pace: usize,
    /// Unknown fields that were told.
    told: u64,
}

/// The outcome of decoding the first records of a chunk.
#[derive(Debug, Default)]
pub(super) struct DecodedRows {
    /// Number of records that were looked at. The batch is full after them, or there is an error.
    pub(super) taken: usize,
    /// Those of them that are to be left out.
    pub(super) dropped: Vec<usize>,
    /// Those without a value because of a fault, not counting what is left out.
    pub(super) undecoded: Vec<usize>,
    /// The fault of the record after them. The position counts from its batch.
    pub(super) failed: Option<Error>,
}

impl DecodedSides {
    /// Without rows.
    ///
    /// # Errors
    /// `InvalidArgument` for reader schemas that cannot be used.
    pub(super) fn try_new(
        decoding: &Arc<Decoding>,
        columns: &[Column],
        most_bytes: usize,
    ) -> Result<Self> {
        let mut sides = Vec::new();
        for side in [Side::Key, Side::Value] {
            let has = |part| {
                columns
                    .iter()
                    .any(|column| shown(*column) == Some((side, part)))
            };
            let wanted = Wanted {
                values: has(DecodedPart::Value)
                    || has(DecodedPart::Error)
                    || decoding.on_undecoded == OnUndecoded::Skip,
                ids: has(DecodedPart::SchemaId),
                guids: has(DecodedPart::SchemaGuid),
                errors: has(DecodedPart::Error),
            };
            if decoding.side(side).is_some() && (wanted.values || wanted.ids || wanted.guids) {
                let payloads = PayloadDecoder::try_new(decoding, side, wanted)?;
                sides.push((side, Arc::new(Mutex::new(payloads))));
            }
        }
        Ok(Self {
            sides,
            on_undecoded: decoding.on_undecoded,
            most_bytes,
            pace: 1,
            told: 0,
        })
    }

    /// The column of this name, if it shows a decoded side.
    pub(super) fn column(
        &self,
        decoding: &Decoding,
        column: Column,
    ) -> Option<Box<dyn ValueColumn>> {
        let (side, part) = shown(column)?;
        let (_, payloads) = self.sides.iter().find(|(each, _)| *each == side)?;
        Some(Box::new(DecodedColumn {
            data_type: decoded_type(decoding, column)?,
            payloads: Arc::clone(payloads),
            part,
            payload: part_of(side),
        }))
    }

    /// Decodes the first `count` records of a chunk, into a batch of `rows` rows so far.
    pub(super) fn decode(
        &mut self,
        chunk: &Chunk,
        count: usize,
        rows: usize,
        context: &Context,
    ) -> Result<DecodedRows> {
        let (Some(slots), Some(source)) = (chunk.slots().get(..count), chunk.bytes()) else {
            return Err(Error::internal("records without the bytes they lie in"));
        };
        let source = source.as_slice();
        let mut sides: Vec<_> = self
            .sides
            .iter()
            .map(|(side, payloads)| (*side, lock(payloads)))
            .collect();
        let before = bytes_of(&sides);
        let mut done = DecodedRows::default();
        let mut unseen = 0usize;
        let mut runs = chunk.runs().iter();
        let (mut left_of_run, mut is_control) = (0usize, false);
        let mut kept = 0usize;
        let has_control = chunk.runs().iter().any(|run| run.header.is_control());
        // Rows to decode one by one: those of a block with a fault.
        let mut singly = if has_control { usize::MAX } else { 0 };
        while let Some(slot) = slots.get(done.taken) {
            let rest = slots.get(done.taken..).unwrap_or_default();
            let most = if singly == 0 {
                self.pace.saturating_sub(unseen).min(BLOCK)
            } else {
                0
            };
            let block = rest.get(..most).unwrap_or(rest);
            let mut taken = block.len();
            if push_block(
                &mut sides,
                block,
                rows.saturating_add(kept),
                source,
                context,
            ) {
                kept = kept.saturating_add(taken);
            } else {
                singly = singly.max(taken).saturating_sub(1);
                taken = 1;
                while has_control && left_of_run == 0 {
                    let Some(run) = runs.next() else { break };
                    (left_of_run, is_control) = (run.rows, run.header.is_control());
                }
                left_of_run = left_of_run.saturating_sub(1);
                match push_row(&mut sides, slot, source, is_control, context) {
                    Ok(()) => kept = kept.saturating_add(1),
                    Err((_, why))
                        if why.cause() == Cause::TooLarge && rows.saturating_add(kept) > 0 =>
                    {
                        // It may fit into a batch of its own.
                        truncate(&mut sides, rows.saturating_add(kept));
                        break;
                    }
                    Err((side, why)) => match self.on_undecoded {
                        OnUndecoded::Null => {
                            push_faulty(&mut sides, side, &why, slot, source, context);
                            done.undecoded.push(kept);
                            kept = kept.saturating_add(1);
                        }
                        OnUndecoded::Skip => {
                            truncate(&mut sides, rows.saturating_add(kept));
                            done.dropped.push(done.taken);
                        }
                        OnUndecoded::Raise => {
                            truncate(&mut sides, rows.saturating_add(kept));
                            let rest = slots.get(done.taken..).unwrap_or_default();
                            let side = sides.get_mut(side);
                            done.failed = side.map(|(side, payloads)| {
                                failure(*side, payloads, &why, rest, source, context)
                            });
                            break;
                        }
                    },
                }
            }
            done.taken = done.taken.saturating_add(taken);
            unseen = unseen.saturating_add(taken);
            if unseen >= self.pace {
                unseen = 0;
                let bytes = bytes_of(&sides);
                let grown = bytes.saturating_sub(before);
                let free = self.most_bytes.saturating_sub(bytes);
                let of_row = grown.checked_div(done.taken).unwrap_or(grown);
                let pace = free
                    .checked_div(of_row.saturating_mul(4))
                    .unwrap_or(MOST_UNSEEN);
                self.pace = pace.clamp(1, MOST_UNSEEN);
                if free == 0 {
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Unknown fields of messages since the last call.
    pub(super) fn take_unknown_fields(&mut self) -> u64 {
        let all = self
            .sides
            .iter()
            .map(|(_, payloads)| lock(payloads).unknown_fields());
        let all = all.fold(0, u64::saturating_add);
        all.saturating_sub(std::mem::replace(&mut self.told, all))
    }
}

type LockedSides<'a> = [(Side, MutexGuard<'a, PayloadDecoder>)];

const fn part_of(side: Side) -> PayloadPart {
    match side {
        Side::Key => PayloadPart::Key,
        Side::Value => PayloadPart::Value,
    }
}

fn bytes_of(sides: &LockedSides<'_>) -> usize {
    let all = sides.iter().map(|(_, payloads)| payloads.bytes());
    all.fold(0, usize::saturating_add)
}

fn truncate(sides: &mut LockedSides<'_>, rows: usize) {
    for (_, payloads) in sides {
        payloads.truncate(rows);
    }
}

/// Appends a record to all sides; the index of the one that refuses it, and why.
#[inline]
fn push_row(
    sides: &mut LockedSides<'_>,
    slot: &RecordSlot,
    source: &[u8],
    is_control: bool,
    context: &Context,
) -> std::result::Result<(), (usize, Undecoded)> {
    for (index, side) in sides.iter_mut().enumerate() {
        push(side, slot, source, is_control, context).map_err(|why| (index, why))?;
    }
    Ok(())
}

/// Appends records that are no markers, side by side, into a batch of `rows` rows so far. Returns whether all were;
/// nothing is appended otherwise.
fn push_block(
    sides: &mut LockedSides<'_>,
    slots: &[RecordSlot],
    rows: usize,
    source: &[u8],
    context: &Context,
) -> bool {
    if slots.len() < 2 {
        return false;
    }
    let done = sides.iter_mut().all(|(side, payloads)| {
        let block = slots.iter().map(|slot| {
            let payload = part_of(*side).bytes(*slot, source)?;
            Some((payload, slot.headers(source)))
        });
        payloads.push_block(&context.topic, block)
    });
    if !done {
        truncate(sides, rows);
    }
    done
}

#[inline]
fn push(
    (side, payloads): &mut (Side, MutexGuard<'_, PayloadDecoder>),
    slot: &RecordSlot,
    source: &[u8],
    is_control: bool,
    context: &Context,
) -> std::result::Result<(), Undecoded> {
    let payload = part_of(*side).bytes(*slot, source);
    if let Some(payload) = payload.filter(|_| !is_control) {
        return payloads.push(&context.topic, payload, slot.headers(source));
    }
    payloads.push_null();
    Ok(())
}

/// Appends a record that the side at `first` refused, and later ones may refuse, as null there.
#[cold]
fn push_faulty(
    sides: &mut LockedSides<'_>,
    first: usize,
    why: &Undecoded,
    slot: &RecordSlot,
    source: &[u8],
    context: &Context,
) {
    let mut sides = sides.iter_mut().skip(first);
    if let Some((_, payloads)) = sides.next() {
        payloads.push_undecoded(why);
    }
    for side in sides {
        if let Err(why) = push(side, slot, source, false, context) {
            side.1.push_undecoded(&why);
        }
    }
}

/// The error for the first of `rest`. Where its schema cannot be read at all, the error names others of them too.
#[cold]
fn failure(
    side: Side,
    payloads: &mut PayloadDecoder,
    why: &Undecoded,
    rest: &[RecordSlot],
    source: &[u8],
    context: &Context,
) -> Error {
    let schema = payloads.schema_text();
    let schema = schema.map_or_else(
        || "a schema".to_owned(),
        |schema| format!("schema {schema}"),
    );
    let Context {
        topic,
        partition,
        segment,
    } = context;
    let mut found = format!("{why}; topic {topic}, partition {partition}, segment {segment}");
    let mut unreadable: BTreeMap<String, Vec<Offset>> = BTreeMap::new();
    for slot in rest {
        let payload = part_of(side).bytes(*slot, source);
        let of =
            payload.and_then(|payload| payloads.unreadable(topic, payload, slot.headers(source)));
        if let Some(schema) = of {
            unreadable.entry(schema).or_default().push(slot.offset);
        }
    }
    for (schema, offsets) in unreadable {
        let named: Vec<_> = offsets
            .iter()
            .take(MOST_NAMED)
            .map(ToString::to_string)
            .collect();
        let more = offsets.len().saturating_sub(named.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let named = named.join(", ");
        found = format!("{found}; under {schema} are the records at offsets {named}{more}");
    }
    found.push_str("; decode_as=\"json\" decodes each record under its own schema, on_undecoded=\"null\" gives null");
    let expected = format!("bytes that {schema} decodes");
    Error::invalid(side.name(), 0, expected, found).of_kind(FaultKind::Undecoded)
}

/// A column of decoded keys or values, or of what is known of them.
#[derive(Debug)]
struct DecodedColumn {
    payloads: Arc<Mutex<PayloadDecoder>>,
    part: DecodedPart,
    payload: PayloadPart,
    data_type: DataType,
}

impl ValueColumn for DecodedColumn {
    fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.clone(), true)
    }

    /// The rows are there already ([`DecodedSides::decode`]).
    fn append(&mut self, _: &mut Rows<'_>) -> std::result::Result<(), AppendError> {
        Ok(())
    }

    /// As the bytes before they are decoded: batches are cut where they would be cut without decoding.
    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        match self.part {
            DecodedPart::Value => payload_bytes(self.payload, slots),
            DecodedPart::SchemaId | DecodedPart::Error => slots.len().saturating_mul(4),
            DecodedPart::SchemaGuid => slots.len().saturating_mul(40),
        }
    }

    fn finish(&mut self, _: &DataBuffers) -> Result<ArrayRef> {
        lock(&self.payloads).finish(self.part)
    }

    fn truncate(&mut self, rows: usize) {
        lock(&self.payloads).truncate(rows);
    }
}
