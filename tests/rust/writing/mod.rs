//! An open log against a plain list, and against disks that fail.
//!
//! | module | what |
//! |---|---|
//! | [`faults`] | a disk that fails at a chosen step, and what it forgets when the power goes |
//! | [`failures`] | a script, failed once at every single step |
//! | [`model`] | random operations, reopenings and failures |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use kafkalog::arrow::columns::ColumnOptions;
use kafkalog::arrow::reader::RecordReader;
use kafkalog::arrow::schema::{Column, Layout};
use kafkalog::compress::{Codec, Compressor};
use kafkalog::error::{Error, Refusal, Result};
use kafkalog::format::control::ControlType;
use kafkalog::format::file_name::FileKind;
use kafkalog::index::Access;
use kafkalog::index::offset::OffsetIndex;
use kafkalog::index::time::TimeIndex;
use kafkalog::io::appender::SyncPolicy;
use kafkalog::io::disk::Disk;
use kafkalog::log::config::LogConfig;
use kafkalog::log::load::LoadRequest;
use kafkalog::log::plan::{PlanOptions, Starting, plan};
use kafkalog::log::producer_state::entry::ProducerEntry;
use kafkalog::log::write::{LeaderAppend, WritableLog, WriteOptions};
use kafkalog::records::builder::{BatchBuilder, BatchOptions, end_transaction};
use kafkalog::segment::reader::ReadOptions;
use kafkalog::segment::source::Access as LogAccess;
use kafkalog::types::{AppendOrigin, Compression};

use self::faults::FaultyDisk;

mod failures;
mod faults;
mod model;

const NOW_MS: i64 = 1_700_000_000_000;

/// Offset, timestamp, key, value.
type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

/// Something done to a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One batch from a client: so many records of this size, by this producer (0 for none).
    Append {
        records: usize,
        size: usize,
        producer: i64,
        codec: Compression,
    },
    /// Several batches from a leader, after a gap.
    Copy { batches: usize, gap: i64 },
    /// Ends the transaction of this producer.
    End { producer: i64, is_abort: bool },
    /// A new segment.
    Roll,
    /// Everything to the disk.
    Flush,
    /// Cut at so many percent between log start and log end.
    Truncate(i64),
    /// Everything removed, and on at so many offsets behind the end.
    Restart(i64),
    /// The log start moved up by so many percent.
    Start(i64),
    /// Time goes on.
    Advance(i64),
    /// Closed and opened.
    Reopen,
    /// Let go of and recovered.
    Crash,
}

/// A batch of the list.
#[derive(Clone, Debug)]
struct Batch {
    last_offset: i64,
    rows: Vec<Row>,
}

/// What an operation that fails may leave behind.
#[derive(Clone, Debug)]
enum Pending {
    Nothing,
    /// These batches, or the first of them.
    Append(Vec<Batch>),
    /// Whatever lies at or behind this offset may be gone.
    Cut(i64),
    /// Any of it may be gone.
    All,
}

/// A log, and the list it should be.
struct Driver {
    folder: PathBuf,
    config: LogConfig,
    sync: SyncPolicy,
    disk: Arc<FaultyDisk>,
    log: Option<WritableLog>,
    now_ms: i64,
    /// What the checkpoint would say.
    recovery_point: i64,
    start: i64,
    end: i64,
    list: Vec<Batch>,
    pending: Pending,
    /// Kafka forgets the largest timestamp of a segment that it cuts before it has looked at it, and later time entries
    /// are of what came since.
    was_cut: bool,
    /// Grows with every record, so that no two are equal.
    counter: u64,
}

fn config() -> LogConfig {
    let settings = [
        ("internal.segment.bytes", "1500"),
        ("segment.index.bytes", "100"),
        ("index.interval.bytes", "200"),
        ("segment.ms", "5000"),
    ];
    LogConfig::from_pairs(settings).unwrap()
}

