//! Reading records and batches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::absolute_all;
use super::decoding::{
    Decode, DecodeAs, DecodeRequest, OnUndecoded, ReaderSchema, SchemaSource, find_schemas,
};
use super::reader::{RecordReader, Request};
use crate::arrow::schema::{Column, ColumnOptions, Layout, TimestampUnit};
use crate::error::Result;
use crate::records::search::RecordSearch;
use crate::scan::latest::Latest;
use crate::scan::plan::{
    Ending, IsolationLevel, Partitions, PlanOptions, Starting, Timestamp, plan_scan,
};
use crate::scan::range::PartitionRange;
use crate::segment::reader::ReadOptions;
use crate::segment::skipping::OnCorrupt;
use crate::types::{Offset, TimestampMs};

/// Options of a scan: what to read, and the layout of the rows.
///
/// By default: every partition of every topic but the internal ones, from the log start offset to the log end, with the
/// columns of Spark's Kafka source and the headers, checksums compared, on the calling thread.
///
/// ```
/// use kafkalog::{IsolationLevel, ScanOptions};
///
/// let options = ScanOptions::new()
///     .topics(["orders", "payments"])
///     .columns(["offset", "value"])
///     .isolation_level(IsolationLevel::ReadCommitted)
///     .starting_timestamp(1_700_030_390_000)
///     .threads(2);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ScanOptions {
    plan: PlanOptions,
    read: ReadOptions,
    /// `None` for the default ones. Names are checked by the scan.
    columns: Option<Vec<String>>,
    layout: ColumnOptions,
    threads: usize,
    latest: Option<Latest>,
    containing: Option<Vec<u8>>,
    matching: Option<String>,
    search_in: Vec<String>,
    limit: Option<usize>,
    /// The decoding of keys and values.
    request: DecodeRequest,
    schemas: SchemaSource,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            read: ReadOptions::default(),
            columns: None,
            layout: ColumnOptions::default(),
            threads: 1,
            latest: None,
            containing: None,
            matching: None,
            search_in: vec!["value".to_owned()],
            limit: None,
            request: DecodeRequest::default(),
            schemas: SchemaSource::default(),
        }
    }
}

