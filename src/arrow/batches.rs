//! One row per Kafka batch, in `kafka-dump-log`'s words; nothing is decompressed, except that a legacy wrapper's first
//! offset cannot be known otherwise.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    UInt32Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch, TimestampMillisecondArray, make_array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::log::range::{PartitionRange, SegmentRange};
use crate::records::legacy;
use crate::segment::batches::{BatchCursor, Bounds};
use crate::segment::source::{Access, SegmentSource};
use crate::types::{Compression, Offset, Position};

/// Most rows of a record batch.
const ROWS: usize = 8192;

/// The columns, in order.
#[must_use]
pub fn batch_schema() -> SchemaRef {
    let time = || DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::from("UTC")));
    let fields = [
        ("topic", DataType::Utf8),
        ("partition", DataType::Int32),
        ("segment", DataType::Utf8),
        ("position", DataType::Int64),
        ("baseOffset", DataType::Int64),
        ("lastOffset", DataType::Int64),
        ("count", DataType::Int32),
        ("baseSequence", DataType::Int32),
        ("lastSequence", DataType::Int32),
        ("producerId", DataType::Int64),
        ("producerEpoch", DataType::Int16),
        ("partitionLeaderEpoch", DataType::Int32),
        ("isTransactional", DataType::Boolean),
        ("isControl", DataType::Boolean),
        ("deleteHorizonMs", DataType::Int64),
        ("baseTimestamp", time()),
        ("maxTimestamp", time()),
        ("timestampType", DataType::Int32),
        ("size", DataType::Int32),
        ("magic", DataType::Int8),
        ("compression", DataType::Utf8),
        ("crc", DataType::UInt32),
        ("isValid", DataType::Boolean),
    ];
    Arc::new(Schema::new(
        fields
            .map(|(name, data_type)| Field::new(name, data_type, true))
            .to_vec(),
    ))
}

/// Reads the headers of planned ranges.
#[derive(Debug)]
pub struct BatchReader {
    ranges: VecDeque<PartitionRange>,
    check_crcs: bool,
    open: Option<Open>,
    decompressor: Decompressor,
    arena: Vec<u8>,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Open {
    range: PartitionRange,
    segment: SegmentRange,
    source: SegmentSource,
    cursor: BatchCursor,
}

impl BatchReader {
    /// Will read `ranges` one after the other; checksums are compared into a column, not into errors.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, check_crcs: bool) -> Self {
        Self {
            ranges: ranges.into(),
            check_crcs,
            open: None,
            decompressor: Decompressor::new(),
            arena: Vec::new(),
            failed: None,
        }
    }

    /// The next rows; `None` at the end. Rows before a fault come first.
    ///
    /// # Errors
    /// What walking the headers finds.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut rows = Rows::default();
        while rows.len < ROWS {
            match self.next_row(&mut rows) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.open = None;
                    self.ranges.clear();
                    if rows.len == 0 {
                        return Err(error);
                    }
                    self.failed = Some(error);
                    break;
                }
            }
        }
        if rows.len == 0 {
            Ok(None)
        } else {
            rows.finish().map(Some)
        }
    }

    fn next_row(&mut self, rows: &mut Rows) -> Result<bool> {
        loop {
            let Some(open) = &mut self.open else {
                if !self.next_segment()? {
                    return Ok(false);
                }
                continue;
            };
            let Some((position, header)) = open.cursor.next(&mut open.source)? else {
                self.open = None;
                continue;
            };
            if header.last_offset() < open.range.start_offset {
                continue;
            }
            if open
                .range
                .end_offset
                .is_some_and(|end| header.base_offset >= end)
            {
                self.open = None;
                continue;
            }
            let valid = self
                .check_crcs
                .then(|| is_valid(open, position, &header))
                .transpose()?;
            let first = if header.is_legacy()
                && header.attributes.codec_id() != 0
                && valid != Some(false)
            {
                self.arena.clear();
                let batch = open.source.bytes(position, header.size)?;
                let mut slots = Vec::new();
                let limit = DecodeLimit::default();
                // A wrapper that cannot be read still has a header; its first offset is then as unknown as its records.
                legacy::walk(
                    batch,
                    0,
                    &header,
                    &mut self.decompressor,
                    &mut self.arena,
                    limit,
                    &mut slots,
                )
                .ok()
                .and_then(|_| slots.first().map(|slot| slot.offset))
            } else {
                Some(header.base_offset)
            };
            rows.push(&open.range, &open.segment, position, &header, first, valid);
            return Ok(true);
        }
    }

    fn next_segment(&mut self) -> Result<bool> {
        loop {
            let Some(range) = self.ranges.front_mut() else {
                return Ok(false);
            };
            if range.segments.is_empty() {
                self.ranges.pop_front();
                continue;
            }
            let segment = range.segments.remove(0);
            let path = range.folder.join(&segment.file_name);
            let access = if self.check_crcs {
                Access::Records
            } else {
                Access::Headers
            };
            let source = SegmentSource::open(&path, segment.size, segment.is_active, access)?;
            let bounds = Bounds {
                base_offset: segment.base_offset,
                next_base_offset: segment.next_base_offset,
                is_active: segment.is_active,
                end: segment.end.map(|cut| cut.position),
            };
            let cursor = BatchCursor::new(bounds, segment.start_position);
            let range = PartitionRange {
                segments: Vec::new(),
                ..range.clone()
            };
            self.open = Some(Open {
                range,
                segment,
                source,
                cursor,
            });
            return Ok(true);
        }
    }
}