impl Driver {
    /// Over an empty folder that is not opened yet.
    fn new(folder: &Path, sync: SyncPolicy, disk: Arc<FaultyDisk>) -> Self {
        Self {
            folder: folder.join("orders-0"),
            config: config(),
            sync,
            disk,
            log: None,
            now_ms: NOW_MS,
            recovery_point: 0,
            start: 0,
            end: 0,
            list: Vec::new(),
            pending: Pending::Nothing,
            was_cut: false,
            counter: 0,
        }
    }

    fn open(&mut self, clean: bool) -> Result<()> {
        let mut options = WriteOptions::new(self.config.clone());
        options.sync = self.sync;
        options.disk = Disk::with_faults(Arc::clone(&self.disk) as _);
        let request = LoadRequest {
            clean,
            recovery_point: self.recovery_point,
            log_start_offset: self.start,
            now_ms: self.now_ms,
            producer_id_expiration_ms: options.producer_id_expiration_ms,
        };
        let mut log = WritableLog::open(&self.folder, options, request)?;
        log.update_high_watermark(log.log_end_offset())?;
        self.log = Some(log);
        Ok(())
    }

    fn log(&mut self) -> &mut WritableLog {
        self.log.as_mut().unwrap()
    }

    /// All rows from the log start on.
    fn rows(&self) -> Vec<Row> {
        let rows = self.list.iter().flat_map(|batch| batch.rows.clone());
        rows.filter(|row| row.0 >= self.start).collect()
    }

