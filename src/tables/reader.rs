//! The records of internal topics, decoded, as a stream of Arrow record batches.
//!
//! | column | type | null |
//! |---|---|---|
//! | topic, partition, segment, offset, timestamp | as in a scan | |
//! | type | string | where the kind is not known |
//! | keyVersion | int16 | in topics without keys |
//! | valueVersion | int16 | for a null value |
//! | key, value | string: JSON | in topics without keys; for a null value; for what could not be decoded |
//! | keyBytes, valueBytes | binary | for what was decoded |

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::entries::{RawRecord, TableRecords};
use super::metadata_log;
use super::metadata_state::AllRefused;
use super::topic::{DecodedRecord, MessageDecoder, RecordPart, Show};
use crate::arrow::batches::aligned;
use crate::arrow::payload::Gathered;
use crate::error::{Error, Result};
use crate::scan::range::PartitionRange;
use crate::scan::reader::Context;
use crate::segment::metrics::Metrics;
use crate::segment::reader::ReadOptions;
use crate::types::{Offset, TimestampMs};

/// Most rows of a record batch.
const ROWS: usize = 1 << 16;
/// About the most bytes of a record batch, unless one record alone has more.
const BYTES: usize = 8 << 20;
/// The longest JSON of a key or a value; a record with more stays as it is. A column holds less than 2 GiB.
const MOST_JSON: usize = 1 << 30;

/// The schema of every batch.
pub(crate) fn schema() -> SchemaRef {
    let field = |name: &str, kind: DataType| Field::new(name, kind, true);
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        field("topic", DataType::Utf8),
        field("partition", DataType::Int32),
        field("segment", DataType::Utf8),
        field("offset", DataType::Int64),
        field("timestamp", time),
        field("type", DataType::Utf8),
        field("keyVersion", DataType::Int16),
        field("valueVersion", DataType::Int16),
        field("key", DataType::Utf8),
        field("value", DataType::Utf8),
        field("keyBytes", DataType::Binary),
        field("valueBytes", DataType::Binary),
    ]))
}

/// Reads and decodes planned ranges on the calling thread.
#[derive(Debug)]
pub(crate) struct TableReader {
    entries: TableRecords,
    rows: TableRows,
    done: u64,
    undecoded: u64,
    /// Records that are left out.
    refused: Arc<AllRefused>,
    failed: Option<Error>,
}

impl TableReader {
    /// Creates a reader of `ranges`, which hold internal topics, one after the other.
    pub(crate) fn new(ranges: Vec<PartitionRange>, show: Show) -> Self {
        Self {
            entries: TableRecords::new(ranges, ReadOptions::default()),
            rows: TableRows::new(show),
            done: 0,
            undecoded: 0,
            refused: Arc::default(),
            failed: None,
        }
    }

    /// Creates a reader of the selection from a metadata log, without the records that cannot be applied.
    pub(crate) fn of_metadata(
        ranges: Vec<PartitionRange>,
        show: Show,
        refused: Arc<AllRefused>,
    ) -> Self {
        Self {
            entries: TableRecords::new(ranges, metadata_log::reading()),
            refused,
            ..Self::new(Vec::new(), show)
        }
    }

    /// Counts so far, and the rows.
    pub(crate) const fn metrics(&self) -> (Metrics, u64) {
        (self.entries.metrics(), self.done)
    }

    /// Records of which something could not be decoded.
    pub(crate) const fn undecoded(&self) -> u64 {
        self.undecoded
    }

    /// The next rows; `None` at the end. Rows before a fault come before the error.
    ///
    /// # Errors
    /// What reading finds; never what a record holds.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while !self.rows.is_full() {
            match self.entries.advance() {
                Ok(true) if self.append()? => {}
                Ok(_) => break,
                Err(error) if self.rows.len() == 0 => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        if self.rows.len() == 0 {
            return Ok(None);
        }
        self.rows.finish().map(Some)
    }

    /// Appends what fits of the records that were read; false where some do not.
    fn append(&mut self) -> Result<bool> {
        let context = self.entries.context();
        let topic =
            (self.entries.topic()).ok_or_else(|| Error::internal("a table of another topic"))?;
        let mut decoder = MessageDecoder::new()?;
        let (mut read, mut added, mut fit) = (0usize, 0usize, true);
        for entry in self.entries.iter() {
            fit = self.rows.has_room(&entry);
            if !fit {
                break;
            }
            read = read.saturating_add(1);
            if self.refused.has(&context.segment, entry.offset) {
                continue;
            }
            let record = decoder.decode(topic, entry.key, entry.value);
            let is_whole = self.rows.push(&entry, &record)?;
            self.undecoded = self.undecoded.saturating_add((!is_whole).into());
            added = added.saturating_add(1);
        }
        self.rows.place(context, added)?;
        self.done = self.done.saturating_add(added as u64);
        self.entries.consume(read);
        Ok(fit)
    }
}

/// The columns of a batch being built.
#[derive(Debug)]
struct TableRows {
    show: Show,
    /// Of keys and values, as they were read or as they are shown, whichever is more.
    bytes: usize,
    topic: Gathered,
    partition: Vec<i32>,
    segment: Gathered,
    offset: Vec<Offset>,
    timestamp: Vec<TimestampMs>,
    kind: Gathered,
    key_version: Vec<Option<i16>>,
    value_version: Vec<Option<i16>>,
    key: PartColumns,
    value: PartColumns,
}

