//! One row per Kafka batch, with the field names of `kafka-dump-log`. Nothing is decompressed, except legacy wrappers,
//! whose first offset is not in the header.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType,
    UInt32Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray, make_array,
};
use arrow_buffer::Buffer;
use arrow_schema::{Field, Schema, SchemaRef};

use crate::compress::DecodeLimit;
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::records::legacy;
use crate::scan::batches::OpenBatches;
use crate::scan::lost::{LostRange, SoundBatches};
use crate::scan::planned::{NextSegment, Opening, PlannedSegments};
use crate::scan::range::{PartitionRange, known_partition, known_topic};
use crate::segment::metrics::Metrics;
use crate::segment::skipping::OnCorrupt;
use crate::segment::source::{Access, MapPolicy};
use crate::types::{Compression, Offset, Position, TimestampMs};

/// Most rows of a record batch.
const ROWS: usize = 8192;

/// A column, made of all rows.
type Make = fn(&[BatchRow]) -> ArrayRef;

/// The columns, in order; each makes an array of its own type.
const COLUMNS: [(&str, Make); 23] = [
    ("topic", |rows| {
        text(rows, |row| known_topic(&row.place.topic))
    }),
    ("partition", |rows| {
        numbers::<Int32Type>(rows, |row| known_partition(row.place.partition))
    }),
    ("segment", |rows| text(rows, |row| Some(&row.place.segment))),
    ("position", |rows| {
        numbers::<Int64Type>(rows, |row| i64::try_from(row.position).ok())
    }),
    ("baseOffset", |rows| {
        numbers::<Int64Type>(rows, |row| row.first)
    }),
    ("lastOffset", |rows| {
        numbers::<Int64Type>(rows, |row| Some(row.header.last_offset()))
    }),
    ("count", |rows| {
        numbers::<Int32Type>(rows, |row| row.header.records_count)
    }),
    ("baseSequence", |rows| {
        numbers::<Int32Type>(rows, |row| Some(row.header.base_sequence))
    }),
    ("lastSequence", |rows| {
        numbers::<Int32Type>(rows, |row| Some(row.header.last_sequence()))
    }),
    ("producerId", |rows| {
        numbers::<Int64Type>(rows, |row| Some(row.header.producer_id))
    }),
    ("producerEpoch", |rows| {
        numbers::<Int16Type>(rows, |row| Some(row.header.producer_epoch))
    }),
    ("partitionLeaderEpoch", |rows| {
        numbers::<Int32Type>(rows, |row| Some(row.header.partition_leader_epoch))
    }),
    ("isTransactional", |rows| {
        flags(rows, |row| Some(row.header.is_transactional()))
    }),
    ("isControl", |rows| {
        flags(rows, |row| Some(row.header.is_control()))
    }),
    ("deleteHorizonMs", |rows| {
        numbers::<Int64Type>(rows, |row| row.header.delete_horizon_ms())
    }),
    ("baseTimestamp", |rows| {
        times(rows, |row| row.header.base_timestamp)
    }),
    ("maxTimestamp", |rows| {
        times(rows, |row| row.header.max_timestamp)
    }),
    ("timestampType", |rows| {
        numbers::<Int32Type>(rows, |row| Some(row.header.timestamp_type().id()))
    }),
    ("size", |rows| {
        numbers::<Int32Type>(rows, |row| i32::try_from(row.header.size).ok())
    }),
    ("magic", |rows| {
        numbers::<Int8Type>(rows, |row| i8::try_from(row.header.magic).ok())
    }),
    ("compression", |rows| {
        text(rows, |row| {
            row.header.attributes.compression().map(Compression::name)
        })
    }),
    ("crc", |rows| {
        numbers::<UInt32Type>(rows, |row| Some(row.header.crc))
    }),
    ("isValid", |rows| flags(rows, |row| row.is_valid)),
];

fn text(rows: &[BatchRow], value: impl Fn(&BatchRow) -> Option<&str>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}

fn flags(rows: &[BatchRow], value: impl Fn(&BatchRow) -> Option<bool>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<BooleanArray>())
}

fn numbers<T: ArrowPrimitiveType>(
    rows: &[BatchRow],
    value: impl Fn(&BatchRow) -> Option<T::Native>,
) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<PrimitiveArray<T>>())
}

fn times(rows: &[BatchRow], value: impl Fn(&BatchRow) -> TimestampMs) -> ArrayRef {
    let values = rows.iter().map(value);
    let times = PrimitiveArray::<TimestampMillisecondType>::from_iter_values(values);
    Arc::new(times.with_timezone("UTC"))
}

/// The schema of every record batch.
#[must_use]
pub(crate) fn batch_schema() -> SchemaRef {
    let field = |(name, make): (&str, Make)| Field::new(name, make(&[]).data_type().clone(), true);
    Arc::new(Schema::new(COLUMNS.map(field).to_vec()))
}

/// Place of a batch.
#[derive(Debug)]
struct BatchOrigin {
    topic: String,
    partition: i32,
    segment: String,
}

/// A batch.
#[derive(Debug)]
struct BatchRow {
    place: Arc<BatchOrigin>,
    position: Position,
    header: BatchHeader,
    /// The first offset; `None` if it cannot be known.
    first: Option<Offset>,
    is_valid: Option<bool>,
}

