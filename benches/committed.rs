//! Cost of `read_committed` over `read_uncommitted`: planning and reading as one pass, side by side in each round.
//!
//! `cargo bench --bench committed` makes its own logs, of four producers whose transactions of ten batches lie between
//! each other; every tenth transaction is aborted. Each is read twice: as `.log` files alone, and with the indexes and
//! snapshots of a log that was stopped cleanly. `cargo bench --bench committed -- FOLDER...` reads partition folders that
//! a broker wrote.
//!
//! | leg | one pass |
//! |---|---|
//! | uncommitted, committed | a plan, then offset, timestamp, key and value as views, by one thread |
//! | plan | the plan of `committed` alone |
//!
//! The figures are times on the processor, which a busy machine disturbs less than wall time; medians of the rounds.
//! `LEGS=plan` and `SHAPES=100x1` in the environment run only these, and `ROUNDS=1` as often.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

#[path = "common/passes.rs"]
mod passes;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use kafkalog::RecoverOptions;
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::Compressor;
use kafkalog::internal::format::control::ControlType;
use kafkalog::internal::log::dir::CLEAN_SHUTDOWN;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions, end_transaction};
use kafkalog::internal::scan::plan::{IsolationLevel, PlanOptions, plan_scan};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::reader::ReadOptions;

use passes::{chosen, on_processor};

const SEGMENT: usize = 48 << 20;
/// Bytes that a broker appends at a time: the page cache keeps a file in pieces of what was written, and maps it by
/// those.
const APPENDED: usize = 16 << 10;
const SEGMENTS: usize = 4;
const PRODUCERS: i64 = 4;
const BATCHES_A_TRANSACTION: i64 = 10;
const TRANSACTIONS_AN_ABORT: i64 = 10;
const START: i64 = 1_700_000_000_000;

/// The batches of a log, one after the other, into segments of one size.
struct Generator {
    folder: PathBuf,
    bytes: Vec<u8>,
    base: i64,
    next: i64,
    segments: usize,
}

impl Generator {
    fn options(&self, producer: i64, sequence: i64) -> BatchOptions {
        BatchOptions {
            base_offset: self.next,
            partition_leader_epoch: 0,
            producer_id: 1000 + producer,
            producer_epoch: 0,
            base_sequence: i32::try_from(sequence).expect("a few million records"),
            is_transactional: true,
            ..BatchOptions::default()
        }
    }

    fn batch(&mut self, producer: i64, sequence: i64, value: &[u8], records: i64) {
        let mut builder = BatchBuilder::new(self.options(producer, sequence)).expect("options");
        for _ in 0..records {
            let (offset, key) = (self.next, format!("k{:07}", self.next % 10_000_000));
            let added = builder.append(
                offset,
                START + offset,
                Some(key.as_bytes()),
                Some(value),
                &[],
            );
            added.expect("a record");
            self.next += 1;
        }
        let (mut compressor, out) = (Compressor::new(), &mut self.bytes);
        builder.finish(&mut compressor, out).expect("a batch");
    }

    fn marker(&mut self, producer: i64, kind: ControlType) {
        let options = self.options(producer, -1);
        let ended = end_transaction(options, START + self.next, kind, 0, &mut self.bytes);
        ended.expect("a marker");
        self.next += 1;
    }

    fn roll(&mut self) {
        let path = self.folder.join(format!("{:020}.log", self.base));
        let mut file = File::create(path).expect("a file");
        for bytes in self.bytes.chunks(APPENDED) {
            file.write_all(bytes).expect("it is written");
        }
        self.bytes.clear();
        self.base = self.next;
        self.segments += 1;
    }
}

