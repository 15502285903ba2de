//! Result of a scan.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use serde::{Serialize, Serializer};

use crate::arrow::batches::{BatchReader, batch_schema};
use crate::arrow::lost::lost_batch;
use crate::arrow::parallel::ParallelReader;
use crate::arrow::reader::{self, DecodeCounts};
use crate::arrow::schema::ColumnOptions;
use crate::error::Result;
use crate::io::objects::request::{RequestCounters, RequestCounts};
use crate::records::search::RecordSearch;
use crate::scan::latest::Latest;
use crate::scan::lost::{self, LostRange};
use crate::scan::range::PartitionRange;
use crate::segment::metrics::Metrics;
use crate::segment::reader::ReadOptions;
use crate::segment::skipping::OnCorrupt;
use crate::tables;
use crate::tables::metadata_state::AllRefused;
use crate::tables::offset_rows::{OffsetReader, WantedRows};
use crate::tables::reader::TableReader;
use crate::tables::topic::Show;

/// Counts of a scan so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// Bytes of the batches that were examined.
    pub bytes: u64,
    /// Batches whose records were read.
    pub batches: u64,
    /// Rows returned.
    #[serde(rename = "records")]
    pub rows: u64,
    /// Batches skipped on their header.
    #[serde(rename = "skipped")]
    pub batches_skipped: u64,
    /// Records skipped: those in skipped batches, as far as the headers count them, and those outside the time bounds
    /// or not found.
    #[serde(rename = "skipped_records")]
    pub records_skipped: u64,
    /// Bytes of batches of which nothing but the header was read.
    #[serde(rename = "skipped_bytes")]
    pub bytes_skipped: u64,
    /// Bytes produced by decompression.
    #[serde(rename = "copied")]
    pub bytes_decompressed: u64,
    /// Segments opened.
    pub segments: u64,
    /// Planned segments that retention deleted before they were read.
    pub segments_lost: u64,
    /// Records of which a key or value could not be decoded: null, or left out. Of internal topics, those whose message
    /// could not be.
    pub undecoded: u64,
    /// Fields of Protobuf messages that their schemas do not have.
    pub unknown_fields: u64,
    /// Bytes that were skipped as damaged.
    pub bytes_lost: u64,
    /// Ranges of them.
    pub lost: u64,
    /// Requests to object stores, those of planning and repeated ones among them.
    pub requests: u64,
    /// Bytes of objects that arrived.
    pub bytes_fetched: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Seconds that the reader waited for answers.
    #[serde(rename = "seconds_waited", serialize_with = "in_seconds")]
    pub waited: Duration,
}

fn in_seconds<S: Serializer>(waited: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(waited.as_secs_f64())
}

/// Planned read.
#[derive(Debug)]
pub(crate) enum Request {
    /// Records as rows.
    Records {
        /// Their ranges.
        ranges: Vec<PartitionRange>,
        /// Checks to make, and records to leave out.
        options: ReadOptions,
        /// The columns.
        columns: ColumnOptions,
        /// Number of threads that read.
        threads: usize,
        /// Only the latest record of each key.
        latest: Option<Latest>,
        /// Only those that are found.
        search: Option<Arc<RecordSearch>>,
        /// At most this many rows.
        limit: Option<usize>,
    },
    /// Kafka's batches as rows.
    Batches {
        /// Their ranges.
        ranges: Vec<PartitionRange>,
        /// Compare the checksums.
        check_crcs: bool,
        /// Action on damage.
        on_corrupt: OnCorrupt,
    },
    /// Committed offsets, replayed.
    Offsets {
        /// Their ranges.
        ranges: Vec<PartitionRange>,
        /// Selection of rows.
        wanted: WantedRows,
    },
    /// Records of internal topics, decoded.
    Tables {
        /// Their ranges.
        ranges: Vec<PartitionRange>,
        /// Options of showing their messages.
        show: Show,
    },
    /// Records of the metadata log that can be applied.
    Metadata {
        /// Their ranges.
        ranges: Vec<PartitionRange>,
        /// Options of showing their messages.
        show: Show,
        /// Records that cannot be applied.
        refused: Arc<AllRefused>,
    },
}

impl Request {
    /// Returns the action on damage. Internal topics are read without skipping damage: leaving records out would give
    /// an older state.
    pub(crate) const fn on_corrupt(&self) -> Option<OnCorrupt> {
        match self {
            Self::Records { options, .. } => Some(options.on_corrupt),
            Self::Batches { on_corrupt, .. } => Some(*on_corrupt),
            Self::Offsets { .. } | Self::Tables { .. } | Self::Metadata { .. } => None,
        }
    }

