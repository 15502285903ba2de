//! One partition open for writing.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::absolute_all;
use crate::arrow::append::{Appended, append_rows, append_whole, encode_options};
use crate::arrow::encode::{DEFAULT_BATCH_SIZE, Encoder, check_schema};
use crate::error::{Error, Result};
use crate::format::uuid::Uuid;
use crate::io::appender::SyncPolicy;
use crate::load::Note;
use crate::log::config::LogConfig;
use crate::log::partition::PartitionLog;
use crate::scan::plan::{PlanOptions, plan_scan};
use crate::scan::range::PartitionRange;
use crate::scan::raw_batches::WholeBatches;
use crate::types::{Offset, TimestampMs, TopicPartition, now_ms};
use crate::write::WriteOptions;
use crate::write::storage::Identity;
use crate::write::writer::PartitionWriter;

/// Options for writing a partition.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct WriterOptions {
    /// `None`: as `flush.messages` and `flush.ms` say.
    pub(crate) sync: Option<SyncPolicy>,
    /// Sync once at the end of each append of many pieces.
    pub(crate) syncs_appends: bool,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) topic_id: Option<String>,
    pub(crate) cluster_id: Option<String>,
    pub(crate) node_id: Option<i32>,
    pub(crate) directory_id: Option<String>,
    pub(crate) batch_bytes: Option<usize>,
    pub(crate) ignores_extra_columns: bool,
    /// The job that the writer belongs to.
    pub(crate) job: Option<String>,
    pub(crate) clock: Clock,
}

/// The system's clock, or another one, which may fail.
#[derive(Clone)]
pub(crate) struct Clock(pub(crate) Arc<dyn Fn() -> Result<TimestampMs> + Send + Sync>);

impl Clock {
    fn now_ms(&self) -> Result<TimestampMs> {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(|| Ok(now_ms())))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Options of rows to append.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowOptions {
    /// The rows have offsets, which stay.
    pub keeps_offsets: bool,
    /// Ignore columns that cannot be written.
    pub ignores_extra_columns: bool,
    /// Number of the first row, for errors.
    pub first_row: usize,
}

impl WriterOptions {
    /// The defaults: synced as `flush.messages` and `flush.ms` say, in the log's latest leader epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets when appended bytes are synced to the disk.
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.sync = Some(policy);
        self
    }

    /// The leader epoch of appended batches, at least the log's latest.
    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.leader_epoch = Some(epoch);
        self
    }

    /// The topic's id for a new partition, 22 characters of base64 as Kafka prints it.
    pub fn topic_id(mut self, id: impl Into<String>) -> Self {
        self.topic_id = Some(id.into());
        self
    }

    /// The ids for `meta.properties` of a new log dir.
    pub fn identity(mut self, cluster_id: impl Into<String>, node_id: i32) -> Self {
        self.cluster_id = Some(cluster_id.into());
        self.node_id = Some(node_id);
        self
    }

    /// Uncompressed bytes at which a Kafka batch is closed (a producer's `batch.size`).
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = Some(bytes);
        self
    }

    /// Ignores columns that cannot be written, instead of refusing them.
    pub fn ignore_extra_columns(mut self, ignore: bool) -> Self {
        self.ignores_extra_columns = ignore;
        self
    }
}

/// One partition of a log dir, open for writing as its leader would write it.
///
/// It holds the log dir's `.lock`, which brokers respect. Log dir and partition folder are created if they do not
/// exist, and a log that was not closed cleanly is recovered as at a broker's start.
///
/// Call [`LogWriter::close`] at the end. A dropped writer releases its lock and leaves the log as after a crash:
/// nothing acknowledged is lost, and the next opening recovers it.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
/// use kafkalog::{LogConfig, LogWriter, ScanOptions, scan};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let log_dir = folder.path().join("data");
/// let value: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"one", b"two"]));
/// let rows = RecordBatch::try_from_iter([("value", value)])?;
///
/// let mut writer = LogWriter::open(&log_dir, "orders", 0, LogConfig::default())?;
/// let info = writer.append(&rows)?;
/// assert_eq!((info.first_offset, info.last_offset), (0, 1));
/// writer.close()?;
///
/// let rows: usize = scan(&log_dir, ScanOptions::new())?
///     .map(|batch| batch.map(|batch| batch.num_rows()))
///     .sum::<Result<_, _>>()?;
/// assert_eq!(rows, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogWriter {
    writer: PartitionWriter,
    options: WriterOptions,
}