/// Segments of transactional batches of so many records; all transactions are over at the end.
fn generate(folder: &Path, value_len: usize, records: i64) {
    std::fs::create_dir_all(folder).expect("a folder");
    let value: Vec<u8> = (b'a'..=b'z').cycle().take(value_len).collect();
    let mut log = Generator {
        folder: folder.to_path_buf(),
        bytes: Vec::with_capacity(SEGMENT + (1 << 20)),
        base: 0,
        next: 0,
        segments: 0,
    };
    let mut transactions = 0;
    while log.segments < SEGMENTS {
        let sequence = transactions / PRODUCERS * BATCHES_A_TRANSACTION * records;
        for batch in 0..BATCHES_A_TRANSACTION {
            for producer in 0..PRODUCERS {
                log.batch(producer, sequence + batch * records, &value, records);
            }
        }
        for producer in 0..PRODUCERS {
            transactions += 1;
            let kind = if transactions % TRANSACTIONS_AN_ABORT == 0 {
                ControlType::Abort
            } else {
                ControlType::Commit
            };
            log.marker(producer, kind);
        }
        if log.bytes.len() >= SEGMENT {
            log.roll();
        }
    }
}

/// Indexes, snapshots and checkpoints, as a broker that stopped cleanly leaves them.
fn add_indexes(log_dir: &Path) {
    let options = RecoverOptions::new().now_ms(START + 1).clean(false);
    kafkalog::recover(log_dir, &options).expect("a log that loads");
    std::fs::write(
        log_dir.join(CLEAN_SHUTDOWN),
        r#"{"version":0,"brokerEpoch":1}"#,
    )
    .expect("it is written");
}

fn plan(folder: &Path, isolation_level: IsolationLevel) -> Vec<PartitionRange> {
    let options = PlanOptions {
        isolation_level,
        ..PlanOptions::default()
    };
    plan_scan(&[folder.to_path_buf()], &options).expect("a plan")
}

fn read(folder: &Path, isolation_level: IsolationLevel) -> u64 {
    let columns = ColumnOptions {
        columns: vec![
            Column::Offset,
            Column::Timestamp,
            Column::Key,
            Column::Value,
        ],
        layout: Layout::View,
        ..ColumnOptions::default()
    };
    let ranges = plan(folder, isolation_level);
    let mut reader =
        RangeReader::try_new(ranges, ReadOptions::default(), columns).expect("options");
    let mut rows = 0;
    while let Some(batch) = reader.next_batch().expect("a batch") {
        rows += batch.num_rows() as u64;
    }
    rows
}

fn compare(name: &str, folder: &Path) {
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok());
    let rounds: usize = rounds.unwrap_or(9);
    let legs: [(&str, &dyn Fn() -> u64); 3] = [
        ("uncommitted", &|| {
            read(folder, IsolationLevel::ReadUncommitted)
        }),
        ("committed", &|| read(folder, IsolationLevel::ReadCommitted)),
        ("plan", &|| {
            plan(folder, IsolationLevel::ReadCommitted).len() as u64
        }),
    ];
    let legs = legs.into_iter().filter(|(leg, _)| chosen("LEGS", leg));
    let mut legs: Vec<_> = legs.map(|leg| (leg, Vec::new())).collect();
    let mut records = 0;
    for round in 0..=rounds {
        for ((_, leg), times) in &mut legs {
            let before = on_processor();
            records = leg().max(records);
            if round > 0 || rounds == 0 {
                times.push(on_processor().saturating_sub(before));
            }
        }
    }
    print!("{name:<28} {records:>8} records");
    let mut first = None;
    for ((leg, _), times) in &mut legs {
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default() as f64;
        let each = median / records as f64;
        let first = *first.get_or_insert(each);
        print!("   {leg} {each:6.1} ns ({:.2})", each / first);
    }
    println!();
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let folders: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    for folder in &folders {
        compare(folder, Path::new(folder));
    }
    if !folders.is_empty() {
        return;
    }
    for (value_len, records) in [(100, 100), (1000, 16), (100, 10), (100, 1)] {
        let name = format!("{value_len}x{records}");
        if !chosen("SHAPES", &name) {
            continue;
        }
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let folder = scratch.path().join("bench-0");
        generate(&folder, value_len, records);
        compare(&format!("{name}, .log files alone"), &folder);
        add_indexes(scratch.path());
        compare(&format!("{name}, indexed"), &folder);
    }
}