impl ScanOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads these topics only. Naming a topic that does not exist is an error.
    pub fn topics<S: Into<String>>(mut self, topics: impl IntoIterator<Item = S>) -> Self {
        self.plan.topics = Some(topics.into_iter().map(Into::into).collect());
        self
    }

    /// Reads the topics whose whole name matches this regular expression, including internal ones.
    pub fn topic_pattern(mut self, pattern: impl Into<String>) -> Self {
        self.plan.topic_pattern = Some(pattern.into());
        self
    }

    /// Reads these partitions of every topic.
    pub fn partitions(mut self, numbers: impl IntoIterator<Item = i32>) -> Self {
        self.plan.partitions = Partitions::Numbers(numbers.into_iter().collect());
        self
    }

    /// Reads only these partitions of these topics.
    pub fn topic_partitions<S: Into<String>>(
        mut self,
        partitions: impl IntoIterator<Item = (S, i32)>,
    ) -> Self {
        let mut by_topic: BTreeMap<String, std::collections::BTreeSet<i32>> = BTreeMap::new();
        for (topic, number) in partitions {
            by_topic.entry(topic.into()).or_default().insert(number);
        }
        self.plan.partitions = Partitions::ByTopic(by_topic);
        self
    }

    /// The columns, in this order. An unknown name is an error of the scan.
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the offsets at which to begin.
    pub fn starting_offsets(mut self, starting: Starting) -> Self {
        self.plan.starting_offsets = starting;
        self
    }

    /// Sets the offsets at which to end.
    pub fn ending_offsets(mut self, ending: Ending) -> Self {
        self.plan.ending_offsets = ending;
        self
    }

    /// Begins at the first record whose timestamp is at or after this one, as Kafka's `ListOffsets` finds it.
    pub fn starting_timestamp(mut self, timestamp_ms: TimestampMs) -> Self {
        self.plan.starting_timestamp = Some(Timestamp::At(timestamp_ms));
        self
    }

    /// Ends before the first record whose timestamp is at or after this one, as Kafka's `ListOffsets` finds it.
    pub fn ending_timestamp(mut self, timestamp_ms: TimestampMs) -> Self {
        self.plan.ending_timestamp = Some(Timestamp::At(timestamp_ms));
        self
    }

    /// The smallest offset of a row.
    pub fn min_offset(mut self, offset: Offset) -> Self {
        self.plan.pruning.min_offset = Some(offset);
        self
    }

    /// The largest offset of a row.
    pub fn max_offset(mut self, offset: Offset) -> Self {
        self.plan.pruning.max_offset = Some(offset);
        self
    }

    /// The smallest timestamp of a row.
    pub fn min_timestamp(mut self, timestamp_ms: TimestampMs) -> Self {
        self.plan.pruning.timestamps.min = Some(timestamp_ms);
        self
    }

    /// The largest timestamp of a row.
    pub fn max_timestamp(mut self, timestamp_ms: TimestampMs) -> Self {
        self.plan.pruning.timestamps.max = Some(timestamp_ms);
        self
    }

    /// Sets which records of transactions are read.
    pub fn isolation_level(mut self, level: IsolationLevel) -> Self {
        self.plan.isolation_level = level;
        self
    }

    /// Also reads the `-delete`, `-future` and `-stray` folders of a log dir.
    pub fn include_inactive(mut self, include: bool) -> Self {
        self.plan.include_inactive = include;
        self
    }

    /// Ignores named topics and partitions that do not exist.
    pub fn allow_missing(mut self, allow: bool) -> Self {
        self.plan.allow_missing = allow;
        self
    }

    /// Returns control records as rows, too.
    pub fn include_control(mut self, include: bool) -> Self {
        self.read.include_control = include;
        self
    }

    /// Compares the checksum of every batch that is read.
    pub fn check_crcs(mut self, check: bool) -> Self {
        self.read.check_crcs = check;
        self
    }

    /// Sets whether damage ends the scan with an error, or is skipped and accounted for in
    /// [`RecordReader::lost`](crate::RecordReader::lost).
    pub fn on_corrupt(mut self, on_corrupt: OnCorrupt) -> Self {
        self.read.on_corrupt = on_corrupt;
        self.plan.on_corrupt = on_corrupt;
        self
    }

    /// Sets the layout of keys, values and strings.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout.layout = layout;
        self
    }

    /// The unit of the timestamp column.
    pub fn timestamp_unit(mut self, unit: TimestampUnit) -> Self {
        self.layout.unit = unit;
        self
    }

    /// Maximum number of rows of a record batch.
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.layout.batch_rows = rows;
        self
    }

    /// Maximum bytes of a record batch, unless a single row has more.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.layout.batch_bytes = bytes;
        self
    }

    /// Sets the number of threads that read and decode, the caller's included.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Returns only the last record of each key of a partition, among the records that the other options select, as a
    /// compacted topic would keep it; with `tombstones` also if that record has no value. Records without a key are
    /// left out.
    ///
    /// A partition is read twice, and more often where it has more than some millions of keys.
    pub fn latest_per_key(mut self, tombstones: bool) -> Self {
        self.latest = Some(Latest { tombstones });
        self
    }

    /// Returns only the records whose value contains these bytes; [`ScanOptions::search_in`] searches keys and headers.
    ///
    /// The search leaves out rows that the other options give: of [`ScanOptions::latest_per_key`] those whose latest
    /// record is not found, and of [`ScanOptions::limit`] none.
    pub fn containing(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.containing = Some(bytes.into());
        self
    }

    /// Returns only the records whose value has a match of this regular expression, as
    /// [`containing`](ScanOptions::containing).
    ///
    /// The syntax is that of the `regex` crate without Unicode: values are bytes, `.` is any of them but a line feed,
    /// and classes, `\b` and `(?i)` know ASCII alone; `(?u)` switches to characters. `$` also matches before a line feed
    /// at the end. A pattern that cannot be parsed is an error of the scan.
    pub fn matching(mut self, pattern: impl Into<String>) -> Self {
        self.matching = Some(pattern.into());
        self
    }

    /// Sets where to search: in some of `value`, `key` and `headers` (names and values). One match is enough; a field
    /// that is null has none.
    pub fn search_in<S: Into<String>>(mut self, fields: impl IntoIterator<Item = S>) -> Self {
        self.search_in = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Returns at most this many records, the first ones in the order of the scan.
    pub fn limit(mut self, records: usize) -> Self {
        self.limit = Some(records);
        self
    }

    fn search(&self) -> Result<Option<Arc<RecordSearch>>> {
        let (containing, matching) = (self.containing.as_deref(), self.matching.as_deref());
        Ok(RecordSearch::parse(containing, matching, &self.search_in)?.map(Arc::new))
    }

    /// Decodes keys, values or both by their schemas. There are more columns then: `valueBytes`, `valueSchemaId`,
    /// `valueSchemaGuid`, `valueError`, and the same of keys.
    ///
    /// ```
    /// use kafkalog::{Decode, DecodeAs, ScanOptions};
    ///
    /// let options = ScanOptions::new().topics(["orders"]).decode(Decode::Value).decode_as(DecodeAs::Json);
    /// ```
    pub fn decode(mut self, decode: Decode) -> Self {
        self.request.key = matches!(decode, Decode::Key | Decode::Both);
        self.request.value = matches!(decode, Decode::Value | Decode::Both);
        self
    }

    /// Sets where the schemas come from. By default, from the topic `_schemas` in the log dirs that are read.
    pub fn schemas(mut self, source: SchemaSource) -> Self {
        self.schemas = source;
        self
    }

    /// Sets the schema that gives decoded columns their type, for all topics without one of their own.
    pub fn reader_schema(mut self, reader: ReaderSchema) -> Self {
        self.request.reader = reader;
        self
    }

    /// Sets it for one topic, or with `<topic>-key` and `<topic>-value` for one part of its records.
    pub fn reader_schema_of(mut self, topic: impl Into<String>, reader: ReaderSchema) -> Self {
        self.request.readers.insert(topic.into(), reader);
        self
    }

    /// Sets the form of what is decoded.
    pub fn decode_as(mut self, form: DecodeAs) -> Self {
        self.request.decode_as = form;
        self
    }

    /// Sets the action on keys and values that cannot be decoded.
    pub fn on_undecoded(mut self, action: OnUndecoded) -> Self {
        self.request.on_undecoded = action;
        self
    }

    fn column_options(self, paths: &[PathBuf], ranges: &[PartitionRange]) -> Result<ColumnOptions> {
        let columns = match self.columns {
            Some(names) => Column::parse_all(&names)?,
            None => Column::defaults().to_vec(),
        };
        let (request, on_corrupt) = (&self.request, self.read.on_corrupt);
        let decoding = (request.key || request.value).then(|| {
            let found = find_schemas(paths, ranges, &self.schemas, on_corrupt)?;
            found.plan(ranges, request)
        });
        let options = ColumnOptions {
            columns,
            decoding: decoding.transpose()?.map(Arc::new),
            ..self.layout
        };
        options.check()?;
        Ok(options)
    }
}