    /// Takes the operation; the list follows once the log has done it.
    fn run(&mut self, op: &Op) -> Result<()> {
        self.pending = Pending::Nothing;
        if self.log.is_none() {
            self.open(false)?;
        }
        self.step(op)?;
        self.pending = Pending::Nothing;
        if let Some(log) = &mut self.log {
            let end = log.log_end_offset();
            log.update_high_watermark(end)?;
            self.recovery_point = log.recovery_point();
            assert_eq!(end, self.end, "{op:?}");
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) -> Result<()> {
        let now_ms = self.now_ms;
        match *op {
            Op::Append {
                records,
                size,
                producer,
                codec,
            } => return self.append(records, size, producer, codec),
            Op::Copy { batches, gap } => return self.copy(batches, gap),
            Op::End { producer, is_abort } => return self.end_transaction(producer, is_abort),
            Op::Roll => drop(self.log().roll(None, now_ms)?),
            Op::Flush => self.log().flush(true, now_ms)?,
            Op::Truncate(percent) => {
                let at = self.start + (self.end - self.start) * percent / 100;
                self.pending = Pending::Cut(at);
                self.was_cut = true;
                self.log().truncate_to(at, now_ms)?;
                if at < self.end {
                    self.list.retain(|batch| batch.last_offset < at);
                    self.end = at;
                    self.start = self.start.min(at);
                }
            }
            Op::Restart(ahead) => {
                self.pending = Pending::All;
                let at = self.end + ahead;
                self.log().truncate_fully_and_start_at(at, None, now_ms)?;
                self.list.clear();
                (self.start, self.end) = (at, at);
            }
            Op::Start(percent) => {
                let at = self.start + (self.end - self.start) * percent / 100;
                self.log().increment_log_start(at)?;
                self.start = at;
            }
            Op::Advance(ms) => {
                self.now_ms += ms;
                let now_ms = self.now_ms;
                self.log().remove_deleted(now_ms)?;
            }
            Op::Reopen => {
                self.recovery_point = self.log.take().unwrap().close(now_ms)?;
                self.open(true)?;
                self.settle();
            }
            Op::Crash => {
                self.log.take().unwrap().crash();
                self.open(false)?;
                self.settle();
            }
        }
        Ok(())
    }

    /// A log cut inside a batch ends where it was told to, but only until it is opened again: then it ends behind its
    /// last batch, as in Kafka.
    fn settle(&mut self) {
        let log = self.log.as_ref().unwrap();
        let (start, end) = (log.log_start_offset(), log.log_end_offset());
        let least = self.list.last().map_or(0, |batch| batch.last_offset + 1);
        assert!(least <= end && end <= self.end && self.start <= start);
        (self.start, self.end) = (start, end);
    }

    /// Epochs rise.
    fn epoch(&self) -> i32 {
        i32::try_from(self.counter / 16).unwrap()
    }

    /// Puts the next records into a batch; they have not their offsets yet.
    fn batch(&mut self, options: BatchOptions, records: usize, size: usize) -> (Vec<u8>, Vec<Row>) {
        let mut builder = BatchBuilder::new(options).unwrap();
        let mut rows = Vec::new();
        for _ in 0..records {
            self.counter += 1;
            let value = format!("{:0>size$}", self.counter).into_bytes();
            let key = self.counter.to_string().into_bytes();
            // Out of order now and then.
            let ts = self.now_ms - i64::try_from(self.counter % 3).unwrap();
            let offset = builder.next_offset();
            builder
                .append(offset, ts, Some(&key), Some(&value), &[])
                .unwrap();
            rows.push((offset, ts, Some(key), Some(value)));
        }
        let mut bytes = Vec::new();
        builder.finish(&mut Compressor::new(), &mut bytes).unwrap();
        (bytes, rows)
    }

    fn append(
        &mut self,
        records: usize,
        size: usize,
        producer: i64,
        codec: Compression,
    ) -> Result<()> {
        let mut options = BatchOptions {
            codec: Codec::new(codec),
            ..BatchOptions::default()
        };
        if producer > 0 {
            let known = self.log().producers().last_entry(producer);
            let last = known.map_or(-1, ProducerEntry::last_sequence);
            options.producer_id = producer;
            options.producer_epoch = 0;
            options.base_sequence = last + 1;
            options.is_transactional = is_transactional(producer);
        }
        let (mut bytes, mut rows) = self.batch(options, records, size);
        for row in &mut rows {
            row.0 += self.end;
        }
        let last_offset = self.end + i64::try_from(records).unwrap() - 1;
        let batch = Batch { last_offset, rows };
        self.pending = Pending::Append(vec![batch.clone()]);
        let how = LeaderAppend {
            leader_epoch: self.epoch(),
            ..LeaderAppend::default()
        };
        let now_ms = self.now_ms;
        let sent = bytes.clone();
        let info = self.log().append_as_leader(&mut bytes, &how, now_ms)?;
        assert_eq!(
            (info.first_offset, info.last_offset),
            (self.end, last_offset)
        );
        self.list.push(batch);
        self.end = last_offset + 1;
        self.pending = Pending::Nothing;
        if producer > 0 {
            // Sent again it is known, and nothing changes.
            let again = self
                .log()
                .append_as_leader(&mut sent.clone(), &how, now_ms)?;
            assert!(again.is_duplicate && again.last_offset == last_offset);
        }
        Ok(())
    }

    fn copy(&mut self, batches: usize, gap: i64) -> Result<()> {
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        let mut next = self.end + gap;
        for n in 0..batches {
            let options = BatchOptions {
                base_offset: next,
                partition_leader_epoch: self.epoch(),
                ..BatchOptions::default()
            };
            let (batch, rows) = self.batch(options, n % 3 + 1, 30);
            let last_offset = rows.last().unwrap().0;
            next = last_offset + 1 + gap;
            bytes.extend(batch);
            list.push(Batch { last_offset, rows });
        }
        self.pending = Pending::Append(list.clone());
        let now_ms = self.now_ms;
        self.log().append_as_follower(&bytes, i32::MAX, now_ms)?;
        self.end = list.last().unwrap().last_offset + 1;
        self.list.extend(list);
        Ok(())
    }

    fn end_transaction(&mut self, producer: i64, is_abort: bool) -> Result<()> {
        let options = BatchOptions {
            producer_id: producer,
            producer_epoch: 0,
            ..BatchOptions::default()
        };
        let kind = if is_abort {
            ControlType::Abort
        } else {
            ControlType::Commit
        };
        let mut bytes = Vec::new();
        end_transaction(options, self.now_ms, kind, 1, &mut bytes).unwrap();
        let batch = Batch {
            last_offset: self.end,
            rows: Vec::new(),
        };
        self.pending = Pending::Append(vec![batch.clone()]);
        let how = LeaderAppend {
            leader_epoch: self.epoch(),
            origin: AppendOrigin::Coordinator,
            transaction_version: 1,
        };
        let now_ms = self.now_ms;
        self.log().append_as_leader(&mut bytes, &how, now_ms)?;
        self.list.push(batch);
        self.end += 1;
        Ok(())
    }

    /// What everybody sees in the folder.
    fn visible(&self) -> Vec<Row> {
        let columns = vec![
            Column::Offset,
            Column::Timestamp,
            Column::Key,
            Column::Value,
        ];
        let options = PlanOptions {
            starting_offsets: Starting::Oldest,
            ..PlanOptions::default()
        };
        let ranges = plan(std::slice::from_ref(&self.folder), &options).unwrap();
        let columns = ColumnOptions {
            columns,
            layout: Layout::Binary,
            ..ColumnOptions::default()
        };
        let mut reader = RecordReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            let offsets = batch.column(0).as_primitive::<Int64Type>().values();
            let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
            let bytes = |n: usize| {
                let column = batch.column(n).as_binary::<i32>();
                column.iter().map(|value| value.map(<[u8]>::to_vec))
            };
            let numbers = offsets.iter().zip(times.values().iter());
            rows.extend(
                numbers
                    .zip(bytes(2).zip(bytes(3)))
                    .map(|((&offset, &ts), (key, value))| (offset, ts, key, value)),
            );
        }
        rows.retain(|row| row.0 >= self.start);
        rows
    }

