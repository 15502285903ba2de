//! An open log against a plain list, and against disks that fail.
//!
//! | module | what |
//! |---|---|
//! | [`checks`] | what is in the folder, against the list |
//! | [`faults`] | a disk that fails at a chosen step, and what it forgets when the power goes |
//! | [`failures`] | a script, failed once at every single step |
//! | [`model`] | random operations, reopenings and failures |
//! | [`runs`] | Arrow rows, many batches in one write |
//! | [`syncs`] | what is brought to the disk, in which order, and when |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalog::internal::compress::{Codec, Compressor};
use kafkalog::internal::error::Result;
use kafkalog::internal::format::control::ControlType;
use kafkalog::internal::io::appender::SyncPolicy;
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::producers::entry::ProducerEntry;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions, end_transaction};
use kafkalog::internal::types::{AppendOrigin, Compression};
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use self::faults::FaultyDisk;

mod checks;
mod failures;
mod faults;
mod model;
mod runs;
mod syncs;

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
    /// Everything removed, and appending continues at so many offsets after the end.
    Restart(i64),
    /// The log start moved up by so many percent.
    Start(i64),
    /// Time continues.
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

/// Possible effect of an operation that fails.
#[derive(Clone, Debug)]
enum Pending {
    Nothing,
    /// These batches, or the first of them.
    Append(Vec<Batch>),
    /// Records at or after this offset may be gone.
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
    /// Offset that the checkpoint would have.
    recovery_point: i64,
    start: i64,
    end: i64,
    list: Vec<Batch>,
    pending: Pending,
    /// Kafka forgets the largest timestamp of a segment that it cuts before it has examined it, and later time entries
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

    /// A log cut inside a batch ends where it was told to, but only until it is opened again: then it ends after its
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
}

/// A producer that does both would be in trouble, in Kafka as here: a transaction whose beginning lies below the log
/// start is forgotten by a truncation and found again by recovery.
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