/// Scans the records of a log dir, a partition folder or a `.log` file.
///
/// Files are listed and bounds are looked up immediately; records are read as the reader is iterated.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the path does not exist;
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for options that name missing topics or partitions;
/// [`Error::DuplicatePartition`](crate::Error::DuplicatePartition) if two folders hold the same partition; and faults
/// in bytes that had to be read for a bound.
pub fn scan(path: impl AsRef<Path>, options: ScanOptions) -> Result<RecordReader> {
    scan_log_dirs([path], options)
}

/// Scans the records of several log dirs of one broker, or several partition folders or `.log` files.
///
/// # Errors
/// As [`scan`].
pub fn scan_log_dirs<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    options: ScanOptions,
) -> Result<RecordReader> {
    let paths = absolute_all(paths)?;
    let ranges = plan_scan(&paths, &options.plan)?;
    Ok(RecordReader::new(Request::Records {
        options: options.read,
        threads: options.threads,
        latest: options.latest,
        search: options.search()?,
        limit: options.limit,
        columns: options.column_options(&paths, &ranges)?,
        ranges,
    }))
}

/// Scans Kafka's batches: one row per batch, from its header; nothing is decompressed.
///
/// Only these options apply: topics, partitions and bounds, `check_crcs`, which fills the column `isValid`, and
/// `on_corrupt`.
///
/// # Errors
/// As [`scan`].
pub fn scan_batches(path: impl AsRef<Path>, options: ScanOptions) -> Result<RecordReader> {
    let ScanOptions {
        plan: wanted, read, ..
    } = options;
    Ok(RecordReader::new(Request::Batches {
        ranges: plan_scan(&absolute_all([path])?, &wanted)?,
        check_crcs: read.check_crcs,
        on_corrupt: read.on_corrupt,
    }))
}