    /// After a failure: the log takes nothing more, and what is in the folder is what was acknowledged, or that and a
    /// part of what was under way; nothing of it if the failure was not a crash. Then it is recovered, and the list
    /// takes over what is there.
    fn survive(&mut self, error: &Error, is_crash: bool) {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        if let Some(mut log) = self.log.take() {
            assert!(log.has_failed(), "{error}");
            let now_ms = self.now_ms;
            let failed = |outcome: Result<()>| {
                assert_eq!(outcome.unwrap_err().refusal(), Some(Refusal::Failed));
            };
            failed(log.roll(None, now_ms).map(drop));
            failed(log.flush(true, now_ms));
            failed(log.truncate_to(0, now_ms).map(drop));
            failed(log.append_as_follower(&[0; 100], 0, now_ms).map(drop));
            let how = LeaderAppend::default();
            failed(log.append_as_leader(&mut vec![], &how, now_ms).map(drop));
            log.crash();
        }
        self.disk.mend();
        if self.folder.exists() {
            self.check_allowed(&self.visible(), is_crash);
        }
        self.open(false).unwrap();
        let rows = self.visible();
        self.check_allowed(&rows, is_crash);
        self.adopt(&rows);
        self.check_indexes();
    }

    fn check_allowed(&self, rows: &[Row], is_crash: bool) {
        let acknowledged = self.rows();
        let allowed = match &self.pending {
            Pending::Nothing => rows == acknowledged,
            Pending::Append(batches) => {
                let mut allowed = acknowledged.clone();
                let mut is_allowed = rows == allowed;
                for batch in batches {
                    allowed.extend(batch.rows.clone());
                    is_allowed |= is_crash && rows == allowed;
                }
                is_allowed
            }
            Pending::Cut(at) => {
                let kept = self.list.iter().filter(|batch| batch.last_offset < *at);
                let kept = kept.flat_map(|batch| &batch.rows);
                let kept = kept.filter(|row| row.0 >= self.start).count();
                acknowledged.starts_with(rows) && rows.len() >= kept
            }
            Pending::All => {
                let mut behind = acknowledged.iter();
                rows.iter().all(|row| behind.any(|known| known == row))
            }
        };
        assert!(
            allowed,
            "acknowledged {:?}, under way {:?}, found {:?}",
            offsets(&acknowledged),
            self.pending,
            offsets(rows)
        );
    }