impl TableRows {
    fn new(show: Show) -> Self {
        let text = || Gathered::new(1024, 16 << 10);
        Self {
            show,
            bytes: 0,
            topic: text(),
            partition: Vec::new(),
            segment: text(),
            offset: Vec::new(),
            timestamp: Vec::new(),
            kind: text(),
            key_version: Vec::new(),
            value_version: Vec::new(),
            key: PartColumns::new(),
            value: PartColumns::new(),
        }
    }

    const fn len(&self) -> usize {
        self.offset.len()
    }

    const fn is_full(&self) -> bool {
        self.len() >= ROWS || self.bytes >= BYTES
    }

    /// Returns whether this one may be added; the first one always may.
    fn has_room(&self, entry: &RawRecord<'_>) -> bool {
        let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let more = len(entry.key).saturating_add(len(entry.value));
        self.len() == 0 || (self.len() < ROWS && self.bytes.saturating_add(more) < BYTES)
    }

    /// Adds a record, without its place; false where something of it was not decoded.
    fn push(&mut self, entry: &RawRecord<'_>, record: &DecodedRecord<'_>) -> Result<bool> {
        self.offset.push(entry.offset);
        self.timestamp.push(entry.timestamp);
        self.kind.repeat(record.name().map(str::as_bytes), 1)?;
        self.key_version.push(record.key_version);
        self.value_version.push(record.value_version);
        let mut is_whole = true;
        for (columns, part, raw) in [
            (&mut self.key, &record.key, entry.key),
            (&mut self.value, &record.value, entry.value),
        ] {
            let (bytes, decoded) = columns.push(part, raw, self.show)?;
            self.bytes = self.bytes.saturating_add(bytes);
            is_whole &= decoded;
        }
        Ok(is_whole)
    }

    /// Says where the last `rows` are from.
    fn place(&mut self, context: &Context, rows: usize) -> Result<()> {
        self.topic.repeat(Some(context.topic.as_bytes()), rows)?;
        self.segment
            .repeat(Some(context.segment.as_bytes()), rows)?;
        let rows = self.partition.len().saturating_add(rows);
        self.partition.resize(rows, context.partition);
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        self.bytes = 0;
        let times = numbers::<TimestampMillisecondType>(&mut self.timestamp);
        let (key, key_bytes) = self.key.finish()?;
        let (value, value_bytes) = self.value.finish()?;
        let arrays = vec![
            self.topic.finish_text()?,
            aligned(&array(numbers::<Int32Type>(&mut self.partition)))?,
            self.segment.finish_text()?,
            aligned(&array(numbers::<Int64Type>(&mut self.offset)))?,
            aligned(&array(times.with_timezone("UTC")))?,
            self.kind.finish_text()?,
            aligned(&versions(&mut self.key_version))?,
            aligned(&versions(&mut self.value_version))?,
            key,
            value,
            key_bytes,
            value_bytes,
        ];
        RecordBatch::try_new(schema(), arrays)
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))
    }
}

fn numbers<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>) -> PrimitiveArray<T> {
    let array = PrimitiveArray::from_iter_values(values.iter().copied());
    values.clear();
    array
}

fn versions(values: &mut Vec<Option<i16>>) -> ArrayRef {
    array(values.drain(..).collect::<PrimitiveArray<Int16Type>>())
}

fn array<T: ArrowPrimitiveType>(values: PrimitiveArray<T>) -> ArrayRef {
    Arc::new(values)
}

/// A key or a value: as JSON, or as it was read.
#[derive(Debug)]
struct PartColumns {
    json: Gathered,
    raw: Gathered,
    scratch: Vec<u8>,
}

impl PartColumns {
    fn new() -> Self {
        Self {
            json: Gathered::new(1024, 64 << 10),
            raw: Gathered::new(1024, 0),
            scratch: Vec::new(),
        }
    }

    /// Adds a part that was read as `raw`; returns the bytes that were added, and whether it is no raw one.
    fn push(
        &mut self,
        part: &RecordPart<'_>,
        raw: Option<&[u8]>,
        show: Show,
    ) -> Result<(usize, bool)> {
        self.scratch.clear();
        self.scratch.shrink_to(BYTES);
        if let RecordPart::Message(message) = part {
            message.put_json(show, &mut self.scratch);
        }
        let (json, raw) = match part {
            RecordPart::Null => (None, None),
            RecordPart::Message(_) if self.scratch.len() <= MOST_JSON => {
                (Some(&*self.scratch), None)
            }
            RecordPart::Message(_) | RecordPart::Raw(_) => (None, raw),
        };
        self.json.repeat(json, 1)?;
        self.raw.repeat(raw, 1)?;
        let added = json.or(raw).unwrap_or_default().len();
        Ok((added, raw.is_none()))
    }

    fn finish(&mut self) -> Result<(ArrayRef, ArrayRef)> {
        Ok((self.json.finish_text()?, self.raw.finish()?))
    }
}