/// An Arrow batch of these rows.
fn batch_of(rows: &[BatchRow]) -> Result<RecordBatch> {
    let arrays = COLUMNS.iter().map(|(_, make)| aligned(&make(rows)));
    let arrays = arrays.collect::<Result<_>>()?;
    RecordBatch::try_new(batch_schema(), arrays)
        .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))
}

/// The same array in memory aligned to 64 bytes, which collecting does not give.
pub(crate) fn aligned(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data();
    let buffers = data.buffers().iter();
    let buffers = buffers
        .map(|buffer| Buffer::from(buffer.as_slice()))
        .collect();
    let data = data.into_builder().buffers(buffers).build();
    Ok(make_array(data.map_err(|e| {
        Error::internal(format_args!("Arrow refused a column: {e}"))
    })?))
}

/// Reads the headers of planned ranges.
#[derive(Debug)]
pub struct BatchReader {
    segments: PlannedSegments,
    check_crcs: bool,
    on_corrupt: OnCorrupt,
    open: Option<(OpenSegmentBatches, Arc<BatchOrigin>)>,
    failed: Option<Error>,
    metrics: Metrics,
    rows: u64,
    lost: Vec<LostRange>,
}

/// The batches of the open segment.
#[derive(Debug)]
enum OpenSegmentBatches {
    /// From header to header.
    Planned(OpenBatches),
    /// Past damage.
    Past(Box<SoundBatches>),
}

impl BatchReader {
    /// Creates a reader of `ranges`, one after the other; checksums are compared into a column, not into errors.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, check_crcs: bool, on_corrupt: OnCorrupt) -> Self {
        let opening = Opening {
            map_policy: MapPolicy::ClosedOnly,
            access: if check_crcs {
                Access::Records
            } else {
                Access::Headers
            },
        };
        Self {
            segments: PlannedSegments::new(ranges, opening),
            check_crcs,
            on_corrupt,
            open: None,
            failed: None,
            metrics: Metrics::default(),
            rows: 0,
            lost: Vec::new(),
        }
    }

    /// Takes the ranges that were skipped since the last call.
    pub fn take_lost(&mut self) -> Vec<LostRange> {
        std::mem::take(&mut self.lost)
    }

    /// Counts so far; the rows are batches.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.metrics, self.rows)
    }

    /// The next rows; `None` at the end. Rows before a fault come before the error.
    ///
    /// # Errors
    /// What walking the headers finds.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut rows = Vec::new();
        while rows.len() < ROWS {
            match self.next_row() {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => break,
                Err(error) => {
                    self.open = None;
                    self.segments.end();
                    if rows.is_empty() {
                        return Err(error);
                    }
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.rows = self.rows.saturating_add(rows.len() as u64);
        (!rows.is_empty()).then(|| batch_of(&rows)).transpose()
    }

    fn next_row(&mut self) -> Result<Option<BatchRow>> {
        loop {
            let Some((open, place)) = &mut self.open else {
                if !self.next_segment()? {
                    return Ok(None);
                }
                continue;
            };
            let open = match open {
                OpenSegmentBatches::Planned(open) => open,
                OpenSegmentBatches::Past(past) => {
                    let place = Arc::clone(place);
                    let range = self.segments.range();
                    let next = past.next_batch(range, &mut self.metrics, &mut self.lost)?;
                    let Some((position, header)) = next else {
                        self.segments.advance(past.next_offset());
                        self.open = None;
                        continue;
                    };
                    return Ok(Some(BatchRow {
                        place,
                        position,
                        first: Some(header.base_offset),
                        header,
                        is_valid: self.check_crcs.then_some(true),
                    }));
                }
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
            let is_valid = self
                .check_crcs
                .then(|| is_valid(open, position, &header))
                .transpose()?;
            let read = if self.check_crcs {
                header.size
            } else {
                RECORD_BATCH_OVERHEAD
            };
            self.metrics.bytes = self.metrics.bytes.saturating_add(read as u64);
            self.metrics.batches = self.metrics.batches.saturating_add(1);
            let first = if header.is_wrapper() && is_valid != Some(false) {
                let batch = open.opened.source.bytes(position, header.size)?;
                // One that cannot be read still has a header; its first offset is then as unknown as its records.
                legacy::first_offset(batch, &header, DecodeLimit::default()).ok()
            } else {
                Some(header.base_offset)
            };
            if first.is_some_and(|first| first >= end) {
                continue;
            }
            return Ok(Some(BatchRow {
                place: Arc::clone(place),
                position,
                header,
                first,
                is_valid,
            }));
        }
    }

    fn next_segment(&mut self) -> Result<bool> {
        loop {
            match self.segments.next_turn()? {
                Some(NextSegment::Open(opened)) => {
                    self.metrics.segments = self.metrics.segments.saturating_add(1);
                    let range = self.segments.range();
                    let place = BatchOrigin {
                        topic: range.topic.clone(),
                        partition: range.partition,
                        segment: opened.segment.file_name.clone(),
                    };
                    let batches = match self.on_corrupt {
                        OnCorrupt::Raise => OpenSegmentBatches::Planned(OpenBatches::new(opened)),
                        OnCorrupt::Skip => {
                            OpenSegmentBatches::Past(Box::new(SoundBatches::open(&opened)?))
                        }
                    };
                    self.open = Some((batches, Arc::new(place)));
                    return Ok(true);
                }
                Some(NextSegment::Gone(_)) => {
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