    /// The list becomes what the log holds.
    fn adopt(&mut self, rows: &[Row]) {
        if let Pending::Append(batches) = &self.pending {
            self.list.extend(batches.iter().cloned());
        }
        let log = self.log.as_ref().unwrap();
        let (start, end) = (log.log_start_offset(), log.log_end_offset());
        self.list.retain(|batch| batch.last_offset < end);
        if matches!(self.pending, Pending::All) {
            self.list
                .retain(|batch| batch.rows.iter().any(|row| rows.contains(row)));
        }
        (self.start, self.end) = (start, end);
        self.recovery_point = log.recovery_point();
        self.pending = Pending::Nothing;
        assert_eq!(self.rows(), rows);
    }

    /// Every index entry says what a scan of the `.log` says.
    fn check_indexes(&self) {
        let log = kafkalog::log::partition::PartitionLog::open(&self.folder).unwrap();
        for segment in log.segments() {
            let mut batches = Vec::new();
            let mut cursor = kafkalog::segment::batches::BatchCursor::new(segment.bounds(), 0);
            let mut source = segment.open(LogAccess::Headers).unwrap();
            while let Some((position, header)) = cursor.next(&mut source).unwrap() {
                batches.push((position, header));
            }
            let access = if segment.is_active {
                Access::Active
            } else {
                Access::Closed
            };
            let base = segment.base_offset;
            let path = segment.sibling(FileKind::OffsetIndex);
            if path.exists() {
                let index = OffsetIndex::open(&path, base, access).unwrap();
                for entry in index.iter() {
                    let at = u64::try_from(entry.position).unwrap();
                    let batch = batches.iter().find(|(position, _)| *position == at);
                    let last = batch.map(|(_, header)| header.last_offset());
                    assert_eq!(last, Some(entry.offset), "{}", path.display());
                }
            }
            let path = segment.sibling(FileKind::TimeIndex);
            if path.exists() {
                let index = TimeIndex::open(&path, base, access).unwrap();
                for entry in index.iter() {
                    let upto = batches
                        .iter()
                        .filter(|(_, header)| header.last_offset() <= entry.offset);
                    let largest = upto.map(|(_, header)| header.max_timestamp).max();
                    let largest = largest.unwrap();
                    let is_right =
                        entry.timestamp == largest || self.was_cut && entry.timestamp < largest;
                    assert!(is_right, "{}: {entry:?}", path.display());
                }
            }
        }
    }

    /// Random bytes where index files were not known to be on the disk: those of segments from the recovery point on.
    fn garble_indexes(&self) {
        let Ok(log) = kafkalog::log::partition::PartitionLog::open(&self.folder) else {
            return;
        };
        let segments = log.segments();
        let from = segments.partition_point(|s| s.base_offset <= self.recovery_point);
        let mut chance = crate::common::Chance(7);
        for segment in segments.iter().skip(from.saturating_sub(1)) {
            for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
                let path = segment.sibling(kind);
                if path.exists() {
                    let bytes: Vec<u8> = (0..chance.below(120)).map(|_| chance.byte()).collect();
                    std::fs::write(path, bytes).unwrap();
                }
            }
        }
    }

    /// Goes on, closes, and opens again: all of it is there.
    fn finish(&mut self) {
        for op in [
            append(2, 40),
            by_producer(3, 20, 1),
            Op::Roll,
            append(1, 10),
            Op::Reopen,
            append(1, 10),
        ] {
            self.run(&op).unwrap();
        }
        self.log.take().unwrap().close(self.now_ms).unwrap();
        assert_eq!(offsets(&self.visible()), offsets(&self.rows()));
        assert_eq!(self.visible(), self.rows());
        self.check_indexes();
    }
}

/// A producer that does both would be in trouble, in Kafka as here: a transaction whose beginning lies below the log start
/// is forgotten by a truncation and found again by recovery.
const fn is_transactional(producer: i64) -> bool {
    producer == 1 || producer == 2
}

fn offsets(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.0).collect()
}

fn append(records: usize, size: usize) -> Op {
    by_producer(records, size, 0)
}

fn by_producer(records: usize, size: usize, producer: i64) -> Op {
    Op::Append {
        records,
        size,
        producer,
        codec: Compression::None,
    }
}

/// A folder in memory where there is one: these tests sync a lot.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}