impl LogWriter {
    /// Opens a partition of this log dir.
    ///
    /// # Errors
    /// [`Error::LogLocked`] where a broker or another writer has it; [`Error::InvalidArgument`] for a topic's name that
    /// Kafka does not allow; [`Error::Io`]; what would keep a broker from loading the log, and then nothing in its
    /// folder has changed.
    pub fn open(
        log_dir: impl AsRef<Path>,
        topic: &str,
        partition: i32,
        config: LogConfig,
    ) -> Result<Self> {
        Self::open_with(
            [log_dir],
            topic,
            partition,
            config,
            WriterOptions::default(),
        )
    }

    /// Opens a partition in one of several log dirs of one broker: the one that has it, otherwise the one with the
    /// fewest partitions.
    ///
    /// # Errors
    /// As [`LogWriter::open`]; [`Error::InvalidArgument`] for ids that contradict those of the log dir.
    pub fn open_with<P: AsRef<Path>>(
        log_dirs: impl IntoIterator<Item = P>,
        topic: &str,
        partition: i32,
        config: LogConfig,
        options: WriterOptions,
    ) -> Result<Self> {
        let log_dirs = absolute_all(log_dirs)?;
        let identity = Identity {
            cluster_id: options.cluster_id.clone(),
            node_id: options.node_id,
            directory_id: parse_id("directory_id", options.directory_id.as_deref())?,
        };
        let topic_id = parse_id("topic_id", options.topic_id.as_deref())?;
        let mut how = WriteOptions::new(config);
        how.job.clone_from(&options.job);
        if let Some(policy) = options.sync {
            how.sync = policy;
        }
        let named = TopicPartition::new(topic, partition);
        let now_ms = options.clock.now_ms()?;
        let writer = PartitionWriter::open(&log_dirs, &identity, &named, topic_id, how, now_ms)?;
        if let Err(error) = writer.leader_epoch(options.leader_epoch) {
            writer.close(now_ms)?;
            return Err(error);
        }
        Ok(Self { writer, options })
    }

    /// Appends rows as the leader does: assigns offsets, compresses, rolls segments.
    ///
    /// Columns are `key` and `value` (one of them required), `headers` and `timestamp`; an absent timestamp is the time
    /// of the append.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for columns that are missing, unknown or of a type that does not fit;
    /// [`Error::Refused`] for what a leader would refuse; [`Error::Io`], after which the writer takes nothing more.
    /// Batches before the refused one stay appended.
    pub fn append(&mut self, rows: &RecordBatch) -> Result<Appended> {
        let how = RowOptions {
            ignores_extra_columns: self.options.ignores_extra_columns,
            ..RowOptions::default()
        };
        self.append_all(rows.schema(), [Ok(rows.clone())], how)
    }

    /// Appends the rows of several record batches, as [`LogWriter::append`].
    ///
    /// # Errors
    /// As there, and those of `batches`.
    pub(crate) fn append_all(
        &mut self,
        schema: SchemaRef,
        batches: impl IntoIterator<Item = Result<RecordBatch>>,
        how: RowOptions,
    ) -> Result<Appended> {
        let (keeps, ignores) = (how.keeps_offsets, how.ignores_extra_columns);
        let batch_bytes = self.options.batch_bytes.unwrap_or(DEFAULT_BATCH_SIZE);
        let options = encode_options(self.writer.log(), batch_bytes, keeps, ignores)?;
        let mut encoder = Encoder::new(options).numbered_from(how.first_row);
        // A wrong schema is an error even if there are no rows.
        check_schema(schema, keeps, ignores)?;
        let epoch = self.writer.leader_epoch(self.options.leader_epoch)?;
        let mut done = Appended::default();
        for rows in batches {
            let (rows, now_ms) = (rows?, self.options.clock.now_ms()?);
            let log = self.writer.log_mut();
            append_rows(log, &mut encoder, &rows, epoch, now_ms, &mut done)?;
        }
        self.sync_append()?;
        Ok(done)
    }

    fn sync_append(&mut self) -> Result<()> {
        if self.options.syncs_appends {
            let now_ms = self.options.clock.now_ms()?;
            self.writer.log_mut().flush(false, now_ms)?;
        }
        Ok(())
    }