fn is_valid(open: &mut Open, position: Position, header: &BatchHeader) -> Result<bool> {
    let batch = open.source.bytes(position, header.size)?;
    Ok(batch.len() == header.size && header.ensure_valid(batch).is_ok())
}

#[derive(Default)]
struct Rows {
    len: usize,
    topic: StringBuilder,
    partition: Int32Builder,
    segment: StringBuilder,
    position: Int64Builder,
    base_offset: Int64Builder,
    last_offset: Int64Builder,
    count: Int32Builder,
    base_sequence: Int32Builder,
    last_sequence: Int32Builder,
    producer_id: Int64Builder,
    producer_epoch: Int16Builder,
    partition_leader_epoch: Int32Builder,
    is_transactional: BooleanBuilder,
    is_control: BooleanBuilder,
    delete_horizon_ms: Int64Builder,
    base_timestamp: Int64Builder,
    max_timestamp: Int64Builder,
    timestamp_type: Int32Builder,
    size: Int32Builder,
    magic: Int8Builder,
    compression: StringBuilder,
    crc: UInt32Builder,
    is_valid: BooleanBuilder,
}

impl Rows {
    fn push(
        &mut self,
        range: &PartitionRange,
        segment: &SegmentRange,
        position: Position,
        header: &BatchHeader,
        first: Option<Offset>,
        valid: Option<bool>,
    ) {
        self.len = self.len.saturating_add(1);
        self.topic.append_value(&range.topic);
        self.partition.append_value(range.partition);
        self.segment.append_value(&segment.file_name);
        self.position.append_option(i64::try_from(position).ok());
        self.base_offset.append_option(first);
        self.last_offset.append_value(header.last_offset());
        self.count.append_option(header.records_count);
        self.base_sequence.append_value(header.base_sequence);
        self.last_sequence.append_value(header.last_sequence());
        self.producer_id.append_value(header.producer_id);
        self.producer_epoch.append_value(header.producer_epoch);
        self.partition_leader_epoch
            .append_value(header.partition_leader_epoch);
        self.is_transactional
            .append_value(header.is_transactional());
        self.is_control.append_value(header.is_control());
        self.delete_horizon_ms
            .append_option(header.delete_horizon_ms());
        self.base_timestamp.append_value(header.base_timestamp);
        self.max_timestamp.append_value(header.max_timestamp);
        self.timestamp_type
            .append_value(header.timestamp_type().id());
        self.size.append_option(i32::try_from(header.size).ok());
        self.magic.append_option(i8::try_from(header.magic).ok());
        self.compression
            .append_option(header.attributes.compression().map(Compression::name));
        self.crc.append_value(header.crc);
        self.is_valid.append_option(valid);
    }

    fn finish(mut self) -> Result<RecordBatch> {
        let time = |mut builder: Int64Builder| -> ArrayRef {
            let (_, values, nulls) = builder.finish().into_parts();
            Arc::new(TimestampMillisecondArray::new(values, nulls).with_timezone("UTC"))
        };
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(self.topic.finish()),
            Arc::new(self.partition.finish()),
            Arc::new(self.segment.finish()),
            Arc::new(self.position.finish()),
            Arc::new(self.base_offset.finish()),
            Arc::new(self.last_offset.finish()),
            Arc::new(self.count.finish()),
            Arc::new(self.base_sequence.finish()),
            Arc::new(self.last_sequence.finish()),
            Arc::new(self.producer_id.finish()),
            Arc::new(self.producer_epoch.finish()),
            Arc::new(self.partition_leader_epoch.finish()),
            Arc::new(self.is_transactional.finish()),
            Arc::new(self.is_control.finish()),
            Arc::new(self.delete_horizon_ms.finish()),
            time(self.base_timestamp),
            time(self.max_timestamp),
            Arc::new(self.timestamp_type.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.magic.finish()),
            Arc::new(self.compression.finish()),
            Arc::new(self.crc.finish()),
            Arc::new(self.is_valid.finish()),
        ];
        let arrays = arrays
            .iter()
            .map(aligned)
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        RecordBatch::try_new(batch_schema(), arrays).map_err(refused)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn refused(error: ArrowError) -> Error {
    Error::InvalidArgument(format!("Arrow refused a batch: {error}"))
}

/// The same array in memory aligned to 64 bytes, which builders do not give.
fn aligned(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let buffers = data
        .buffers()
        .iter()
        .map(|buffer| Buffer::from(buffer.as_slice()))
        .collect();
    Ok(make_array(data.into_builder().buffers(buffers).build()?))
}
