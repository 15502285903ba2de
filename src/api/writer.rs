//! One partition open for writing.

use std::path::Path;

use arrow_array::RecordBatch;

use super::absolute_all;
use crate::arrow::append::{Appended, append_rows, append_whole, encode_options};
use crate::arrow::encode::{DEFAULT_BATCH_SIZE, Encoder};
use crate::error::{Error, Result};
use crate::format::uuid::Uuid;
use crate::io::appender::SyncPolicy;
use crate::load::Note;
use crate::log::config::LogConfig;
use crate::log::partition::PartitionLog;
use crate::scan::plan::{PlanOptions, plan_scan};
use crate::scan::verbatim::WholeBatches;
use crate::types::{Offset, TopicPartition, now_ms};
use crate::write::WriteOptions;
use crate::write::storage::Identity;
use crate::write::writer::PartitionWriter;

/// Options for writing a partition.
#[derive(Clone, Debug)]
#[must_use]
pub struct WriterOptions {
    /// `None`: as `flush.messages` and `flush.ms` say.
    sync: Option<SyncPolicy>,
    leader_epoch: Option<i32>,
    topic_id: Option<String>,
    cluster_id: Option<String>,
    node_id: Option<i32>,
    batch_bytes: usize,
    ignores_extra_columns: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            sync: None,
            leader_epoch: None,
            topic_id: None,
            cluster_id: None,
            node_id: None,
            batch_bytes: DEFAULT_BATCH_SIZE,
            ignores_extra_columns: false,
        }
    }
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
        self.batch_bytes = bytes;
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
            directory_id: None,
        };
        let topic_id = options.topic_id.as_deref().map(parse_id).transpose()?;
        let mut how = WriteOptions::new(config);
        if let Some(policy) = options.sync {
            how.sync = policy;
        }
        let named = TopicPartition::new(topic, partition);
        let now_ms = now_ms();
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
        let options = encode_options(
            self.writer.log(),
            self.options.batch_bytes,
            false,
            self.options.ignores_extra_columns,
        )?;
        let epoch = self.writer.leader_epoch(self.options.leader_epoch)?;
        let mut encoder = Encoder::new(options);
        let mut done = Appended::default();
        let log = self.writer.log_mut();
        append_rows(log, &mut encoder, rows, epoch, now_ms(), &mut done)?;
        Ok(done)
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
            let mut batches = WholeBatches::new(range);
            let log = self.writer.log_mut();
            append_whole(log, &mut batches, || Ok(now_ms()), &mut done)?;
        }
        Ok(done)
    }

    /// Begins a new segment.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Refused`] where the active segment is empty at that offset.
    pub fn roll(&mut self) -> Result<()> {
        self.writer.log_mut().roll(None, now_ms())?;
        Ok(())
    }

    /// Syncs all appended bytes to the disk, and updates the log dir's checkpoints.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush(now_ms())
    }

    /// Removes the records from `offset` on; returns whether there were any.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidArgument`] for a negative offset.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<bool> {
        self.writer.truncate_to(offset, now_ms())
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
        self.writer.close(now_ms())
    }
}

fn parse_id(text: &str) -> Result<Uuid> {
    text.parse().map_err(|_| {
        Error::InvalidArgument(format!(
            "topic id {text:?}: expected a UUID as 22 characters of base64"
        ))
    })
}