    /// Appends whole batches of another log, as a follower does: offsets, producers and transactions are kept. An empty
    /// log begins where the source does.
    ///
    /// # Errors
    /// Faults in the source; [`Error::InvalidArgument`] for a leader epoch below the log's latest;
    /// [`Error::Refused`] for offsets that do not continue this log; [`Error::Io`].
    pub fn append_batches(&mut self, source: &PartitionLog) -> Result<Appended> {
        let path = source.path().to_path_buf();
        let is_same = matches!(
            (path.canonicalize(), self.path().canonicalize()),
            (Ok(source), Ok(own)) if source == own
        );
        if is_same {
            let text = format!("{}: a log cannot be appended to itself", path.display());
            return Err(Error::InvalidArgument(text));
        }
        let mut done = Appended::default();
        for range in plan_scan(&[path], &PlanOptions::default())? {
            self.append_range(range, &mut done)?;
        }
        Ok(done)
    }

    /// Appends the batches of a planned range, as [`LogWriter::append_batches`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn append_range(
        &mut self,
        range: PartitionRange,
        done: &mut Appended,
    ) -> Result<()> {
        let clock = || self.options.clock.now_ms();
        append_whole(
            self.writer.log_mut(),
            &mut WholeBatches::new(range),
            clock,
            done,
        )?;
        self.sync_append()
    }

    /// Begins a new segment.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Refused`] where the active segment is empty at that offset.
    pub fn roll(&mut self) -> Result<()> {
        let now_ms = self.options.clock.now_ms()?;
        self.writer.log_mut().roll(None, now_ms)?;
        Ok(())
    }

    /// Syncs all appended bytes to the disk, and updates the log dir's checkpoints.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush(self.options.clock.now_ms()?)
    }

    /// Removes the records from `offset` on; returns whether there were any.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidArgument`] for a negative offset.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<bool> {
        let now_ms = self.options.clock.now_ms()?;
        self.writer.truncate_to(offset, now_ms)
    }

    /// Removes all records; the next one has this offset.
    ///
    /// # Errors
    /// As [`LogWriter::truncate_to`].
    pub fn truncate_fully(&mut self, offset: Offset) -> Result<()> {
        let now_ms = self.options.clock.now_ms()?;
        self.writer.truncate_fully_and_start_at(offset, now_ms)
    }

    /// Hides the records before `before` from consumers (`kafka-delete-records.sh`); returns whether there were any.
    ///
    /// # Errors
    /// [`Error::OffsetOutOfRange`] above the log end; [`Error::Io`].
    pub fn delete_records(&mut self, before: Offset) -> Result<bool> {
        self.writer.log_mut().increment_log_start(before)
    }

    /// The first offset that a consumer may read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.writer.log().log_start_offset()
    }

    /// The offset of the next record.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.writer.log().log_end_offset()
    }

    /// The first offset that may not be on the disk.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        self.writer.log().recovery_point()
    }

    /// The topic's id, where there is one.
    #[must_use]
    pub fn topic_id(&self) -> Option<&str> {
        self.writer.topic_id()
    }

    /// Returns whether this process may write: a forked child may not.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.writer.is_held()
    }

    /// The highest producer id that a broker would still know after loading the log; `None` if there is no producer.
    ///
    /// A cluster that assigns this id again would have records of the new producer discarded as duplicates.
    #[must_use]
    pub fn highest_producer_id(&self) -> Option<i64> {
        self.writer.log().producers().highest_producer_id()
    }

    /// The latest leader epoch of the log; `None` for a log without batches.
    #[must_use]
    pub fn latest_leader_epoch(&self) -> Option<i32> {
        self.writer.log().epochs().latest().map(|entry| entry.epoch)
    }

    /// The partition folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.writer.folder()
    }

    /// Returns what recovery did when the partition was opened.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        self.writer.notes()
    }

    /// Closes the partition as a broker's controlled shutdown does: everything synced, indexes trimmed, a producer
    /// snapshot at the log end.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Refused`] for a log that had failed before.
    pub fn close(self) -> Result<()> {
        let now_ms = self.options.clock.now_ms()?;
        self.writer.close(now_ms)
    }
}

/// Refuses what [`LogWriter::open`] refuses to load, without a lock and without a change.
///
/// # Errors
/// What would keep a broker from loading the log, or cost a whole batch.
#[cfg(feature = "python")]
pub(crate) fn check_load(
    log_dirs: &[std::path::PathBuf],
    partition: &TopicPartition,
    config: LogConfig,
) -> Result<()> {
    PartitionWriter::check(log_dirs, partition, &WriteOptions::new(config), now_ms())
}

/// An id as Kafka writes it.
fn parse_id(option: &str, text: Option<&str>) -> Result<Option<Uuid>> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            Error::InvalidArgument(format!(
                "{option} is 22 characters of base64 for a UUID, not {text:?}"
            ))
        })
    };
    text.map(parse).transpose()
}
