//! One row per Kafka batch, in `kafka-dump-log`'s words; nothing is decompressed, except that a legacy wrapper's first
//! offset cannot be known otherwise.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    UInt32Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch, TimestampMillisecondArray, make_array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::compress::DecodeLimit;
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::records::legacy;
use crate::scan::batches::OpenBatches;
use crate::scan::planned::{Opening, PlannedSegments, Turn};
use crate::scan::range::{PartitionRange, SegmentRange};
use crate::segment::metrics::Metrics;
use crate::segment::source::{Access, Copying};
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
    segments: PlannedSegments,
    check_crcs: bool,
    open: Option<OpenBatches>,
    failed: Option<Error>,
    metrics: Metrics,
    rows: u64,
}

impl BatchReader {
    /// Will read `ranges` one after the other; checksums are compared into a column, not into errors.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, check_crcs: bool) -> Self {
        let opening = Opening {
            copying: Copying::Active,
            access: if check_crcs {
                Access::Records
            } else {
                Access::Headers
            },
        };
        Self {
            segments: PlannedSegments::new(ranges, opening),
            check_crcs,
            open: None,
            failed: None,
            metrics: Metrics::default(),
            rows: 0,
        }
    }

    /// What was done so far; the rows are batches.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.metrics, self.rows)
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
                    self.segments.end();
                    if rows.len == 0 {
                        return Err(error);
                    }
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.rows = self.rows.saturating_add(rows.len as u64);
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
            let (start, end) = open.opened.wanted;
            let Some((position, header)) = open.next_batch()? else {
                self.segments.advance(open.next_offset());
                self.open = None;
                continue;
            };
            if header.last_offset() < start {
                self.metrics.batches_skipped = self.metrics.batches_skipped.saturating_add(1);
                continue;
            }
            let valid = self
                .check_crcs
                .then(|| is_valid(open, position, &header))
                .transpose()?;
            let looked_at = if self.check_crcs {
                header.size
            } else {
                RECORD_BATCH_OVERHEAD
            };
            self.metrics.bytes = self.metrics.bytes.saturating_add(looked_at as u64);
            self.metrics.batches = self.metrics.batches.saturating_add(1);
            let first = if header.is_wrapper() && valid != Some(false) {
                let batch = open.opened.source.bytes(position, header.size)?;
                // One that cannot be read still has a header; its first offset is then as unknown as its records.
                legacy::first_offset(batch, &header, DecodeLimit::default()).ok()
            } else {
                Some(header.base_offset)
            };
            if first.is_some_and(|first| first >= end) {
                continue;
            }
            let range = self.segments.range();
            rows.push(range, &open.opened.segment, position, &header, first, valid);
            return Ok(true);
        }
    }

    fn next_segment(&mut self) -> Result<bool> {
        loop {
            match self.segments.next_turn()? {
                Some(Turn::Open(opened)) => {
                    self.metrics.segments = self.metrics.segments.saturating_add(1);
                    self.open = Some(OpenBatches::new(opened));
                    return Ok(true);
                }
                Some(Turn::Gone(_)) => {
                    self.metrics.segments_lost = self.metrics.segments_lost.saturating_add(1);
                }
                None => return Ok(false),
            }
        }
    }
}

fn is_valid(open: &mut OpenBatches, position: Position, header: &BatchHeader) -> Result<bool> {
    let batch = open.opened.source.bytes(position, header.size)?;
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
    Error::internal(format_args!("Arrow refused a batch: {error}"))
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