    fn ranges(&self) -> &[PartitionRange] {
        match self {
            Self::Records { ranges, .. }
            | Self::Batches { ranges, .. }
            | Self::Offsets { ranges, .. }
            | Self::Tables { ranges, .. }
            | Self::Metadata { ranges, .. } => ranges,
        }
    }

    /// Counters of the stores that it reads, each once.
    fn counters(&self) -> Vec<Arc<RequestCounters>> {
        let mut found: Vec<Arc<RequestCounters>> = Vec::new();
        for range in self.ranges() {
            if let Some(counters) = range.folder.counters()
                && !found.iter().any(|known| Arc::ptr_eq(known, &counters))
            {
                found.push(counters);
            }
        }
        found
    }

    /// The most rows that it gives.
    const fn limit(&self) -> Option<usize> {
        match self {
            Self::Records { limit, .. } => *limit,
            _ => None,
        }
    }

    /// Ranges that planning skipped as damaged.
    fn lost(&self) -> Vec<LostRange> {
        match self {
            Self::Records { columns, .. } => {
                let decoding = columns.decoding.as_ref();
                decoding.map_or_else(Vec::new, |decoding| decoding.lost.clone())
            }
            _ => Vec::new(),
        }
    }

    /// The schema of its record batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Self::Records { columns, .. } => columns.schema(),
            Self::Batches { .. } => batch_schema(),
            Self::Tables { .. } | Self::Metadata { .. } => tables::reader::schema(),
            Self::Offsets { wanted, .. } => {
                tables::offset_rows::schema(*wanted == WantedRows::History)
            }
        }
    }
}

#[derive(Debug)]
enum OpenScan {
    /// Nothing is open before the first row is requested.
    Planned(Request),
    One(Box<reader::RangeReader>),
    Many(Box<ParallelReader>),
    Batches(Box<BatchReader>),
    Tables(Box<TableReader>),
    Offsets(Box<OffsetReader>),
    Ended,
}

impl OpenScan {
    fn open(request: Request) -> Result<Self> {
        Ok(match request {
            Request::Batches {
                ranges,
                check_crcs,
                on_corrupt,
            } => Self::Batches(Box::new(BatchReader::new(ranges, check_crcs, on_corrupt))),
            Request::Offsets { ranges, wanted } => {
                Self::Offsets(Box::new(OffsetReader::try_new(ranges, wanted)?))
            }
            Request::Tables { ranges, show } => {
                Self::Tables(Box::new(TableReader::new(ranges, show)))
            }
            Request::Metadata {
                ranges,
                show,
                refused,
            } => Self::Tables(Box::new(TableReader::of_metadata(ranges, show, refused))),
            Request::Records {
                mut ranges,
                options,
                mut columns,
                mut threads,
                latest,
                search,
                limit,
            } => {
                // Threads report what is lost when a piece ends, which the limit may not wait for.
                if limit.is_some() && options.on_corrupt == OnCorrupt::Skip {
                    threads = 1;
                }
                // Rows beyond the limit are not decoded.
                if let Some(limit) = limit.filter(|&limit| limit <= columns.batch_rows) {
                    columns.batch_rows = limit.max(1);
                    threads = 1;
                }
                if let Some(latest) = latest {
                    for range in &mut ranges {
                        range.chosen = Some(Arc::new(latest.offsets(range, options)?));
                    }
                }
                if threads > 1 {
                    let reader = ParallelReader::try_new(
                        ranges,
                        threads,
                        options,
                        &columns,
                        search.as_ref(),
                    )?;
                    Self::Many(Box::new(reader))
                } else {
                    let reader = reader::RangeReader::try_new(ranges, options, columns)?;
                    Self::One(Box::new(reader.searching(search)))
                }
            }
        })
    }
}

/// The rows of a scan: an iterator of Arrow record batches, and a [`RecordBatchReader`].
///
/// Rows are ordered by topic, partition and offset. As an iterator it yields a [`kafkalog::Error`](crate::Error) inside
/// [`ArrowError::ExternalError`]; [`RecordReader::next_batch`] returns it unwrapped. The rows before a fault come
/// first, and after it the iterator ends.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1");
/// use kafkalog::{ScanOptions, scan};
///
/// let mut rows = 0;
/// for batch in scan(dir, ScanOptions::new().topics(["orders"]))? {
///     rows += batch?.num_rows();
/// }
/// # assert!(rows > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordReader {
    schema: SchemaRef,
    state: OpenScan,
    metrics: (Metrics, u64),
    decoded: DecodeCounts,
    refused: Arc<AllRefused>,
    lost: Vec<LostRange>,
    /// Rows still to be returned, where the request has a limit.
    remaining: Option<usize>,
    /// Rows returned within the limit.
    returned: u64,
    counters: Vec<Arc<RequestCounters>>,
}

impl RecordReader {
    pub(crate) fn new(request: Request) -> Self {
        Self {
            schema: request.schema(),
            remaining: request.limit(),
            lost: request.lost(),
            returned: 0,
            counters: request.counters(),
            state: OpenScan::Planned(request),
            metrics: Default::default(),
            decoded: DecodeCounts::default(),
            refused: Arc::default(),
        }
    }

    /// The next record batch; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), and whatever is wrong with the bytes, with file and position.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.remaining == Some(0) {
            self.state = OpenScan::Ended;
        }
        if let OpenScan::Planned(_) = self.state {
            let OpenScan::Planned(request) = std::mem::replace(&mut self.state, OpenScan::Ended)
            else {
                return Ok(None);
            };
            self.state = OpenScan::open(request)?;
            if let OpenScan::Offsets(reader) = &self.state {
                self.refused = reader.refused();
            }
        }
        let (next, metrics) = match &mut self.state {
            OpenScan::One(reader) => {
                let next = reader.next_batch();
                self.decoded = reader.decode_counts();
                (next, reader.metrics())
            }
            OpenScan::Many(reader) => {
                let next = reader.next_batch();
                self.decoded = reader.decode_counts();
                (next, reader.metrics())
            }
            OpenScan::Batches(reader) => (reader.next_batch(), reader.metrics()),
            OpenScan::Offsets(reader) => (reader.next_batch(), reader.metrics()),
            OpenScan::Tables(reader) => {
                let next = reader.next_batch();
                self.decoded.undecoded = reader.undecoded();
                (next, reader.metrics())
            }
            OpenScan::Planned(_) | OpenScan::Ended => return Ok(None),
        };
        self.metrics = metrics;
        let lost = match &mut self.state {
            OpenScan::One(reader) => reader.take_lost(),
            OpenScan::Many(reader) => reader.take_lost(),
            OpenScan::Batches(reader) => reader.take_lost(),
            OpenScan::Tables(_) | OpenScan::Offsets(_) | OpenScan::Planned(_) | OpenScan::Ended => {
                Vec::new()
            }
        };
        for range in lost {
            lost::add(&mut self.lost, range);
        }
        if !matches!(next, Ok(Some(_))) {
            self.state = OpenScan::Ended;
        }
        Ok(next?.map(|batch| self.within_limit(batch)))
    }

    /// The first rows of a batch, as many as the limit leaves.
    fn within_limit(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(remaining) = &mut self.remaining else {
            return batch;
        };
        let rows = batch.num_rows().min(*remaining);
        *remaining = remaining.saturating_sub(rows);
        self.returned = self.returned.saturating_add(rows as u64);
        batch.slice(0, rows)
    }

    /// Returns what was skipped as damaged so far, a row for each range, in the order of the files: topic, partition,
    /// segment, position, endPosition, firstOffset, lastOffset, reason. Empty unless the options say
    /// [`OnCorrupt::Skip`].
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal), if this crate has a bug.
    pub fn lost(&self) -> Result<RecordBatch> {
        lost_batch(&self.lost)
    }

    /// Records that a replay cannot apply.
    pub(crate) fn refused(&self) -> Arc<AllRefused> {
        Arc::clone(&self.refused)
    }

    /// Returns what was skipped as damaged so far.
    pub(crate) fn lost_ranges(&self) -> &[LostRange] {
        &self.lost
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        let (metrics, rows) = self.metrics;
        let counts = RequestCounts::of(&self.counters);
        ScanMetrics {
            bytes: metrics.bytes,
            batches: metrics.batches,
            rows: if self.remaining.is_some() {
                self.returned
            } else {
                rows
            },
            batches_skipped: metrics.batches_skipped,
            records_skipped: metrics.records_skipped,
            bytes_skipped: metrics.bytes_skipped,
            bytes_decompressed: metrics.bytes_decompressed,
            segments: metrics.segments,
            segments_lost: metrics.segments_lost,
            undecoded: self.decoded.undecoded,
            unknown_fields: self.decoded.unknown_fields,
            bytes_lost: metrics.bytes_lost,
            lost: metrics.lost,
            requests: counts.requests,
            bytes_fetched: counts.bytes,
            retries: counts.retries,
            waited: counts.waited,
        }
    }
}

impl Iterator for RecordReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        next.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for RecordReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
